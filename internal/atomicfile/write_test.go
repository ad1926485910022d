// SPDX-License-Identifier: MIT

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	for _, text := range []string{"old", "newer", ""} {
		if err := Write(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(name); err != nil || string(b) != text {
			t.Errorf("%q, %v, want %q", b, err, text)
		}
	}
	i, err := os.Stat(name)
	if err != nil || (i.Mode().Perm() != 0o640 && os.PathSeparator == '/') {
		t.Errorf("%v, %v", i.Mode(), err)
	}
}

func TestFailureLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(name, "in it"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := Write(name, []byte("new"), 0o600)
	if err == nil || !strings.HasPrefix(err.Error(), name+" cannot be written: ") || strings.Contains(err.Error(), ".new") {
		t.Errorf("over a folder: %v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("what is left: %v, %v", list, err)
	}
	if err := Write(filepath.Join(dir, "none", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a folder that is not there: %v", err)
	}
}
