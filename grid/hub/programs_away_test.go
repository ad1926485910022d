// SPDX-License-Identifier: MIT

package hub

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"skep/grid/engine"
	"skep/grid/lasting"
	"skep/grid/proto"
	"skep/grid/sched"
)

// A laster is a program's streams at its node, which outlive their connection. The network between
// it and the hub is there or not.
type laster struct {
	*lasting.Conn
	a     *fakeAgent
	lease fakeLease
	line  net.Conn // the last connection
	ready chan struct{}
}

// beginLasting connects for the streams of a program, as a node of this version does.
func (a *fakeAgent) beginLasting(l fakeLease) *laster {
	a.w.t.Helper()
	s := &laster{a: a, lease: l, ready: make(chan struct{})}
	close(s.ready)
	d := &lasting.Dialer{Limits: lasting.Default}
	d.Poll = 5 * time.Millisecond
	has := false
	d.Dial = func(ctx context.Context, ours uint64) (net.Conn, uint64, error) {
		select {
		case <-s.ready:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
		c, in, resp, err := a.requestStream(l.Exec.ID, l.Fence, strconv.FormatUint(ours, 10))
		if err != nil {
			return nil, 0, err
		}
		if resp.StatusCode != http.StatusSwitchingProtocols {
			return nil, 0, lasting.ErrOver
		}
		theirs, err := strconv.ParseUint(resp.Header.Get(proto.HeaderHas), 10, 64)
		if !has {
			if resp.Header.Get(proto.HeaderKeep) != "120000" {
				a.w.t.Errorf("the hub keeps it for %q", resp.Header.Get(proto.HeaderKeep))
			}
			has, theirs, err = true, 0, nil
		}
		s.line = c
		return &hijacked{c, in}, theirs, err
	}
	c, err := d.Open(a.w.t.Context())
	if err != nil {
		a.w.t.Fatal(err)
	}
	s.Conn = c
	a.w.t.Cleanup(func() { c.Fail(net.ErrClosed) })
	return s
}

// cut breaks the connection; the next one is made when mend is called.
func (s *laster) cut() (mend func()) {
	s.ready = make(chan struct{})
	s.line.Close()
	return func() { close(s.ready) }
}

func (s *laster) write(kind proto.ExecType, b []byte) {
	s.a.w.t.Helper()
	if err := proto.WriteExec(s, kind, b); err != nil {
		s.a.w.t.Error(err)
	}
}

// awaitText waits until the command has printed so much.
func (p *fakeProgram) awaitText(t *testing.T, text string) {
	t.Helper()
	waitUntil(t, "the output "+text, func() bool { return p.out.String() == text })
}

// A program goes on where the connection of its node breaks, and so do its streams: input, output
// and exit status arrive once and in order. Its lease is the same, and its end that of the call.
func TestProgramOutlivesItsConnection(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.execPoll = 10 * time.Millisecond })
	ada := w.addUser("ada", Terms{})
	a, other := w.startAgent(2), w.startAgent(1)
	p := ada.exec(a, nil)
	l := a.nextLease()
	s := a.beginLasting(l)
	s.write(proto.ExecStdout, []byte("one "))
	p.awaitText(t, "one ")
	mend := s.cut()
	a.stayAway()
	s.write(proto.ExecStdout, []byte("two"))
	if v, err := ada.cli.Calls(t.Context(), ""); err != nil || len(v.List) != 1 || v.List[0].State != CallAway {
		t.Errorf("%+v %v", v, err)
	}
	for _, c := range []struct {
		by    *fakeAgent
		fence uint64
	}{{other, l.Fence}, {a, 0}, {a, l.Fence + 1}} {
		if _, _, resp, err := c.by.requestStream(l.Exec.ID, c.fence, "0"); err != nil || resp.StatusCode != http.StatusGone {
			t.Errorf("lease %d: %+v, %v", c.fence, resp, err)
		}
	}
	waitUntil(t, "word that it is away", func() bool { return strings.Contains(p.bad.String(), "node pc is away") })
	a.returnAgent(0, carriedLease(l))
	if r := receiveFrom(t, "a resume", a.resumes); r.Fence != l.Fence {
		t.Errorf("%+v", r)
	}
	waitUntil(t, "word that it is back", func() bool { return strings.HasSuffix(p.bad.String(), "skep: node pc is back\n") })
	mend()
	p.awaitText(t, "one two")
	in, buf := bufio.NewReader(s), make([]byte, proto.ExecFrameMax)
	if kind, b, err := proto.ReadExec(in, buf); err != nil || kind != proto.ExecStdin || string(b) != "input" {
		t.Errorf("%d %q %v", kind, b, err)
	}
	s.write(proto.ExecExit, exitFrame(3))
	s.Close()
	a.sendDone(l, nil)
	if v := receiveFrom(t, "the end", p.ended); v.status != 3 || v.err != nil || v.out != "one two" || strings.Count(v.bad, "away") != 1 {
		t.Errorf("%+v", v)
	}
	ada.noCalls()
	if n := len(a.leases) + len(a.cancels); n > 0 {
		t.Errorf("%d messages more", n)
	}
	waitUntil(t, "the ledger", func() bool { return countDone(t, w) == 1 })
}

