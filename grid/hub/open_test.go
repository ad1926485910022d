// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"skep/grid/engine"
)

// A hub that cannot use a part of its state directory says so, and leaves the directory
// to the next one.
func TestUnusableStateDirectories(t *testing.T) {
	text := func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) }
	full := func(path string) error { return os.MkdirAll(filepath.Join(path, "x"), 0o700) }
	for _, c := range []struct {
		name string
		make func(path string) error
		want string
	}{
		{"spool", text, "spool"},
		{"ca.crt", text, "ca.key"},
		{"nodes.json", text, "nodes.json is damaged: restore it"},
		{"nodes.json", full, "is a directory"},
		{"blobs", text, "blobs"},
		{"engine", text, "engine"},
		{"hub.sock", full, "directory not empty"},
		{"hub.lock", full, "another hub uses"},
	} {
		dir := shortDir(t)
		path := filepath.Join(dir, c.name)
		if err := c.make(path); err != nil {
			t.Fatal(err)
		}
		h, err := Open(Config{State: dir, Listen: "127.0.0.1:0"})
		if err == nil {
			h.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if h, err = Open(Config{State: dir, Listen: "127.0.0.1:0"}); err != nil {
			t.Errorf("%s: the next hub: %v", c.name, err)
		} else {
			h.Close()
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := text(file); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[string]string{"": "needs a state directory", file: "file", filepath.Join(shortDir(t), strings.Repeat("s", 100)): "too long for the system"} {
		if _, err := Open(Config{State: state, Listen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("state %.20q: %v", state, err)
		}
	}
}

// Spools of a hub that was killed are removed when the next one starts, and nothing else.
func TestSpoolsOfAKilledHub(t *testing.T) {
	spool := t.TempDir()
	for _, name := range []string{".spool-1", ".spool-2", "spool-3", "kept"} {
		if err := os.WriteFile(filepath.Join(spool, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	newWorld(t, func(c *Config) { c.Spool = spool })
	left, _ := filepath.Glob(filepath.Join(spool, "*"))
	hidden, _ := filepath.Glob(filepath.Join(spool, ".*"))
	if len(left) != 2 || len(hidden) != 0 {
		t.Errorf("%v and %v are left", left, hidden)
	}
}

func TestDefaultsOfConfig(t *testing.T) {
	c := Config{State: "/state"}
	if err := c.setDefaults(); err != nil {
		t.Fatal(err)
	}
	if c.Listen != ":4860" || c.Spool != "/state/spool" || c.Grace != 5*time.Second || c.BlobLimit != 8<<30 || c.Now == nil || c.Log == nil {
		t.Errorf("%+v", c)
	}
	if c.unauthenticated != 256 || c.unread != 1<<18 || c.transfers != 1<<16 || c.bodyIn != 10*time.Second ||
		c.release != 10*time.Second || c.hostIn != 10*time.Second || c.execIn != 20*time.Second || c.execDrain != time.Second {
		t.Errorf("%+v", c)
	}
	given := Config{State: "/state", Listen: "x:1", Spool: "/spool", Grace: 1, BlobLimit: 2, unauthenticated: 3, unread: 4,
		transfers: 5, bodyIn: 6, release: 7, hostIn: 8, execIn: 9, execDrain: 10, Log: slog.Default(), Now: time.Now}
	if err := given.setDefaults(); err != nil {
		t.Fatal(err)
	}
	if given.Listen != "x:1" || given.Spool != "/spool" || given.Grace != 1 || given.BlobLimit != 2 || given.unauthenticated != 3 ||
		given.unread != 4 || given.transfers != 5 || given.bodyIn != 6 || given.release != 7 || given.hostIn != 8 || given.execIn != 9 || given.execDrain != 10 || given.Log != slog.Default() {
		t.Errorf("%+v", given)
	}
}

func TestCausesOfListenErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{syscall.EADDRINUSE, "stop what uses that port"}, {syscall.EACCES, "a port from 1024"}, {syscall.EADDRNOTAVAIL, "an address that this machine has"},
	} {
		err := listenError("here:80", &net.OpError{Err: os.NewSyscallError("bind", c.err)})
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), "cannot listen on here:80: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v", err)
		}
	}
}

// A closer counts how often it was closed.
type closer struct {
	net.Conn
	mu     sync.Mutex
	closes int
}

func (c *closer) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closes++
	return nil
}

