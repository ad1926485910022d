// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/uapi"
)

// A logBuffer keeps what a hub logs.
type logBuffer struct{ syncBuffer }

func (l *logBuffer) contains(text string) bool { return strings.Contains(l.String(), text) }

func (l *logBuffer) config(c *Config) { c.Log = slog.New(slog.NewTextHandler(l, nil)) }

// failedWith answers a lease with a failure.
func (a *fakeAgent) failedWith(l fakeLease, reason proto.Reason, code uapi.ErrorCode, text string) {
	a.w.t.Helper()
	a.sendVerb(proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: reason, Code: code, Text: text}, nil)
}

func (w *world) nodeOf(a *fakeAgent) (info NodeInfo) {
	w.t.Helper()
	for _, n := range w.hub.Nodes() {
		if n.ID == a.node.ID() {
			info = n
		}
	}
	return info
}

// What a node says about a lease decides what becomes of the call and of the node. Only the
// holder of the lease may say it.
func TestReasonsOfFailures(t *testing.T) {
	for _, c := range []struct {
		reason proto.Reason
		state  string // of the node afterwards
		again  bool   // the call waits for another lease
	}{
		{proto.ReasonNode, NodeUp, true}, {proto.ReasonTransfer, NodeUp, true}, {proto.ReasonDied, NodeUp, true},
		{proto.ReasonCancelled, NodeUp, true}, {proto.ReasonRefused, NodeBarred, true}, {"of a later release", NodeUp, true},
		{proto.ReasonError, NodeUp, false}, {proto.ReasonLimit, NodeUp, false},
	} {
		t.Run(string(c.reason), func(t *testing.T) {
			t.Parallel()
			w, m, a := newTrio(t, nil, 1)
			m.call(5, nil)
			l := a.nextLease()
			events, err := w.cli.Events(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer events.Close()
			forged := l
			forged.Fence++
			a.failedWith(forged, c.reason, uapi.EArguments, "forged")
			e := nextEvent(t, events, "the refusal", func(e Event) bool { return e.State == CallRefused })
			if e.Type != "call" || e.Call != l.Call || e.Node != a.node.ID() || e.Name != "pc" {
				t.Errorf("refused: %+v", e)
			}
			if n := w.nodeOf(a); n.State != NodeUp {
				t.Errorf("another lease's failure: the node is %s", n.State)
			}
			a.failedWith(l, c.reason, uapi.EArguments, strings.Repeat("x", 2*proto.TextMax))
			want := CallFailed
			if c.again {
				want = CallRequeued
			}
			e = m.waitForEvent("the end of the lease", func(e Event) bool { return e.State == CallRequeued || e.State == CallFailed })
			if e.State != want || !strings.HasPrefix(e.Text, "pc: xxx") || strings.Count(e.Text, "x") != proto.TextMax {
				t.Errorf("the call is %s: %.20q, %d bytes", e.State, e.Text, len(e.Text))
			}
			n := w.nodeOf(a)
			if n.State != c.state || n.Failed != 1 || n.Running != 0 {
				t.Errorf("the node is %+v", n)
			}
			if c.state == NodeBarred && len(n.Problem) != proto.TextMax {
				t.Errorf("barred for %d bytes", len(n.Problem))
			}
			if !c.again {
				if e := m.readFailure(5); e.Code != uapi.EArguments {
					t.Errorf("%d %s", e.Code, e.Text)
				}
			}
		})
	}
}

// A node that is barred loses its other leases too, each once and with the reason, and they run
// elsewhere.
func TestBarredNodeLosesItsLeases(t *testing.T) {
	w, m, a := newTrio(t, nil, 2)
	m.call(5, nil)
	m.call(6, nil)
	first, second := a.nextLease(), a.nextLease()
	b := w.startAgent(2)
	a.failedWith(first, proto.ReasonRefused, 0, "unsafe")
	if c := receiveFrom(t, "a cancel", a.cancels); c.Fence != second.Fence || c.Call != second.Call {
		t.Errorf("%+v", c)
	}
	m.waitForEvent("the reason of the other", func(e Event) bool {
		return e.Call == second.Call && e.State == CallRequeued && e.Text == "its node failed a safety check"
	})
	b.sendDone(b.nextLease(), nil)
	b.sendDone(b.nextLease(), nil)
	for range 2 {
		receiveFrom(t, "a result", m.frames)
		receiveFrom(t, "its data", m.frames)
	}
	if n := w.nodeOf(a); n.Running != 0 || n.Failed != 2 || n.State != NodeBarred {
		t.Errorf("%+v", n)
	}
	if n := w.nodeOf(b); n.Running != 0 || n.Done != 2 {
		t.Errorf("%+v", n)
	}
}

// A number that is in use cannot begin something else.
func TestNumbersInUse(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startBoundMaster()
	m.sendHeader(9, 1)
	m.send(uapi.TypeModuleInit, 9, uapi.Append(nil, uapi.ModuleInit{Module: m.module, Function: 1, Length: 1}))
	if e := m.readFailure(0); e.Code != uapi.EProtocol || !strings.Contains(e.Text, "call number 9 is 0 or in use") {
		t.Errorf("%d %s", e.Code, e.Text)
	}
}

// Data of Initialize counts to the quota while it is sent and while its session lives.
func TestInitializeNeedsRoomTwice(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Quotas = Quotas{Hub: 1 << 30, Session: 3 << 20} })
	m := w.startBoundMaster()
	initialize := func(id uint64, n int) {
		m.send(uapi.TypeModuleInit, id, uapi.Append(nil, uapi.ModuleInit{Module: m.module, Function: 1, Length: uint64(n)}))
		m.sendData(id, make([]byte, n))
	}
	initialize(7, 2<<20)
	if e := m.readFailure(7); e.Code != uapi.ERefused || !strings.Contains(e.Text, "the data of Initialize cannot be taken: ") {
		t.Errorf("%d %s", e.Code, e.Text)
	}
	initialize(8, 3<<19)
	m.nextFrame(uapi.TypeDone, 8)
	initialize(9, 1000)
	m.nextFrame(uapi.TypeDone, 9)
	waitUntil(t, "what stays", func() bool { return w.hub.quota.used.Load() == 3<<19+1000 })
}

