// SPDX-License-Identifier: MIT

package hub

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/grid/engine"
	"skep/grid/proto"
	"skep/internal/uapi"
)

// Calls are listed with their states and nodes until they end.
func TestCallsAreListed(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(5, []byte("argument"))
	l := a.nextLease()
	m.call(6, nil)
	m.sendHeader(7, 10) // whose arguments never come
	var v Calls
	waitUntil(t, "the calls", func() bool {
		var err error
		if v, err = w.cli.Calls(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		return v.All == 3
	})
	states := map[string]CallInfo{}
	for _, i := range v.List {
		states[i.State] = i
	}
	r := states[CallRunning]
	if r.Call != l.Call || r.Function != "work" || r.Run != "test" || r.Attempt != 1 || !slices.Equal(r.Nodes, []string{"pc"}) || r.Arguments != 8 || r.Began.IsZero() {
		t.Errorf("running: %+v", r)
	}
	if q, n := states[CallWaiting], states[CallArriving]; q.Call == 0 || n.Arguments != 10 || q.Attempt != 0 || len(q.Nodes) != 0 || q.Session != l.Session {
		t.Errorf("waiting: %+v, arriving: %+v", q, n)
	}
	if v.List[0].Call >= v.List[1].Call || v.List[1].Call >= v.List[2].Call {
		t.Errorf("not the oldest first: %+v", v.List)
	}
	if v, err := w.cli.Calls(t.Context(), l.Session[:6]); err != nil || v.All != 3 {
		t.Errorf("of the session: %+v, %v", v, err)
	}
	_, err := w.cli.Calls(t.Context(), "nobody")
	if p := (*proto.Problem)(nil); !errors.As(err, &p) || !strings.Contains(p.Text, `no open session begins with "nobody"`) {
		t.Errorf("of no session: %v", err)
	}
	a.sendDone(l, nil)
	m.readResult(5)
	if v, _ := w.cli.Calls(t.Context(), ""); v.All != 2 {
		t.Errorf("after the end: %+v", v)
	}
}

// What begins several sessions names none of them.
func TestSessionPrefixes(t *testing.T) {
	w := newWorld(t, nil)
	w.startMaster()
	w.startMaster()
	waitUntil(t, "the sessions", func() bool { return w.hub.Status().Sessions == 2 })
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	n := 0
	for _, m := range w.hub.masters {
		m.key = string(rune('a'+n)) + "b"
		n++
	}
	if c, err := w.hub.findSession("a", operator); err != nil || c.key != "ab" {
		t.Errorf("%v", err)
	}
	for _, m := range w.hub.masters {
		m.key = "c" + m.key
	}
	for prefix, want := range map[string]string{"c": "more than one", "": "no open session", "d": "no open session"} {
		if _, err := w.hub.findSession(prefix, operator); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", prefix, err)
		}
	}
}

// A cancelled call ends once, with an error that says who ended it; its node is told.
func TestCallsAreCancelled(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(5, nil)
	l := a.nextLease()
	if done, err := w.cli.CancelCall(t.Context(), l.Call); err != nil || done.Cancelled != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	if e := m.readFailure(5); e.Code != uapi.ECancelled || !strings.Contains(e.Text, "'skep cancel'") {
		t.Errorf("%+v", e)
	}
	if _, err := w.cli.CancelCall(t.Context(), l.Call); err == nil || !strings.Contains(err.Error(), "no call that has not ended") {
		t.Errorf("twice: %v", err)
	}
	resp, err := w.cli.request(t.Context(), http.MethodPost, "/v1/calls/x/cancel", nil)
	if err == nil {
		resp.Body.Close()
		t.Error("a call without a number was cancelled")
	}
	other := w.startBoundMaster()
	other.call(9, nil)
	for _, c := range []uint64{6, 7, 8} {
		m.call(c, nil)
	}
	waitUntil(t, "the calls", func() bool { return w.hub.Status().Calls == 4 })
	if done, err := w.cli.CancelCalls(t.Context(), l.Session); err != nil || done.Cancelled != 3 {
		t.Errorf("%+v, %v", done, err)
	}
	if n := w.hub.Status().Calls; n != 1 {
		t.Errorf("%d calls are left", n)
	}
	if _, err := w.cli.CancelCalls(t.Context(), "nobody"); err == nil {
		t.Error("the calls of no session were cancelled")
	}
}

// The ledger has the history of a call, with the reason for each further run.
func TestLedgerOfACall(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(5, nil)
	l := a.nextLease()
	a.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonDied, Text: "the worker died"}, nil)
	m.waitForEvent("the end of the lease", func(e Event) bool { return e.State == CallRequeued })
	w.clock.advance(2 * time.Second) // only then a node that failed a call gets it again
	a.askLeases(1)
	again := a.nextLease()
	a.sendDone(again, nil)
	m.readResult(5)
	m.call(6, nil)
	want := []engine.State{engine.Queued, engine.Leased, engine.Requeued, engine.Leased, engine.Done}
	var list []engine.Entry
	waitUntil(t, "the entries", func() bool {
		var err error
		if list, err = w.cli.Ledger(t.Context(), LedgerQuery{Call: l.Call}); err != nil {
			t.Fatal(err)
		}
		return len(list) >= len(want)
	})
	for i, e := range list {
		if i >= len(want) || e.State != want[i] || e.Call != l.Call || e.Session != l.Session || e.Time.IsZero() || (e.State != engine.Queued && e.Name != "pc") {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	if list[2].Text != "pc: the worker died" {
		t.Errorf("why: %+v", list[2])
	}
	if list, err := w.cli.Ledger(t.Context(), LedgerQuery{Session: l.Session[:4], Last: 2}); err != nil || len(list) != 2 {
		t.Errorf("of the session: %+v, %v", list, err)
	}
	if list, err := w.cli.Ledger(t.Context(), LedgerQuery{Session: "nobody"}); err != nil || list == nil || len(list) != 0 {
		t.Errorf("of no session: %+v, %v", list, err)
	}
}
