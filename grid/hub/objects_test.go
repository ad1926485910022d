// SPDX-License-Identifier: MIT

package hub

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/grid/engine"
	"skep/grid/proto"
	"skep/internal/uapi"
)

// Functions of module class.
const (
	fnAdd   = iota // of the class sum, which has state; it may call its master
	fnPlain        // of the class free, which has none
	fnAlone        // of no class
	fnSum          // the classes
	fnFree
)

// newClassTrio returns a master that has bound module class, and an agent that keeps objects.
func newClassTrio(t *testing.T, slots int) (*world, *fakeMaster, *fakeAgent) {
	t.Helper()
	w := newWorld(t, func(c *Config) { c.hostIn, c.Keep = 100*time.Millisecond, true })
	m := uapi.Manifest{Name: "class", Functions: []uapi.Function{
		{Name: "add", Of: fnSum + 1, Params: []uapi.Param{{Name: "step", Type: uapi.MasterFunction, Mode: uapi.ModeIn, Refers: 5}}},
		{Name: "plain", Of: fnFree + 1}, {Name: "alone"},
		{Name: "sum", Class: true, State: true}, {Name: "free", Class: true}, {Name: "step", Callback: true}}}
	b, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w.addProgram("class.rex", makeProgram(b, elf.PT_LOAD))
	return w, w.bindClass(), w.startHome(slots, "b")
}

func (w *world) bindClass() *fakeMaster {
	w.t.Helper()
	m := w.startMaster()
	m.send(uapi.TypeBind, 1, []byte("class"))
	v, err := uapi.ParseBound(m.nextFrame(uapi.TypeBound, 1).Payload)
	if err != nil {
		w.t.Fatal(err)
	}
	m.module = v.Module
	return m
}

// startHome returns an agent that keeps objects and asks for leases.
func (w *world) startHome(slots int, boot string) *fakeAgent {
	w.t.Helper()
	a := w.join()
	a.connect()
	a.helloHome(slots, boot)
	return a
}

func (a *fakeAgent) helloHome(slots int, boot string) {
	a.w.t.Helper()
	v := a.helloWith(proto.Hello{Revision: proto.Revision, Name: "x", OS: "linux", Substrate: "linux", CPUs: 1, Memory: 1 << 40,
		Slots: slots, Boot: boot, Apart: true, Callbacks: true, Objects: true})
	if v.Problem != nil {
		a.w.t.Fatal(v.Problem)
	}
	a.askLeases(slots)
}

// makeObject makes an object of class sum.
func (m *fakeMaster) makeObject(number uint64) {
	m.t.Helper()
	m.send(uapi.TypeObject, number, uapi.Append(nil, uapi.Object{Module: m.module, Class: fnSum}))
	m.nextFrame(uapi.TypeDone, number)
}

func (m *fakeMaster) endObject(number uint64) {
	m.t.Helper()
	if _, err := m.raw.Write(uapi.Append(nil, uapi.Frame{Type: uapi.TypeObject, Flags: uapi.FlagLast, Call: number})); err != nil {
		m.t.Fatal(err)
	}
}

// sendCall sends a CALL with flags and numbers at its end.
func (m *fakeMaster) sendCall(flags uint16, call uint64, function uint32, numbers ...uint64) {
	m.t.Helper()
	b := uapi.Append(nil, uapi.Call{Module: m.module, Function: function, Length: 4, Result: 1 << 20})
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	head := uapi.Append(nil, uapi.Frame{Length: uint32(len(b)), Type: uapi.TypeCall, Flags: flags, Call: call})
	if _, err := m.raw.Write(append(head, b...)); err != nil {
		m.t.Fatal(err)
	}
}

// method calls method add of an object.
func (m *fakeMaster) method(call, object uint64) {
	m.t.Helper()
	m.sendCall(uapi.FlagMethod, call, fnAdd, object)
	m.sendData(call, []byte("args"))
}

func (m *fakeMaster) wantFailure(call uint64, code uapi.ErrorCode, text string) {
	m.t.Helper()
	if e := m.readFailure(call); e.Code != code || !strings.Contains(e.Text, text) {
		m.t.Errorf("call %d: %d %q, want %d %q", call, e.Code, e.Text, code, text)
	}
}

func (a *fakeAgent) fail(l fakeLease, r proto.Reason, text string) {
	a.w.t.Helper()
	a.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: r, Code: uapi.EWorker, Text: text}, nil)
}