// Arguments that were lost at the hub are not the node's fault.
func TestLostArguments(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(5, []byte("x"))
	l := a.nextLease()
	w.hub.mu.Lock()
	s := w.hub.calls[sched.CallID(l.Call)].args
	w.hub.mu.Unlock()
	s.mu.Lock()
	s.err = errors.New("the disk is gone")
	s.mu.Unlock()
	a.failedWith(l, proto.ReasonTransfer, 0, "they did not arrive")
	if e := m.readFailure(5); e.Code != uapi.EInternal || e.Text != "the disk is gone" {
		t.Errorf("%d %s", e.Code, e.Text)
	}
}

// A call that the scheduler ends fails with the code that its cause has.
func TestCodesOfFailedCalls(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startBoundMaster()
	for i, c := range []struct {
		reason sched.Reason
		code   uapi.ErrorCode // of the program's own error
		want   uapi.ErrorCode
	}{
		{sched.NoFit, 0, uapi.ENoNode}, {sched.NoFit, uapi.EArguments, uapi.ENoNode}, {sched.Exhausted, 0, uapi.EWorker},
		{sched.Exhausted, uapi.EArguments, uapi.EWorker}, {sched.Fatal, uapi.EArguments, uapi.EArguments}, {sched.Fatal, 0, uapi.EInternal},
	} {
		id := uint64(i + 5)
		m.call(id, nil)
		m.waitForEvent("the call", func(e Event) bool { return e.State == CallQueued })
		w.hub.mu.Lock()
		for number, o := range w.hub.calls {
			o.code = c.code
			w.hub.failCall(sched.FailCall{Call: number, Reason: c.reason, Why: "100 %"})
		}
		w.hub.mu.Unlock()
		if e := m.readFailure(id); e.Code != c.want || e.Text != "100 %" {
			t.Errorf("%+v: %d %s", c, e.Code, e.Text)
		}
	}
}

// A lease that cannot be sent is the node's failure. The call waits for another one.
func TestLeaseThatCannotBeSent(t *testing.T) {
	var log logBuffer
	w, m, a := newTrio(t, log.config, 2)
	m.call(4, nil)
	a.nextLease() // so the hub knows both slots
	w.hub.nats.Close()
	m.call(5, nil)
	e := m.waitForEvent("the failure", func(e Event) bool { return e.State == CallRequeued })
	if !strings.Contains(e.Text, "the lease could not be sent") {
		t.Errorf("%+v", e)
	}
	if n := w.hub.Nodes()[0]; n.Running != 1 || n.Failed != 1 {
		t.Errorf("%+v", n)
	}
	// Nor can the node be told that its session has ended, or that it was removed.
	m.conn.Close()
	waitUntil(t, "the line about the session", func() bool { return log.contains("a node was not told") && log.contains("verb=release") })
	if err := w.cli.RemoveNode(t.Context(), "pc"); err != nil {
		t.Error(err)
	}
	if !log.contains("a node was not told that it was removed") || len(w.hub.Nodes()) != 0 {
		t.Errorf("%+v", w.hub.Nodes())
	}
}

