// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"skep/grid/proto"
)

// A fakeProgram is a command `skep exec` of a user.
type fakeProgram struct {
	ended    chan execEnd
	stop     context.CancelFunc
	out, bad *syncBuffer
}

func (u *fakeUser) send() string {
	u.w.t.Helper()
	blob, err := u.cli.Program(u.w.t.Context(), filepath.Join(u.w.dirs, "mod.rex"))
	if err != nil {
		u.w.t.Fatal(err)
	}
	return blob.Digest
}

func (u *fakeUser) exec(a *fakeAgent, change func(*ExecRequest)) *fakeProgram {
	u.w.t.Helper()
	v := ExecRequest{Node: a.node.ID(), Program: u.send(), Name: "./some/mod", Args: []string{"-x"}, Env: []string{"A=b"}}
	if change != nil {
		change(&v)
	}
	ctx, stop := context.WithCancel(u.w.t.Context())
	p := &fakeProgram{make(chan execEnd, 1), stop, &syncBuffer{}, &syncBuffer{}}
	u.w.t.Cleanup(stop)
	go func() {
		status, err := u.cli.Exec(ctx, v, strings.NewReader("input"), p.out, p.bad)
		p.ended <- execEnd{status, err, p.out.String(), p.bad.String()}
	}()
	return p
}

// begin connects for the streams of a program, as its node does when it has a slot.
func (a *fakeAgent) begin(l fakeLease) (io.WriteCloser, io.Reader) {
	a.w.t.Helper()
	c, in, status := a.openStream(l.Exec.ID, l.Fence)
	if status != http.StatusSwitchingProtocols {
		a.w.t.Fatalf("the streams of %+v: %d", l.Lease, status)
	}
	return c, in
}

// noCalls waits until nothing is left of programs, and the quota of a user is as it was.
func (u *fakeUser) noCalls() {
	u.w.t.Helper()
	waitUntil(u.w.t, "the end of programs", func() bool {
		h := u.w.hub
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, s := range h.sent {
			if s.uses != 0 {
				return false
			}
		}
		return len(h.calls)+len(h.masters)+len(h.execs) == 0
	})
}

func exitFrame(status uint32) []byte { return binary.LittleEndian.AppendUint32(nil, status) }

// A program of a user runs under a lease of its node, with the user's name and limits, and its
// streams are those of the command. It is in the ledger.
func TestUserProgram(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.addUser("ada", Terms{})
	a, other := w.startAgent(1), w.startAgent(1)
	p := ada.exec(a, func(v *ExecRequest) { v.Limits = proto.Limits{Memory: 1 << 20, Wall: 7} })
	l := a.nextLease()
	if l.User != ada.id || l.Worker.Module != digestOf(encodeManifest(t)) || l.Limits != (proto.Limits{Memory: 1 << 20, Wall: 7}) || l.Name != "exec mod" || l.Client != programCall {
		t.Errorf("%+v", l.Lease)
	}
	if e := l.Exec; e == nil || e.Name != "./some/mod" || strings.Join(append(e.Args, e.Env...), " ") != "-x A=b" {
		t.Fatalf("%+v", e)
	}
	for _, c := range []struct {
		by    *fakeAgent
		fence uint64
	}{{other, l.Fence}, {a, 0}, {a, l.Fence - 1}} {
		if _, _, status := c.by.openStream(l.Exec.ID, c.fence); status != http.StatusGone {
			t.Errorf("lease %d: %d", c.fence, status)
		}
	}
	if s, err := ada.cli.Status(t.Context()); err != nil || s.Calls != 1 || s.Sessions != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	c, in := a.begin(l)
	buf := make([]byte, proto.ExecFrameMax)
	if kind, b, err := proto.ReadExec(in, buf); err != nil || kind != proto.ExecStdin || string(b) != "input" {
		t.Errorf("%d %q %v", kind, b, err)
	}
	proto.WriteExec(c, proto.ExecStdout, []byte("out"))
	proto.WriteExec(c, proto.ExecStderr, []byte("err"))
	proto.WriteExec(c, proto.ExecExit, exitFrame(3))
	c.Close()
	a.sendDone(l, nil)
	if v := receiveFrom(t, "the end", p.ended); v != (execEnd{3, nil, "out", "err"}) {
		t.Errorf("%+v", v)
	}
	ada.noCalls()
	if v := receiveFrom(t, "the end of its session", a.releases); v.Session != l.Session {
		t.Errorf("%+v", v)
	}
	waitUntil(t, "the ledger", func() bool {
		list, err := ada.cli.Ledger(t.Context(), LedgerQuery{Call: l.Call})
		return err == nil && len(list) == 3 && list[0].Text == "exec mod" && list[1].State == CallLeased && list[2].State == CallDone
	})
	if v := ada.users(); v.Stored != uint64(len(encodeManifest(t))) || v.Sessions != 0 {
		t.Errorf("%+v", v)
	}
}

func (u *fakeUser) users() UserInfo {
	u.w.t.Helper()
	list, err := u.cli.Users(u.w.t.Context())
	if err != nil || len(list) != 1 {
		u.w.t.Fatal(list, err)
	}
	return list[0]
}

