// SPDX-License-Identifier: MIT

package hub

import (
	"strconv"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

func uintText(n uint64) string { return strconv.FormatUint(n, 10) }

// failCalls has a call done, one failed and one running.
func failCalls(m *fakeMaster, a *fakeAgent) {
	m.call(5, nil)
	a.sendDone(a.nextLease(), []byte("result"))
	m.readResult(5)
	a.askLeases(1)
	m.call(6, nil)
	l := a.nextLease()
	a.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonError, Code: uapi.EArguments, Text: "<i>no such matrix"}, nil)
	m.readFailure(6)
	a.askLeases(1)
	m.call(7, nil)
	a.nextLease()
}

func TestOverviewCountsCalls(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	failCalls(m, a)
	m.sendHeader(8, 10) // whose arguments never come
	want := Counts{Waiting: 1, Running: 1, Done: 1, Failed: 1}
	var o Overview
	waitUntil(t, "the calls", func() bool {
		var err error
		if o, err = w.cli.Overview(t.Context()); err != nil {
			t.Fatal(err)
		}
		return o.Calls.Waiting == 1
	})
	if o.Calls != want || len(o.Sessions) != 1 || o.Sessions[0].Calls != want || o.Sessions[0].Name != "test" || len(o.Ended) != 0 {
		t.Fatalf("%+v, sessions %+v", o.Calls, o.Sessions)
	}
	if e := o.Troubles[0]; e.State != CallFailed || e.Name != "pc" || e.Function != "work" || e.Time.IsZero() {
		t.Errorf("trouble %+v", e)
	}
	m.send(uapi.TypeBye, 0, nil)
	waitUntil(t, "the session's end", func() bool {
		o, _ = w.hub.Overview()
		return len(o.Ended) == 1
	})
	want = Counts{Done: 1, Failed: 1, Dropped: 2}
	if o.Calls != want || o.Ended[0].Calls != want || o.Ended[0].Ended.IsZero() || len(o.Sessions) != 0 {
		t.Errorf("%+v, ended %+v", o.Calls, o.Ended)
	}
}

func TestOverviewCountsLostRuns(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(5, nil)
	l := a.nextLease()
	a.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonDied, Status: 139, Text: "signal 11"}, nil)
	var o Overview
	waitUntil(t, "the lost run", func() bool {
		o, _ = w.hub.Overview()
		return o.Calls.Again == 1
	})
	if e := o.Troubles[0]; len(o.Troubles) != 1 || e.State != CallRequeued || e.Text != "pc: signal 11" || o.Sessions[0].Calls.Again != 1 {
		t.Errorf("%+v, %+v", o.Troubles, o.Sessions)
	}
}

// A call that a node holds for later does not run: a node never seems to run more calls than
// it has slots. The event of each call says how many run at that moment.
func TestCallsHeldAheadDoNotRun(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	runs := func(state string, call uint64, want int) {
		t.Helper()
		e := m.waitForEvent(state, func(e Event) bool { return e.Type == "call" && e.State == state && e.Call == call })
		if e.Running != want {
			t.Errorf("call %d is %s, and %d run; want %d", call, state, e.Running, want)
		}
	}
	m.call(2, []byte("x"))
	first := a.nextLease()
	runs(CallLeased, first.Call, 1)
	a.sendDone(first, []byte("a"))
	m.readResult(2)
	runs(CallDone, first.Call, 0)
	a.askLeases(1)
	m.call(3, []byte("x"))
	m.call(4, []byte("x"))
	second, third := a.nextLease(), a.nextLease()
	runs(CallLeased, third.Call, 1)
	if n := w.hub.Nodes()[0]; n.Running != 1 || n.Ahead != 1 || n.Held() != 2 || n.Slots != 1 {
		t.Errorf("%+v", n)
	}
	o, err := w.cli.Overview(t.Context())
	if err != nil || o.Calls.Running != 1 || o.Calls.Waiting != 1 {
		t.Errorf("%+v: %v", o.Calls, err)
	}
	states := map[string]int{}
	list, err := w.hub.Calls("")
	for _, c := range list.List {
		states[c.State]++
	}
	if err != nil || states[CallRunning] != 1 || states[CallWaiting] != 1 {
		t.Errorf("%v: %v", states, err)
	}
	a.sendDone(second, []byte("a"))
	runs(CallDone, second.Call, 1)
	m.readResult(3)
	if n := w.hub.Nodes()[0]; n.Running != 1 || n.Ahead != 0 {
		t.Errorf("%+v", n)
	}
}

// Intervals of the last ten minutes are shown, also those in which nothing happened.
func TestTallyOfIntervals(t *testing.T) {
	began := time.Unix(1e6, 0)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	v := tally{began: began}
	var of Counts
	v.note(&Event{Time: at(3), State: CallDone, Sent: 5, Fetched: 2, Received: 3}, &of)
	v.note(&Event{Time: at(25), State: CallFailed}, &of)
	v.note(&Event{Time: at(25), State: CallRequeued}, &of)
	v.note(&Event{Time: at(25), State: CallLeased}, &of)
	got := v.history(at(29))
	if len(got) != 3 || got[0] != (Interval{Began: began, Done: 1, Sent: 7, Received: 3}) || got[1] != (Interval{Began: at(10)}) || got[2] != (Interval{Began: at(20), Failed: 1, Again: 1}) {
		t.Errorf("%+v", got)
	}
	if got = v.history(at(603)); len(got) != intervals || got[0].Began != at(10) || got[0].Done != 0 || got[1].Failed != 1 || got[59] != (Interval{Began: at(600)}) {
		t.Errorf("an interval later: %+v", got)
	}
	v.note(&Event{Time: at(603), State: CallDone}, &of)
	if got = v.history(at(603)); got[59] != (Interval{Began: at(600), Done: 1}) {
		t.Errorf("%+v", got[59])
	}
	v.note(&Event{Time: at(-100), State: CallDone}, &of) // the clock was set back
	if v.counts.Done != 3 || of.Done != 3 || of.Failed != 1 || of.Again != 1 {
		t.Errorf("%+v", v.counts)
	}
}

func TestTallyKeepsTheLast(t *testing.T) {
	v := tally{began: time.Unix(0, 0)}
	var of Counts
	for n := range troublesMax + 7 {
		v.note(&Event{Time: time.Unix(1, 0), State: CallFailed, Call: uint64(n)}, &of)
	}
	if got := newestFirst(v.troubles); len(got) != troublesMax || got[0].Call != troublesMax+6 || got[troublesMax-1].Call != 7 {
		t.Errorf("%d, from %d to %d", len(got), got[0].Call, got[len(got)-1].Call)
	}
}

func TestSubstrates(t *testing.T) {
	o := Overview{Nodes: []NodeInfo{
		{Substrate: "linux", State: NodeUp, Slots: 4, Free: 1, Done: 5, Failed: 1},
		{Substrate: "bee-windows", State: NodeUp, Slots: 2, Free: 2, Done: 1},
		{Substrate: "linux", State: NodeDown, Slots: 8, Free: 8, Done: 2, Failed: 1},
	}}
	got := o.Substrates()
	if len(got) != 2 || got[0] != (Substrate{"bee-windows", 1, 1, 2, 0, 1, 0}) || got[1] != (Substrate{"linux", 2, 1, 4, 3, 7, 2}) {
		t.Errorf("%+v", got)
	}
}