// What a program wrote last arrives although its lease has ended, and an exit status is not taken
// back by a node that is away when it should say how the lease ended.
func TestEndOfAProgramThatIsAway(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.execDrain = 10 * time.Millisecond })
	ada := w.addUser("ada", Terms{})
	a := w.startAgent(2)
	p := ada.exec(a, nil)
	l := a.nextLease()
	s := a.beginLasting(l)
	s.write(proto.ExecStdout, []byte("one "))
	p.awaitText(t, "one ")
	mend := s.cut()
	s.write(proto.ExecStdout, []byte("two"))
	s.write(proto.ExecExit, exitFrame(0))
	s.Close()
	a.sendDone(l, nil)
	waitUntil(t, "the end of the lease", func() bool { return w.nodeOf(a).Running == 0 })
	mend()
	if v := receiveFrom(t, "the end", p.ended); v != (execEnd{0, nil, "one two", ""}) {
		t.Errorf("%+v", v)
	}
	ada.noCalls()

	a.askLeases(1)
	p = ada.exec(a, nil)
	l = a.nextLease()
	s = a.beginLasting(l)
	s.write(proto.ExecStdout, []byte("out"))
	p.awaitText(t, "out")
	a.stayAway()
	s.write(proto.ExecExit, exitFrame(4))
	s.Close()
	if v := receiveFrom(t, "the end", p.ended); v.status != 4 || v.err != nil {
		t.Errorf("%+v", v)
	}
	a.returnAgent(0, carriedLease(l))
	receiveFrom(t, "a resume", a.resumes)
	a.sendDone(l, nil)
	ada.noCalls()
	waitUntil(t, "the ledger", func() bool { return countDone(t, w) == 2 })
}

// Nor is its lease, however long the node stays away within the time for that.
func TestEndedProgramIsKeptWhileItsNodeIsAway(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.execIn = time.Millisecond })
	ada := w.addUser("ada", Terms{})
	a := w.startAgent(1)
	p := ada.exec(a, nil)
	s := a.beginLasting(a.nextLease())
	s.write(proto.ExecStdout, []byte("out"))
	p.awaitText(t, "out")
	a.stayAway()
	s.write(proto.ExecExit, exitFrame(4))
	s.Close()
	if v := receiveFrom(t, "the end", p.ended); v.status != 4 || v.err != nil {
		t.Errorf("%+v", v)
	}
	for range 50 {
		if v, err := ada.cli.Calls(t.Context(), ""); err != nil || len(v.List) != 1 || v.List[0].State != CallAway {
			t.Fatalf("%+v %v", v, err)
		}
	}
}

