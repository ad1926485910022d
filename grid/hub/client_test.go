// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// fakeHub returns a client of a hub whose answers the test writes.
func fakeHub(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	path := shortDir(t) + "/hub.sock"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: answer}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return NewClient(path)
}

// Each answer that is no success is an error, with the hub's words if it has some.
func TestAnswersThatAreErrors(t *testing.T) {
	for _, c := range []struct {
		status       int
		body, wanted string
	}{
		{http.StatusConflict, `{"code": "x", "text": "no room"}`, "no room"},
		{http.StatusBadGateway, "", "the hub answered 502 Bad Gateway"},
		{http.StatusBadGateway, `{"code": "x"}`, "the hub answered 502 Bad Gateway"},
		{http.StatusBadGateway, "no room", "the hub answered 502 Bad Gateway"},
		{http.StatusFound, `{"text": "elsewhere"}`, "elsewhere"},
	} {
		cli := fakeHub(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		})
		_, status := cli.Status(t.Context())
		remove := cli.RemoveNode(t.Context(), "n")
		_, events := cli.Events(t.Context())
		_, _, run := cli.Run(t.Context(), RunRequest{})
		_, exec := cli.Exec(t.Context(), ExecRequest{}, nil, io.Discard, io.Discard)
		for name, err := range map[string]error{"status": status, "remove": remove, "events": events, "run": run, "exec": exec} {
			if err == nil || !strings.Contains(err.Error(), c.wanted) {
				t.Errorf("%s, %d %q: %v", name, c.status, c.body, err)
			}
		}
	}
	cli := fakeHub(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "no JSON") })
	if _, err := cli.Status(t.Context()); err == nil {
		t.Error("a status that is no JSON")
	}
	if _, err := cli.Program(t.Context(), "/nothing/there"); err == nil {
		t.Error("a program that does not exist")
	}
}

// A run whose stream ends before its first event is an error, and so is the end of a run
// that the hub refuses.
func TestRunsThatEndEarly(t *testing.T) {
	cli := fakeHub(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/end") {
			writeProblem(w, http.StatusNotFound, proto.ProblemRequest, "%v", errNoRun)
		} else if body, _ := io.ReadAll(r.Body); bytes.Contains(body, []byte("good")) {
			io.WriteString(w, `{"socket": "s", "text": "k"}`)
		}
	})
	if _, s, err := cli.Run(t.Context(), RunRequest{}); s != nil || !errors.Is(err, io.EOF) {
		t.Errorf("%v", err)
	}
	socket, s, err := cli.Run(t.Context(), RunRequest{Name: "good"})
	if err != nil || socket != "s" {
		t.Fatal(socket, err)
	}
	wantProblem(t, "the end", s.End(t.Context()), proto.ProblemRequest, errNoRun.Error())
	if _, err := s.Next(); !errors.Is(err, io.EOF) || s.Close() != nil {
		t.Errorf("%v", err)
	}
}

// execHub returns a client whose programs send these bytes.
func execHub(t *testing.T, frames []byte, hold <-chan struct{}) *Client {
	return fakeHub(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := hijackConn(w)
		if err != nil {
			return
		}
		defer c.Close()
		c.Write(frames)
		if hold != nil {
			<-hold
		}
	})
}

func execFrame(t proto.ExecType, p []byte) []byte {
	var b bytes.Buffer
	proto.WriteExec(&b, t, p)
	return b.Bytes()
}

// failingWriter refuses all bytes, and notices empty ones.
type failingWriter struct{ empty bool }

func (w *failingWriter) Write(b []byte) (int, error) {
	if len(b) == 0 {
		w.empty = true
		return 0, nil
	}
	return 0, errors.New("no reader")
}

