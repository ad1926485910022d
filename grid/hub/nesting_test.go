// SPDX-License-Identifier: MIT

package hub

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"skep/grid/sched"
	"skep/internal/uapi"
)

func innerPayload(module uint32, outer uint64) []byte {
	b := uapi.Append(nil, uapi.Call{Module: module, Length: 4, Result: 1 << 20})
	return binary.LittleEndian.AppendUint64(b, outer)
}

// callInner makes a call within a function that runs for another one.
func (m *fakeMaster) callInner(call, outer uint64) {
	m.t.Helper()
	b := uapi.Append(nil, uapi.Frame{Length: 32, Type: uapi.TypeCall, Flags: uapi.FlagInner, Call: call})
	if _, err := m.raw.Write(append(b, innerPayload(m.module, outer)...)); err != nil {
		m.t.Fatal(err)
	}
	m.sendData(call, []byte("args"))
}

// newFullTrio returns a call 7 that may call its master and has the only slot.
func newFullTrio(t *testing.T) (*world, *fakeMaster, *fakeAgent, fakeLease) {
	t.Helper()
	w, m, a, l := newBackTrio(t, nil)
	a.askLeases(0)
	w.hub.mu.Lock()
	w.hub.handleEvent(sched.Ask{Node: sched.NodeID(a.node.ID()), Memory: 1 << 40}) // in any order with the message
	w.hub.mu.Unlock()
	return w, m, a, l
}

// begin lets the worker of a lease call its master for the first time.
func (m *fakeMaster) begin(a *fakeAgent, l fakeLease, number uint64) <-chan asked {
	m.t.Helper()
	c := a.ask(l, backPayload(1, number, ""))
	m.nextFrame(uapi.TypeCallback, l.Client)
	return c
}

// A call lends its place to the calls that its master's function makes, until it returns; what
// waits then gets the place at the next function.
func TestInnerCalls(t *testing.T) {
	w, m, a, l := newFullTrio(t)
	m.call(8, []byte("plain"))
	answer := m.begin(a, l, 1)
	m.callInner(9, 7)
	m.callInner(10, 7)
	in := a.nextLease()
	if in.Client != 9 || !in.Extra || l.Extra {
		t.Errorf("%+v", in.Lease)
	}
	m.send(uapi.TypeReturn, 7, backPayload(1, 1, ""))
	wantAnswer(t, answer, http.StatusOK, "")
	a.sendDone(in, []byte("result"))
	m.readResult(9)
	if n := len(a.leases); n != 0 {
		t.Errorf("%d leases were granted that nothing lent", n)
	}
	answer = m.begin(a, l, 2)
	if in = a.nextLease(); in.Client != 10 || !in.Extra {
		t.Errorf("%+v", in.Lease)
	}
	m.send(uapi.TypeReturn, 7, backPayload(1, 2, ""))
	wantAnswer(t, answer, http.StatusOK, "")
	a.sendDone(in, nil)
	m.readResult(10)
	answer = m.begin(a, l, 3)
	w.hub.mu.Lock()
	if n := w.hub.sched.Lent(sched.NodeID(a.node.ID())); n != 0 {
		t.Errorf("%d places are lent after the last inner call", n)
	}
	w.hub.mu.Unlock()
	m.send(uapi.TypeReturn, 7, backPayload(1, 3, ""))
	wantAnswer(t, answer, http.StatusOK, "")
	a.sendDone(l, nil)
	m.readResult(7)
	if n := len(a.leases); n != 0 {
		t.Errorf("%d leases were granted without a slot", n)
	}
}

// Calls nest 16 deep; the next one is refused and the others go on.
func TestInnerCallsAreBounded(t *testing.T) {
	_, m, a, l := newFullTrio(t)
	for at := range uint64(nestMax) {
		m.begin(a, l, 1)
		m.callInner(8+at, 7+at)
		if l = a.nextLease(); l.Client != 8+at || !l.Extra {
			t.Fatalf("%+v", l.Lease)
		}
	}
	answer := m.begin(a, l, 1)
	m.callInner(99, l.Client)
	if e := m.readFailure(99); e.Code != uapi.ERefused || !strings.Contains(e.Text, fmt.Sprint("wait for one another ", nestMax, " deep")) {
		t.Error(e)
	}
	m.send(uapi.TypeReturn, l.Client, backPayload(1, 1, ""))
	wantAnswer(t, answer, http.StatusOK, "")
	a.sendDone(l, nil)
	m.readResult(l.Client)
}

// An inner call whose outer one is not there is a call like others; one that names none, or whose
// payload is too short for it, ends the session.
func TestInnerCallsWithoutOuter(t *testing.T) {
	_, m, a, l := newFullTrio(t)
	m.callInner(9, 1000)
	a.sendDone(l, nil)
	m.readResult(7)
	a.askLeases(1)
	if in := a.nextLease(); in.Client != 9 || in.Extra {
		t.Errorf("%+v", in.Lease)
	}
	for _, b := range [][]byte{innerPayload(1, 0), []byte("short")} {
		if _, _, err := splitNumber(b, "none"); err == nil {
			t.Errorf("%q was taken", b)
		}
	}
}

// At the next hub a call that its node has lends its place again, whether its inner call comes
// after it or before.
func TestInnerCallsAndTheNextHub(t *testing.T) {
	for _, first := range []bool{true, false} {
		w, m, a, l := newBackTrio(t, keepRuns)
		m.begin(a, l, 1)
		w.crash(nil)
		r := w.returnMaster(m)
		outer := func() {
			r.send(uapi.TypeCall, uapi.FlagAgain|uapi.FlagCalled, 7, uapi.Append(nil, uapi.Call{Module: 1, Length: 4, Result: 1 << 20}))
			r.send(uapi.TypeData, uapi.FlagLast, 7, []byte("args"))
		}
		if first {
			outer()
		}
		r.send(uapi.TypeCall, uapi.FlagInner, 9, innerPayload(1, 7))
		r.send(uapi.TypeData, uapi.FlagLast, 9, []byte("args"))
		if !first {
			outer()
		}
		a.returnAgent(0, carriedLease(l))
		in := a.nextLease()
		if in.Client != 9 || !in.Extra {
			t.Errorf("%+v", in.Lease)
		}
		a.sendVerb("done", a.doneOf(in, nil, true), nil)
		a.sendVerb("done", a.doneOf(l, nil, true), nil)
		for results := 0; results < 2; {
			switch f := r.read(); f.Type {
			case uapi.TypeResult:
				results++
			case uapi.TypeData:
			default:
				t.Fatalf("%+v", f)
			}
		}
		w.hub.mu.Lock()
		left := w.hub.sched.Lent(sched.NodeID(a.node.ID()))
		w.hub.mu.Unlock()
		if left != 0 {
			t.Errorf("%d places are lent after the end", left)
		}
	}
}