// Methods of an object go to its node one at a time and in the order of their calls, whichever
// arguments come first. Only the first may start the worker.
func TestMethodsRunInOrder(t *testing.T) {
	_, m, a := newClassTrio(t, 4)
	m.makeObject(100)
	m.makeObject(101)
	m.sendCall(uapi.FlagMethod, 7, fnAdd, 100)
	m.method(8, 100)
	m.method(9, 101)
	other := a.nextLease()
	if other.Client != 9 || other.Worker.Object != 101 || !other.First {
		t.Errorf("%+v", other.Lease)
	}
	m.sendData(7, []byte("args"))
	l := a.nextLease()
	if l.Client != 7 || l.Worker.Object != 100 || !l.First {
		t.Errorf("%+v", l.Lease)
	}
	if len(a.leases) != 0 {
		t.Error("two methods of one object run")
	}
	a.sendDone(l, nil)
	m.readResult(7)
	l = a.nextLease()
	if l.Client != 8 || l.Worker.Object != 100 || l.First {
		t.Errorf("%+v", l.Lease)
	}
	a.fail(l, proto.ReasonError, "its own error")
	m.wantFailure(8, uapi.EWorker, "its own error")
	m.method(10, 100)
	if l = a.nextLease(); l.Client != 10 || l.First {
		t.Errorf("after an error of its own: %+v", l.Lease)
	}
	a.sendDone(l, nil)
	m.readResult(10)
	a.askLeases(1)
	m.sendCall(0, 11, fnAlone)
	m.sendData(11, []byte("args"))
	if l = a.nextLease(); l.Worker.Object != 0 || l.First {
		t.Errorf("a function: %+v", l.Lease)
	}
}

// Whatever may have changed an object without its master's knowledge loses it, by name.
func TestLostObjects(t *testing.T) {
	const lost = "the object of the class sum on the node pc is lost: "
	for name, c := range map[string]struct {
		lose func(w *world, m *fakeMaster, a *fakeAgent, l fakeLease)
		want string
		code uapi.ErrorCode // of the method that runs
		text string
	}{
		"the worker": {func(_ *world, _ *fakeMaster, a *fakeAgent, l fakeLease) { a.fail(l, proto.ReasonDied, "it died") },
			lost + "pc: it died" + onceMethod, uapi.EWorker, lost},
		"the lease": {func(_ *world, _ *fakeMaster, a *fakeAgent, l fakeLease) {
			a.fail(l, proto.ReasonNode, "its worker has ended")
		},
			lost + "pc: its worker has ended" + onceMethod, uapi.EWorker, lost},
		"a cancelled method": {func(_ *world, m *fakeMaster, _ *fakeAgent, _ fakeLease) { m.send(uapi.TypeCancel, 7, nil) },
			lost + "its method add ended while a node had it", uapi.ECancelled, "cancelled"},
		"the node": {func(_ *world, _ *fakeMaster, a *fakeAgent, _ fakeLease) { a.helloHome(2, "other") },
			lost, uapi.EWorker, lost},
	} {
		t.Run(name, func(t *testing.T) {
			w, m, a := newClassTrio(t, 2)
			m.makeObject(100)
			m.method(7, 100)
			l := a.nextLease()
			m.method(8, 100)
			c.lose(w, m, a, l)
			m.wantFailure(7, c.code, c.text)
			m.wantFailure(8, uapi.EWorker, c.want)
			m.method(9, 100)
			m.wantFailure(9, uapi.EWorker, c.want)
			m.makeObject(101) // another one has nothing of it
			m.method(10, 101)
			if l := a.nextLease(); l.Client != 10 || !l.First || l.Worker.Object != 101 {
				t.Errorf("%+v", l.Lease)
			}
		})
	}
}

// An agent that started again between two methods has nothing of its objects.
func TestObjectsOfAnAgentThatStartedAgain(t *testing.T) {
	_, m, a := newClassTrio(t, 2)
	m.makeObject(100)
	m.method(7, 100)
	a.sendDone(a.nextLease(), nil)
	m.readResult(7)
	a.helloHome(2, "b") // only its connection broke
	m.method(8, 100)
	if l := a.nextLease(); l.Client != 8 || l.First {
		t.Errorf("%+v", l.Lease)
	} else {
		a.sendDone(l, nil)
		m.readResult(8)
	}
	a.helloHome(2, "c")
	m.method(9, 100)
	m.wantFailure(9, uapi.EWorker, "the node's agent was started again")
}

