// SPDX-License-Identifier: MIT

package hub

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/grid/session"
	"skep/internal/uapi"
)

func keepRuns(c *Config) { c.Keep = true }

// crash replaces the hub by one that finds what a killed one would have left on the disk.
func (w *world) crash(change func(*Config)) {
	w.t.Helper()
	cfg := w.hub.cfg
	state := shortDir(w.t)
	copyTree(w.t, cfg.State, state)
	copyResults(w.t, cfg.Spool, filepath.Join(state, "spool"))
	cfg.State, cfg.Spool = state, filepath.Join(state, "spool")
	if change != nil {
		change(&cfg)
	}
	next, err := Open(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(next.Close)
	w.hub, w.cli = next, NewClient(next.ControlSocket())
}

// copyTree copies files; sockets and the engine's, which is not needed, stay.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	list, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		a, b := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case e.IsDir() && e.Name() != "spool":
			if err := os.MkdirAll(b, 0o700); err != nil {
				t.Fatal(err)
			}
			copyTree(t, a, b)
		case e.Type().IsRegular() && e.Name() != "hub.lock":
			text, err := os.ReadFile(a)
			if err == nil {
				err = os.WriteFile(b, text, 0o600)
			}
			if err != nil && !os.IsNotExist(err) { // the ledger changes
				t.Fatal(err)
			}
		}
	}
}

// A rawMaster speaks frame by frame, with flags.
type rawMaster struct {
	t *testing.T
	net.Conn
	got uint64 // bytes of the session that readAll has read
}

