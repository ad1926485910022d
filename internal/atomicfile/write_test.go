// SPDX-License-Identifier: MIT

package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// watchFolders records which folders go to the disk, and what is in them then.
func watchFolders(t *testing.T, fails error) *[]string {
	var seen []string
	folderToDisk = func(dir string) error {
		names := []string{dir + ":"}
		list, err := os.ReadDir(dir)
		if err != nil {
			t.Error(err)
		}
		for _, e := range list {
			b, _ := os.ReadFile(filepath.Join(dir, e.Name())) // a folder has no text
			names = append(names, e.Name()+"="+string(b))
		}
		seen = append(seen, strings.Join(names, " "))
		return fails
	}
	t.Cleanup(func() { folderToDisk = SyncFolder })
	return &seen
}

// A panic of the kernel must not take back what was written: the name goes to the disk too,
// after it has changed.
func TestNamesGoToTheDisk(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	seen := watchFolders(t, nil)
	for _, step := range []struct {
		what string
		do   func() error
		want []string
	}{
		{"Write", func() error { return Write(in("a"), []byte("1"), 0o600) }, []string{dir + ": a=1"}},
		{"Write again", func() error { return Write(in("a"), []byte("2"), 0o600) }, []string{dir + ": a=2"}},
		{"Rename", func() error { return Rename(in("a"), in("b")) }, []string{dir + ": b=2"}},
		{"Remove", func() error { return Remove(in("b")) }, []string{dir + ":"}},
		{"MkdirAll", func() error { return MkdirAll(in("c/d"), 0o700) }, []string{dir + ": c=", in("c") + ": d="}},
		{"MkdirAll again", func() error { return MkdirAll(in("c/d"), 0o700) }, nil},
	} {
		*seen = nil
		if err := step.do(); err != nil || !slices.Equal(*seen, step.want) {
			t.Errorf("%s: %q, %v, want %q", step.what, *seen, err, step.want)
		}
	}
}

// What is perhaps not on the disk is not reported as written.
func TestFoldersThatDoNotGoToTheDisk(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("I/O error")
	watchFolders(t, broken)
	name := filepath.Join(dir, "file")
	for what, err := range map[string]error{"Write": Write(name, nil, 0o600), "MkdirAll": MkdirAll(filepath.Join(dir, "sub"), 0o700)} {
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := Rename(name, name+"2"); !errors.Is(err, broken) {
		t.Errorf("Rename: %v", err)
	}
	if err := Remove(name + "2"); !errors.Is(err, broken) {
		t.Errorf("Remove: %v", err)
	}
}

func TestSyncFolder(t *testing.T) {
	if err := SyncFolder(t.TempDir()); err != nil {
		t.Error(err)
	}
	if err := SyncFolder(filepath.Join(t.TempDir(), "none")); os.PathSeparator == '/' && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// What cannot be done to the file itself is an error before anything goes to the disk.
func TestNothingToDo(t *testing.T) {
	dir := t.TempDir()
	seen := watchFolders(t, nil)
	none, file := filepath.Join(dir, "none"), filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Rename(none, none+"2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Rename: %v", err)
	}
	if err := Remove(none); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Remove: %v", err)
	}
	if err := MkdirAll(file, 0o700); err == nil {
		t.Error("MkdirAll makes a folder of a file")
	}
	if err := MkdirAll(filepath.Join(file, "sub"), 0o700); err == nil {
		t.Error("MkdirAll makes a folder in a file")
	}
	if len(*seen) != 0 {
		t.Errorf("%q went to the disk", *seen)
	}
}
