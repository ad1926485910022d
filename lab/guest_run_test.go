// SPDX-License-Identifier: MIT

package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/lab/wire"
)

// runExchange runs RunProgram against a guest that is played by the test.
func runExchange(t *testing.T, ctx context.Context, p Program, s Streams, guest func(c net.Conn, r *wire.Request)) (int, error) {
	t.Helper()
	host, theirs := net.Pipe()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer theirs.Close()
		var r wire.Request
		if err := wire.Read(theirs, &r); err == nil {
			guest(theirs, &r)
		}
	}()
	status, err := RunProgram(ctx, host, p, s)
	<-gone
	return status, err
}

func sendExit(c net.Conn, status int32) {
	proto.WriteExec(c, proto.ExecExit, binary.LittleEndian.AppendUint32(nil, uint32(status)))
}

var echo = Program{Args: []string{"echo", "a"}, Env: []string{"A=b"}, Dir: "/tmp", User: true, Node: 3}

// discardInput reads and discards what the host sends, so that no write of the host blocks.
func discardInput(c net.Conn) { go io.Copy(io.Discard, c) }

func TestExchange_streams(t *testing.T) {
	var out, fail bytes.Buffer
	status, err := runExchange(t, t.Context(), echo, Streams{Out: &out, Err: &fail}, func(c net.Conn, r *wire.Request) {
		if r.Op != wire.Run || strings.Join(r.Program.Args, " ") != "echo a" || !r.Program.User || r.Program.Node != 3 {
			t.Errorf("request %+v", r)
		}
		discardInput(c)
		proto.WriteExec(c, proto.ExecStdout, []byte("out"))
		proto.WriteExec(c, proto.ExecStderr, []byte("err"))
		sendExit(c, 143)
	})
	if status != 143 || err != nil || out.String() != "out" || fail.String() != "err" {
		t.Errorf("%d, %v, %q, %q", status, err, &out, &fail)
	}
}

// An output that cannot be written is reported as such, not as a fault of the guest.
func TestExchange_fullOutput(t *testing.T) {
	for _, s := range []Streams{{Out: full{}}, {Err: full{}}} {
		_, err := runExchange(t, t.Context(), echo, s, func(c net.Conn, r *wire.Request) {
			discardInput(c)
			proto.WriteExec(c, proto.ExecStdout, []byte("out"))
			proto.WriteExec(c, proto.ExecStderr, []byte("err"))
			sendExit(c, 0)
		})
		if !errors.Is(err, ErrOutput) || !strings.Contains(err.Error(), "disk full") {
			t.Errorf("%v", err)
		}
	}
	var l Limited
	for range 3 {
		if n, err := l.Write(make([]byte, 200<<10)); n != 200<<10 || err != nil {
			t.Error(n, err)
		}
	}
	if len(l) != 256<<10 {
		t.Errorf("%d bytes are kept", len(l))
	}
}

// The host sends no more than the window permits until the guest acknowledges input, and
// loses nothing.
func TestExchange_window(t *testing.T) {
	sent := bytes.Repeat([]byte("x"), wire.InputMax*wire.Window*2+1)
	var got []byte
	_, err := runExchange(t, t.Context(), echo, Streams{In: bytes.NewReader(sent)}, func(c net.Conn, r *wire.Request) {
		buf := make([]byte, proto.ExecFrameMax)
		ended := false
		for !ended {
			for range wire.Window {
				kind, p, err := proto.ReadExec(c, buf)
				if err != nil || kind != proto.ExecStdin {
					t.Errorf("frame %d, %v", kind, err)
					return
				}
				got = append(got, p...)
				if ended = len(p) == 0; ended {
					break
				}
			}
			for range wire.Window {
				if !ended {
					proto.WriteExec(c, proto.ExecStdin, nil)
				}
			}
		}
		sendExit(c, 0)
	})
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d of %d bytes, %v", len(got), len(sent), err)
	}
}

