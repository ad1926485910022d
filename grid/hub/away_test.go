// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"skep/grid/engine"
	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/uapi"
)

// stayAway breaks the agent's connection; the hub then keeps its calls.
func (a *fakeAgent) stayAway() {
	a.w.t.Helper()
	a.nats.Close()
	waitUntil(a.w.t, "away", func() bool { return a.w.nodeOf(a).State == NodeAway })
}

// A node whose connection broke comes back to its call: nobody else gets it, its result counts
// once, and meanwhile `skep calls` says where it is.
func TestNodeComesBackToItsCall(t *testing.T) {
	w, m, a := newTrio(t, nil, 2)
	m.call(5, []byte("x"))
	l := a.nextLease()
	a.stayAway()
	if v, err := w.hub.Calls(""); err != nil || len(v.List) != 1 || v.List[0].State != CallAway || v.List[0].Nodes[0] != "pc" {
		t.Errorf("%+v %v", v, err)
	}
	a.returnAgent(1, carriedLease(l))
	if r := receiveFrom(t, "a resume", a.resumes); r.Fence != l.Fence {
		t.Errorf("%+v", r)
	}
	if v, err := w.hub.Calls(""); err != nil || v.List[0].State != CallRunning {
		t.Errorf("%+v %v", v, err)
	}
	a.sendDone(l, []byte("right"))
	a.sendDone(l, []byte("right"))
	if r, got := m.readResult(5); string(got) != "right" || r.Attempt != 1 {
		t.Errorf("%+v %q", r, got)
	}
	if n := len(a.leases) + len(a.cancels); n > 0 {
		t.Errorf("%d messages more", n)
	}
	waitUntil(t, "the ledger", func() bool { return countDone(t, w) == 1 })
}

func countDone(t *testing.T, w *world) (n int) {
	t.Helper()
	list, err := w.cli.Ledger(t.Context(), LedgerQuery{Last: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.State == engine.Done {
			n++
		}
	}
	return n
}

// So does a node that fell silent, on the same connection.
func TestSilentNodeIsHeardAgain(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(5, []byte("x"))
	l := a.nextLease()
	w.clock.advance(13 * time.Second)
	waitUntil(t, "silent", func() bool { return w.nodeOf(a).State == NodeSilent })
	a.sendDone(l, []byte("right"))
	if r, got := m.readResult(5); string(got) != "right" || r.Attempt != 1 {
		t.Errorf("%+v %q", r, got)
	}
}

// A large result that the hub has is not sent again, only the word that it is whole.
func TestLargeResultOutlivesItsConnection(t *testing.T) {
	_, m, a := newTrio(t, nil, 2)
	m.call(5, []byte("x"))
	l := a.nextLease()
	result := randomBytes(1 << 20)
	if resp, b := a.request(http.MethodPut, proto.PathResult(l.Call, l.Fence), bytes.NewReader(result)); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("%s %s", resp.Status, b)
	}
	a.stayAway()
	a.returnAgent(1, carriedLease(l))
	receiveFrom(t, "a resume", a.resumes)
	a.sendVerb(proto.VerbDone, a.doneOf(l, result, false), nil)
	if r, got := m.readResult(5); !bytes.Equal(got, result) || r.Attempt != 1 {
		t.Errorf("%+v, %d bytes", r, len(got))
	}
}

// What only one side has ends: a call that was cancelled meanwhile is cancelled on the node, and
// one that the node does not have begins anew.
func TestOnlyOneSideHasALease(t *testing.T) {
	_, m, a := newTrio(t, nil, 2)
	m.call(5, []byte("x"))
	gone := a.nextLease()
	m.call(6, []byte("y"))
	a.nextLease()
	a.stayAway()
	m.send(uapi.TypeCancel, 5, nil)
	if e := m.readFailure(5); e.Code != uapi.ECancelled {
		t.Errorf("%+v", e)
	}
	a.returnAgent(1, carriedLease(gone))
	if c := receiveFrom(t, "a cancel", a.cancels); c.Fence != gone.Fence {
		t.Errorf("%+v", c)
	}
	e := m.waitForEvent("a lost lease", func(e Event) bool { return e.State == CallRequeued })
	if !strings.Contains(e.Text, "does not know") {
		t.Errorf("%+v", e)
	}
	again := a.nextLease()
	a.sendDone(again, []byte("right"))
	if r, got := m.readResult(6); string(got) != "right" || r.Attempt != 2 {
		t.Errorf("%+v %q", r, got)
	}
}

