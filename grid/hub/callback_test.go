// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"debug/elf"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/uapi"
)

// addBack adds module back, whose function 0 may call parameter 1, a function of its master.
func (w *world) addBack() {
	w.t.Helper()
	m := uapi.Manifest{Name: "back", Functions: []uapi.Function{
		{Name: "solve", Params: []uapi.Param{{Name: "n", Type: uapi.Int, Mode: uapi.ModeIn},
			{Name: "step", Type: uapi.MasterFunction, Mode: uapi.ModeIn, Refers: 1}}},
		{Name: "step", Callback: true}}}
	b, err := m.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	w.addProgram("back.rex", makeProgram(b, elf.PT_LOAD))
}

// newBackTrio returns a running call 7 that may call its master.
func newBackTrio(t *testing.T, change func(*Config)) (*world, *fakeMaster, *fakeAgent, fakeLease) {
	t.Helper()
	w := newWorld(t, change)
	w.addBack()
	m := w.startMaster()
	m.send(uapi.TypeBind, 1, []byte("back"))
	b, err := uapi.ParseBound(m.nextFrame(uapi.TypeBound, 1).Payload)
	if err != nil {
		t.Fatal(err)
	}
	m.module = b.Module
	a := w.startAgent(2)
	m.call(7, []byte("args"))
	l := a.nextLease()
	if !l.Callbacks {
		t.Fatal("the lease does not say that the function may call its master")
	}
	return w, m, a, l
}

func backPayload(param uint32, number uint64, text string) []byte {
	return append(uapi.Append(nil, uapi.Callback{Param: param, Length: uint32(len(text)), Number: number}), text...)
}

// An asked is the answer to a node's question, which may take long.
type asked struct {
	status int
	body   string
}

