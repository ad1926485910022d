// SPDX-License-Identifier: MIT

package lab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"skep/grid/proto"
	"skep/internal/load"
	"skep/lab/wire"
)

// Streams connect a program in a guest to its caller. Nil means no input, or output that is
// discarded.
type Streams struct {
	In       io.Reader // one more Read may happen after the program's end
	Out, Err io.Writer
	// Results sends standard output to results.tap instead of Out; standard
	// error then goes to the console unless Err is set.
	Results bool
	// Terminal runs it on a terminal of that size, whose output is Out.
	Terminal *Size
	Resize   <-chan Size
	Signals  <-chan syscall.Signal // to its process group
}

// A RunError says that the guest could not start a program. Its status is a shell's: 127
// if the program does not exist, else 126. The text is the guest's.
type RunError struct {
	Status int
	Reason string
}

func (e *RunError) Error() string { return "the guest did not run it: " + e.Reason }

var (
	errNonsense   = errors.New("the guest violated the protocol")
	errUnanswered = errors.New("the guest did not confirm the end of the run")
)

// ErrOutput says that the caller's own output failed, not the guest.
var ErrOutput = errors.New("the guest's output can't be written")

// Limited keeps the first 256 KiB of what is written to it.
type Limited []byte

func (l *Limited) Write(b []byte) (int, error) {
	*l = append(*l, b[:min(len(b), 256<<10-len(*l))]...)
	return len(b), nil
}

// A caller is the host's side of a run. The mutex guards writes to conn.
type caller struct {
	sync.Mutex
	conn   net.Conn
	s      Streams
	window chan struct{} // a token for each unacknowledged piece of input
	over   chan struct{} // closed when the run ends
}

// RunProgram runs p over a raw stream to process 1, which it closes.
func RunProgram(ctx context.Context, conn net.Conn, p Program, s Streams) (int, error) {
	defer conn.Close()
	r := wire.Request{
		Op: wire.Run, Program: wire.Program(p), Terminal: s.Terminal,
		Results: s.Results, Console: s.Results && s.Err == nil,
	}
	if err := r.Check(); err != nil {
		return 0, &RunError{wire.StatusCannot, err.Error()}
	}
	c := &caller{conn: conn, s: s, window: make(chan struct{}, wire.Window), over: make(chan struct{})}
	stop := context.AfterFunc(ctx, c.giveUp)
	defer stop()
	if err := c.sendRequest(r); err != nil {
		return 0, err
	}
	defer close(c.over)
	go c.sendInput()
	go c.readEvents()
	status, err := c.readOutput()
	if ctx.Err() != nil && !errors.Is(err, errUnanswered) {
		return 0, context.Cause(ctx)
	}
	return status, err
}

// sendRequest sends the request. A guest that hangs may not read it.
func (c *caller) sendRequest(r wire.Request) error {
	c.Lock()
	defer c.Unlock()
	err := wire.Write(c.conn, r)
	if isTimeout(err) {
		return errUnanswered
	}
	return err
}

// isTimeout reports whether an error is a timeout.
func isTimeout(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}

// givenUp is how long a guest may take to end a run; tests shorten it.
var givenUp = 20 * time.Second

// giveUp asks the guest to end the whole run and waits for at most givenUp.
func (c *caller) giveUp() {
	c.conn.SetDeadline(time.Now().Add(load.Stretch(givenUp)))
	c.send(proto.ExecGone, nil)
}

func (c *caller) send(t proto.ExecType, payload []byte) error {
	c.Lock()
	defer c.Unlock()
	return proto.WriteExec(c.conn, t, payload)
}

// sendInput sends input in pieces as the window permits; an empty piece is the end.
func (c *caller) sendInput() {
	buf := make([]byte, wire.InputMax)
	for open := c.s.In != nil; open; {
		n, err := c.s.In.Read(buf)
		if n > 0 && !c.sendPiece(buf[:n]) {
			return
		}
		open = err == nil
	}
	c.sendPiece(nil)
}

func (c *caller) sendPiece(b []byte) bool {
	select {
	case c.window <- struct{}{}:
		return c.send(proto.ExecStdin, b) == nil
	case <-c.over:
		return false
	}
}

func (c *caller) readEvents() {
	for {
		var err error
		select {
		case <-c.over:
			return
		case n, ok := <-c.s.Signals:
			if !ok {
				c.s.Signals = nil
				continue
			}
			err = c.send(proto.ExecSignal, []byte{byte(n)})
		case size, ok := <-c.s.Resize:
			if !ok {
				c.s.Resize = nil
				continue
			}
			err = c.send(proto.ExecResize, size.Bytes())
		}
		if err != nil {
			return
		}
	}
}

// readOutput passes on the program's output until its end.
func (c *caller) readOutput() (int, error) {
	buf := make([]byte, proto.ExecFrameMax)
	for {
		t, p, err := proto.ReadExec(c.conn, buf)
		switch {
		case isTimeout(err):
			return 0, errUnanswered
		case err != nil:
			return 0, fmt.Errorf("the stream to the guest: %w", err)
		case t == proto.ExecExit && len(p) == 4:
			return int(int32(binary.LittleEndian.Uint32(p))), nil
		case t == proto.ExecFailed:
			status, reason, err := wire.ParseFailure(p)
			if err != nil {
				return 0, fmt.Errorf("%w: %w", errNonsense, err)
			}
			return 0, &RunError{status, cleanLine(reason)}
		}
		if err := c.handleFrame(t, p); err != nil {
			return 0, err
		}
	}
}

func (c *caller) handleFrame(t proto.ExecType, p []byte) (err error) {
	switch {
	case t == proto.ExecStdout && c.s.Out != nil:
		err = writeAll(c.s.Out, p)
	case t == proto.ExecStderr && c.s.Err != nil:
		err = writeAll(c.s.Err, p)
	case t == proto.ExecStdout, t == proto.ExecStderr:
	case t == proto.ExecStdin && len(p) == 0:
		select {
		case <-c.window:
		default:
			return fmt.Errorf("%w: it took input that was not sent", errNonsense)
		}
	default:
		return fmt.Errorf("%w: a frame of type %d with %d bytes", errNonsense, t, len(p))
	}
	return err
}

func writeAll(w io.Writer, p []byte) error {
	if _, err := w.Write(p); err != nil {
		return fmt.Errorf("%w: %w", ErrOutput, err)
	}
	return nil
}

// cleanLine makes a guest's line fit for an error: short and printable.
func cleanLine(line string) string {
	line = strings.ToValidUTF8(strings.TrimSpace(line), "?")
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 { // C1 controls are a terminal's too
			return '?'
		}
		return r
	}, line)
	return line[:min(len(line), 300)]
}