// A program that cannot be sent to its node is not waited for.
func TestExecThatCannotBeSent(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	w.hub.nats.Close()
	if _, err := w.hub.newExec("x", ExecRequest{Node: a.node.ID()}, operator); err == nil || len(w.hub.execs) != 0 {
		t.Errorf("%d programs, %v", len(w.hub.execs), err)
	}
}

// A lease that is cancelled while its result arrives takes none, and what arrived is released.
func TestResultOfACancelledLease(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.callFor(5, nil, 2<<20)
	l := a.nextLease()
	body, put := io.Pipe()
	status := make(chan int, 1)
	go func() {
		resp, _ := a.request(http.MethodPut, proto.PathResult(l.Call, l.Fence), body)
		status <- resp.StatusCode
	}()
	put.Write(make([]byte, 1<<20))
	waitUntil(t, "the first half", func() bool { return w.hub.quota.used.Load() > 0 })
	m.send(uapi.TypeCancel, 5, nil)
	m.readFailure(5)
	put.Write(make([]byte, 1<<20))
	put.Close()
	if s := receiveFrom(t, "the answer", status); s != http.StatusConflict {
		t.Errorf("status %d", s)
	}
	waitUntil(t, "nothing is held", func() bool { return w.hub.quota.used.Load() == 0 && w.hub.spools.files.Load() == 0 })
}

// The last result that a lease sends counts, and only this is held.
func TestResultIsSentAgain(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.callFor(5, nil, 2<<20)
	l := a.nextLease()
	for _, n := range []int{2 << 20, 1 << 20, 300} {
		if status, text := a.putAs(l, uint64(n), randomBytes(n)); status != http.StatusNoContent {
			t.Fatalf("%d bytes: %d %s", n, status, text)
		}
		if held := w.hub.quota.used.Load(); held != int64(n) {
			t.Errorf("%d bytes are held of %d", held, n)
		}
	}
	a.sendDone(l, []byte("inline")) // which replaces them
	if _, b := m.readResult(5); string(b) != "inline" {
		t.Errorf("%d bytes", len(b))
	}
	waitUntil(t, "nothing is held", func() bool { return w.hub.quota.used.Load() == 0 && w.hub.spools.used.Load() == 0 })
}

// The end of a call drops what a node sent for it.
func TestResultOfALostCall(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.callFor(5, nil, 2<<20)
	l := a.nextLease()
	if status, text := a.putAs(l, 2<<20, randomBytes(2<<20)); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, text)
	}
	m.send(uapi.TypeCancel, 5, nil)
	m.readFailure(5)
	if n := w.hub.quota.used.Load() + w.hub.spools.files.Load(); n != 0 {
		t.Errorf("%d bytes and files are held", n)
	}
}

// Arguments that are short enough for a lease, but had to be stored in a file, are fetched.
func TestShortArgumentsInAFile(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	w.hub.spools.limit = 0
	args := randomBytes(1000)
	m.call(5, args)
	l := a.nextLease()
	if l.Inline || len(l.raw) != 0 || l.Length != 1000 {
		t.Errorf("lease %+v with %d bytes", l.Lease, len(l.raw))
	}
	if resp, b := a.request(http.MethodGet, proto.PathArgs(l.Call, l.Fence), nil); resp.StatusCode != http.StatusOK || !bytes.Equal(b, args) || resp.Trailer.Get(proto.TrailerDigest) != digestOf(args) {
		t.Errorf("%s, %d bytes", resp.Status, len(b))
	}
	a.sendDone(l, args)
	if _, b := m.readResult(5); !bytes.Equal(b, args) {
		t.Errorf("a result of %d bytes", len(b))
	}
	waitUntil(t, "nothing is held", func() bool { return w.hub.quota.used.Load() == 0 && w.hub.spools.files.Load() == 0 })
}

// A result that cannot be read back is an error of its call, and the session goes on.
func TestResultThatCannotBeReadBack(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.callFor(5, nil, 2<<20)
	l := a.nextLease()
	b := randomBytes(2 << 20)
	if status, text := a.putAs(l, 2<<20, b); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, text)
	}
	w.hub.mu.Lock()
	w.hub.calls[sched.CallID(l.Call)].leases[sched.Fence(l.Fence)].result.file.Close()
	w.hub.mu.Unlock()
	a.sendVerb(proto.VerbDone, a.doneOf(l, b, false), nil)
	m.nextFrame(uapi.TypeResult, 5)
	if e := m.readFailure(5); e.Code != uapi.EInternal || !strings.Contains(e.Text, "the result cannot be read back: ") {
		t.Errorf("%d %s", e.Code, e.Text)
	}
	m.call(6, nil)
	a.askLeases(1)
	a.sendDone(a.nextLease(), nil)
	m.readResult(6)
}

