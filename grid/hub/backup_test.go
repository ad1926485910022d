// SPDX-License-Identifier: MIT

package hub

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func (w *world) backUp() []byte {
	w.t.Helper()
	body, err := w.cli.Backup(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer body.Close()
	b, err := io.ReadAll(body)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// A part is an entry of a test's backup.
type part struct {
	name, text string
	kind       byte
}

func partsOf(t testing.TB, backup []byte) (list []part) {
	t.Helper()
	for in := tar.NewReader(bytes.NewReader(backup)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, part{h.Name, string(b), tar.TypeReg})
	}
}

// Wherever a backup is cut, and whatever byte is changed, it is refused, or what was taken is
// what was written: bytes that fill blocks, and times, do not count.
func TestDamagedBackups(t *testing.T) {
	whole := newWorld(t, nil).backUp()
	want := partsOf(t, whole)
	read := func(b []byte) (list []part, err error) {
		_, err = ReadBackup(bytes.NewReader(b), func(name string, body io.Reader) error {
			text, err := io.ReadAll(body)
			list = append(list, part{name, string(text), tar.TypeReg})
			return err
		})
		return list, err
	}
	sums := bytes.LastIndex(whole, []byte("  rolls/audit.log\n"))
	for n := range whole {
		list, err := read(whole[:n])
		if err == nil && (n < sums || !slices.Equal(list, want[1:len(want)-1])) {
			t.Fatalf("%d of %d bytes are taken for a backup", n, len(whole))
		}
	}
	for at := range whole {
		b := slices.Clone(whole)
		b[at] ^= 0x21
		if list, err := read(b); err == nil && !slices.Equal(list, want[1:len(want)-1]) {
			t.Fatalf("a change at %d of %d is not seen", at, len(whole))
		}
	}
}

// A backup that the hub cannot complete is not taken for whole.
func TestBackupThatFails(t *testing.T) {
	w := newWorld(t, nil)
	if err := os.Remove(filepath.Join(w.hub.cfg.State, "engine", "keys.json")); err != nil {
		t.Fatal(err)
	}
	body, err := w.cli.Backup(t.Context())
	if err == nil {
		_, err = ReadBackup(body, func(string, io.Reader) error { return nil })
		body.Close()
	}
	if err == nil {
		t.Error("a backup without keys is complete")
	}
}

// An entry that cannot be described, or has another size than promised, is an error at once.
func TestBackupEntriesThatFail(t *testing.T) {
	for _, e := range []struct {
		name string
		size int64
	}{{"a\x00b", 1}, {"short", 2}, {"long", 0}, {"negative", -1}} {
		w := &backupWriter{tar: tar.NewWriter(io.Discard)}
		if err := w.add(e.name, e.size, strings.NewReader("x")); err == nil {
			t.Errorf("%q of %d bytes was added with 1 byte", e.name, e.size)
		}
	}
	w := &backupWriter{tar: tar.NewWriter(io.Discard)}
	if err := w.add("whole", 1, strings.NewReader("x")); err != nil {
		t.Error(err)
	}
}
