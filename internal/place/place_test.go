// SPDX-License-Identifier: MIT

package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func plant(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The test creates the files in reverse order of the search, so each new file must be found
// before the older ones.
func TestOrderOfTheSearch(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := plant(t, filepath.Join(top, "usr/bin/skep"))
	link := filepath.Join(top, "skep")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	path, err := FindFor(program, "file")
	if !errors.Is(err, fs.ErrNotExist) || path != filepath.Join(top, "usr/bin/file") {
		t.Errorf("without the file: %s, %v", path, err)
	}
	if want := "file is not in " + top + "/usr/bin, " + top + "/usr/lib/skep or " + top + "/usr/lib: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the error %v does not begin with %q", err, want)
	}
	for _, dir := range []string{"usr/lib", "usr/lib/skep", "usr/bin"} {
		want := plant(t, filepath.Join(top, dir, "file"))
		for _, name := range []string{program, link} {
			if got, err := FindFor(name, "file"); err != nil || got != want {
				t.Errorf("%s finds %s, %v; want %s", name, got, err, want)
			}
		}
	}
}

func TestFileOfTheRunningProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(self)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := FindFile(filepath.Base(self)); err != nil || got != real {
		t.Errorf("%s, %v; want %s", got, err, real)
	}
}
