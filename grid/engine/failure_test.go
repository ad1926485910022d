// SPDX-License-Identifier: MIT

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"skep/internal/load"
)

// checkErrorText checks that an error has this text.
func checkErrorText(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want %q", err, text)
	}
}

// Start fails on a damaged state directory and says what is wrong.
func TestStartErrors(t *testing.T) {
	good := t.TempDir()
	startEngine(t, good)
	keys, err := os.ReadFile(filepath.Join(good, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s seeds
	if err := json.Unmarshal(keys, &s); err != nil {
		t.Fatal(err)
	}
	other := s
	s.Hub, other.Operator = s.Account, s.Account
	hub, _ := json.Marshal(s)
	operator, _ := json.Marshal(other)
	defer func(d time.Duration) { readyIn = d }(readyIn)
	for _, c := range []struct{ file, text, want string }{
		{".", "", "the engine's directory cannot be made"},
		{"keys.json/below", "", "is a directory"},
		{"keys.json", "no JSON", "is damaged: restore it"},
		{"keys.json", `{"operator": "no seed"}`, "is damaged: restore it"},
		{"jetstream", "a file", "another hub"},
		{"keys.json", string(hub), "not a public key of an engine user"},
		{"keys.json", string(operator), "key"},
	} {
		dir := filepath.Join(t.TempDir(), "engine")
		name := filepath.Join(dir, c.file)
		os.MkdirAll(filepath.Dir(name), 0o700)
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if readyIn = 20 * time.Second; c.file == "jetstream" {
			readyIn = 50 * time.Millisecond
		}
		e, err := Start(Config{Dir: dir})
		if err == nil {
			e.Close()
		}
		checkErrorText(t, err, c.want)
	}
}

// Only the hub's user may read the keys that sign.
func TestKeysArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "engine")
	startEngine(t, dir)
	for name, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "keys.json"): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// An error of the server becomes a message that tells the hub's owner what to do.
func TestLedgerThatDoesNotOpen(t *testing.T) {
	checkErrorText(t, explainOpen(&jetstream.APIError{ErrorCode: 10047}), "too little room for its ledger: free 342 MiB")
	checkErrorText(t, explainOpen(&jetstream.APIError{ErrorCode: 10049}), "the ledger cannot be opened")
	checkErrorText(t, explainOpen(context.Canceled), "the ledger cannot be opened: context canceled")
	if err := explainOpen(nil); err != nil {
		t.Error(err)
	}
	if !hasCode(&jetstream.APIError{ErrorCode: 10049}, errStoreRace) || hasCode(nil, errStoreRace) {
		t.Error("the server's race is not known")
	}
}