func TestExchange_nonsense(t *testing.T) {
	for _, c := range []struct {
		name  string
		frame []byte
	}{
		{"a status of three bytes", []byte{byte(proto.ExecExit), 3, 0, 0, 0, 1, 2, 3}},
		{"an answer to input that was not sent", []byte{byte(proto.ExecStdin), 0, 0, 0, 0}},
		{"a signal", []byte{byte(proto.ExecSignal), 1, 0, 0, 0, 9}},
		{"a failure without a status", []byte{byte(proto.ExecFailed), 2, 0, 0, 0, 'n', 'o'}},
		{"a size", []byte{byte(proto.ExecResize), 0, 0, 0, 0}},
	} {
		// Input that never comes: no piece is unacknowledged.
		never, end := io.Pipe()
		_, err := runExchange(t, t.Context(), echo, Streams{In: never}, func(conn net.Conn, r *wire.Request) {
			discardInput(conn)
			conn.Write(c.frame)
		})
		end.Close()
		if !errors.Is(err, errNonsense) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	_, err := runExchange(t, t.Context(), echo, Streams{}, func(conn net.Conn, r *wire.Request) {
		discardInput(conn)
		conn.Write([]byte{byte(proto.ExecStdout), 0xff, 0xff, 0xff, 0xff})
	})
	if err == nil || !strings.Contains(err.Error(), "exec frame") {
		t.Errorf("a frame of 4 GiB: %v", err)
	}
}

func TestExchange_refused(t *testing.T) {
	var runErr *RunError
	_, err := runExchange(t, t.Context(), echo, Streams{}, func(c net.Conn, r *wire.Request) {
		discardInput(c)
		proto.WriteExec(c, proto.ExecFailed, wire.Failure(fmt.Errorf("no such\x1b[2J program: %w", os.ErrNotExist)))
	})
	if !errors.As(err, &runErr) || runErr.Status != 127 || runErr.Reason != "no such?[2J program: file does not exist" {
		t.Errorf("%v", err)
	}
	host, guest := net.Pipe()
	guest.Close()
	if _, err := RunProgram(t.Context(), host, Program{}, Streams{}); !errors.As(err, &runErr) {
		t.Errorf("a program without a name: %v", err)
	}
}

func TestExchange_cancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := runExchange(t, ctx, echo, Streams{}, func(c net.Conn, r *wire.Request) {
		cancel()
		buf := make([]byte, proto.ExecFrameMax)
		for {
			kind, _, err := proto.ReadExec(c, buf)
			if err != nil {
				t.Errorf("no GONE before %v", err)
				return
			}
			if kind == proto.ExecGone {
				sendExit(c, 137)
				return
			}
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A guest that reads nothing at all is given up too.
func TestExchange_deaf(t *testing.T) {
	host, guest := net.Pipe()
	defer guest.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	defer func(old time.Duration) { givenUp = old }(givenUp)
	givenUp = 50 * time.Millisecond
	if _, err := RunProgram(ctx, host, echo, Streams{}); !errors.Is(err, errUnanswered) {
		t.Errorf("%v", err)
	}
}

func TestExchange_signalsAndSizes(t *testing.T) {
	signals, sizes := make(chan syscall.Signal, 1), make(chan Size, 1)
	signals <- syscall.SIGTERM
	sizes <- Size{Rows: 2, Columns: 3}
	close(signals)
	close(sizes)
	seen := map[proto.ExecType]string{}
	_, err := runExchange(t, t.Context(), echo, Streams{Terminal: &Size{Rows: 1, Columns: 1}, Signals: signals, Resize: sizes}, func(c net.Conn, r *wire.Request) {
		buf := make([]byte, proto.ExecFrameMax)
		for len(seen) < 3 { // and the end of the input
			kind, p, err := proto.ReadExec(c, buf)
			if err != nil {
				t.Error(err)
				return
			}
			seen[kind] = string(p)
		}
		discardInput(c)
		sendExit(c, 0)
	})
	if err != nil || seen[proto.ExecSignal] != "\x0f" || seen[proto.ExecResize] != "\x02\x00\x03\x00" {
		t.Errorf("%v, %q", err, seen)
	}
}

func TestClean(t *testing.T) {
	for _, c := range [][2]string{
		{"  plain \n", "plain"},
		{"\x1b]0;title\x07", "?]0;title?"},
		{"\xff\xfe", "?"},
		{"\u009b2J", "?2J"},
		{strings.Repeat("x", 400), strings.Repeat("x", 300)},
	} {
		if got := cleanLine(c[0]); got != c[1] {
			t.Errorf("%q becomes %q", c[0], got)
		}
	}
}