// Programs and calls of a user share its slots. One that waits says so, is listed, and can be
// cancelled by its user and the operator.
func TestUserProgramsWait(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.execPoll = 10 * time.Millisecond })
	ada := w.addUser("ada", Terms{Slots: 1})
	a := w.startAgent(4)
	m := ada.startMaster()
	m.call(1, nil)
	call := a.nextLease()
	p := ada.exec(a, nil)
	waitUntil(t, "the sentence that it waits", func() bool { return strings.Contains(p.bad.String(), "waits for a slot of node") })
	list, err := ada.cli.Calls(t.Context(), "")
	if err != nil || list.All != 2 || list.List[1].Function != "exec mod" || list.List[1].State != CallWaiting || list.List[1].Run != "exec mod" {
		t.Fatalf("%+v, %v", list, err)
	}
	a.sendDone(call, nil)
	m.readResult(1)
	l := a.nextLease()
	if l.Exec == nil {
		t.Fatalf("%+v", l.Lease)
	}
	second := ada.exec(a, nil)
	waitUntil(t, "the second", func() bool { list, err = ada.cli.Calls(t.Context(), ""); return err == nil && list.All == 2 })
	if v := ada.users(); v.Running != 1 || v.Waiting != 1 || v.Sessions != 3 {
		t.Errorf("%+v", v)
	}
	if _, err := w.cli.CancelCall(t.Context(), list.List[1].Call); err != nil {
		t.Error(err)
	}
	var x *ExecError
	if v := receiveFrom(t, "the cancelled one", second.ended); !errors.As(v.err, &x) || !strings.Contains(x.Text, "cancelled with 'skep cancel'") {
		t.Errorf("%+v", v)
	}
	c, _ := a.begin(l)
	if _, err := ada.cli.CancelCalls(t.Context(), l.Session); err != nil {
		t.Error(err)
	}
	if v := receiveFrom(t, "the other", p.ended); !errors.As(v.err, &x) || !strings.Contains(x.Text, "cancelled with 'skep cancel'") {
		t.Errorf("%+v", v)
	}
	if v := receiveFrom(t, "the cancel", a.cancels); v.Fence != l.Fence {
		t.Errorf("%+v", v)
	}
	c.Close()
	m.conn.Close()
	ada.noCalls()
}

// A program whose lease is lost does not begin anew once its node has its streams; before that
// it may.
func TestUserProgramBeginsOnce(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.addUser("ada", Terms{})
	a := w.startAgent(2)
	p := ada.exec(a, nil)
	l := a.nextLease()
	a.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: proto.ReasonCancelled, Text: "not yet"}, nil)
	again := a.nextLease()
	if again.Call != l.Call || again.Fence == l.Fence || again.Exec == nil {
		t.Fatalf("%+v", again.Lease)
	}
	if _, _, status := a.openStream(l.Exec.ID, l.Fence); status != http.StatusGone {
		t.Errorf("the lease that was given back: %d", status)
	}
	a.begin(again)
	a.askLeases(2)
	a.sendVerb(proto.VerbFailed, proto.Failed{Call: again.Call, Fence: again.Fence, Reason: proto.ReasonCancelled, Text: "its owner needs it"}, nil)
	var x *ExecError
	if v := receiveFrom(t, "the end", p.ended); !errors.As(v.err, &x) || x.Kind != proto.ExecGone || !strings.Contains(x.Text, "its owner needs it") {
		t.Errorf("%+v", v)
	}
	ada.noCalls()

	p = ada.exec(a, nil)
	l = a.nextLease()
	if l.Call == again.Call {
		t.Error("the program begins anew")
	}
	a.begin(l)
	a.stayAway()
	a.connect()
	a.helloWith(proto.Hello{Revision: proto.Revision, Slots: 2, Memory: 1 << 40, Substrate: "linux", Boot: "other", Apart: true, Programs: true})
	if v := receiveFrom(t, "the end", p.ended); !errors.As(v.err, &x) || !strings.Contains(x.Text, "started again") {
		t.Errorf("%+v", v)
	}
	ada.noCalls()
}

// A program ends with its command, whether it waits or runs, and with its account, also if the
// command reads nothing.
func TestUserProgramEndsWithItsCommand(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.execPoll, c.execDrain = 10*time.Millisecond, 50*time.Millisecond })
	ada := w.addUser("ada", Terms{Slots: 1})
	a := w.startAgent(2)
	runs := ada.exec(a, nil)
	l := a.nextLease()
	waits := ada.exec(a, nil)
	waitUntil(t, "two", func() bool { v, err := ada.cli.Calls(t.Context(), ""); return err == nil && v.All == 2 })
	waits.stop()
	waitUntil(t, "one", func() bool { v, err := ada.cli.Calls(t.Context(), ""); return err == nil && v.All == 1 })
	_, in := a.begin(l)
	runs.stop()
	if _, err := io.Copy(io.Discard, in); err != nil && !errors.Is(err, io.EOF) {
		t.Log(err) // its end is what counts
	}
	if v := receiveFrom(t, "the cancel", a.cancels); v.Fence != l.Fence {
		t.Errorf("%+v", v)
	}
	ada.noCalls()

	a.askLeases(2)
	conn, _, err := ada.cli.upgrade(t.Context(), ExecRequest{Node: a.node.ID(), Program: ada.send(), Name: "mod"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, _ := a.begin(a.nextLease())
	go func() {
		for proto.WriteExec(c, proto.ExecStdout, make([]byte, proto.ExecFrameMax)) == nil {
		}
	}()
	if err := w.cli.RemoveUser(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	ada.noCalls()
}

// A syncBuffer is read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
