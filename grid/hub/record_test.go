// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Numbers are reserved before they are given, whatever the clock says.
func TestNumbersAreReserved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "fences")
	first, err := reserveNumbers(file, 1000)
	if err != nil || first != 1000 {
		t.Fatal(first, err)
	}
	for now, want := range map[uint64]uint64{1: first + numbersEach, 1 << 60: 1 << 60} {
		b, _ := os.ReadFile(file)
		if got, err := reserveNumbers(file, now); got != want || err != nil {
			t.Errorf("at %d: %d, %v; want %d", now, got, err, want)
		}
		os.WriteFile(file, b, 0o600)
	}
	damage(t, file)
	if _, err := reserveNumbers(file, 1); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Error(err)
	}
}

// A record that cannot be used is reported and removed; the others count.
func TestDamagedRecord(t *testing.T) {
	r := runRecords{dir: t.TempDir()}
	good := runRecord{Key: "0123456789ab", RunRequest: RunRequest{Name: "a", Dirs: []string{"/"}}}
	if err := r.write(good); err != nil {
		t.Fatal(err)
	}
	damage(t, r.path("ffffffffffff"))
	b, _ := os.ReadFile(r.path(good.Key))
	os.WriteFile(r.path("eeeeeeeeeeee"), bytes.Clone(b), 0o600)
	list, bad := r.readAll()
	if len(list) != 1 || list[0].Name != "a" || len(bad) != 2 {
		t.Errorf("%+v, %v", list, bad)
	}
	if list, bad = r.readAll(); len(list) != 1 || len(bad) != 0 {
		t.Errorf("again: %+v, %v", list, bad)
	}
}
