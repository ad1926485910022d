// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// An execution is a program of `skep exec`, or the logs that it asked for.
type execution struct {
	cancel  context.CancelFunc
	movable bool // by the hub
}

// runExec runs a program without a lease: a movable one, or of a hub of an earlier version. It
// begins at once, because the operator starts it interactively, and takes a slot from calls.
func (a *Agent) runExec(ctx context.Context, e *proto.Exec) {
	ctx, cancel := context.WithCancel(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, runs := a.execs[e.ID]; runs || a.stopped {
		cancel()
		return
	}
	a.execs[e.ID] = execution{cancel, e.Movable}
	a.running.Add(1)
	go func() {
		defer a.running.Done()
		defer cancel()
		defer a.takeSlot(e)()
		if err := a.execRun(ctx, cancel, e); err != nil {
			a.config.Log("exec %s of %s: %v", e.ID, e.Name, err)
		}
		a.mu.Lock()
		delete(a.execs, e.ID)
		a.mu.Unlock()
	}()
}

// takeSlot counts a program among those of the slots, even if none is free, until the function
// that it returns is called. The hub hears of both.
func (a *Agent) takeSlot(e *proto.Exec) (leave func()) {
	if e.Logs {
		return func() {}
	}
	a.pool.countPrograms(1)
	a.sendAsk()
	return func() {
		a.pool.countPrograms(-1)
		a.sendAsk()
	}
}

// An execStream is the sending side of exec's frames; mu keeps each frame in one piece.
type execStream struct {
	mu sync.Mutex
	rw io.ReadWriteCloser
}

func (s *execStream) send(t proto.ExecType, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return proto.WriteExec(s.rw, t, p)
}

const probeEvery = time.Second

// probeReader sends empty output from time to time. The writer of the input may wait
// for a program that reads none, and would not notice a broken stream.
func (s *execStream) probeReader(done <-chan struct{}, broken func()) {
	t := time.NewTicker(probeEvery)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
			if s.send(proto.ExecStdout, nil) != nil {
				broken()
				return
			}
		}
	}
}

type execOutput struct {
	stream *execStream
	kind   proto.ExecType
	note   *lines // finds bee's messages
}

func (o execOutput) Write(p []byte) (int, error) {
	if o.note != nil {
		o.note.Write(p)
	}
	for at := 0; at < len(p); at += proto.ExecFrameMax {
		if err := o.stream.send(o.kind, p[at:min(at+proto.ExecFrameMax, len(p))]); err != nil {
			return at, err
		}
	}
	return len(p), nil
}

// errStopped says that this node ended a leg of a movable program, for itself or because the
// stream broke. The hub is sent no end, for the program has none: it goes on from its last
// checkpoint if there is one.
var errStopped = errors.New("the program was stopped")

func (a *Agent) execRun(ctx context.Context, cancel context.CancelFunc, e *proto.Exec) error {
	rw, err := a.toHub().exec(ctx, e.ID, 0, nil)
	if err != nil {
		return fmt.Errorf("its streams cannot be opened: %w", err)
	}
	defer rw.Close()
	s := &execStream{rw: rw}
	if e.Logs {
		return a.execLogs(e.Session, s)
	}
	if e.Movable {
		status, err := a.execMovable(ctx, cancel, e, s)
		if errors.Is(err, errStopped) {
			return nil
		}
		return s.sendEnd(status, err)
	}
	program := a.owner.begin(false, cancel)
	defer program.end()
	end, err := a.execProgram(ctx, cancel, e, s, a.ownArea(), program)
	return s.sendEnd(end.status, err)
}

// sendEnd sends the last frame: the exit status, or why there is none.
func (s *execStream) sendEnd(status int, err error) error {
	if err == nil {
		return s.send(proto.ExecExit, binary.LittleEndian.AppendUint32(nil, uint32(status)))
	}
	text, kind := err.Error(), proto.ExecFailed
	if f := (*failure)(nil); errors.As(err, &f) && f.reason == proto.ReasonRefused {
		kind = proto.ExecRefused
	}
	return s.send(kind, []byte(text[:min(len(text), proto.TextMax)]))
}

// execLogs sends the saved output of a session's workers in place of a program's output.
func (a *Agent) execLogs(session string, s *execStream) error {
	if err := showKept(a.logFolders(), session, execOutput{s, proto.ExecStdout, nil}); err != nil {
		return err
	}
	return s.sendEnd(0, nil)
}

// A programEnd is how a program ended.
type programEnd struct {
	status int    // as a shell's
	over   string // the limit that it exceeded, in a sentence
	signal bool   // it was ended by one
	proof  report // bee's, if it could write one
}

