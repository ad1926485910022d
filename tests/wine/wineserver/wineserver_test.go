// SPDX-License-Identifier: MIT

package wineserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// plantTools plants tools that write to record how they were called. The one whose name and
// first argument are fails fails.
func plantTools(t *testing.T, fails string) (record string) {
	t.Helper()
	dir := t.TempDir()
	record = filepath.Join(dir, "record")
	for _, name := range []string{"wine", "wineserver"} {
		text := "#!/bin/sh\necho " + name + " \"$*\" in $WINEPREFIX >>" + record + "\ntest \"" + name + " $1\" != '" + fails + "'\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return record
}

func readRecord(t *testing.T, record string) string {
	t.Helper()
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A server that an earlier test left would serve the programs of this one.
func TestServerStartsAnew(t *testing.T) {
	record := plantTools(t, "wineserver -k") // no server runs
	if err := Start(Env("/p")); err != nil {
		t.Fatal(err)
	}
	want := "wineserver -k in /p\nwineserver -p in /p\nwine wineboot -i in /p\n"
	if got := readRecord(t, record); got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

func TestServerThatDoesNotStart(t *testing.T) {
	plantTools(t, "wine wineboot")
	if err := Start(Env("/p")); err == nil || !strings.HasPrefix(err.Error(), "wine wineboot -i: ") {
		t.Errorf("%v", err)
	}
}

// Who removes or reuses the prefix must not meet a service that still ends.
func TestServerIsAwaited(t *testing.T) {
	record := plantTools(t, "wineserver -k")
	Stop(Env("/p"))
	if got, want := readRecord(t, record), "wineserver -k in /p\nwineserver -w in /p\n"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
