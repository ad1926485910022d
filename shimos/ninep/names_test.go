// SPDX-License-Identifier: MIT

//go:build linux

package ninep

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Devices and pipes of this Linux are not opened.
func TestSpecialFilesStayShut(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, dir)
	for i, kind := range []uint32{unix.S_IFIFO, unix.S_IFSOCK} {
		name := string(rune('a' + i))
		c.must(kindMknod, uint32(0), name, kind|0o640, uint32(0), uint32(0), uint32(os.Getgid()))
		c.mustWalk(uint32(1+i), name)
		c.refused(unix.EACCES, kindOpen, uint32(1+i), uint32(unix.O_RDONLY))
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o640 || info.Mode().IsRegular() {
			t.Errorf("%v, %v", info, err)
		}
	}
	for _, kind := range []uint32{unix.S_IFCHR, unix.S_IFBLK, unix.S_IFDIR, unix.S_IFLNK} {
		c.refused(unix.EPERM, kindMknod, uint32(0), "no", kind|0o600, uint32(1), uint32(3), uint32(os.Getgid()))
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("there is %v, %v", list, err)
	}
}

func TestEntriesAreRenamedLinkedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	plant(t, filepath.Join(dir, "a"), "text")
	c := newClient(t, dir)
	c.must(kindMkdir, uint32(0), "sub", uint32(0o755), uint32(os.Getgid()))
	c.mustWalk(1, "a")
	c.mustWalk(2, "sub")
	c.must(kindLink, uint32(2), uint32(1), "b")
	c.must(kindRenameat, uint32(0), "a", uint32(2), "c")
	for _, name := range []string{"b", "c"} {
		if text, err := os.ReadFile(filepath.Join(dir, "sub", name)); err != nil || string(text) != "text" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	c.refused(unix.EISDIR, kindUnlinkat, uint32(0), "sub", uint32(0))
	c.refused(unix.ENOTEMPTY, kindUnlinkat, uint32(0), "sub", uint32(unix.AT_REMOVEDIR))
	c.must(kindUnlinkat, uint32(2), "b", uint32(0))
	c.must(kindUnlinkat, uint32(2), "c", uint32(0))
	c.must(kindUnlinkat, uint32(0), "sub", uint32(unix.AT_REMOVEDIR))
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	c.refused(unix.ENOENT, kindMkdir, uint32(2), "late", uint32(0o755), uint32(0))
}

// What somebody put in the place of a new entry gets neither its owner nor its mode.
func TestOnlyNewEntriesChangeTheirOwner(t *testing.T) {
	dir := t.TempDir()
	plant(t, filepath.Join(dir, "file"), "")
	c := newClient(t, dir)
	var e encoder
	if err := c.s.fids[0].made("file", unix.S_IFDIR, 0o777, uint32(os.Getgid()), &e); err != unix.ESTALE {
		t.Errorf("a file instead of a folder: %v", err)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(filepath.Join(dir, "file"), 1, 1); err != nil {
			t.Fatal(err)
		}
		if err := c.s.fids[0].made("file", unix.S_IFREG, 0o777, 0, &e); err != unix.ESTALE {
			t.Errorf("a file of another user: %v", err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "file")); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
