// SPDX-License-Identifier: MIT

//go:build linux

package ninep

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFileIsWrittenAndRead(t *testing.T) {
	dir := t.TempDir()
	c := newClient(t, dir)
	c.mustWalk(1)
	c.must(kindCreate, uint32(1), "new", uint32(unix.O_RDWR|unix.O_APPEND), uint32(0o4751), uint32(os.Getgid()))
	if n := c.must(kindWrite, uint32(1), uint64(3), uint32(4), []byte("text")).u32(); n != 4 {
		t.Errorf("%d bytes written", n)
	}
	c.must(kindWrite, uint32(1), uint64(0), uint32(3), []byte("abc"))
	c.must(kindFsync, uint32(1), uint32(0))
	c.must(kindFsync, uint32(1), uint32(1))
	d := c.must(kindRead, uint32(1), uint64(1), uint32(100))
	if n := d.u32(); n != 6 || string(d.rest) != "bctext" {
		t.Errorf("%d bytes read: %q", n, d.rest)
	}
	d = c.must(kindRead, uint32(1), uint64(7), uint32(100))
	if n := d.u32(); n != 0 || len(d.rest) != 0 {
		t.Errorf("%d bytes behind the end", n)
	}
	info, err := os.Stat(filepath.Join(dir, "new"))
	if err != nil || info.Mode() != os.ModeSetuid|0o751 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	c.refused(unix.EEXIST, kindCreate, uint32(0), "new", uint32(unix.O_RDWR|unix.O_EXCL), uint32(0o600), uint32(0))
	c.refused(unix.EBADF, kindOpen, uint32(1), uint32(0))
	c.mustWalk(2)
	c.must(kindCreate, uint32(2), "new", uint32(unix.O_RDONLY), uint32(0o600), uint32(0))
	if d = c.must(kindRead, uint32(2), uint64(0), uint32(100)); string(d.rest[4:]) != "abctext" {
		t.Errorf("what was there: %q", d.rest)
	}
	c.refused(unix.EBADF, kindWrite, uint32(2), uint64(0), uint32(1), []byte("x"))
}

// A reply never has more bytes than the client has room for.
func TestReadFitsTheReply(t *testing.T) {
	dir := t.TempDir()
	plant(t, filepath.Join(dir, "large"), strings.Repeat("x", 20000))
	c := newClient(t, dir)
	c.mustWalk(1, "large")
	c.must(kindOpen, uint32(1), uint32(0))
	for _, room := range []int{rreadHead, rreadHead + 1, 5000, 100000} {
		reply, err := c.s.Answer(encode(kindRead, uint32(1), uint64(0), uint32(0xffffffff)), room)
		if want := min(room, 8192); err != nil || len(reply) != want {
			t.Errorf("with room for %d: %d bytes, %v", room, len(reply), err)
		}
	}
	reply, err := c.s.Answer(encode(kindGetattr, uint32(1), uint64(0)), 100)
	if err != nil || len(reply) != rreadHead || reply[4] != kindError+1 || binary.LittleEndian.Uint32(reply[7:]) != uint32(unix.EMSGSIZE) {
		t.Errorf("attributes in 100 bytes: %x, %v", reply, err)
	}
}

func TestFolderIsListed(t *testing.T) {
	dir := t.TempDir()
	want := map[string]uint64{".": unix.DT_DIR, "..": unix.DT_DIR, "link": unix.DT_LNK, "sub": unix.DT_DIR}
	c := newClient(t, dir)
	c.must(kindMkdir, uint32(0), "sub", uint32(0o1777), uint32(os.Getgid()))
	c.must(kindSymlink, uint32(0), "link", "/target of it", uint32(os.Getgid()))
	for i := range 300 {
		name := strings.Repeat("n", 1+i/26) + string(rune('a'+i%26))
		plant(t, filepath.Join(dir, name), "")
		want[name] = unix.DT_REG
	}
	c.mustWalk(1)
	c.must(kindOpen, uint32(1), uint32(unix.O_RDONLY|unix.O_DIRECTORY))
	for at := uint64(0); ; {
		d := c.must(kindReaddir, uint32(1), at, uint32(1000))
		if d.u32() == 0 {
			break
		}
		for len(d.rest) > 0 {
			d.take(13)
			at = d.u64()
			kind, name := d.number(1), d.text()
			if want[name] != kind {
				t.Errorf("%q is of kind %d", name, kind)
			}
			delete(want, name)
		}
	}
	if len(want) != 0 {
		t.Errorf("missing: %v", want)
	}
	c.refused(unix.EINVAL, kindReaddir, uint32(1), uint64(0), uint32(20))
	for count := uint32(100); count < 150; count++ {
		d := c.must(kindReaddir, uint32(1), uint64(0), count)
		if n := d.u32(); n > count || int(n) != len(d.rest) {
			t.Errorf("%d bytes of at most %d", n, count)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "sub")); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	c.mustWalk(2, "link")
	if got := c.must(kindReadlink, uint32(2)).text(); got != "/target of it" {
		t.Errorf("it leads to %q", got)
	}
	c.refused(unix.EINVAL, kindReadlink, uint32(0))
}

func TestLocksAreGranted(t *testing.T) {
	dir := t.TempDir()
	plant(t, filepath.Join(dir, "f"), "")
	c := newClient(t, dir)
	c.mustWalk(1, "f")
	lock := []any{uint32(1), uint8(1), uint32(0), uint64(0), uint64(9), uint32(3), "host"}
	c.refused(unix.EBADF, kindLock, lock...)
	c.must(kindOpen, uint32(1), uint32(unix.O_RDWR))
	if d := c.must(kindLock, lock...); len(d.rest) != 1 || d.rest[0] != 0 {
		t.Errorf("%x", d.rest)
	}
	d := c.must(kindGetlock, uint32(1), uint8(1), uint64(4), uint64(9), uint32(3), "host")
	if kind, start := d.number(1), d.u64(); kind != unix.F_UNLCK || start != 4 {
		t.Errorf("kind %d from %d on", kind, start)
	}
}