// A program ends with a node that does not come back in time, whether it runs there or waits.
func TestProgramsOfANodeThatStaysAway(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.addUser("ada", Terms{})
	a := w.startAgent(1)
	runs := ada.exec(a, nil)
	s := a.beginLasting(a.nextLease())
	s.write(proto.ExecStdout, nil)
	waits := ada.exec(a, nil)
	waitUntil(t, "two", func() bool { v, err := ada.cli.Calls(t.Context(), ""); return err == nil && v.All == 2 })
	s.cut()
	a.stayAway()
	w.clock.advance(sched.KeepDefault)
	for name, p := range map[string]*fakeProgram{"that ran": runs, "that waited": waits} {
		var x *ExecError
		if v := receiveFrom(t, "the end", p.ended); !errors.As(v.err, &x) || x.Kind != proto.ExecGone {
			t.Errorf("the one %s: %+v", name, v)
		}
	}
	ada.noCalls()
	list, err := w.cli.Ledger(t.Context(), LedgerQuery{Last: 100})
	if err != nil || len(list) == 0 || list[len(list)-1].State != engine.Failed {
		t.Errorf("%+v, %v", list, err)
	}
}

// execAs is exec of the operator.
func (w *world) execAs(v ExecRequest) *fakeProgram {
	w.t.Helper()
	blob, err := w.cli.Program(w.t.Context(), filepath.Join(w.dirs, "mod.rex"))
	if err != nil {
		w.t.Fatal(err)
	}
	v.Program, v.Name = blob.Digest, "./some/mod"
	ctx, stop := context.WithCancel(w.t.Context())
	p := &fakeProgram{make(chan execEnd, 1), stop, &syncBuffer{}, &syncBuffer{}}
	w.t.Cleanup(stop)
	go func() {
		status, err := w.cli.Exec(ctx, v, strings.NewReader("input"), p.out, p.bad)
		p.ended <- execEnd{status, err, p.out.String(), p.bad.String()}
	}()
	return p
}

// A program of the operator has a lease like that of a user: it waits for a slot, is listed,
// cancelled, and in the ledger. It may hold a kernel update.
func TestProgramOfTheOperator(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.execPoll = 10 * time.Millisecond })
	a := w.join()
	a.lasting = true
	a.connect()
	a.sendHello(1)
	a.askLeases(1)
	v := ExecRequest{Node: a.node.ID(), Args: []string{"-x"}, Limits: proto.Limits{Wall: 7}, Update: "fix"}
	p := w.execAs(v)
	l := a.nextLease()
	if e := l.Exec; l.User != "" || l.Name != "exec mod" || l.Limits != v.Limits || e == nil || e.Name != "./some/mod" || e.Update != "fix" || len(e.Args) != 1 || e.Args[0] != "-x" {
		t.Errorf("%+v, %+v", l.Lease, l.Exec)
	}
	second := w.execAs(v)
	waitUntil(t, "the sentence that it waits", func() bool { return strings.Contains(second.bad.String(), "waits for a slot of node pc") })
	list, err := w.cli.Calls(t.Context(), "")
	if err != nil || list.All != 2 || list.List[0].State != CallRunning || list.List[1].State != CallWaiting || list.List[1].Run != "exec mod" {
		t.Fatalf("%+v, %v", list, err)
	}
	if n := w.nodeOf(a); n.Running != 1 || n.Programs != 0 || len(a.execs) != 0 {
		t.Errorf("%+v, %d programs without a lease", n, len(a.execs))
	}
	if _, err := w.cli.CancelCall(t.Context(), list.List[1].Call); err != nil {
		t.Error(err)
	}
	var x *ExecError
	if v := receiveFrom(t, "the cancelled one", second.ended); !errors.As(v.err, &x) || !strings.Contains(x.Text, "cancelled with 'skep cancel'") {
		t.Errorf("%+v", v)
	}
	s := a.beginLasting(l)
	s.write(proto.ExecStdout, []byte("out"))
	p.awaitText(t, "out") // an agent says how a lease ended when the hub has its stream
	s.write(proto.ExecExit, exitFrame(5))
	s.Close()
	a.sendDone(l, nil)
	if v := receiveFrom(t, "the end", p.ended); v.status != 5 || v.err != nil || v.out != "out" {
		t.Errorf("%+v: %v", v, v.err)
	}
	waitUntil(t, "the ledger", func() bool {
		list, err := w.cli.Ledger(t.Context(), LedgerQuery{Call: l.Call})
		return err == nil && len(list) == 3 && list[0].Text == "exec mod" && list[2].State == engine.Done
	})
	(&fakeUser{w: w}).noCalls()
}
