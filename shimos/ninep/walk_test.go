// SPDX-License-Identifier: MIT

//go:build linux

package ninep

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestNothingOutsideIsReached(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "root")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	plant(t, filepath.Join(top, "secret"), "secret")
	plant(t, filepath.Join(dir, "own"), "own")
	for name, target := range map[string]string{"up": "../secret", "abs": top + "/secret", "dir": "..", "slash": "/"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	c := newClient(t, dir)
	for _, names := range [][]string{{".."}, {"sub", ".."}, {"."}, {""}, {"../secret"}, {"/"}, {"sub/x"}, {"a\x00b"}, {strings.Repeat("x", 256)}} {
		if err := c.walk(9, names...); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%q: %v", names, err)
		}
	}
	for _, names := range [][]string{{"dir", "secret"}, {"slash", "etc"}, {"own", "x"}} {
		if err := c.walk(9, names...); !errors.Is(err, unix.ENOENT) { // a walk that ends early
			t.Errorf("%q: %v", names, err)
		}
	}
	for i, name := range []string{"up", "abs", "dir", "slash"} {
		link := uint32(10 + i)
		c.mustWalk(link, name)
		c.refused(unix.EACCES, kindOpen, link, uint32(0))
		c.refused(unix.ENOTDIR, kindMkdir, link, "made", uint32(0o700), uint32(0))
		c.refused(unix.ENOTDIR, kindUnlinkat, link, "secret", uint32(0))
		c.refused(unix.ENOTDIR, kindRenameat, uint32(0), "own", link, "secret")
	}
	c.mustWalk(20)
	c.refused(unix.EACCES, kindCreate, uint32(20), "up", uint32(unix.O_RDWR|unix.O_TRUNC), uint32(0o600), uint32(0))
	c.refused(unix.EINVAL, kindUnlinkat, uint32(0), "..", uint32(unix.AT_REMOVEDIR))
	c.refused(unix.EINVAL, kindRenameat, uint32(0), "own", uint32(0), "../own")
	c.refused(unix.EINVAL, kindMkdir, uint32(0), "../made", uint32(0o700), uint32(0))
	c.mustWalk(21, "up")
	c.ask(kindSetattr, uint32(21), uint32(setSize), uint32(0), uint32(0), uint32(0), uint64(0), make([]byte, 32))
	c.ask(kindSetattr, uint32(21), uint32(setMode), uint32(0o777), uint32(0), uint32(0), uint64(0), make([]byte, 32))
	info, err := os.Stat(filepath.Join(top, "secret"))
	if err != nil || info.Size() != 6 || info.Mode() != 0o600 {
		t.Errorf("the file outside is %v, %v", info, err)
	}
	if list, err := os.ReadDir(top); err != nil || len(list) != 2 {
		t.Errorf("outside there is %v, %v", list, err)
	}
}

func TestRefusalsNameTheirReason(t *testing.T) {
	dir := t.TempDir()
	plant(t, filepath.Join(dir, "f"), "")
	c := newClient(t, dir)
	c.refused(unix.EBADF, kindGetattr, uint32(77), uint64(0))
	c.refused(unix.EINVAL, kindGetattr, uint32(0), uint64(0), uint8(0)) // a byte too many
	c.refused(unix.EINVAL, kindGetattr, uint32(0), uint32(0))           // and four too few
	c.refused(unix.EBADF, kindRead, uint32(0), uint64(0), uint32(1))    // not open
	c.refused(unix.EBADF, kindAttach, uint32(0), noFid, "root", "", uint32(0))
	c.refused(unix.EINVAL, kindAttach, uint32(5), uint32(1), "root", "", uint32(0))
	c.refused(unix.EINVAL, kindAttach, uint32(5), noFid, "root", "/etc", uint32(0))
	c.refused(unix.EOPNOTSUPP, 30, uint32(0), uint32(1), "user.x") // attributes by name
	c.refused(unix.EOPNOTSUPP, kindRemove, uint32(0))
	c.refused(unix.EBADF, kindGetattr, uint32(0), uint64(0)) // forgotten by it
	c.refused(unix.EMSGSIZE, kindVersion, uint32(100), protocol)
	if d := c.must(kindVersion, uint32(1<<30), "9P2000.u"); d.u32() != MaxMessage || d.text() != unknownVersion {
		t.Error("another version is taken")
	}
	for _, bad := range [][]byte{nil, {7, 0, 0, 0, 1, 0}, {8, 0, 0, 0, 120, 0, 0}, {0, 0, 0, 0, 120, 0, 0}} {
		if _, err := c.s.Answer(bad, 100); !errors.Is(err, ErrSpoiled) {
			t.Errorf("%x: %v", bad, err)
		}
	}
	c.must(kindFlush, uint16(3))
	if _, err := NewServer(filepath.Join(dir, "none")); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := NewServer(filepath.Join(dir, "f")); err == nil || !strings.HasSuffix(err.Error(), "is not a folder") {
		t.Errorf("a file: %v", err)
	}
}

// Every number and every file that a client is given is closed in the end.
func TestNoDescriptorIsLost(t *testing.T) {
	count := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	dir := t.TempDir()
	plant(t, filepath.Join(dir, "f"), "")
	s, err := NewServer(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t, s}
	c.must(kindAttach, uint32(0), noFid, "", "", uint32(0))
	before := count()
	for range 3 {
		c.mustWalk(1, "f")
		c.must(kindOpen, uint32(1), uint32(0))
		c.refused(unix.EBADF, kindWalk, uint32(0), uint32(1), uint16(0))
		c.refused(unix.EBADF, kindWalk, uint32(0), noFid, uint16(1), "f")
		c.refused(unix.EBADF, kindWalk, uint32(1), uint32(1), uint16(0))
		c.ask(kindWalk, uint32(0), uint32(2), uint16(2), "f", "x")
		c.must(kindClunk, uint32(1))
		c.mustWalk(3)
		c.must(kindWalk, uint32(3), uint32(3), uint16(1), "f")
		c.must(kindOpen, uint32(3), uint32(0))
		c.ask(kindRemove, uint32(3))
	}
	if now := count(); now != before {
		t.Errorf("%d descriptors, and then %d", before, now)
	}
	c.mustWalk(1, "f")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if now := count(); now != before-2 {
		t.Errorf("%d descriptors in the end, of %d", now, before)
	}
}