// A master that goes while a node reads its arguments breaks the node's transfer.
func TestArgumentsOfAMasterThatGoes(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.sendHeader(5, 4<<20)
	m.send(uapi.TypeData, 5, make([]byte, 1000))
	l := a.nextLease()
	resp, err := a.http.Get("https://" + w.hub.Address().String() + proto.PathArgs(l.Call, l.Fence))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil || resp.Header.Get(lengthHeader) != fmt.Sprint(4<<20) {
		t.Fatalf("%v, length %s", err, resp.Header.Get(lengthHeader))
	}
	m.conn.Abort(nil)
	if n, err := io.Copy(io.Discard, resp.Body); err == nil {
		t.Errorf("%d more bytes, then the end as if it were whole", n)
	}
}

// Numbers and lengths that are none are refused.
func TestUnreadableTransfers(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(5, []byte("x"))
	l := a.nextLease()
	good := proto.PathArgs(l.Call, l.Fence)
	for _, path := range []string{strings.Replace(good, fmt.Sprint(l.Call), "x", 1), strings.TrimSuffix(good, fmt.Sprint(l.Fence)) + "x", strings.Split(good, "?")[0]} {
		if resp, b := a.request(http.MethodGet, path, nil); resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(b), "must be numbers") {
			t.Errorf("%s: %s %s", path, resp.Status, b)
		}
	}
	for _, said := range []string{"x", "-1", fmt.Sprint(uint64(1) << 62)} {
		r, err := http.NewRequest(http.MethodPut, "https://"+w.hub.Address().String()+proto.PathResult(l.Call, l.Fence), io.MultiReader(strings.NewReader("y")))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(lengthHeader, said)
		resp, err := a.http.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("a length of %s: %s", said, resp.Status)
		}
	}
	for digest, want := range map[string]int{digestOf([]byte("none")): http.StatusNotFound, "xyz": http.StatusBadRequest} {
		resp, b := a.request(http.MethodGet, proto.PathBlob(digest), nil)
		if resp.StatusCode != want {
			t.Errorf("blob %s: %s %s", digest, resp.Status, b)
		}
	}
	resp, b := a.request(http.MethodGet, good, nil)
	if resp.StatusCode != http.StatusOK || string(b) != "x" || resp.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("the arguments: %s %q", resp.Status, b)
	}
	if n := w.nodeOf(a); n.Sent != 2 { // in the lease, and now
		t.Errorf("%d bytes were sent", n.Sent)
	}
}

// A certificate is renewed for the key that a node has, and names the node.
func TestRenewedCertificate(t *testing.T) {
	w := newWorld(t, nil)
	a := w.join()
	if resp, b := a.request(http.MethodPost, proto.PathRenew, strings.NewReader("{")); resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(b), "cannot read this request") {
		t.Errorf("no JSON: %s %s", resp.Status, b)
	}
	csr, err := a.node.CSR()
	if err != nil {
		t.Fatal(err)
	}
	before := a.node.Admission()
	body, _ := jsonBytes(proto.Renew{CSR: csr})
	resp, b := a.request(http.MethodPost, proto.PathRenew, bytes.NewReader(body))
	var j proto.Joined
	if err := jsonTo(b, &j); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s", resp.Status, b)
	}
	if j.Node != a.node.ID() || j.Name != "pc" || j.Hub != "test" || !bytes.Equal(j.CA, before.CA) || bytes.Equal(j.Certificate, before.Certificate) {
		t.Errorf("%+v", j)
	}
	admission := before
	admission.Certificate = j.Certificate
	if err := a.node.Admit(admission); err != nil {
		t.Errorf("the node refuses it: %v", err)
	}
	a.http.CloseIdleConnections()
	if _, err := a.node.TLS(proto.ALPNHTTP); err != nil {
		t.Error(err)
	}
}

// A store of tokens that cannot be read is not a wrong token.
func TestTokensThatCannotBeUsed(t *testing.T) {
	w := newWorld(t, nil)
	token := w.createToken(1, time.Hour)
	damage(t, filepath.Join(w.hub.cfg.State, "tokens.json"))
	_, err := w.postJoin(token, newNode(t), nil)
	wantProblem(t, "a damaged store", err, proto.ProblemInternal, "the hub cannot use its tokens: ")
}