// The next hub knows no objects: their methods fail, those that a node has too, and no worker
// begins in the place of theirs.
func TestObjectsAndTheNextHub(t *testing.T) {
	w, m, a := newClassTrio(t, 2)
	m.makeObject(100)
	m.method(7, 100)
	l := a.nextLease()
	w.crash(nil)
	r := w.returnMaster(m)
	a.returnAgent(2, carriedLease(l))
	send := func(flags uint16, call uint64) {
		b := uapi.Append(nil, uapi.Call{Module: 1, Function: fnAdd, Result: 1 << 20})
		r.send(uapi.TypeCall, flags|uapi.FlagMethod, call, binary.LittleEndian.AppendUint64(b, 100))
		r.send(uapi.TypeData, uapi.FlagLast, call, nil)
		if text := r.readError(call); !strings.Contains(text, "the object of add is lost: the hub was started again") {
			t.Errorf("call %d: %s", call, text)
		}
	}
	send(uapi.FlagAgain, 7)
	send(0, 8)
	r.send(uapi.TypeObject, 0, 101, uapi.Append(nil, uapi.Object{Module: 1, Class: fnSum}))
	if f := r.read(); f.Type != uapi.TypeDone || f.Call != 101 {
		t.Errorf("%+v", f)
	}
}

// An object that its master ends ends on its node, after its methods.
func TestEndOfObjects(t *testing.T) {
	w, m, a := newClassTrio(t, 2)
	forgets := make(chan proto.Forget, 10)
	a.forgets = forgets
	m.makeObject(99)
	m.makeObject(100)
	m.method(7, 100)
	l := a.nextLease()
	m.method(8, 100)
	for _, number := range []uint64{99, 100, 100, 12345} {
		m.endObject(number)
	}
	a.sendDone(l, nil)
	m.readResult(7)
	l = a.nextLease()
	if len(forgets) != 0 {
		t.Errorf("it ends before its last method: %+v", <-forgets)
	}
	a.sendDone(l, nil)
	m.readResult(8)
	if f := receiveFrom(t, "the end", forgets); f.Object != 100 || f.Session != l.Session || f.Blob != "" {
		t.Errorf("%+v", f)
	}
	m.method(9, 100)
	m.wantFailure(9, uapi.EWorker, "the object of add is lost: the hub was started again, or the object was ended")
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	for _, m := range w.hub.masters {
		if len(m.objects) != 0 {
			t.Errorf("%d objects are left", len(m.objects))
		}
	}
}

func TestObjectsAreRefused(t *testing.T) {
	_, m, a := newClassTrio(t, 2)
	for i, c := range []struct {
		module, class uint32
		code          uapi.ErrorCode
		text          string
	}{
		{9, fnSum, uapi.ENoModule, "no module has the handle 9"},
		{m.module, fnAdd, uapi.ENoFunction, "module class has no class 0"},
		{m.module, 99, uapi.ENoFunction, "module class has no class 99"},
	} {
		number := uint64(50 + i)
		m.send(uapi.TypeObject, number, uapi.Append(nil, uapi.Object{Module: c.module, Class: c.class}))
		m.wantFailure(number, c.code, c.text)
	}
	m.makeObject(100)
	for i, c := range []struct {
		function, object uint32
		code             uapi.ErrorCode
		text             string
	}{
		{fnAdd, 0, uapi.ERefused, "add is a method of the class sum, which has state: it needs an object"},
		{fnSum, 0, uapi.ENoFunction, "sum of module class is a class, which cannot be called"},
		{fnPlain, 100, uapi.ENoFunction, "plain is no method of the class sum"},
		{fnAlone, 100, uapi.ENoFunction, "alone is no method of the class sum"},
		{fnAdd, 101, uapi.EWorker, "the object of add is lost"},
	} {
		call := uint64(60 + i)
		if c.object == 0 {
			m.sendCall(0, call, c.function)
		} else {
			m.sendCall(uapi.FlagMethod, call, c.function, uint64(c.object))
		}
		m.sendData(call, []byte("args"))
		m.wantFailure(call, c.code, c.text)
	}
	m.sendCall(0, 70, fnPlain) // its class has no state
	m.sendData(70, []byte("args"))
	a.nextLease()
	m.send(uapi.TypeObject, 100, uapi.Append(nil, uapi.Object{Module: m.module, Class: fnSum}))
	m.wantFailure(0, uapi.EProtocol, "call number 100 is 0 or in use")
}

