// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"skep/internal/uapi"
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

// A call whose arguments cannot be read to their end must not run, so its node lacks the last byte
// until its master has said that all were right.
func TestLastByteWaitsForItsWriter(t *testing.T) {
	p := &spooler{dir: t.TempDir(), limit: 2 << 20}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, n := range []int64{1, 1000, spoolMemory + 1} {
		data := randomBytes(int(n))
		s, err := p.newSpool(uint64(n))
		if err != nil {
			t.Fatal(err)
		}
		s.Write(data)
		r := s.reader(over)
		b := make([]byte, n-1)
		if _, err := io.ReadFull(r, b); err != nil || !bytes.Equal(b, data[:n-1]) || !r.empty() {
			t.Errorf("%d bytes: %v", n, err)
		}
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("the last of %d bytes came before all were right: %v", n, err)
		}
		if file, err := r.await(1); file != nil || s.file != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the last of %d bytes is in the file before all were right: %v", n, err)
		}
		s.finish()
		if rest, err := io.ReadAll(r); err != nil || !bytes.Equal(rest, data[n-1:]) {
			t.Errorf("the last of %d bytes: %d, %v", n, len(rest), err)
		}
		s.put()
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

// TestSpoolMemoryIsShared: beyond the limit even small spools are files.
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

// full.dev is a link to /dev/full, which stands for a full disk.
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

// What was written is read before the rest comes.
func TestSpoolIsReadWhileItGrows(t *testing.T) {
	for _, n := range []int{2, 2 * spoolMemory} {
		p := &spooler{dir: t.TempDir(), limit: 2 << 20}
		s, err := p.newSpool(uint64(n))
		if err != nil {
			t.Fatal(err)
		}
		parts := make(chan int, 2)
		go func() {
			r := s.reader(t.Context())
			for range 2 {
				got, _ := io.ReadFull(r, make([]byte, n/2))
				parts <- got
			}
		}()
		for i := range 2 {
			s.Write(make([]byte, n/2))
			if i == 1 {
				s.finish()
			}
			if got := receiveFrom(t, "a part", parts); got != n/2 {
				t.Errorf("%d of %d bytes", got, n/2)
			}
		}
		s.put()
	}
}

// The hub's own agent is told where arguments are in the file, when they are there.
func TestArgumentsOfAFile(t *testing.T) {
	p := &spooler{dir: t.TempDir(), limit: 2 << 20}
	near := func(want int) (*spool, *nearArgs) {
		s, err := p.newArguments(uint64(want))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		return s, &nearArgs{cancel: cancel, from: s.reader(ctx)}
	}
	small, at := near(4)
	small.Write([]byte("1234"))
	if small.finish(); small.digest != sha256.Sum256([]byte("1234")) {
		t.Error("arguments in memory have no digest")
	}
	if f, _, _, err := at.NextFile(2); f != nil || err != nil {
		t.Errorf("arguments in memory are in the file %v: %v", f, err)
	}
	data := randomBytes(spoolMemory + 2)
	large, at := near(len(data))
	large.Write(data[:4])
	next := make(chan []byte, 1)
	ask := func(n int64) {
		f, where, let, err := at.NextFile(n)
		if err != nil {
			t.Error(err)
			return
		}
		b := make([]byte, n)
		f.ReadAt(b, where)
		let()
		next <- b
	}
	if ask(3); !bytes.Equal(<-next, data[:3]) {
		t.Error("the first bytes are others")
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	early := &nearArgs{from: large.reader(gone)}
	if f, _, _, err := early.NextFile(5); f != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("what is not there yet is in the file %v: %v", f, err)
	}
	go ask(3)
	large.Write(data[4:])
	if b := receiveFrom(t, "what was to come", next); !bytes.Equal(b, data[3:6]) {
		t.Error("the next bytes are others")
	}
	if large.finish(); large.refs != 1 || large.digest != [32]byte{} {
		t.Errorf("%d references are left, digest %x", large.refs, large.digest)
	}
	if _, _, _, err := at.NextFile(int64(len(data))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("more than there is: %v", err)
	}
	large.put()
	if _, _, _, err := at.NextFile(1); err != errSpoolGone {
		t.Errorf("of a call that has ended: %v", err)
	}
	at.closed = true
	if _, _, _, err := at.NextFile(1); err != errArgsClosed {
		t.Errorf("after the end: %v", err)
	}
}

// A reader that waits for more hears that there will be none.
func TestWaitingReaderHearsOfTheEnd(t *testing.T) {
	p := &spooler{dir: t.TempDir(), limit: 2 << 20}
	s, err := p.newSpool(2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.put()
	s.Write([]byte("x"))
	got, first := make(chan error, 1), make(chan struct{})
	go func() {
		r := s.reader(t.Context())
		io.ReadFull(r, make([]byte, 1))
		close(first)
		_, err := r.Read(make([]byte, 1))
		got <- err
	}()
	<-first
	for range 100 { // the reader may not wait yet
		runtime.Gosched()
	}
	s.abort(io.ErrUnexpectedEOF)
	if err := receiveFrom(t, "the end", got); err != io.ErrUnexpectedEOF {
		t.Errorf("%v", err)
	}
}

// A master that cannot read its own arguments takes the call back and sends no more of them.
func TestCallTakenBackWhileItArrives(t *testing.T) {
	w, m, _ := newTrio(t, nil, 1)
	m.sendHeader(5, spoolMemory+1)
	m.send(uapi.TypeData, 5, make([]byte, 1000))
	waitUntil(t, "a file has them", func() bool { return w.hub.spools.files.Load() == 1 })
	m.send(uapi.TypeCancel, 5, nil)
	if e := m.readFailure(5); e.Code != uapi.ECancelled {
		t.Errorf("it ended with %v", e)
	}
	waitUntil(t, "nothing is held", func() bool { return w.hub.quota.used.Load() == 0 && w.hub.spools.files.Load() == 0 })
	m.send(uapi.TypeData, 5, make([]byte, 1000)) // one that was under way
	m.call(6, []byte("after"))
	m.send(uapi.TypeCancel, 6, nil)
	m.readFailure(6)
}
