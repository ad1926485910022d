// SPDX-License-Identifier: MIT

//go:build linux

package ninep

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAttributesAreSet(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	plant(t, path, "twelve bytes")
	c := newClient(t, dir)
	c.mustWalk(1, "f")
	owner := []any{uint32(os.Getuid()), uint32(os.Getgid())}
	times := []any{uint64(1000), uint64(1), uint64(2000), uint64(2)}
	set := func(valid, mode uint32, size uint64) {
		fields := append([]any{uint32(1), valid, mode}, owner...)
		c.must(kindSetattr, append(append(fields, size), times...)...)
	}
	set(setMode|setUser|setGroup, 0o4711, 3)
	set(setSize, 0, 5)
	set(setChange|setChangeTo, 0, 0)
	d := c.must(kindGetattr, uint32(1), uint64(basicAttributes))
	d.take(8 + 13)
	mode, user, group := d.u32(), d.u32(), d.u32()
	links, _, size := d.u64(), d.u64(), d.u64()
	d.take(16)
	access := d.u64()
	d.take(8)
	if mode != unix.S_IFREG|0o711 && mode != unix.S_IFREG|0o4711 || user != owner[0] || group != owner[1] || links != 1 || size != 5 || access == 1000 {
		t.Errorf("mode %o, owner %d %d, %d links, %d bytes, accessed at %d", mode, user, group, links, size, access)
	}
	if s, ns := d.u64(), d.u64(); s != 2000 || ns != 2 {
		t.Errorf("changed at %d.%d", s, ns)
	}
	set(setChange, 0, 0)
	if info, err := os.Stat(path); err != nil || info.ModTime().Unix() < 1_000_000_000 {
		t.Errorf("not now: %v, %v", info.ModTime(), err)
	}
	if d = c.must(kindStatfs, uint32(1)); len(d.rest) != 60 {
		t.Errorf("a file system of %d bytes", len(d.rest))
	}
}