// What ends a program's stream decides what Exec returns.
func TestEndsOfExec(t *testing.T) {
	exit := func(n uint32) []byte {
		return execFrame(proto.ExecExit, binary.LittleEndian.AppendUint32(nil, n))
	}
	status := uint32(1<<32 - 1)
	for _, c := range []struct {
		name   string
		frames []byte
		status int
		kind   proto.ExecType
		want   string
	}{
		{"an exit", exit(3), 3, 0, ""}, {"a negative status", exit(status), -1, 0, ""},
		{"a probe first", append(execFrame(proto.ExecStdout, nil), exit(4)...), 4, 0, ""},
		{"a cut stream", nil, 0, proto.ExecGone, "the stream to the node broke before the program ended"},
		{"a short status", execFrame(proto.ExecExit, []byte("abc")), 0, 0, "the node sent an exec frame of type 5"},
		{"input", execFrame(proto.ExecStdin, []byte("x")), 0, 0, "the node sent an exec frame of type 1"},
		{"a refusal", execFrame(proto.ExecRefused, []byte("unsafe")), 0, proto.ExecRefused, "unsafe"},
		{"a failure", execFrame(proto.ExecFailed, []byte("absent")), 0, proto.ExecFailed, "absent"},
		{"a lost node", execFrame(proto.ExecGone, []byte("lost")), 0, proto.ExecGone, "lost"},
		{"output that nobody takes", append(execFrame(proto.ExecStdout, []byte("x")), exit(0)...), 0, 0, "no reader"},
		{"messages that nobody takes", append(execFrame(proto.ExecStderr, []byte("x")), exit(0)...), 0, 0, "no reader"},
	} {
		var out failingWriter
		got, err := execHub(t, c.frames, nil).Exec(t.Context(), ExecRequest{}, nil, &out, &out)
		var x *ExecError
		if got != c.status || (err == nil) != (c.want == "") || err != nil && err.Error() != c.want || errors.As(err, &x) != (c.kind != 0) || x != nil && x.Kind != c.kind {
			t.Errorf("%s: %d, %v", c.name, got, err)
		}
		if out.empty {
			t.Errorf("%s: an empty frame was written", c.name)
		}
	}
}

// The end of its context ends Exec, also while the program runs.
func TestExecEndsWithItsContext(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	cli := execHub(t, execFrame(proto.ExecStdout, []byte("x")), hold)
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { _, err := cli.Exec(ctx, ExecRequest{}, nil, in, io.Discard); ended <- err }()
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := receiveFrom(t, "the end", ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := cli.Exec(ctx, ExecRequest{}, nil, in, io.Discard); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// A request for a program that cannot run is refused before its node hears of it.
func TestRefusedPrograms(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	blob, err := w.cli.Program(t.Context(), w.dirs+"/mod.rex")
	if err != nil || blob.Digest != digestOf(encodeManifest(t)) || blob.Size != int64(len(encodeManifest(t))) {
		t.Fatalf("%+v, %v", blob, err)
	}
	long := func(n int) []string { return []string{strings.Repeat("a", n/2), strings.Repeat("b", n-n/2-1)} }
	for _, c := range []struct {
		name       string
		request    ExecRequest
		code, want string
	}{
		{"no digest", ExecRequest{Program: "x"}, proto.ProblemRequest, "not named by its digest, or its arguments are too long"},
		{"long arguments", ExecRequest{Program: blob.Digest, Args: long(execArgs), Env: []string{"x"}}, proto.ProblemRequest, "too long"},
		{"a long environment", ExecRequest{Program: blob.Digest, Args: []string{"x"}, Env: long(execArgs)}, proto.ProblemRequest, "too long"},
		{"a program that was not sent", ExecRequest{Program: digestOf([]byte("x"))}, proto.ProblemGone, "does not have this program: send it first"},
	} {
		c.request.Node = a.node.ID()
		_, err := w.cli.Exec(t.Context(), c.request, nil, io.Discard, io.Discard)
		wantProblem(t, c.name, err, c.code, c.want)
	}
	if len(a.execs) != 0 {
		t.Error("the node got one")
	}
	go w.cli.Exec(t.Context(), ExecRequest{Node: a.node.ID(), Program: blob.Digest, Args: long(execArgs - 1), Env: []string{"x"}}, nil, io.Discard, io.Discard)
	if e := receiveFrom(t, "the longest arguments", a.execs); len(e.Args) != 2 {
		t.Errorf("%d arguments", len(e.Args))
	}
}

// The output of workers needs no program.
func TestExecOfLogs(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	ended := make(chan execEnd, 1)
	go func() {
		var out bytes.Buffer
		status, err := w.cli.Exec(t.Context(), ExecRequest{Node: a.node.ID(), Program: "x", Logs: true, Session: strings.Repeat("s", proto.TextMax+1)}, nil, &out, io.Discard)
		ended <- execEnd{status, err, out.String(), ""}
	}()
	e := receiveFrom(t, "the request", a.execs)
	if !e.Logs || e.Program != "" || len(e.Session) != proto.TextMax {
		t.Errorf("%.100s", e.Session)
	}
	c, _, _ := a.openStream(e.ID, 0)
	c.Write(execFrame(proto.ExecStdout, []byte("lines")))
	c.Write(execFrame(proto.ExecExit, make([]byte, 4)))
	if v := receiveFrom(t, "the end", ended); v.err != nil || v.out != "lines" {
		t.Errorf("%+v", v)
	}
}

// A node that does not start a program in time, and one that goes while it runs, end it.
func TestProgramsOfNodesThatGo(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.execIn = time.Millisecond })
	a := w.startAgent(1)
	var x *ExecError
	if v := receiveFrom(t, "the end", w.exec(a, "")); !errors.As(v.err, &x) || x.Kind != proto.ExecGone || !strings.Contains(x.Text, "did not start the program in time") {
		t.Errorf("%+v", v)
	}
	waitUntil(t, "the end at the hub", func() bool {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		return len(w.hub.execs) == 0
	})
	if _, _, status := a.openStream(receiveFrom(t, "an exec", a.execs).ID, 0); status != http.StatusGone {
		t.Errorf("streams that come too late: %d", status)
	}

	w = newWorld(t, func(c *Config) { c.execDrain = time.Hour })
	a = w.startAgent(1)
	ended := w.exec(a, "")
	c, in, _ := a.openStream(receiveFrom(t, "an exec", a.execs).ID, 0)
	c.Write(execFrame(proto.ExecStdout, []byte("begun")))
	if _, _, err := proto.ReadExec(in, make([]byte, proto.ExecFrameMax)); err != nil {
		t.Fatal(err)
	}
	a.nats.Opts.AllowReconnect = false
	a.cutConnection()
	waitUntil(t, "the hub to lose the node", func() bool {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		return w.hub.nodes[a.node.ID()].info.State == NodeDown
	})
	c.Close() // what it wrote before its node was lost is shown all the same
	if v := receiveFrom(t, "the end", ended); !errors.As(v.err, &x) || x.Kind != proto.ExecGone || x.Text != "the connection to the node broke" || v.out != "begun" {
		t.Errorf("%+v", v)
	}
	if _, err := io.ReadAll(in); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Logf("the agent's stream: %v", err)
	}
}