// returnMaster connects as a master that comes back.
func (w *world) returnMaster(m *fakeMaster) *rawMaster {
	w.t.Helper()
	c, err := net.Dial("unix", filepath.Join(w.hub.cfg.State, filepath.Base(m.socket)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(testTimeout))
	r := &rawMaster{t: w.t, Conn: c}
	r.send(uapi.TypeHello, uapi.FlagAgain, 0, uapi.Append(nil, uapi.Hello{Magic: uapi.SessionMagic, Revision: uapi.SessionRevision, Session: m.id}))
	if f := r.read(); f.Type != uapi.TypeHello || f.Flags != uapi.FlagAgain {
		w.t.Fatalf("a hub that keeps sessions answers %+v", f)
	}
	return r
}

func (r *rawMaster) send(t uapi.FrameType, flags uint16, call uint64, payload []byte) {
	r.t.Helper()
	b := uapi.Append(nil, uapi.Frame{Length: uint32(len(payload)), Type: t, Flags: flags, Call: call})
	if _, err := r.Write(append(b, payload...)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rawMaster) call(number uint64, args []byte) {
	r.send(uapi.TypeCall, uapi.FlagAgain, number, uapi.Append(nil, uapi.Call{Module: 1, Length: uint64(len(args)), Result: 1 << 20}))
	r.send(uapi.TypeData, uapi.FlagLast, number, args)
}

func (r *rawMaster) read() session.Frame {
	r.t.Helper()
	head := make([]byte, uapi.FrameSize)
	if _, err := io.ReadFull(r, head); err != nil {
		r.t.Fatal(err)
	}
	f, err := uapi.ParseFrame(head)
	if err != nil {
		r.t.Fatal(err)
	}
	payload := make([]byte, f.Length)
	if _, err := io.ReadFull(r, payload); err != nil {
		r.t.Fatal(err)
	}
	return session.Frame{Type: f.Type, Flags: f.Flags, Call: f.Call, Payload: payload}
}

// readError reads an ERROR and returns its text.
func (r *rawMaster) readError(call uint64) string {
	r.t.Helper()
	f := r.read()
	e, err := uapi.ParseError(f.Payload)
	if f.Type != uapi.TypeError || f.Call != call || err != nil {
		r.t.Fatalf("no error: %+v, %v", f, err)
	}
	return e.Text
}

// readData reads a RESULT with one frame of data.
func (r *rawMaster) readData(call uint64) string {
	r.t.Helper()
	f := r.read()
	if f.Type != uapi.TypeResult || f.Call != call {
		r.t.Fatalf("no result: %v %s", f.Type, f.Payload)
	}
	return string(r.read().Payload)
}

// returnAgent connects an agent to the next hub, with the leases that it carries.
func (a *fakeAgent) returnAgent(free int, carried ...proto.Carried) proto.Welcome {
	a.w.t.Helper()
	a.resumes = make(chan proto.Resume, 10)
	a.connect()
	v := a.helloWith(proto.Hello{Revision: proto.Revision, Name: "x", OS: "linux", Substrate: "linux", CPUs: 1,
		Memory: 1 << 40, Slots: 2, Boot: "b", Sessions: sessionsOf(carried), Carried: carried, Callbacks: true, Objects: true})
	if v.Problem != nil {
		a.w.t.Fatal(v.Problem)
	}
	a.askLeases(free)
	return v
}

func sessionsOf(list []proto.Carried) (keys []string) {
	for _, c := range list {
		keys = append(keys, c.Session)
	}
	return keys
}

func carriedLease(l fakeLease) proto.Carried {
	return proto.Carried{Session: l.Session, Client: l.Client, Call: l.Call, Fence: l.Fence}
}

// A call that runs when the hub is killed goes on: the next hub asks its node for the end, and
// grants it to nobody. Numbers of an earlier hub do not occur again, also if the clock is set back.
func TestCallGoesOn(t *testing.T) {
	for _, first := range []string{"the master", "the node"} {
		t.Run(first+" is first", func(t *testing.T) {
			w, m, a := newTrio(t, keepRuns, 2)
			m.call(7, []byte("args"))
			l := a.nextLease()
			if l.Client != 7 {
				t.Fatalf("the lease says that it is call %d of its master", l.Client)
			}
			w.clock.advance(-time.Hour)
			w.crash(nil)
			var r *rawMaster
			back := func() {
				r = w.returnMaster(m)
				r.call(7, []byte("args"))
			}
			if first == "the master" {
				back()
				waitUntil(t, "a call that waits", func() bool { w.hub.mu.Lock(); defer w.hub.mu.Unlock(); return len(w.hub.back.waiting) == 1 })
			}
			if ended := a.returnAgent(1, carriedLease(l)).Ended; len(ended) != 0 {
				t.Errorf("sessions %q were ended", ended)
			}
			if first == "the node" {
				back()
			}
			if v := receiveFrom(t, "a resume", a.resumes); v.Fence != l.Fence {
				t.Errorf("lease %d is resumed, not %d", v.Fence, l.Fence)
			}
			a.sendVerb(proto.VerbBeat, proto.Beat{Free: 1, Running: []uint64{l.Fence}}, nil)
			a.sendDone(l, []byte("result"))
			if got := r.readData(7); got != "result" {
				t.Errorf("%q", got)
			}
			r.send(uapi.TypeCall, 0, 8, uapi.Append(nil, uapi.Call{Module: 1, Result: 1 << 20}))
			r.send(uapi.TypeData, uapi.FlagLast, 8, nil)
			if next := a.nextLease(); next.Client != 8 || next.Fence <= l.Fence || next.Call <= l.Call || next.Session != l.Session {
				t.Errorf("after %+v came %+v", l.Lease, next.Lease)
			}
			if len(a.cancels) > 0 {
				t.Errorf("lease %+v was cancelled", <-a.cancels)
			}
		})
	}
}

// A node cannot take the place of another call or lease by the numbers that it claims: those of
// this hub, none at all, and those that another of its leases has.
func TestCarriedNumbersAreClaimed(t *testing.T) {
	w, m, a := newTrio(t, keepRuns, 2)
	m.call(7, []byte("args"))
	l := a.nextLease()
	w.crash(nil)
	r := w.returnMaster(m)
	r.call(7, []byte("args"))
	r.call(9, []byte("args"))
	waitUntil(t, "calls that wait", func() bool { w.hub.mu.Lock(); defer w.hub.mu.Unlock(); return len(w.hub.back.waiting) == 2 })
	later := w.hub.firstNumber + 1 // that of call 7 now
	claim := func(client, call, fence uint64) proto.Carried {
		return proto.Carried{Session: l.Session, Client: client, Call: call, Fence: fence}
	}
	// The last two have a number that the first has.
	refused := []proto.Carried{claim(9, later, l.Fence-2), claim(9, l.Call-2, later), claim(9, 0, l.Fence-3), claim(9, l.Call-3, 0),
		claim(9, l.Call, l.Fence-1), claim(9, l.Call-1, l.Fence)}
	a.returnAgent(1, append([]proto.Carried{carriedLease(l)}, refused...)...)
	for _, v := range refused {
		if got := receiveFrom(t, "a cancel", a.cancels); got.Call != v.Call || got.Fence != v.Fence {
			t.Errorf("%+v was answered by a cancel of %+v", v, got)
		}
	}
	receiveFrom(t, "a resume", a.resumes)
	a.sendDone(l, []byte("result"))
	if got := r.readData(7); got != "result" {
		t.Errorf("%q", got)
	}
	w.hub.endReturn()
	if next := a.nextLease(); next.Client != 9 || next.Call <= later-1 {
		t.Errorf("the other call got %+v", next.Lease)
	}
}

// A call that no node carries is granted again when the time to come back is over, and leases
// that nobody claims are cancelled. A second lease of a call is not needed.
func TestWhatDoesNotComeBack(t *testing.T) {
	w, m, a := newTrio(t, keepRuns, 2)
	w.join() // it may have what no other node has
	m.call(7, nil)
	m.call(8, nil)
	one, other := a.nextLease(), a.nextLease()
	w.crash(nil)
	r := w.returnMaster(m)
	r.call(7, nil)
	copied := carriedLease(one)
	copied.Fence += 100
	a.returnAgent(2, carriedLease(one), copied, carriedLease(other))
	if v := receiveFrom(t, "the end of a second lease", a.cancels); v.Fence != copied.Fence {
		t.Errorf("%+v was cancelled", v)
	}
	r.call(9, nil) // its node is away
	waitUntil(t, "a call that waits", func() bool { w.hub.mu.Lock(); defer w.hub.mu.Unlock(); return len(w.hub.back.waiting) == 1 })
	if len(a.leases) > 0 {
		t.Errorf("a call was granted too early: %+v", <-a.leases)
	}
	w.hub.endReturn()
	if v := receiveFrom(t, "the end of an unclaimed lease", a.cancels); v.Fence != other.Fence {
		t.Errorf("%+v was cancelled", v)
	}
	if l := a.nextLease(); l.Client != 9 {
		t.Errorf("%+v", l.Lease)
	}
}

// An adopted call is granted again if its node is lost or gives it back, and ends with its
// program's own error.
func TestAdoptedCallIsLost(t *testing.T) {
	for what, lose := range map[string]func(*world, *fakeAgent, fakeLease){
		"the node": func(w *world, a *fakeAgent, l fakeLease) { a.cutConnection() },
		"the lease": func(w *world, a *fakeAgent, l fakeLease) {
			w.clock.advance(adoptedMissing)
			a.sendVerb(proto.VerbBeat, proto.Beat{Running: []uint64{}}, nil)
		},
		"the transfer": func(w *world, a *fakeAgent, l fakeLease) {
			a.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonCancelled}, nil)
		},
		"": func(w *world, a *fakeAgent, l fakeLease) {
			a.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonError, Code: uapi.EArguments, Text: "no"}, nil)
		},
	} {
		t.Run(what, func(t *testing.T) {
			w, m, a := newTrio(t, keepRuns, 1)
			m.call(7, nil)
			l := a.nextLease()
			w.crash(nil)
			r := w.returnMaster(m)
			r.call(7, nil)
			a.returnAgent(0, carriedLease(l))
			receiveFrom(t, "a resume", a.resumes)
			lose(w, a, l)
			if what == "" {
				if text := r.readError(7); !strings.Contains(text, "no") {
					t.Error(text)
				}
				return
			}
			b := w.startAgent(1)
			next := b.nextLease()
			if next.Call != l.Call || next.Fence <= l.Fence || next.Client != 7 {
				t.Errorf("after %+v came %+v", l.Lease, next.Lease)
			}
			b.sendDone(next, []byte("again"))
			if got := r.readData(7); got != "again" {
				t.Errorf("%q", got)
			}
		})
	}
}

