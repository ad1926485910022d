// SPDX-License-Identifier: MIT

//go:build linux

package ninep

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A client speaks to a server as Linux's does.
type client struct {
	t *testing.T
	s *Server
}

// newClient serves a folder, whose fid is 0.
func newClient(t *testing.T, dir string) *client {
	t.Helper()
	s, err := NewServer(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &client{t, s}
	c.must(kindVersion, uint32(8192), protocol)
	c.must(kindAttach, uint32(0), noFid, "root", "", uint32(os.Getuid()))
	return c
}

func encode(kind uint8, fields ...any) []byte {
	var e encoder
	e.u32(0)
	e.u8(kind)
	e.u16(7)
	for _, field := range fields {
		switch f := field.(type) {
		case uint8:
			e.u8(f)
		case uint16:
			e.u16(f)
		case uint32:
			e.u32(f)
		case uint64:
			e.u64(f)
		case string:
			e.text(f)
		case []byte:
			e = append(e, f...)
		default:
			panic("no such field")
		}
	}
	binary.LittleEndian.PutUint32(e, uint32(len(e)))
	return e
}

// ask returns the fields of a reply, or the number of its error.
func (c *client) ask(kind uint8, fields ...any) (*decoder, error) {
	c.t.Helper()
	reply, err := c.s.Answer(encode(kind, fields...), 8192)
	if err != nil {
		c.t.Fatal(err)
	}
	d := &decoder{rest: reply}
	size, got, tag := d.u32(), d.number(1), d.u16()
	if int(size) != len(reply) || tag != 7 {
		c.t.Fatalf("a reply of %d bytes says %d, and tag %d", len(reply), size, tag)
	}
	if got == kindError+1 {
		return d, unix.Errno(d.u32())
	}
	if uint8(got) != kind+1 {
		c.t.Fatalf("the reply to %d is %d", kind, got)
	}
	return d, nil
}

func (c *client) must(kind uint8, fields ...any) *decoder {
	c.t.Helper()
	d, err := c.ask(kind, fields...)
	if err != nil {
		c.t.Fatalf("request %d %v: %v", kind, fields, err)
	}
	return d
}

func (c *client) refused(want error, kind uint8, fields ...any) {
	c.t.Helper()
	if _, err := c.ask(kind, fields...); !errors.Is(err, want) {
		c.t.Errorf("request %d %v: %v, and not %v", kind, fields, err, want)
	}
}

// walk gives number `to` to what is below the folder.
func (c *client) walk(to uint32, names ...string) error {
	fields := []any{uint32(0), to, uint16(len(names))}
	for _, name := range names {
		fields = append(fields, name)
	}
	d, err := c.ask(kindWalk, fields...)
	if err == nil && int(d.u16()) < len(names) {
		return unix.ENOENT
	}
	return err
}

func (c *client) mustWalk(to uint32, names ...string) {
	c.t.Helper()
	if err := c.walk(to, names...); err != nil {
		c.t.Fatalf("%q: %v", names, err)
	}
}

func plant(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Any messages of a client, one after another, each with its length before it.
func FuzzServer(f *testing.F) {
	join := func(list ...[]byte) (all []byte) {
		for _, m := range list {
			all = append(binary.LittleEndian.AppendUint16(all, uint16(len(m))), m...)
		}
		return all
	}
	attach := encode(kindAttach, uint32(0), noFid, "", "", noFid)
	f.Add(join(attach, encode(kindWalk, uint32(0), uint32(1), uint16(1), "f"), encode(kindOpen, uint32(1), uint32(0)), encode(kindRead, uint32(1), uint64(0), uint32(99))), uint16(100))
	f.Add(join(attach, encode(kindMkdir, uint32(0), "d", uint32(0o700), noFid), encode(kindOpen, uint32(0), uint32(0)), encode(kindReaddir, uint32(0), uint64(0), uint32(500))), uint16(9000))
	f.Add(join(attach, encode(kindRenameat, uint32(0), "f", uint32(0), "g"), encode(kindSymlink, uint32(0), "s", "..", noFid)), uint16(11))
	top := f.TempDir()
	dir := filepath.Join(top, "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, all []byte, room uint16) {
		os.WriteFile(filepath.Join(dir, "f"), []byte("text"), 0o600)
		s, err := NewServer(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		room = max(room, rreadHead)
		for len(all) >= 2 {
			n := min(int(binary.LittleEndian.Uint16(all)), len(all)-2)
			reply, err := s.Answer(all[2:2+n], int(room))
			all = all[2+n:]
			if (reply == nil) == (err == nil) || len(reply) > int(room) || err == nil && int(binary.LittleEndian.Uint32(reply)) != len(reply) {
				t.Fatalf("%d bytes, room for %d, %v", len(reply), room, err)
			}
		}
		if list, err := os.ReadDir(top); err != nil || len(list) != 1 {
			t.Fatalf("outside: %v, %v", list, err)
		}
	})
}