func (a *fakeAgent) ask(l fakeLease, payload []byte) <-chan asked {
	c := make(chan asked, 1)
	go func() {
		r, err := http.NewRequest(http.MethodPost, "https://"+a.w.hub.Address().String()+proto.PathCallback(l.Call, l.Fence), bytes.NewReader(payload))
		if err != nil {
			c <- asked{0, err.Error()}
			return
		}
		resp, err := a.http.Do(r)
		if err != nil {
			c <- asked{0, err.Error()}
			return
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		b.ReadFrom(resp.Body)
		c <- asked{resp.StatusCode, b.String()}
	}()
	return c
}

func wantAnswer(t *testing.T, c <-chan asked, status int, text string) {
	t.Helper()
	if v := receiveFrom(t, "an answer", c); v.status != status || !strings.Contains(v.body, text) {
		t.Errorf("%d %q, want %d %q", v.status, v.body, status, text)
	}
}

// A callback goes to the master once, however often its node asks, and the answer back.
func TestCallback(t *testing.T) {
	_, m, a, l := newBackTrio(t, nil)
	first := a.ask(l, backPayload(1, 1, "go"))
	if f := m.nextFrame(uapi.TypeCallback, 7); string(f.Payload) != string(backPayload(1, 1, "go")) {
		t.Errorf("%q", f.Payload)
	}
	again := a.ask(l, backPayload(1, 1, "go"))
	m.send(uapi.TypeReturn, 7, backPayload(1, 2, "late")) // of another number
	m.send(uapi.TypeReturn, 9, backPayload(1, 1, "none")) // of another call
	m.send(uapi.TypeReturn, 7, backPayload(1, 1, "gone"))
	for _, c := range []<-chan asked{first, again, a.ask(l, backPayload(1, 1, "go"))} {
		wantAnswer(t, c, http.StatusOK, string(backPayload(1, 1, "gone")))
	}
	next := a.ask(l, backPayload(1, 2, ""))
	m.nextFrame(uapi.TypeCallback, 7)
	m.send(uapi.TypeReturn, 7, backPayload(1, 2, ""))
	wantAnswer(t, next, http.StatusOK, string(backPayload(1, 2, "")))
	a.sendDone(l, []byte("result"))
	if _, b := m.readResult(7); string(b) != "result" {
		t.Errorf("%q", b)
	}
	wantAnswer(t, a.ask(l, backPayload(1, 3, "")), http.StatusConflict, proto.ProblemFence)
}

// What breaks the rules ends the call with the reason, and the lease.
func TestHostileCallbacks(t *testing.T) {
	for name, c := range map[string]struct {
		payload []byte
		want    string
	}{
		"no head":               {[]byte("x"), "cannot be read"},
		"another length":        {backPayload(1, 1, "text")[:18], "cannot be read"},
		"no parameter":          {backPayload(2, 1, ""), "called parameter 2, which is no function of its master"},
		"no function":           {backPayload(0, 1, ""), "called parameter 0, which is no function of its master"},
		"a number too early":    {backPayload(1, 2, ""), "callback 2 out of its turn"},
		"the number before all": {backPayload(1, 0, ""), "callback 0 out of its turn"},
	} {
		_, m, a, l := newBackTrio(t, nil)
		wantAnswer(t, a.ask(l, c.payload), http.StatusConflict, proto.ProblemCallback)
		if e := m.readFailure(7); e.Code != uapi.EProtocol || !strings.Contains(e.Text, c.want) {
			t.Errorf("%s: %v", name, e)
		}
		if v := receiveFrom(t, "a cancel", a.cancels); v.Fence != l.Fence {
			t.Errorf("%s: lease %d was cancelled", name, v.Fence)
		}
	}
	_, m, a, l := newBackTrio(t, nil)
	first := a.ask(l, backPayload(1, 1, ""))
	m.nextFrame(uapi.TypeCallback, 7)
	wantAnswer(t, a.ask(l, backPayload(1, 2, "")), http.StatusConflict, "callback 2 out of its turn") // the first is not answered
	wantAnswer(t, first, http.StatusConflict, errCallEnded.Error())
	if e := m.readFailure(7); !strings.Contains(e.Text, "out of its turn") {
		t.Error(e)
	}
}

// Only the node with the lease may call the master, with a frame of bounded length.
func TestCallbacksNeedTheLease(t *testing.T) {
	w, m, a, l := newBackTrio(t, nil)
	other := w.startAgent(1)
	wantAnswer(t, other.ask(l, backPayload(1, 1, "")), http.StatusConflict, proto.ProblemFence)
	l.Fence++
	wantAnswer(t, a.ask(l, backPayload(1, 1, "")), http.StatusConflict, proto.ProblemFence)
	l.Fence--
	wantAnswer(t, a.ask(l, backPayload(1, 1, strings.Repeat("x", uapi.CallbackMax+1))), http.StatusBadRequest, "cannot read")
	c := a.ask(l, backPayload(1, 1, strings.Repeat("x", uapi.CallbackMax)))
	m.nextFrame(uapi.TypeCallback, 7)
	m.send(uapi.TypeReturn, 7, backPayload(1, 1, ""))
	wantAnswer(t, c, http.StatusOK, "")
	m.send(uapi.TypeCall, 8, uapi.Append(nil, uapi.Call{Module: m.module, Function: 1}))
	if e := m.readFailure(8); e.Code != uapi.ENoFunction || !strings.Contains(e.Text, "a master's") {
		t.Errorf("a call of the master's own function: %v", e)
	}
}

// A master that takes no callback ends its call with the reason.
func TestMasterRefusesCallback(t *testing.T) {
	_, m, a, l := newBackTrio(t, nil)
	c := a.ask(l, backPayload(1, 1, ""))
	m.nextFrame(uapi.TypeCallback, 7)
	m.send(uapi.TypeError, 9, uapi.Errorf(uapi.EArguments, "of another call").Encode())
	m.send(uapi.TypeError, 7, uapi.Errorf(uapi.EArguments, "too long").Encode())
	wantAnswer(t, c, http.StatusConflict, errCallEnded.Error())
	if e := m.readFailure(7); e.Code != uapi.EArguments || e.Text != "too long" {
		t.Error(e)
	}
}

// A call that has called its master is not run again; before, it is. Agents of the release
// before get none.
func TestCallsThatCalledAreNotRepeated(t *testing.T) {
	w, m, a, l := newBackTrio(t, nil)
	die := func(l fakeLease) {
		a.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonDied, Text: "it died"}, nil)
	}
	former := w.join()
	former.connect()
	former.helloWith(proto.Hello{Revision: proto.Revision, Name: "f", OS: "linux", Substrate: "linux", CPUs: 1, Memory: 1 << 40, Slots: 1, Boot: "f", Apart: true})
	former.askLeases(1)
	die(l)
	m.waitForEvent("the call is queued again", func(e Event) bool { return e.State == CallRequeued })
	w.clock.advance(2 * time.Second) // its node gets it again
	a.askLeases(2)
	again := a.nextLease()
	if again.Client != 7 || again.Attempt != 2 || len(former.leases) != 0 {
		t.Fatalf("%+v, and %d leases of the former agent", again.Lease, len(former.leases))
	}
	c := a.ask(again, backPayload(1, 1, ""))
	m.nextFrame(uapi.TypeCallback, 7)
	m.send(uapi.TypeReturn, 7, backPayload(1, 1, ""))
	wantAnswer(t, c, http.StatusOK, "")
	die(again)
	if e := m.readFailure(7); e.Code != uapi.EWorker || !strings.Contains(e.Text, "it died; the call had called its master before, so it is not run again") {
		t.Error(e)
	}
}

