// SPDX-License-Identifier: MIT

package hub

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// startLabelled starts an agent of one slot with labels.
func (w *world) startLabelled(labels ...string) *fakeAgent {
	w.t.Helper()
	a := w.join()
	a.connect()
	a.sayLabels(labels...)
	a.askLeases(1)
	return a
}

func (a *fakeAgent) sayLabels(labels ...string) {
	a.w.t.Helper()
	v := a.helloWith(proto.Hello{Revision: proto.Revision, Name: "x", OS: "linux", Substrate: "linux", CPUs: 4, Memory: 1 << 40, Slots: 1, Boot: "b", Labels: labels})
	if v.Problem != nil {
		a.w.t.Fatal(v.Problem)
	}
}

// The calls of a run go to the nodes that it chose, and to no other that is free; so they do
// after the hub was killed.
func TestRunOnLabels(t *testing.T) {
	w := newWorld(t, keepRuns)
	plain, gpu := w.startLabelled("room=b"), w.startLabelled("room=b", "gpu=a30")
	m := w.startMasterOf(RunRequest{Name: "test", Dirs: []string{w.dirs}, On: "gpu=a30,cpus>=2"})
	m.bindModule()
	m.call(1, []byte("chosen"))
	gpu.sendDone(gpu.nextLease(), []byte("y"))
	if _, b := m.readResult(1); string(b) != "y" {
		t.Errorf("the result is %q", b)
	}
	m.call(2, []byte("chosen")) // gpu has not asked again
	other := w.startBoundMaster()
	other.call(1, []byte("any"))
	if l := plain.nextLease(); string(l.raw) != "any" {
		t.Errorf("a call with %q went to a node that its run did not choose", l.raw)
	}
	gpu.askLeases(1)
	if l := gpu.nextLease(); string(l.raw) != "chosen" || len(plain.leases) != 0 {
		t.Errorf("the chosen node got %q; the other %d more", l.raw, len(plain.leases))
	}
	w.crash(nil)
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	chosen := 0
	for _, r := range w.hub.runs {
		if r.on.String() == "gpu=a30,cpus>=2" {
			chosen++
		}
	}
	if len(w.hub.runs) != 2 || chosen != 1 {
		t.Errorf("after the crash there are %d runs, and %d chose nodes", len(w.hub.runs), chosen)
	}
}

// Programs of skep exec choose by labels too, and lists of nodes have them.
func TestNodesByLabels(t *testing.T) {
	w := newWorld(t, nil)
	w.startLabelled("room=b")
	gpu := w.startLabelled("room=b", "gpu=a30")
	for on, want := range map[string]int{"room=b": 2, "gpu=a30": 1, "gpu!=a30": 1, "room=b,gpu=a30,memory>=1G": 1, "all": 2, "any": 1} {
		if list, err := w.cli.Nodes(t.Context(), on); err != nil || len(list) != want {
			t.Errorf("%s: %d nodes, %v", on, len(list), err)
		}
	}
	_, err := w.cli.Nodes(t.Context(), "gpu=h100")
	wantProblem(t, "no node", err, proto.ProblemRequest, "no node that is up matches gpu=h100")
	if i := w.nodeOf(gpu); strings.Join(i.Labels, " ") != "room=b gpu=a30" {
		t.Errorf("the labels are %q", i.Labels)
	}
	if _, page := w.getPage("/"); !strings.Contains(page, "Labels: room=b, gpu=a30.") {
		t.Errorf("the page lacks the labels:\n%s", page)
	}
	gpu.sayLabels("gpu=none")
	if list, err := w.cli.Nodes(t.Context(), "gpu=none"); err != nil || len(list) != 1 {
		t.Errorf("after another start: %v, %v", list, err)
	}
	if v := gpu.helloWith(proto.Hello{Revision: proto.Revision, Slots: 1, Boot: "c", Labels: []string{"os=plan9"}}); v.Problem == nil || !strings.Contains(v.Problem.Text, "by itself") {
		t.Errorf("a label that changes the system: %+v", v.Problem)
	}
	if v := gpu.helloWith(proto.Hello{Revision: proto.Revision, Slots: 1, Boot: "c", Labels: []string{"a=<b>"}}); v.Problem == nil {
		t.Error("a label that is none is taken")
	}
}

// A call that is open beyond the deadline of its run ends with that reason, whether it waits or
// runs; calls of other runs stay.
func TestDeadlineOfCalls(t *testing.T) {
	w := newWorld(t, keepRuns)
	a := w.startLabelled()
	m := w.startMasterOf(RunRequest{Name: "test", Dirs: []string{w.dirs}, Deadline: 100 * time.Millisecond})
	m.bindModule()
	m.call(1, []byte("x"))
	lease := a.nextLease()
	m.call(2, []byte("x"))
	ended := map[uint64]string{}
	for range 2 {
		f := receiveFrom(t, "the end of a call", m.frames)
		e, err := uapi.ParseError(f.Payload)
		if f.Type != uapi.TypeError || err != nil || e.Code != uapi.ECancelled {
			t.Fatalf("%v %v: %s", f.Type, err, f.Payload)
		}
		ended[f.Call] = e.Text
	}
	for _, call := range []uint64{1, 2} {
		if !strings.Contains(ended[call], "within its deadline of 100ms") || !strings.Contains(ended[call], "--deadline") {
			t.Errorf("call %d: %q", call, ended[call])
		}
	}
	if c := receiveFrom(t, "the end of the lease", a.cancels); c.Fence != lease.Fence {
		t.Errorf("lease %d was cancelled, not %d", c.Fence, lease.Fence)
	}
	other := w.startBoundMaster()
	other.call(1, []byte("x"))
	a.askLeases(1)
	a.sendDone(a.nextLease(), []byte("y"))
	if _, b := other.readResult(1); string(b) != "y" {
		t.Errorf("the result is %q", b)
	}
	w.crash(nil)
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	for _, r := range w.hub.runs {
		if strings.HasSuffix(m.socket, filepath.Base(r.socket)) && r.deadline != 100*time.Millisecond {
			t.Errorf("after the crash the deadline is %v", r.deadline)
		}
	}
}