// Messages of 1 MiB pass. The ledger is limited to 256 MiB and 90 days. A peer that is
// silent for 12 s or 64 MiB behind is disconnected, by either side.
func TestBounds(t *testing.T) {
	e := startEngine(t, t.TempDir())
	if err := e.Conn().Publish("x", make([]byte, 1<<20)); err != nil {
		t.Error(err)
	}
	if err := e.Conn().Publish("x", make([]byte, 1<<20+1)); !errors.Is(err, nats.ErrMaxPayload) {
		t.Errorf("a message above 1 MiB: %v", err)
	}
	c := e.ledger.stream.CachedInfo().Config
	if c.MaxBytes != 256<<20 || c.MaxAge != 2160*time.Hour || !c.DenyDelete {
		t.Errorf("the ledger keeps %d bytes, %v", c.MaxBytes, c.MaxAge)
	}
	if a := e.server.Addr(); a != nil {
		t.Errorf("it listens on %v", a)
	}
	v, err := e.server.Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	if silent := v.PingInterval * time.Duration(v.MaxPingsOut+1); silent != 12*time.Second || v.MaxPending != 64<<20 {
		t.Errorf("a node may be silent for %v and %d bytes behind", silent, v.MaxPending)
	}
	if !v.JetStream.Config.SyncAlways {
		t.Error("entries are not written through")
	}
	key, pub := makeKeyPair(t)
	jwt, _ := e.UserJWT(id, pub)
	node, err := dialEngine(e, key, jwt, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	if node.Opts.Timeout != 10*time.Second {
		t.Errorf("a connection may take %v", node.Opts.Timeout)
	}
	if silent := node.Opts.PingInterval * time.Duration(node.Opts.MaxPingsOut+1); silent != 12*time.Second {
		t.Errorf("the hub may be silent for %v", silent)
	}
}

// Record returns an error if an entry was not stored.
func TestRecordErrors(t *testing.T) {
	e := startEngine(t, t.TempDir())
	checkErrorText(t, e.Record(t.Context(), Entry{State: "no such"}), `"no such" is not a state`)
	if err := e.ledger.js.DeleteStream(t.Context(), streamName); err != nil {
		t.Fatal(err)
	}
	checkErrorText(t, e.Record(t.Context(), Entry{State: Done}), "the ledger lost an entry")
	if _, err := e.Entries(t.Context(), 1); err == nil {
		t.Error("entries of a ledger that is gone")
	}
	e.server.Shutdown()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Record(gone, Entry{State: Done}); !errors.Is(err, context.Canceled) {
		t.Errorf("the wait for a server that is gone: %v", err)
	}
	e.conn.Close()
	checkErrorText(t, e.Record(t.Context(), Entry{State: Done}), "the ledger takes no entry")
}

// Any number of the last entries can be read.
func TestLastEntries(t *testing.T) {
	e := startEngine(t, t.TempDir())
	if list, err := e.Entries(t.Context(), 3); err != nil || len(list) != 0 {
		t.Errorf("an empty ledger: %v, %v", list, err)
	}
	for i := range uint64(4) {
		if err := e.Record(t.Context(), Entry{Call: i + 1, State: Queued}); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int]int{-1: 0, 0: 0, 1: 1, 3: 3, 4: 4, 5: 4, 1000: 4} {
		list, err := e.Entries(t.Context(), n)
		if err != nil || len(list) != want || want > 0 && (list[0].Call != uint64(5-want) || list[want-1].Call != 4) {
			t.Errorf("the last %d: %+v, %v", n, list, err)
		}
	}
}

// slowConn is slow to close the second time, which is the close by ServeConn.
type slowConn struct {
	net.Conn
	closed atomic.Int32
	second func()
}

func (c *slowConn) Close() error {
	if c.closed.Add(1) == 2 {
		c.second()
	}
	return c.Conn.Close()
}

// A connection that ends, also because the engine ends, returns no error. Close waits for
// ServeConn, and later connections are refused.
func TestCloseWaitsForConnections(t *testing.T) {
	e, err := Start(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	early := false
	c := &slowConn{Conn: theirs, second: func() {
		for range 30 {
			early = early || !e.server.Running()
			<-time.After(10 * time.Millisecond)
		}
	}}
	served := make(chan error, 1)
	go func() { served <- e.ServeConn(c) }()
	if _, err := ours.Read(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	e.Close()
	if err := <-served; err != nil {
		t.Errorf("the connection ended with %v", err)
	}
	if !e.Conn().IsClosed() {
		t.Error("the hub's own connection is still open")
	}
	if early || e.server.Running() {
		t.Errorf("the server ended before its connections: %v", early)
	}
	e.closed = false
	_, theirs = net.Pipe()
	checkErrorText(t, e.ServeConn(theirs), "the engine takes no connection")
	if len(e.proxy) > 0 {
		t.Errorf("%d connections are kept", len(e.proxy))
	}
}

// A node without handlers survives a refusal and a break of the connection.
func TestNodeWithoutHandlers(t *testing.T) {
	e := startEngine(t, t.TempDir())
	key, pub := makeKeyPair(t)
	jwt, _ := e.UserJWT(id, pub)
	c, err := dialEngine(e, key, jwt, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Publish("skep.v1.to.other", nil)
	if err := c.FlushTimeout(load.Stretch(20 * time.Second)); err != nil {
		t.Error(err)
	}
	e.mu.Lock()
	for conn := range e.proxy {
		conn.Close()
	}
	e.mu.Unlock()
	for deadline := time.After(load.Stretch(20 * time.Second)); c.Stats().Reconnects == 0; {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline:
			t.Fatal("it did not come back")
		}
	}
}

// failingConn is a connection that breaks.
type failingConn struct{ net.Conn }

func (failingConn) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// The end of either side ends the connection; the cause is returned.
func TestEndsOfServeConn(t *testing.T) {
	e := startEngine(t, t.TempDir())
	_, theirs := net.Pipe()
	if err := e.ServeConn(failingConn{theirs}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection that broke: %v", err)
	}
	ours, theirs := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- e.ServeConn(theirs) }()
	if _, err := ours.Read(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	e.server.Shutdown()
	for err := error(nil); err == nil; {
		_, err = ours.Read(make([]byte, 1024))
	}
	select {
	case err := <-served:
		if err != nil {
			t.Errorf("the server's end: %v", err)
		}
	case <-time.After(load.Stretch(20 * time.Second)):
		t.Error("it goes on without a server")
	}
}

// A thinStream is a ledger that lost one entry and cannot read another.
type thinStream struct {
	jetstream.Stream
	lost, broken uint64
}

func (s thinStream) GetMsg(ctx context.Context, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	switch seq {
	case s.lost:
		return nil, jetstream.ErrMsgNotFound
	case s.broken:
		return nil, os.ErrDeadlineExceeded
	}
	return s.Stream.GetMsg(ctx, seq, opts...)
}

// An entry that is dropped while others are read is omitted. One that cannot be
// read is an error.
func TestEntriesThatGo(t *testing.T) {
	e := startEngine(t, t.TempDir())
	for i := range uint64(4) {
		if err := e.Record(t.Context(), Entry{Call: i + 1, State: Queued}); err != nil {
			t.Fatal(err)
		}
	}
	stream := e.ledger.stream
	e.ledger.stream = thinStream{stream, 2, 0}
	list, err := e.Entries(t.Context(), 4)
	if err != nil || len(list) != 3 || list[0].Call != 1 || list[1].Call != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	e.ledger.stream = thinStream{stream, 0, 3}
	if list, err := e.Entries(t.Context(), 4); err != os.ErrDeadlineExceeded || list != nil {
		t.Errorf("%+v, %v", list, err)
	}
}

// An engine that has ended closes a connection that comes too late.
func TestLateConnectionIsClosed(t *testing.T) {
	e := startEngine(t, t.TempDir())
	e.Close()
	ours, theirs := net.Pipe()
	if err := e.ServeConn(theirs); err != ErrClosed {
		t.Errorf("%v", err)
	}
	ours.SetReadDeadline(time.Now().Add(load.Stretch(20 * time.Second)))
	if _, err := ours.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("its other end: %v", err)
	}
}