// The next hub of a killed one takes the callback that a node repeats, whatever its number, and
// ends a call that has called its master if no node has it.
func TestCallbacksAndTheNextHub(t *testing.T) {
	for _, comes := range []bool{true, false} {
		w, m, a, l := newBackTrio(t, keepRuns)
		w.crash(nil)
		r := w.returnMaster(m)
		r.send(uapi.TypeCall, uapi.FlagAgain|uapi.FlagCalled, 7, uapi.Append(nil, uapi.Call{Module: 1, Length: 4, Result: 1 << 20}))
		r.send(uapi.TypeData, uapi.FlagLast, 7, []byte("args"))
		if comes {
			a.returnAgent(1, carriedLease(l))
			receiveFrom(t, "a resume", a.resumes)
			c := a.ask(l, backPayload(1, 5, "go"))
			if f := r.read(); f.Type != uapi.TypeCallback || f.Call != 7 || string(f.Payload) != string(backPayload(1, 5, "go")) {
				t.Errorf("%+v", f)
			}
			r.send(uapi.TypeReturn, 0, 7, backPayload(1, 5, "gone"))
			wantAnswer(t, c, http.StatusOK, string(backPayload(1, 5, "gone")))
			wantAnswer(t, a.ask(l, backPayload(1, 7, "")), http.StatusConflict, proto.ProblemCallback)
			if text := r.readError(7); !strings.Contains(text, "callback 7 out of its turn") {
				t.Error(text)
			}
			continue
		}
		waitUntil(t, "a call that waits", func() bool { w.hub.mu.Lock(); defer w.hub.mu.Unlock(); return len(w.hub.back.waiting) == 1 })
		if _, err := w.cli.RunAgain(t.Context(), m.events); err != nil {
			t.Fatal(err)
		}
		w.hub.mu.Lock()
		w.hub.queueWaiting()
		if len(w.hub.back.waiting) != 1 {
			t.Error("a call that cannot run again does not wait for its node any more")
		}
		w.hub.mu.Unlock()
		w.hub.endReturn()
		if text := r.readError(7); text != calledWhy {
			t.Error(text)
		}
		// One that is sent when no hub waits any more ends at once.
		r.send(uapi.TypeCall, uapi.FlagAgain|uapi.FlagCalled, 8, uapi.Append(nil, uapi.Call{Module: 1, Length: 0, Result: 1 << 20}))
		r.send(uapi.TypeData, uapi.FlagLast, 8, nil)
		if text := r.readError(8); text != calledWhy {
			t.Error(text)
		}
	}
}