// A node that started again has nothing, whatever it says.
func TestOtherBootComesBackToNothing(t *testing.T) {
	_, m, a := newTrio(t, nil, 1)
	m.call(5, []byte("x"))
	l := a.nextLease()
	a.stayAway()
	a.connect()
	a.helloWith(proto.Hello{Revision: proto.Revision, Slots: 1, Memory: 1 << 40, Substrate: "linux", Boot: "other", Carried: []proto.Carried{carriedLease(l)}})
	if c := receiveFrom(t, "a cancel", a.cancels); c.Fence != l.Fence {
		t.Errorf("%+v", c)
	}
	a.askLeases(1)
	a.sendDone(a.nextLease(), []byte("right"))
	if r, _ := m.readResult(5); r.Attempt != 2 {
		t.Errorf("%+v", r)
	}
}

// A node that does not come back in time is down, and what it brings later is refused. Other nodes
// get its call before that.
func TestNodeStaysAway(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(5, []byte("x"))
	l := a.nextLease()
	a.stayAway()
	w.clock.advance(2 * time.Second)
	m.waitForEvent("an offer", func(e Event) bool { return e.State == CallRequeued && strings.Contains(e.Text, "away") })
	w.clock.advance(sched.KeepDefault)
	waitUntil(t, "down", func() bool { return w.nodeOf(a).State == NodeDown })
	a.returnAgent(0, carriedLease(l))
	if c := receiveFrom(t, "a cancel", a.cancels); c.Fence != l.Fence {
		t.Errorf("%+v", c)
	}
	a.sendDone(l, []byte("late"))
	b := w.startAgent(1)
	b.sendDone(b.nextLease(), []byte("right"))
	if r, got := m.readResult(5); string(got) != "right" || r.Attempt != 2 {
		t.Errorf("%+v %q", r, got)
	}
}

// A call that called its master goes on with a node that comes back, also one that an earlier hub
// granted. Its node says what it has.
func TestAdoptedCallComesBack(t *testing.T) {
	w, m, a := newTrio(t, keepRuns, 1)
	m.call(7, nil)
	l := a.nextLease()
	w.crash(nil)
	r := w.returnMaster(m)
	r.call(7, nil)
	a.returnAgent(0, carriedLease(l))
	receiveFrom(t, "a resume", a.resumes)
	w.hub.mu.Lock()
	for _, c := range w.hub.calls {
		c.called = true
	}
	w.hub.mu.Unlock()
	a.stayAway()
	a.returnAgent(0, carriedLease(l))
	receiveFrom(t, "a second resume", a.resumes)
	a.sendDone(l, []byte("right"))
	if got := r.readData(7); got != "right" {
		t.Errorf("%q", got)
	}
	if len(a.cancels) > 0 {
		t.Error("it was cancelled")
	}
}

// Without a time that is kept, and without calls, a node whose connection broke is down at once.
func TestNodeWithoutCallsIsNotAway(t *testing.T) {
	w, m, a := newTrio(t, func(c *Config) { c.Sched.Keep = -1 }, 1)
	m.call(5, []byte("x"))
	a.nextLease()
	a.nats.Close()
	waitUntil(t, "down", func() bool { return w.nodeOf(a).State == NodeDown })
	other := newWorld(t, nil)
	c := other.startAgent(1)
	c.nats.Close()
	waitUntil(t, "down without calls", func() bool { return other.nodeOf(c).State == NodeDown })
	w.startAgent(1).nextLease()
}