// Without a place on the disk neither a program nor the data of Initialize is taken.
func TestProgramThatCannotBeStored(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startBoundMaster()
	if err := os.RemoveAll(filepath.Join(w.hub.cfg.State, "blobs")); err != nil {
		t.Fatal(err)
	}
	_, err := w.cli.Program(t.Context(), filepath.Join(w.dirs, "mod.rex"))
	wantProblem(t, "a program", err, proto.ProblemFull, "the program cannot be stored: ")
	data := []byte("data")
	m.send(uapi.TypeModuleInit, 7, uapi.Append(nil, uapi.ModuleInit{Module: m.module, Function: 1, Length: uint64(len(data))}))
	m.sendData(7, data)
	if e := m.readFailure(7); e.Code != uapi.EInternal || !strings.Contains(e.Text, "the data of Initialize cannot be stored: ") {
		t.Errorf("%d %s", e.Code, e.Text)
	}
	waitUntil(t, "nothing is held", func() bool { return w.hub.quota.used.Load() == 0 })
}

// A hub that ends before it answers is named, whether or not it had read the request.
func TestHubThatEndsBeforeItAnswers(t *testing.T) {
	for name, read := range map[string]bool{"read": true, "not read": false} {
		path := shortDir(t) + "/hub.sock"
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				// The first byte shows that the request has come.
				n := 1
				if read {
					n = 1 << 16
				}
				c.Read(make([]byte, n))
				c.Close()
			}
		}()
		if _, err := NewClient(path).Status(t.Context()); !errors.Is(err, ErrHubEnded) || errors.Is(err, ErrNoHub) ||
			!strings.Contains(err.Error(), "start `skep up` again") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each request to the hub of this machine has a connection of its own: one that a hub left which
// ended meanwhile would take a program, which cannot be sent twice.
func TestLocalRequestsShareNoConnection(t *testing.T) {
	seen := 0
	cli := fakeHub(t, func(w http.ResponseWriter, r *http.Request) {
		if seen++; !r.Close {
			t.Errorf("the connection of %s %s is kept", r.Method, r.URL.Path)
		}
		io.Copy(io.Discard, r.Body)
		w.Write([]byte("{}"))
	})
	if _, err := cli.Status(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := cli.Program(t.Context(), os.Args[0]); err != nil {
		t.Error(err)
	}
	if seen != 2 {
		t.Errorf("the hub saw %d requests", seen)
	}
}