// A node that loses an adopted call that has called its master ends it.
func TestAdoptedCallThatCalledIsLost(t *testing.T) {
	w, m, a, l := newBackTrio(t, func(c *Config) { c.Keep, c.Sched.Keep = true, -1 })
	w.crash(nil)
	r := w.returnMaster(m)
	r.call(7, []byte("args"))
	a.returnAgent(1, carriedLease(l))
	receiveFrom(t, "a resume", a.resumes)
	c := a.ask(l, backPayload(1, 1, ""))
	r.read()
	a.cutConnection()
	if text := r.readError(7); !strings.Contains(text, "so it is not run again") {
		t.Error(text)
	}
	if v := receiveFrom(t, "an answer", c); v.status == http.StatusOK {
		t.Errorf("%+v", v)
	}
}

// The bytes of callbacks count towards the quotas while the hub holds them.
func TestCallbacksCountTowardsQuotas(t *testing.T) {
	const half = 600 << 10
	long := strings.Repeat("x", half)
	for name, c := range map[string]struct{ asked, returned string }{
		"arguments": {strings.Repeat("x", uapi.CallbackMax), ""}, "results": {long, long},
	} {
		w, m, a, l := newBackTrio(t, nil)
		w.hub.mu.Lock()
		w.hub.calls[sched.CallID(l.Call)].caller.quota.set.Store(1 << 20)
		w.hub.mu.Unlock()
		answer := a.ask(l, backPayload(1, 1, long)) // the next one gets its room
		m.nextFrame(uapi.TypeCallback, 7)
		m.send(uapi.TypeReturn, 7, backPayload(1, 1, ""))
		wantAnswer(t, answer, http.StatusOK, "")
		answer = a.ask(l, backPayload(1, 2, c.asked))
		if c.returned != "" {
			m.nextFrame(uapi.TypeCallback, 7)
			m.send(uapi.TypeReturn, 7, backPayload(1, 2, c.returned))
		}
		wantAnswer(t, answer, http.StatusConflict, "")
		e := m.readFailure(7)
		if e.Code != uapi.ERefused || !strings.Contains(e.Text, "what solve calls in its master cannot be taken") ||
			!strings.Contains(e.Text, "quota of this session") {
			t.Errorf("%s: %v", name, e)
		}
	}
}

// What a call held is free after it, however it ends.
func TestCallbacksGiveBackTheirRoom(t *testing.T) {
	w, m, a, l := newBackTrio(t, nil)
	used := w.hub.quota.used.Load() // of the call's arguments
	c := a.ask(l, backPayload(1, 1, "arguments"))
	m.nextFrame(uapi.TypeCallback, 7)
	m.send(uapi.TypeReturn, 7, backPayload(1, 1, "results"))
	wantAnswer(t, c, http.StatusOK, "")
	if held := w.hub.quota.used.Load() - used; held != int64(len(backPayload(1, 1, "arguments"))+len(backPayload(1, 1, "results"))) {
		t.Errorf("%d bytes are held", held)
	}
	m.send(uapi.TypeCancel, 7, nil)
	m.readFailure(7)
	if held := w.hub.quota.used.Load(); held != 0 {
		t.Errorf("%d bytes are held after the end", held)
	}
}

// A lease that ends between the check of its number and the lock asks its master nothing.
func TestCallbackOfALeaseThatEnded(t *testing.T) {
	w, m, a, l := newBackTrio(t, nil)
	c, was := w.hub.leaseOf(a.node.ID(), sched.CallID(l.Call), sched.Fence(l.Fence))
	a.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonDied, Text: "it died"}, nil)
	m.waitForEvent("the call is queued again", func(e Event) bool { return e.State == CallRequeued })
	if b, err := w.hub.beginCallback(c, was, backPayload(1, 1, "")); b != nil || !errors.Is(err, errCallEnded) {
		t.Errorf("%v, %v", b, err)
	}
	if c.called {
		t.Error("the call counts as one that has called its master")
	}
}
