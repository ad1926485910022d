// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestSpool(t *testing.T) {
	p := &spooler{dir: t.TempDir(), limit: 2 << 20}
	for _, n := range []int{0, 1, spoolMemory, spoolMemory + 1, 3 << 20} {
		data := randomBytes(n)
		s, err := p.newSpool(uint64(n))
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan []byte, 3)
		for range cap(read) {
			go func() {
				b, _ := io.ReadAll(s.reader(t.Context()))
				read <- b
			}()
		}
		for part := range bytes.SplitSeq(data, []byte{7}) {
			s.Write(part)
			if s.size < s.want {
				s.Write([]byte{7})
			}
		}
		if err := s.finish(); err != nil {
			t.Fatal(err)
		}
		for range cap(read) {
			if b := receiveFrom(t, "a reader", read); !bytes.Equal(b, data) {
				t.Fatalf("%d bytes came of %d", len(b), n)
			}
		}
		s.put()
	}
	if p.used.Load() != 0 {
		t.Fatalf("%d bytes of memory are still counted", p.used.Load())
	}
	if left, _ := os.ReadDir(p.dir); len(left) != 0 {
		t.Fatalf("%v is left", left)
	}
}

func TestSpoolEnds(t *testing.T) {
	p := &spooler{dir: t.TempDir(), limit: 1 << 20}
	s, _ := p.newSpool(3)
	if _, err := s.Write([]byte("1234")); err == nil {
		t.Error("more than announced was taken")
	}
	s, _ = p.newSpool(3)
	s.Write([]byte("12"))
	if err := s.finish(); err == nil {
		t.Error("less than announced was whole")
	}
	s, _ = p.newSpool(3)
	s.abort(errors.New("gone"))
	if _, err := io.ReadAll(s.reader(t.Context())); err == nil || err.Error() != "gone" {
		t.Errorf("a reader got %v", err)
	}
	s, _ = p.newSpool(3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := io.ReadAll(s.reader(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("a reader got %v", err)
	}
	s.put()
	if s.get() {
		t.Error("a dropped spool was held")
	}
	if _, err := p.newSpool(1 << 63); err == nil {
		t.Error("a spool without bound")
	}
}

// TestSpoolMemoryIsShared: beyond the limit even small ones are files.
func TestSpoolMemoryIsShared(t *testing.T) {
	p := &spooler{dir: t.TempDir(), limit: 100}
	a, _ := p.newSpool(80)
	b, _ := p.newSpool(80)
	if a.file != nil || b.file == nil {
		t.Fatal("the limit does not hold")
	}
	a.put()
	b.put()
}

// full.dev stands for a full disk: the system's own device for that.
func TestDiskFull(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	p := &spooler{dir: "/state/spool", limit: 1 << 20}
	s := &spool{from: p, want: 10, file: f, moved: make(chan struct{}), refs: 1}
	_, err = s.Write([]byte("x"))
	if err == nil || !strings.Contains(err.Error(), "the hub's disk is full: free some space in /state/spool") {
		t.Fatalf("%v", err)
	}
	if _, err := io.ReadAll(s.reader(t.Context())); err == nil {
		t.Fatal("a reader did not learn of it")
	}
}