// A session that its master leaves, or does not come back to, ends on the nodes; one that is
// over or unknown, or whose record cannot be used, is refused by name.
func TestSessionsThatDoNotComeBack(t *testing.T) {
	w, m, a := newTrio(t, keepRuns, 1)
	m.call(7, nil)
	l := a.nextLease()
	w.crash(nil)
	a.returnAgent(0, carriedLease(l))
	w.hub.endReturn()
	if v := receiveFrom(t, "a release", a.releases); v.Session != l.Session {
		t.Errorf("%+v", v)
	}
	if list, _ := filepath.Glob(filepath.Join(w.hub.cfg.State, "runs", "*")); len(list) != 0 {
		t.Errorf("records %q are left", list)
	}
	w, m, _ = newTrio(t, keepRuns, 1)
	stranger := *m
	stranger.id = session.NewID()
	w.crash(nil)
	if text := w.returnMaster(&stranger).readError(0); !strings.Contains(text, "the session is over") {
		t.Error(text)
	}
	w.crash(func(c *Config) { os.RemoveAll(filepath.Join(c.State, "blobs")) })
	if text := w.returnMaster(m).readError(0); !strings.Contains(text, "a module is not stored any more") {
		t.Error(text)
	}
}

// A command line gets its run back, once, and an ended run does not come back.
func TestRunComesBack(t *testing.T) {
	w, m, _ := newTrio(t, keepRuns, 1)
	w.crash(nil)
	again, err := w.cli.RunAgain(t.Context(), m.events)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.cli.RunAgain(t.Context(), m.events); err == nil {
		t.Error("a run came back twice")
	}
	r := w.returnMaster(m)
	nextEvent(t, again, "the session", func(e Event) bool { return e.Type == "session" && e.State == "master" })
	r.send(uapi.TypeBye, 0, 0, nil)
	if err := w.cli.endRunOf(t, again); err != nil {
		t.Error(err)
	}
	again.Close()
	waitUntil(t, "the end of the record", func() bool {
		list, _ := filepath.Glob(filepath.Join(w.hub.cfg.State, "runs", "*"))
		return len(list) == 0
	})
}