// Only agents that know objects get one, and they share them.
func TestHomesOfObjects(t *testing.T) {
	w, m, a := newClassTrio(t, 1)
	b := w.startHome(2, "b")
	w.startAgent(4)
	for i := range uint64(3) {
		m.makeObject(100 + i)
		m.method(7+i, 100+i)
	}
	if x, y := a.nextLease(), b.nextLease(); x.Worker.Object+y.Worker.Object == 0 {
		t.Error("they have no objects")
	}
	b.nextLease()
	other := newWorld(t, func(c *Config) { c.hostIn = time.Millisecond })
	program, err := os.ReadFile(w.dirs + "/class.rex")
	if err != nil {
		t.Fatal(err)
	}
	other.addProgram("class.rex", program)
	other.startAgent(1)
	n := other.bindClass()
	n.send(uapi.TypeObject, 100, uapi.Append(nil, uapi.Object{Module: n.module, Class: fnSum}))
	n.wantFailure(100, uapi.ENoNode, "can keep an object")
}

// A function of the master for which a method waits cannot call methods of the same object.
func TestInnerMethods(t *testing.T) {
	_, m, a := newClassTrio(t, 2)
	m.makeObject(100)
	m.makeObject(101)
	m.method(7, 100)
	l := a.nextLease()
	answer := a.ask(l, backPayload(0, 1, ""))
	m.nextFrame(uapi.TypeCallback, 7)
	m.sendCall(uapi.FlagMethod|uapi.FlagInner, 8, fnAdd, 7, 100)
	m.sendData(8, []byte("args"))
	m.wantFailure(8, uapi.ERefused, "add cannot be called now: a method of the same object waits for the function that calls it")
	m.sendCall(uapi.FlagMethod|uapi.FlagInner, 9, fnAdd, 7, 101)
	m.sendData(9, []byte("args"))
	in := a.nextLease()
	if in.Client != 9 || in.Worker.Object != 101 {
		t.Errorf("%+v", in.Lease)
	}
	a.sendDone(in, nil)
	m.readResult(9)
	m.send(uapi.TypeReturn, 7, backPayload(0, 1, ""))
	wantAnswer(t, answer, http.StatusOK, "")
	a.sendDone(l, nil)
	m.readResult(7)
}

// The ledger has the beginning and the end of each object, and names the object of a method.
func TestObjectsInTheLedger(t *testing.T) {
	w, m, a := newClassTrio(t, 4)
	objects := func() int { return w.hub.Nodes()[0].Objects }
	for i := range uint64(3) {
		m.makeObject(100 + i)
	}
	if n := objects(); n != 3 {
		t.Errorf("the node has %d objects", n)
	}
	m.method(7, 101)
	l := a.nextLease()
	a.fail(l, proto.ReasonDied, "it died")
	m.wantFailure(7, uapi.EWorker, "it died")
	if n := objects(); n != 2 {
		t.Errorf("the node has %d objects that are not lost", n)
	}
	m.endObject(100)
	waitUntil(t, "the end of an object", func() bool { return objects() == 1 })
	m.raw.Close()
	waitUntil(t, "the end of the session", func() bool { return objects() == 0 })
	want := []string{"0 100 made sum", "0 101 made sum", "0 102 made sum", "1 101 queued add", "1 101 leased add",
		"0 101 lost the object of the class sum on the node pc is lost: ", "1 101 failed ", "0 100 ended sum", "0 101 ended sum", "0 102 ended sum"}
	var list []engine.Entry
	waitUntil(t, "the entries", func() bool {
		var err error
		if list, err = w.cli.Ledger(t.Context(), LedgerQuery{Session: l.Session}); err != nil {
			t.Fatal(err)
		}
		return len(list) >= len(want)
	})
	slices.SortStableFunc(list[max(0, len(list)-2):], func(x, y engine.Entry) int { return cmp.Compare(x.Object, y.Object) })
	for i, e := range list {
		about := fmt.Sprintf("%d %d %s %s", min(e.Call, 1), e.Object, e.State, e.Text)
		if i >= len(want) || !strings.HasPrefix(about, want[i]) || e.Call == 0 && e.Name != "pc" || e.Time.IsZero() {
			t.Errorf("entry %d: %s: %+v", i, about, e)
		}
	}
}
