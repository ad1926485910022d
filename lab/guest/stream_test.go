// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/lab/wire"
)

// newStreamedJob returns a job with pipes in place of a program's streams, and the host's end of
// its connection.
func newStreamedJob(t *testing.T) (*job, net.Conn) {
	t.Helper()
	host, ours := net.Pipe()
	f, err := openFiles(&wire.Request{})
	if err != nil {
		t.Fatal(err)
	}
	j := &job{stream: ours, group: t.TempDir(), input: make(chan []byte, wire.Window), files: f}
	t.Cleanup(func() { host.Close(); ours.Close(); f.close(); f.closeTheirs() })
	host.SetDeadline(time.Now().Add(time.Minute))
	return j, host
}

func readFrame(t *testing.T, host net.Conn, want proto.ExecType) []byte {
	t.Helper()
	kind, p, err := proto.ReadExec(host, make([]byte, proto.ExecFrameMax))
	if err != nil || kind != want {
		t.Fatalf("type %d, %q, %v; want type %d", kind, p, err, want)
	}
	return bytes.Clone(p)
}

// Each piece of input reaches the program before it is acknowledged; an empty one ends it.
func TestInputOfAProgram(t *testing.T) {
	j, host := newStreamedJob(t)
	ended := make(chan struct{})
	go func() { defer close(ended); j.feedInput() }()
	program := j.files.theirs[0]
	for _, piece := range []string{"one", "two"} {
		j.input <- []byte(piece)
		readFrame(t, host, proto.ExecStdin)
		got := make([]byte, len(piece))
		if _, err := io.ReadFull(program, got); err != nil || string(got) != piece {
			t.Errorf("%q, %v", got, err)
		}
	}
	j.input <- nil
	readFrame(t, host, proto.ExecStdin)
	if n, err := program.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("after the end of input: %d, %v", n, err)
	}
	host.Close() // a host that is gone ends it
	j.input <- []byte("three")
	<-ended
}

// Output goes to the host as it comes, and after the program's end what is left in the pipe,
// also if another process keeps the pipe open.
func TestOutputOfAProgram(t *testing.T) {
	j, host := newStreamedJob(t)
	go func() { io.WriteString(j.files.theirs[2], "error"); j.files.theirs[2].Close() }()
	failed := make(chan struct{})
	go func() { defer close(failed); j.forwardOutput(j.files.err, proto.ExecStderr) }()
	if got := readFrame(t, host, proto.ExecStderr); string(got) != "error" {
		t.Errorf("%q", got)
	}
	<-failed // the pipe was closed
	ended := make(chan struct{})
	go func() { defer close(ended); j.forwardOutput(j.files.out, proto.ExecStdout) }()
	program := j.files.theirs[1]
	io.WriteString(program, "hello")
	if got := readFrame(t, host, proto.ExecStdout); string(got) != "hello" {
		t.Errorf("%q", got)
	}
	left := strings.Repeat("x", 60<<10)
	io.WriteString(program, left)
	j.files.wakeReaders() // the program has ended
	got := ""
	for len(got) < len(left) {
		got += string(readFrame(t, host, proto.ExecStdout))
	}
	<-ended
	if got != left {
		t.Errorf("%d bytes of %d were left", len(got), len(left))
	}
	j.forwardOutput(nil, proto.ExecStdout) // a terminal has no second stream
}

// A host that is gone ends the run, and one that sends what is no frame. After the program's
// end its other processes stay.
func TestEndOfTheHost(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(host net.Conn)
		over   bool
		killed bool
	}{
		"gone":            {func(host net.Conn) { host.Close() }, false, true},
		"no frame":        {func(host net.Conn) { proto.WriteExec(host, proto.ExecExit, nil) }, false, true},
		"an order to end": {func(host net.Conn) { proto.WriteExec(host, proto.ExecGone, nil); host.Close() }, false, true},
		"after the end":   {func(host net.Conn) { host.Close() }, true, false},
	} {
		j, host := newStreamedJob(t)
		j.over.Store(c.over)
		ended := make(chan struct{})
		go func() { defer close(ended); j.listen() }()
		if err := proto.WriteExec(host, proto.ExecStdin, []byte("x")); err != nil {
			t.Fatal(err)
		}
		c.end(host)
		<-ended
		text, _ := os.ReadFile(filepath.Join(j.group, "cgroup.kill"))
		if (string(text) == "1") != c.killed {
			t.Errorf("%s: cgroup.kill has %q", name, text)
		}
		if got := <-j.input; string(got) != "x" {
			t.Errorf("%s: input %q", name, got)
		}
		if _, open := <-j.input; open {
			t.Errorf("%s: more input is expected", name)
		}
		if err := j.send(proto.ExecStdout, []byte("x")); err == nil {
			t.Errorf("%s: output still waits for the host", name)
		}
	}
}

// The end of input of a terminal is a character.
func TestEndOfInputOfATerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f := &files{in: w, terminal: true}
	f.endInput()
	f.in.Close()
	if got, _ := io.ReadAll(r); string(got) != "\x04" {
		t.Errorf("%q", got)
	}
}