func (c *Client) endRunOf(t *testing.T, s *Stream) error {
	resp, err := c.request(t.Context(), "POST", "/v1/runs/"+s.key+"/end", nil)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// A beat looks at the adopted leases of its own node. The other's is not even whole.
func TestBeatLooksAtItsOwnNode(t *testing.T) {
	now := time.Now()
	one, other := &node{}, &node{}
	h := &Hub{adopted: map[sched.Fence]*adopted{}, cfg: Config{Now: func() time.Time { return now }}}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setAdopted(7, &adopted{node: other})
	own := &adopted{node: one, seen: now.Add(-time.Second)}
	h.setAdopted(8, own)
	if list := h.hearAdopted(one, []uint64{8, 9}); len(list) != 1 || list[0] != 9 || own.seen != now {
		t.Errorf("%v, seen %v", list, own.seen)
	}
	h.dropAdopted(8)
	if len(one.adopted) != 0 || len(other.adopted) != 1 || len(h.adopted) != 1 {
		t.Errorf("%v, %v, %v", one.adopted, other.adopted, h.adopted)
	}
}

// waitLate waits until the hub waits for no node any more.
func (w *world) waitLate() {
	w.t.Helper()
	waitUntil(w.t, "the end of the first limit", func() bool { w.hub.mu.Lock(); defer w.hub.mu.Unlock(); return w.hub.back.late })
}

// A command line and a master that a busy machine did not run, or that were stopped, come back
// after the hub has ceased to wait for nodes: their run is there, and the call goes on.
func TestLateRunComesBack(t *testing.T) {
	w, m, a := newTrio(t, keepRuns, 2)
	m.call(7, nil)
	l := a.nextLease()
	w.crash(func(c *Config) { c.returnIn = 1 })
	w.waitLate()
	a.returnAgent(1, carriedLease(l))
	if _, err := w.cli.RunAgain(t.Context(), m.events); err != nil {
		t.Fatal(err)
	}
	r := w.returnMaster(m)
	r.call(7, nil)
	if v := receiveFrom(t, "a resume", a.resumes); v.Fence != l.Fence {
		t.Errorf("lease %d is resumed, not %d", v.Fence, l.Fence)
	}
	a.sendDone(l, []byte("result"))
	if got := r.readData(7); got != "result" {
		t.Errorf("%q", got)
	}
	r.call(8, nil) // no node has it, and the hub waits for none
	if next := a.nextLease(); next.Client != 8 {
		t.Errorf("%+v", next.Lease)
	}
}

// A node that comes back later than calls wait for nodes has a lease that is another's by now. A
// call that has called its master waits for its node until runs are given up.
func TestLateNodeComesBack(t *testing.T) {
	w, m, a := newTrio(t, keepRuns, 2)
	m.call(7, nil)
	l := a.nextLease()
	w.crash(func(c *Config) { c.returnIn = time.Hour })
	r := w.returnMaster(m)
	r.call(7, nil)
	waitUntil(t, "a call that waits", func() bool { w.hub.mu.Lock(); defer w.hub.mu.Unlock(); return len(w.hub.back.waiting) == 1 })
	w.hub.mu.Lock()
	w.hub.queueWaiting()
	w.hub.mu.Unlock()
	a.returnAgent(2, carriedLease(l))
	if v := receiveFrom(t, "the end of the late lease", a.cancels); v.Fence != l.Fence {
		t.Errorf("%+v was cancelled", v)
	}
	if next := a.nextLease(); next.Client != 7 || next.Fence <= l.Fence {
		t.Errorf("%+v", next.Lease)
	}
}

// A master whose command line does not come back, and one that comes back itself when its session
// is given up, hear which limit that was.
func TestLimitOfRunsIsNamed(t *testing.T) {
	for _, who := range []string{"the run", "the master"} {
		w, m, _ := newTrio(t, keepRuns, 1)
		w.crash(func(c *Config) { c.Hold = time.Hour })
		w.hub.cfg.Hold = 7 * time.Minute
		var r *rawMaster
		if who == "the run" {
			r = w.returnMaster(m)
		} else if _, err := w.cli.RunAgain(t.Context(), m.events); err != nil {
			t.Fatal(err)
		}
		w.hub.endReturn()
		if r == nil {
			r = w.returnMaster(m)
		}
		if text := r.readError(0); !strings.Contains(text, "did not reconnect within 7m0s after the hub was started again: 'skep up --keep-runs'") {
			t.Errorf("%s: %s", who, text)
		}
	}
}

// A run learns for how long it is kept, and so looked for; never less than a minute.
func TestRunKnowsHowLongItIsKept(t *testing.T) {
	for hold, want := range map[time.Duration]time.Duration{0: 2 * time.Minute, 7 * time.Minute: 7 * time.Minute, time.Second: time.Minute} {
		w := newWorld(t, func(c *Config) { c.Hold = hold })
		if m := w.startBoundMaster(); m.events.Keep() != want {
			t.Errorf("a hub that keeps runs for %v: %v", hold, m.events.Keep())
		}
	}
	if s := (&Stream{}); s.Keep() != time.Minute {
		t.Errorf("a hub that does not say it: %v", s.Keep())
	}
}

// Runs of a killed hub are kept for as long as its configuration says.
func TestRunsAreHeld(t *testing.T) {
	w, m, _ := newTrio(t, keepRuns, 1)
	w.crash(func(c *Config) { c.Hold = time.Millisecond })
	waitUntil(t, "the end of the run", func() bool { w.hub.mu.Lock(); defer w.hub.mu.Unlock(); return len(w.hub.runs) == 0 })
	if _, err := w.cli.RunAgain(t.Context(), m.events); err == nil {
		t.Error("a run that was given up came back")
	}
}

// The master of a command line that is gone hears that.
func TestMasterHearsThatItsRunIsGone(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startBoundMaster()
	m.events.Close()
	if e := m.readFailure(0); !strings.Contains(e.Text, "its 'skep run' is gone") {
		t.Errorf("%q", e.Text)
	}
}

// Once each node is back that was not removed, a call that none of them brought waits no longer.
func TestNodesAreBack(t *testing.T) {
	w, m, a := newTrio(t, keepRuns, 2)
	other, away := w.join(), w.join()
	w.crash(func(c *Config) { c.returnIn = time.Hour })
	if err := w.hub.RemoveNode(away.node.ID()); err != nil {
		t.Fatal(err)
	}
	r := w.returnMaster(m)
	r.call(7, nil)
	waitUntil(t, "a call that waits", func() bool { w.hub.mu.Lock(); defer w.hub.mu.Unlock(); return len(w.hub.back.waiting) == 1 })
	a.returnAgent(2)
	w.hub.mu.Lock()
	if len(w.hub.back.waiting) != 1 {
		t.Error("the hub waits for one of two nodes only")
	}
	w.hub.mu.Unlock()
	other.returnAgent(0)
	if l := a.nextLease(); l.Client != 7 {
		t.Errorf("%+v", l.Lease)
	}
}
