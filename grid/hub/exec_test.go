// SPDX-License-Identifier: MIT

package hub

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/grid/proto"
)

func jsonBytes(v any) ([]byte, error) { return json.Marshal(v) }

func jsonTo(b []byte, v any) error { return json.Unmarshal(b, v) }

// openStream connects to a program's streams like an agent of an earlier version.
func (a *fakeAgent) openStream(id string, fence uint64) (net.Conn, *bufio.Reader, int) {
	a.w.t.Helper()
	c, in, resp, err := a.requestStream(id, fence, "")
	if err != nil {
		a.w.t.Fatal(err)
	}
	return c, in, resp.StatusCode
}

// requestStream asks for a program's streams. has is how many bytes of the hub's the agent has, or
// nothing for streams that end with their connection.
func (a *fakeAgent) requestStream(id string, fence uint64, has string) (net.Conn, *bufio.Reader, *http.Response, error) {
	conf, err := a.node.TLS(proto.ALPNHTTP)
	if err != nil {
		return nil, nil, nil, err
	}
	c, err := tls.Dial("tcp", a.w.hub.Address().String(), conf)
	if err != nil {
		return nil, nil, nil, err
	}
	a.w.t.Cleanup(func() { c.Close() })
	r, _ := http.NewRequest(http.MethodPost, "https://hub"+proto.PathExec(id, fence), nil)
	if has != "" {
		r.Header.Set(proto.HeaderHas, has)
	}
	if err := r.Write(c); err != nil {
		return nil, nil, nil, err
	}
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, r)
	return c, in, resp, err
}

type execEnd struct {
	status   int
	err      error
	out, bad string
}

func (w *world) exec(a *fakeAgent, stdin string) <-chan execEnd {
	w.t.Helper()
	file := filepath.Join(w.dirs, "mod.rex")
	blob, err := w.cli.Program(w.t.Context(), file)
	if err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan execEnd, 1)
	go func() {
		var out, bad bytes.Buffer
		status, err := w.cli.Exec(w.t.Context(), ExecRequest{Node: a.node.ID(), Program: blob.Digest, Name: "mod", Args: []string{"-x"}},
			strings.NewReader(stdin), &out, &bad)
		ended <- execEnd{status, err, out.String(), bad.String()}
	}()
	return ended
}

func TestExec(t *testing.T) {
	w := newWorld(t, nil)
	a, other := w.startAgent(1), w.startAgent(1)
	ended := w.exec(a, "input")
	e := receiveFrom(t, "an exec", a.execs)
	if e.Name != "mod" || len(e.Args) != 1 || e.Program != digestOf(encodeManifest(t)) {
		t.Fatalf("%+v", e)
	}
	if _, _, status := other.openStream(e.ID, 0); status != http.StatusGone {
		t.Fatalf("another node got the streams: %d", status)
	}
	c, in, status := a.openStream(e.ID, 0)
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("%d", status)
	}
	buf := make([]byte, proto.ExecFrameMax)
	kind, b, err := proto.ReadExec(in, buf)
	if err != nil || kind != proto.ExecStdin || string(b) != "input" {
		t.Fatalf("%d %q %v", kind, b, err)
	}
	if kind, b, err = proto.ReadExec(in, buf); err != nil || kind != proto.ExecStdin || len(b) != 0 {
		t.Fatalf("%d %q %v", kind, b, err)
	}
	proto.WriteExec(c, proto.ExecStdout, []byte("out"))
	proto.WriteExec(c, proto.ExecStderr, []byte("err"))
	proto.WriteExec(c, proto.ExecExit, binary.LittleEndian.AppendUint32(nil, 3))
	if v := receiveFrom(t, "the end", ended); v != (execEnd{3, nil, "out", "err"}) {
		t.Fatalf("%+v", v)
	}
	if _, _, status := a.openStream(e.ID, 0); status != http.StatusGone {
		t.Fatalf("streams of an ended program: %d", status)
	}
}

func TestExecErrors(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	var x *ExecError

	ended := w.exec(a, "")
	c, _, _ := a.openStream(receiveFrom(t, "an exec", a.execs).ID, 0)
	proto.WriteExec(c, proto.ExecFailed, []byte("no room"))
	if v := receiveFrom(t, "the end", ended); !errors.As(v.err, &x) || x.Text != "no room" || x.Kind != proto.ExecFailed {
		t.Fatalf("%+v", v)
	}

	ended = w.exec(a, "")
	c, _, _ = a.openStream(receiveFrom(t, "an exec", a.execs).ID, 0)
	c.Close()
	if v := receiveFrom(t, "the end", ended); !errors.As(v.err, &x) {
		t.Fatalf("%+v", v)
	}

	ended = w.exec(a, "")
	receiveFrom(t, "an exec", a.execs)
	a.cutConnection()
	if v := receiveFrom(t, "the end", ended); !errors.As(v.err, &x) || x.Kind != proto.ExecGone || !strings.Contains(x.Text, "connection to the node broke") {
		t.Fatalf("%+v", v)
	}

	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, makeProgram(nil, elf.PT_INTERP), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := w.cli.Program(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "-static") {
		t.Fatalf("%v", err)
	}
	dynamic, err := w.cli.MovableProgram(t.Context(), bad)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.cli.Exec(t.Context(), ExecRequest{Node: "nobody", Program: dynamic.Digest}, nil, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "-static") {
		t.Fatalf("a dynamic program that is not movable: %v", err)
	}
	_, err = w.cli.Exec(t.Context(), ExecRequest{Node: "nobody", Program: digestOf(encodeManifest(t))}, nil, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "not up") {
		t.Fatalf("%v", err)
	}
	blob, err := w.cli.Program(t.Context(), filepath.Join(w.dirs, "mod.rex"))
	if err != nil {
		t.Fatal(err)
	}
	again := w.startAgent(1)
	_, err = w.cli.Exec(t.Context(), ExecRequest{Node: again.node.ID(), Program: blob.Digest, Name: "mod", Update: "fix"}, nil, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "gives programs no kernel updates") {
		t.Fatalf("an agent that does not know updates: %v", err)
	}
}

// TestExecGoneCommandLine: the agent's stream ends, so that the agent ends the program.
func TestExecGoneCommandLine(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	blob, err := w.cli.Program(t.Context(), filepath.Join(w.dirs, "mod.rex"))
	if err != nil {
		t.Fatal(err)
	}
	conn, _, err := w.cli.upgrade(t.Context(), ExecRequest{Node: a.node.ID(), Program: blob.Digest})
	if err != nil {
		t.Fatal(err)
	}
	_, in, _ := a.openStream(receiveFrom(t, "an exec", a.execs).ID, 0)
	conn.Close()
	ended := make(chan error, 1)
	go func() { _, err := io.ReadAll(in); ended <- err }()
	receiveFrom(t, "the end of the agent's stream", ended)
}