// execProgram runs a program in the area of its user. The error is why there is no exit status.
func (a *Agent) execProgram(ctx context.Context, cancel context.CancelFunc, e *proto.Exec, s *execStream, own *area, program *program) (end programEnd, err error) {
	owner := "exec " + e.ID
	own.store.Pin(e.Program, owner)
	defer own.store.Unpin(owner)
	if _, err := a.fetchInto(ctx, own, e.Program); err != nil {
		return end, fmt.Errorf("the program was not received: %w", err)
	}
	path, err := own.store.Path(e.Program)
	if err != nil {
		return end, err
	}
	dir, err := a.makeOwn(own, "x")
	if err != nil {
		return end, err
	}
	defer RemoveAll(dir)
	var nonce uint64
	note := newLines(func(string) {})
	o := programOptions{root: own.root, dir: dir, limits: e.Limits, name: e.Name, args: e.Args, env: e.Env, nonce: &nonce}
	if a.bee.isSet() {
		o.report = a.reportFile(dir)
		defer os.Remove(o.report)
	}
	c, err := a.command(path, e.Program, o)
	if err != nil {
		return end, err
	}
	if c.update = e.Update; c.update != "" && a.config.HoldUpdate == nil {
		return end, failf(proto.ReasonRefused, uapi.ERefused, "this node gives programs no kernel updates")
	}
	c.stdout = execOutput{s, proto.ExecStdout, nil}
	c.stderr = execOutput{s, proto.ExecStderr, note}
	x, err := a.execStart(ctx, cancel, c, s, program, seconds(a.limitsFor(e.Limits).Wall))
	if c.program != nil {
		a.programs.put(e.Program)
	}
	if err != nil {
		return end, err
	}
	if x.Over != nil {
		end = programEnd{status: x.status(), over: x.Over.message(a.config.Limits)}
		fmt.Fprintf(c.stderr, "skep: %s\n", end.over)
		return end, nil
	}
	if !a.bee.isSet() {
		if x.Error != "" {
			return end, errors.New(x.Error)
		}
		return programEnd{status: x.status(), signal: x.Signal != 0}, nil
	}
	return a.execProved(x.underBee(), o.report, nonce, e.Program, note)
}

// execStart runs a command to its end, or to that of ctx or of its streams.
func (a *Agent) execStart(ctx context.Context, cancel context.CancelFunc, c *command, s *execStream, program *program, wall time.Duration) (exit, error) {
	stdin, feed, err := os.Pipe()
	if err != nil {
		return exit{}, err
	}
	c.stdin = stdin
	p, err := a.start(c)
	stdin.Close()
	if err != nil {
		feed.Close()
		return exit{}, err
	}
	program.attach(p)
	go func() {
		defer feed.Close()
		if execInput(s.rw, feed) != nil {
			cancel() // the other side is gone
		}
	}()
	go s.probeReader(p.done, cancel)
	select {
	case <-p.done:
	case <-p.wallTimer(wall):
		p.kill()
		<-p.done
		return exit{Signal: signalKill, Over: wallExcess(wall, wall)}, nil
	case <-ctx.Done():
		p.kill()
		<-p.done
		return exit{}, errors.New("the program was stopped")
	}
	return p.exit, nil
}

// execInput copies input to the program until its end, then continues to read, because a
// broken stream must end the program.
func execInput(r io.Reader, feed io.WriteCloser) error {
	buf := make([]byte, proto.ExecFrameMax)
	for {
		t, p, err := proto.ReadExec(r, buf)
		if err != nil {
			return err
		}
		switch {
		case t == proto.ExecSignal:
			return errors.New("it was interrupted")
		case t != proto.ExecStdin:
			return fmt.Errorf("an unexpected frame of type %d for a program", t)
		case len(p) == 0:
			feed.Close()
		default:
			// The program may have closed its input: no fault.
			if _, err := feed.Write(p); err != nil {
				feed.Close()
			}
		}
	}
}

// execProved accepts an exit status only with bee's report of this run.
func (a *Agent) execProved(x exit, path string, nonce uint64, digest string, note *lines) (end programEnd, err error) {
	if x.Error != "" {
		return end, errors.New(x.Error)
	}
	if (x.Code == beeRefused || x.Code == beeNotFound) && note.lastSentence() != "" {
		return end, failf(proto.ReasonError, uapi.EBadModule, "%s", note.lastSentence())
	}
	r, err := readReport(path)
	switch {
	case err != nil && x.Signal != 0:
		return programEnd{status: x.status(), signal: true}, nil // killed before it could write
	case err != nil:
		return end, refusef("bee left no report that can be read (%v)", err)
	case r.nonce != nonce || r.calls == 0:
		return end, refusef("the program did not run under bee")
	case r.program != digest:
		return end, refusef("bee loaded another program than was asked for")
	}
	return programEnd{status: x.status(), signal: x.Signal != 0, proof: *r}, nil
}
