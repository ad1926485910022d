// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// watchDone returns the event of a call's end.
func watchDone(w *world) func() Event {
	w.t.Helper()
	s, err := w.cli.Events(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return func() Event {
		for {
			e, err := s.Next()
			if err != nil {
				w.t.Fatal(err)
			}
			if e.State == CallDone {
				return e
			}
		}
	}
}

// The hub's own agent gets arguments and gives results without a connection, and this is shown.
func TestNearCall(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	done := watchDone(w)
	args, result := randomBytes(3<<20), randomBytes(2<<20)
	m.callFor(5, args, 2<<20)
	l := a.nextLease()
	r, err := w.hub.NearArgs(t.Context(), a.node.ID(), l.Call, l.Fence)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err != nil || !bytes.Equal(b, args) {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, errArgsClosed) {
		t.Errorf("after its end: %d bytes, %v", n, err)
	}
	if err := w.hub.NearResult(t.Context(), a.node.ID(), l.Call, l.Fence, 2<<20, bytes.NewReader(result)); err != nil {
		t.Fatal(err)
	}
	a.sendVerb(proto.VerbDone, a.doneOf(l, result, false), nil)
	if _, b := m.readResult(5); !bytes.Equal(b, result) {
		t.Errorf("a result of %d bytes", len(b))
	}
	if e := done(); e.Near != 5<<20 || e.Sent != 3<<20 {
		t.Errorf("%d bytes without a connection, %d sent", e.Near, e.Sent)
	}
	waitUntil(t, "nothing is held", func() bool { return w.hub.quota.used.Load() == 0 && w.hub.spools.files.Load() == 0 })
}

// What a node reads and gives over its connection is not called near.
func TestFarCallIsNotNear(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	done := watchDone(w)
	m.call(5, []byte("x"))
	a.sendDone(a.nextLease(), nil)
	m.readResult(5)
	if e := done(); e.Near != 0 || e.Sent != 1 {
		t.Errorf("%d bytes without a connection, %d sent", e.Near, e.Sent)
	}
}

// Nobody gets another's lease by asking for it in the hub's process, and no result is longer or
// shorter than announced.
func TestNearRefusals(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.callFor(5, randomBytes(1<<20), 2<<20)
	l := a.nextLease()
	ctx := t.Context()
	for name, c := range map[string]struct {
		node        string
		call, fence uint64
	}{"another node": {"no", l.Call, l.Fence}, "another number": {a.node.ID(), l.Call, l.Fence + 1}, "another call": {a.node.ID(), l.Call + 1, l.Fence}} {
		if _, err := w.hub.NearArgs(ctx, c.node, c.call, c.fence); err == nil || !strings.Contains(err.Error(), "does not hold the lease") {
			t.Errorf("arguments for %s: %v", name, err)
		}
		if err := w.hub.NearResult(ctx, c.node, c.call, c.fence, 1, strings.NewReader("x")); err == nil || !strings.Contains(err.Error(), "does not hold the lease") {
			t.Errorf("result of %s: %v", name, err)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		said uint64
		has  int
	}{"short": {ctx, 2 << 20, 1 << 20}, "long": {ctx, 1 << 20, 2 << 20}, "too long": {ctx, 3 << 20, 3 << 20}, "cancelled": {over, 1 << 20, 1 << 20}} {
		if err := w.hub.NearResult(c.ctx, a.node.ID(), l.Call, l.Fence, c.said, bytes.NewReader(make([]byte, c.has))); err == nil {
			t.Errorf("a %s result was taken", name)
		}
	}
	if n := w.hub.spools.files.Load(); n > 1 {
		t.Errorf("%d files are held", n)
	}
}

// Close ends a read that waits for the master, and a master that goes ends it as well.
func TestNearArgsOfASlowMaster(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.sendHeader(5, 4<<20)
	m.send(uapi.TypeData, 5, make([]byte, 1000))
	l := a.nextLease()
	for _, c := range []struct {
		name string
		end  func(io.Closer)
	}{{"the agent closes", func(r io.Closer) { r.Close() }}, {"the master goes", func(io.Closer) { m.conn.Abort(nil) }}} {
		r, err := w.hub.NearArgs(t.Context(), a.node.ID(), l.Call, l.Fence)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() { _, err := r.Read(make([]byte, 1)); failed <- err }()
		waitUntil(t, "a read that waits", func() bool {
			free := r.(*nearArgs).mu.TryLock()
			if free {
				r.(*nearArgs).mu.Unlock()
			}
			return !free
		})
		go c.end(r)
		select {
		case err := <-failed:
			if err == nil || err == io.EOF {
				t.Errorf("%s: %v", c.name, err)
			}
		case <-time.After(testTimeout):
			t.Fatalf("%s: the read waits", c.name)
		}
		r.Close()
	}
}
