// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// newIdleAgent returns an agent that starts no programs, and its hub.
func newIdleAgent(t *testing.T) (*Agent, *fakeHub) {
	t.Helper()
	h := &fakeHub{failed: map[uint64]proto.Failed{}, done: map[uint64]proto.Done{}}
	a := &Agent{config: Config{Log: t.Logf}, pool: newPool(3), hub: h, store: fakeStore{tempDir(t)},
		leases: map[uint64]*lease{}, execs: map[string]execution{}}
	a.life, a.endLife = context.WithCancel(t.Context())
	a.owner = newOwner(a, "", nil)
	return a, h
}

// giveLease enters a lease as if its call ran.
func (a *Agent) giveLease(fence uint64, session string) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	l := &lease{Lease: proto.Lease{Call: fence, Fence: fence, Session: session}, cancel: cancel, ended: make(chan struct{})}
	close(l.ended)
	a.leases[fence] = l
	a.pool.open(&l.Lease)
	return ctx
}

func encodeMessage(t *testing.T, v any) []byte {
	t.Helper()
	b, err := proto.Encode(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A message that cannot be read, and one that this agent does not know, is an error.
func TestUnreadableMessages(t *testing.T) {
	a, _ := newIdleAgent(t)
	for _, verb := range []proto.Verb{proto.VerbLease, proto.VerbCancel, proto.VerbRelease, proto.VerbExec} {
		if err := a.handleMessage(t.Context(), verb, []byte{0xff}); err == nil {
			t.Errorf("an unreadable %s was taken", verb)
		}
	}
	checkText(t, "an unknown verb", a.handleMessage(t.Context(), "dance", nil), `the hub sent "dance", which this agent does not support`)
	if len(a.leases)+len(a.execs) != 0 {
		t.Errorf("%d leases, %d programs", len(a.leases), len(a.execs))
	}
}

// The hub cancels one lease by its number.
func TestCancelledLease(t *testing.T) {
	a, _ := newIdleAgent(t)
	one, other := a.giveLease(1, "s"), a.giveLease(2, "s")
	for _, fence := range []uint64{3, 2} {
		if err := a.handleMessage(t.Context(), proto.VerbCancel, encodeMessage(t, proto.Cancel{Call: 1, Fence: fence})); err != nil {
			t.Fatal(err)
		}
	}
	if one.Err() != nil || other.Err() == nil {
		t.Errorf("%v, %v", one.Err(), other.Err())
	}
}

// The release of a session ends its leases alone, and is reported; no session is not one.
func TestReleasedSession(t *testing.T) {
	a, h := newIdleAgent(t)
	mine, other := a.giveLease(1, "mine"), a.giveLease(2, "other")
	for _, session := range []string{"", "mine"} {
		if err := a.handleMessage(t.Context(), proto.VerbRelease, encodeMessage(t, proto.Release{Session: session})); err != nil {
			t.Fatal(err)
		}
	}
	a.running.Wait()
	if mine.Err() == nil || other.Err() != nil {
		t.Errorf("%v, %v", mine.Err(), other.Err())
	}
	if len(h.order) != 1 || h.order[0] != "released mine" || a.ending != 0 {
		t.Errorf("%q, %d end", h.order, a.ending)
	}
	if names := a.pool.sessionNames(); len(names) != 1 || names[0] != "other" {
		t.Errorf("sessions %q are left", names)
	}
}

// A lease, and a program, with a number that is in use, or that comes when the agent is about
// to end, is dropped.
func TestLeasesThatAreDropped(t *testing.T) {
	a, h := newIdleAgent(t)
	running := a.giveLease(1, "s")
	a.execs["x"] = execution{cancel: func() { t.Error("the running program was cancelled") }}
	lease, exec := encodeMessage(t, proto.Lease{Call: 9, Fence: 1, Session: "t"}), encodeMessage(t, proto.Exec{ID: "x"})
	for _, stopped := range []bool{false, true} {
		if a.stopped = stopped; stopped {
			lease, exec = encodeMessage(t, proto.Lease{Call: 9, Fence: 2, Session: "t"}), encodeMessage(t, proto.Exec{ID: "y"})
		}
		if err := errors.Join(a.handleMessage(t.Context(), proto.VerbLease, lease), a.handleMessage(t.Context(), proto.VerbExec, exec)); err != nil {
			t.Fatal(err)
		}
		a.running.Wait()
		a.leasing.Wait()
	}
	if running.Err() != nil || len(a.leases) != 1 || len(a.execs) != 1 || len(h.failed)+len(h.done) != 0 || len(a.pool.sessionNames()) != 1 {
		t.Errorf("%v, %d leases, %d programs, %v, %v, sessions %q", running.Err(), len(a.leases), len(a.execs), h.failed, h.done, a.pool.sessionNames())
	}
}

// When its connection breaks an agent ends all programs; leases go on. It is idle when it has no
// program, no session and no worker that ends, and then takes nothing.
func TestEndOfAConnection(t *testing.T) {
	a, _ := newIdleAgent(t)
	ended := false
	running := a.giveLease(1, "s")
	a.execs["x"] = execution{cancel: func() { ended = true }}
	if a.stopIdle() {
		t.Error("a busy agent stopped")
	}
	if a.dropExecs(); running.Err() != nil || !ended {
		t.Errorf("%v, %v", running.Err(), ended)
	}
	delete(a.execs, "x")
	if a.stopIdle() {
		t.Error("an agent with a session stopped")
	}
	a.releaseSession("s")
	a.running.Wait()
	a.ending++
	if a.stopIdle() || a.stopped {
		t.Error("an agent whose workers end stopped")
	}
	if a.ending--; !a.stopIdle() || !a.stopped {
		t.Error("an idle agent did not stop")
	}
}

// A beat lists the leases, also when there are none, and the free slots.
func TestBeat(t *testing.T) {
	a, h := newIdleAgent(t)
	a.sendBeat()
	a.giveLease(7, "s")
	a.giveLease(8, "s")
	a.pool.taken = 1
	a.sendBeat()
	a.sendAsk()
	if len(h.beats) != 2 || h.beats[0].Running == nil || len(h.beats[0].Running) != 0 || h.beats[0].Free != 3 {
		t.Fatalf("%+v", h.beats)
	}
	if b := h.beats[1]; len(b.Running) != 2 || b.Running[0]+b.Running[1] != 15 || b.Free != 2 || b.Memory == 0 || b.Uptime <= 0 {
		t.Errorf("%+v", b)
	}
	if len(h.asks) != 1 || h.asks[0].Free != 2 || h.asks[0].Memory == 0 {
		t.Errorf("%+v", h.asks)
	}
}

// Text for the hub is bounded.
func TestTextForTheHub(t *testing.T) {
	a, h := newIdleAgent(t)
	for _, n := range []int{proto.TextMax, proto.TextMax + 1} {
		a.log(proto.Log{Session: "s", Text: strings.Repeat("x", n)})
		if got := len(failedText(&failure{text: strings.Repeat("x", n)})); got != proto.TextMax {
			t.Errorf("a failure of %d bytes has %d", n, got)
		}
	}
	if got := failedText(&failure{text: "short"}); got != "short" {
		t.Errorf("%q", got)
	}
	for _, l := range h.logs {
		if len(l.Text) != proto.TextMax {
			t.Errorf("a line of %d bytes", len(l.Text))
		}
	}
}

// A lease whose arguments are damaged, or that names no session or module, is refused.
func TestInvalidLeases(t *testing.T) {
	args := []byte("args")
	sum := sha256.Sum256(args)
	good := proto.Lease{Inline: true, Length: 4, Digest: hex.EncodeToString(sum[:]), Session: "s",
		Worker: proto.Worker{Module: strings.Repeat("0", 64)}}
	for _, c := range []struct {
		name   string
		change func(*proto.Lease)
		reason proto.Reason
	}{
		{"a good one", func(*proto.Lease) {}, ""},
		{"arguments that follow", func(l *proto.Lease) { l.Inline, l.Length = false, 99 }, ""},
		{"another length", func(l *proto.Lease) { l.Length = 5 }, proto.ReasonTransfer},
		{"another digest", func(l *proto.Lease) { l.Digest = strings.Repeat("0", 64) }, proto.ReasonTransfer},
		{"no session", func(l *proto.Lease) { l.Session = "" }, proto.ReasonNode},
		{"no module", func(l *proto.Lease) { l.Worker.Module = "" }, proto.ReasonNode},
		{"a short module", func(l *proto.Lease) { l.Worker.Module = l.Worker.Module[1:] }, proto.ReasonNode},
	} {
		l := &lease{Lease: good, args: args}
		c.change(&l.Lease)
		var f *failure
		if err := l.check(); errors.As(err, &f) != (c.reason != "") || f != nil && f.reason != c.reason {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// An inputPipe is a program's standard input.
type inputPipe struct {
	bytes.Buffer
	closed, broken bool
}

func (p *inputPipe) Write(b []byte) (int, error) {
	if p.broken || p.closed {
		return 0, os.ErrClosed
	}
	return p.Buffer.Write(b)
}

func (p *inputPipe) Close() error { p.closed = true; return nil }

// Input goes to the program until its end. What follows, and input that the program does not
// take, is read all the same.
func TestInputOfPrograms(t *testing.T) {
	frames := func(list ...any) io.Reader {
		var b bytes.Buffer
		for i := 0; i < len(list); i += 2 {
			proto.WriteExec(&b, list[i].(proto.ExecType), []byte(list[i+1].(string)))
		}
		return &b
	}
	for _, c := range []struct {
		name   string
		in     io.Reader
		broken bool
		got    string
		closed bool
		want   string
	}{
		{"input", frames(proto.ExecStdin, "a", proto.ExecStdin, "b"), false, "ab", false, "EOF"},
		{"its end", frames(proto.ExecStdin, "a", proto.ExecStdin, "", proto.ExecStdin, "c"), false, "a", true, "EOF"},
		{"a program that reads none", frames(proto.ExecStdin, "a", proto.ExecStdin, "b"), true, "", true, "EOF"},
		{"a signal", frames(proto.ExecStdin, "a", proto.ExecSignal, "\x02", proto.ExecStdin, "b"), false, "a", false, "it was interrupted"},
		{"output", frames(proto.ExecStdout, "a"), false, "", false, "an unexpected frame of type 3 for a program"},
	} {
		p := &inputPipe{broken: c.broken}
		err := execInput(c.in, p)
		checkText(t, c.name, err, c.want)
		if p.String() != c.got || p.closed != c.closed {
			t.Errorf("%s: the program got %q, its input is closed: %v", c.name, p.String(), p.closed)
		}
	}
}

// Output is cut into frames that the hub takes, each byte once.
func TestOutputOfPrograms(t *testing.T) {
	for _, n := range []int{0, 1, proto.ExecFrameMax, proto.ExecFrameMax + 1, 3*proto.ExecFrameMax + 5} {
		text := strings.Repeat("0123456789", n/10+1)[:n]
		var b bytes.Buffer
		o := execOutput{&execStream{rw: struct {
			io.Reader
			io.Writer
			io.Closer
		}{nil, &b, nil}}, proto.ExecStderr, newLines(func(string) {})}
		if got, err := o.Write([]byte(text)); got != n || err != nil {
			t.Errorf("%d of %d bytes, %v", got, n, err)
		}
		var all strings.Builder
		for buf := make([]byte, proto.ExecFrameMax); b.Len() > 0; {
			kind, p, err := proto.ReadExec(&b, buf)
			if err != nil || kind != proto.ExecStderr || len(p) == 0 {
				t.Fatalf("frame %d of %d bytes, %v", kind, len(p), err)
			}
			all.Write(p)
		}
		if all.String() != text {
			t.Errorf("%d bytes came of %d", all.Len(), n)
		}
	}
	o := execOutput{&execStream{rw: &inputStream{left: 1}}, proto.ExecStdout, nil}
	if got, err := o.Write(make([]byte, 2*proto.ExecFrameMax)); got != proto.ExecFrameMax || err == nil {
		t.Errorf("%d bytes, %v", got, err)
	}
}

// An inputStream takes so many frames.
type inputStream struct {
	io.ReadWriteCloser
	left int
}

func (s *inputStream) Write(b []byte) (int, error) {
	if s.left--; s.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(b), nil
}

// An exit status under bee needs bee's report of this start of this program.
func TestExitNeedsBeesReport(t *testing.T) {
	a, _ := newIdleAgent(t)
	digest := strings.Repeat("ab", 32)
	const nonce = 0x1234
	good := "nonce 1234\ncalls 7\nsha256_file " + digest + "\n"
	said := newLines(func(string) {})
	said.Write([]byte("bee: the program is broken\n"))
	for _, c := range []struct {
		name   string
		end    exit
		report string
		note   *lines
		status int
		reason proto.Reason
		want   string
	}{
		{"an exit", exit{Code: 7}, good, nil, 7, "", ""},
		{"a signal", exit{Code: 139, Signal: 11}, good, nil, 139, "", ""},
		{"a signal before the report", exit{Code: 137, Signal: 9}, "", nil, 137, "", ""},
		{"no report", exit{}, "", nil, 0, proto.ReasonRefused, "bee left no report"},
		{"a report of another start", exit{}, strings.Replace(good, "1234", "1235", 1), nil, 0, proto.ReasonRefused, "did not run under bee"},
		{"a report without calls", exit{}, strings.Replace(good, "calls 7", "calls 0", 1), nil, 0, proto.ReasonRefused, "did not run under bee"},
		{"another program", exit{}, strings.Replace(good, "ab", "ba", 1), nil, 0, proto.ReasonRefused, "bee loaded another program"},
		{"a start that failed", exit{Error: "no memory"}, good, nil, 0, "", "no memory"},
		{"a program that bee refuses", exit{Code: 126}, good, said, 0, proto.ReasonError, "bee: the program is broken"},
		{"a program that is not found", exit{Code: 127}, good, said, 0, proto.ReasonError, "bee: the program is broken"},
		{"its own status 126", exit{Code: 126}, good, nil, 126, "", ""},
		{"its own status 125", exit{Code: 125}, good, said, 125, "", ""},
	} {
		path := filepath.Join(tempDir(t), "report")
		if c.report != "" {
			if err := os.WriteFile(path, []byte(c.report), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		note := c.note
		if note == nil {
			note = newLines(func(string) {})
		}
		end, err := a.execProved(c.end, path, nonce, digest, note)
		var f *failure
		checkText(t, c.name, err, c.want)
		if end.status != c.status || errors.As(err, &f) != (c.reason != "") || f != nil && f.reason != c.reason {
			t.Errorf("%s: %+v, %v", c.name, end, err)
		}
	}
}

// The saved output of workers is sent as a program's output, and its end as an exit.
func TestLogsAsAProgram(t *testing.T) {
	a, _ := newIdleAgent(t)
	a.logs = tempDir(t)
	k, err := newKeeper(a.logs, "s")
	if err != nil {
		t.Fatal(err)
	}
	k.add("a line")
	k.close()
	var b bytes.Buffer
	s := &execStream{rw: struct {
		io.Reader
		io.Writer
		io.Closer
	}{nil, &b, nil}}
	if err := a.execLogs("s", s); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for buf := make([]byte, proto.ExecFrameMax); ; {
		kind, p, err := proto.ReadExec(&b, buf)
		if err != nil {
			t.Fatal(err)
		}
		if kind == proto.ExecExit {
			if binary.LittleEndian.Uint32(p) != 0 || !strings.HasSuffix(out.String(), "\na line\n") || !strings.HasPrefix(out.String(), "== worker ") {
				t.Errorf("%q, status %x", out.String(), p)
			}
			break
		}
		out.Write(p)
	}
	for left := range 2 {
		if err := a.execLogs("s", &execStream{rw: &inputStream{left: left}}); err == nil {
			t.Errorf("a reader that takes %d frames got all", left)
		}
	}
}

// A cancelled call is one whatever its error; other errors are those of a transfer.
func TestCancelledCallsAreNotFailures(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if f := asFailure(ctx, io.EOF); f.reason != proto.ReasonTransfer || f.code != uapi.EInternal || f.text != "EOF" {
		t.Errorf("%+v", f)
	}
	if cancel(); asFailure(ctx, io.EOF).reason != proto.ReasonCancelled {
		t.Error("a cancelled call is not one")
	}
	if f := asFailure(ctx, refusef("x")); f.reason != proto.ReasonRefused {
		t.Errorf("%+v", f)
	}
}