func (c *closer) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closes > 0
}

// A crowd holds so many, closes the oldest for one more, and after its end takes none.
func TestCrowd(t *testing.T) {
	c := crowd{most: 2}
	list := make([]*closer, 5)
	for i := range list {
		list[i] = &closer{}
	}
	c.add(list[0])
	c.add(list[1])
	c.remove(list[4]) // which it does not hold
	c.remove(list[0])
	c.add(list[2])
	if len(c.order) != 2 || list[0].isClosed() || list[1].isClosed() {
		t.Errorf("%d are held", len(c.order))
	}
	c.add(list[3])
	waitUntil(t, "the end of the oldest", list[1].isClosed)
	if len(c.order) != 2 || list[2].isClosed() || list[3].isClosed() {
		t.Errorf("%d are held", len(c.order))
	}
	c.close()
	if !list[2].isClosed() || !list[3].isClosed() || c.add(list[4]) || len(c.order) != 2 {
		t.Error("it is open after its end")
	}
}

// Connections that come after the end of a server are closed.
func TestQueueListener(t *testing.T) {
	addr := &net.UnixAddr{Name: "x"}
	l := newQueueListener(addr)
	c := &closer{}
	go l.put(c)
	if got, err := l.Accept(); got != c || err != nil || l.Addr() != addr {
		t.Errorf("%v, %v at %v", got, err, l.Addr())
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) || c.isClosed() {
		t.Errorf("after the end: %v", err)
	}
	if l.put(c); !c.isClosed() {
		t.Error("a late connection stays open")
	}
}

// What the ledger cannot store is reported: failures, and how many entries are missing.
func TestLedgerReportsItsLosses(t *testing.T) {
	enter, leave := make(chan []engine.Entry), make(chan error)
	failed := make(chan error, 10)
	r := newRecorder(func(_ context.Context, list ...engine.Entry) error { enter <- list; return <-leave }, func(err error) { failed <- err })
	r.add(engine.Entry{Call: 1})
	if list := receiveFrom(t, "the first", enter); len(list) != 1 || list[0].Call != 1 {
		t.Fatalf("%v", list)
	}
	for i := range recordMax + 3 {
		r.add(engine.Entry{Call: uint64(i + 2)})
	}
	leave <- errors.New("no room")
	if err := receiveFrom(t, "the failure", failed); err.Error() != "no room" {
		t.Error(err)
	}
	next := uint64(2)
	for next < recordMax+2 {
		list := receiveFrom(t, "a part", enter)
		if len(list) != recordAt || list[0].Call != next {
			t.Fatalf("%d entries from %d on, want those from %d on", len(list), list[0].Call, next)
		}
		next += uint64(len(list))
		leave <- nil
	}
	if err := receiveFrom(t, "the loss", failed); err.Error() != "the ledger was too slow: 3 entries are missing" {
		t.Error(err)
	}
	r.close()
	r.add(engine.Entry{Call: 1})
	if len(r.entries) != 0 || r.lost != 1 || len(failed) != 0 {
		t.Errorf("%d entries, %d lost after the end, %d failures", len(r.entries), r.lost, len(failed))
	}
}

// A recorder writes what waits before it ends.
func TestLedgerIsWrittenAtTheEnd(t *testing.T) {
	var got []engine.Entry
	r := newRecorder(func(_ context.Context, list ...engine.Entry) error { got = append(got, list...); return nil }, nil)
	for i := range 3 {
		r.add(engine.Entry{Call: uint64(i)})
	}
	if r.close(); len(got) != 3 {
		t.Errorf("%d entries", len(got))
	}
}
