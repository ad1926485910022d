// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// A worker is one process of a module. Between calls it belongs to the pool,
// during a call to that call's goroutine.
type worker struct {
	agent   *Agent
	session string
	area    *area // of its user
	id      proto.Worker
	limits  proto.Limits
	dir     string // its temporary directory, removed with it
	nonce   uint64 // bee's; 0 on other substrates
	calls   uint64 // emulated calls at its last proof
	process *process
	wire    *wire
	output  *lines
	flushed chan struct{}          // closed when it has ended and all of its output was passed on
	busy    atomic.Uint64          // the call that it runs, for its log lines
	called  stopwatch              // runs while the worker waits for its master
	mute    atomic.Int64           // it was killed for a silence this long, in nanoseconds
	deaf    atomic.Bool            // or for reading nothing as long
	over    atomic.Pointer[excess] // or for this
	since   time.Time              // it is idle; the pool's lock
}

// A failure is the reason for which a call was not done, as in the protocol.
type failure struct {
	reason proto.Reason
	code   uapi.ErrorCode
	text   string
	status int

	changed string // the blob in the cache that was changed
}

func (f *failure) Error() string { return f.text }

func failf(reason proto.Reason, code uapi.ErrorCode, format string, args ...any) *failure {
	return &failure{reason: reason, code: code, text: fmt.Sprintf(format, args...)}
}

// refusef returns the failure of a worker whose proof is missing or wrong. Its results are dropped.
func refusef(format string, args ...any) *failure {
	return failf(proto.ReasonRefused, uapi.ERefused,
		"refused by a safety check: "+format, args...)
}

func newNonce() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.LittleEndian.Uint64(b[:]) | 1
}

// startWorker brings a worker up to its first READY.
func (a *Agent) startWorker(ctx context.Context, l *lease) (*worker, error) {
	w := &worker{agent: a, session: l.Session, area: l.area, id: l.Worker, limits: l.Limits, flushed: make(chan struct{})}
	w.busy.Store(l.Call)
	path, err := l.area.store.Path(l.Worker.Module)
	if err != nil {
		return nil, failf(proto.ReasonNode, uapi.EInternal, "the program is not in the cache: %v", err)
	}
	if w.dir, err = a.makeOwn(l.area, "w"); err != nil {
		return nil, failf(proto.ReasonNode, uapi.EInternal, "no directory for a worker: %v", err)
	}
	w.output = newLines(func(text string) {
		a.log(proto.Log{Session: w.session, Call: w.busy.Load(), Text: text})
	})
	if err := w.output.keepFile(l.area.logs, w.session); err != nil {
		a.config.Log("the output of a worker is not kept: %v", err)
	}
	o := programOptions{root: l.area.root, dir: w.dir, limits: workerLimits(l.Limits), files: a.initFiles(l),
		report: w.reportFile(), name: "worker", stream: true, env: []string{"SKEP_STREAM=3",
			fmt.Sprintf("SKEP_REVISION=%d", uapi.SessionRevision)}, nonce: &w.nonce}
	if launcher := a.launcherOf(path); launcher != "" {
		o.files, o.env = append(o.files, launcher), append(o.env, "SKEP_PROGRAM="+launcher)
	}
	c, err := a.command(path, l.Worker.Module, o)
	if err != nil {
		w.output.flush()
		RemoveAll(w.dir)
		return nil, err
	}
	c.stdout, c.stderr, c.stream = w.output, w.output, true
	if c.initial, err = a.openInit(l); err == nil {
		w.process, err = a.start(c)
	}
	if c.program != nil {
		a.programs.put(l.Worker.Module)
	}
	if c.initial != nil {
		defer a.initials.put(l.Init.Blob)
	}
	if err != nil {
		w.output.flush()
		RemoveAll(w.dir)
		return nil, nodeFailure(err)
	}
	l.program.attach(w.process)
	w.wire = newWire(w.process.stream)
	go func() {
		<-w.process.done
		w.wire.close(errors.New("the worker ended"))
		w.output.flush()
		close(w.flushed)
		RemoveAll(w.dir)
		if path := w.reportFile(); path != "" {
			os.Remove(path)
		}
	}()
	if err := w.open(ctx, &l.Lease); err != nil {
		return nil, w.failureReason(ctx, err)
	}
	return w, nil
}

// reportFile is bee's report about the program that works in dir.
func (a *Agent) reportFile(dir string) string {
	return filepath.Join(a.reports, filepath.Base(dir))
}

// initFiles lists the files that Initialize reads by name; open reports a missing one.
func (a *Agent) initFiles(l *lease) []string {
	if l.Init == nil || !a.bee.isSet() {
		return nil
	}
	path, err := l.area.store.Path(l.Init.Blob)
	if err != nil {
		return nil
	}
	return []string{path}
}

// launcherOf returns the program that starts the MPI jobs of a worker program, which is this
// one, or an empty string if the worker starts none.
func (a *Agent) launcherOf(program string) string {
	if a.bee.isSet() {
		return ""
	}
	file, err := os.Open(program)
	if err != nil {
		return ""
	}
	defer file.Close()
	m, _, err := uapi.ReadManifest(file)
	if err != nil || !m.HasRanks() {
		return ""
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	return self
}

func (w *worker) reportFile() string {
	if !w.agent.bee.isSet() {
		return ""
	}
	return w.agent.reportFile(w.dir)
}

// workerLimits are those of the process; processor time is each call's.
func workerLimits(l proto.Limits) proto.Limits {
	l.CPU = 0
	return l
}

// open exchanges frames with a new worker until it can take calls.
func (w *worker) open(ctx context.Context, l *proto.Lease) error {
	defer w.watchLimits(ctx, w.agent.startLimit, 0)()
	if err := w.wire.exchangeHello(); err != nil {
		return err
	}
	if err := w.waitReady(); err != nil {
		return err
	}
	if err := w.checkDigest(); err != nil || l.Init == nil {
		return err
	}
	init, err := w.agent.initFrame(w.area, l.Init)
	if err != nil {
		return nodeFailure(err)
	}
	if err := w.wire.write(uapi.Frame{Type: uapi.TypeInit}, init.Encode()); err != nil {
		return err
	}
	err = w.waitReady()
	var f *failure
	if errors.As(err, &f) && f.code == uapi.EDigest {
		return blobChanged(l.Init.Blob)
	}
	return err
}

// openInit returns the memory with the data of Initialize where workers inherit
// it, else nil.
func (a *Agent) openInit(l *lease) (*os.File, error) {
	if l.Init == nil || a.bee.isSet() {
		return nil, nil
	}
	path, err := l.area.store.Path(l.Init.Blob)
	if err != nil {
		return nil, failf(proto.ReasonNode, uapi.EInternal, "the data of Initialize is not in the cache: %v", err)
	}
	return a.initials.get(l.Init.Blob, path)
}

// initFrame reports where the data of Initialize is. bee's programs read it by
// its name and digest what they read.
func (a *Agent) initFrame(p *area, i *proto.Init) (uapi.Init, error) {
	init := uapi.Init{Function: i.Function, Length: i.Length, Path: initialPath}
	if !a.bee.isSet() {
		return init, nil
	}
	path, err := p.store.Path(i.Blob)
	if err == nil {
		init.Path, err = guestPath(p.root, path)
	}
	if err == nil {
		var digest []byte
		digest, err = hex.DecodeString(i.Blob)
		if copy(init.Digest[:], digest) != len(init.Digest) {
			err = errors.New("the lease's digest of Initialize is invalid")
		}
	}
	return init, err
}

// nodeFailure returns err as a failure of the node, unless it is a failure already.
func nodeFailure(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return failf(proto.ReasonNode, uapi.EInternal, "%v", err)
}

func (w *worker) waitReady() error {
	f, err := w.wire.read(nil)
	if err != nil {
		return err
	}
	switch f.Type {
	case uapi.TypeError:
		return workerError(f.payload)
	case uapi.TypeReady:
	default:
		return fmt.Errorf("the worker sent %v where READY was due", f.Type)
	}
	r, err := uapi.DecodeExact[uapi.Ready](f.payload)
	if err != nil {
		return err
	}
	return w.checkProof(r.Proof)
}

// checkProof checks bee's answer to the random number.
func (w *worker) checkProof(p uapi.Proof) error {
	switch {
	case !w.agent.bee.isSet():
		return nil
	case p.Nonce != w.nonce:
		return refusef("the program did not run under bee (its answer to the nonce is wrong)")
	case p.Calls == 0 || p.Calls < w.calls:
		return refusef("the program did not run under bee (no system calls were counted)")
	}
	w.calls = p.Calls
	return nil
}

// checkDigest compares what bee loaded with what was to be loaded.
func (w *worker) checkDigest() error {
	if !w.agent.bee.isSet() {
		return nil
	}
	r, err := readReport(w.reportFile())
	switch {
	case err != nil:
		return refusef("bee left no report that can be read (%v)", err)
	case r.nonce != w.nonce:
		return refusef("bee's report is of another run")
	case r.program != w.id.Module:
		return refusef("bee loaded another program than was leased")
	}
	return nil
}

func workerError(payload []byte) error {
	e, err := uapi.ParseError(payload)
	if err != nil {
		return err
	}
	return &failure{reason: proto.ReasonError, code: e.Code, text: e.Text}
}

// watchLimits kills the worker when ctx ends, when it says nothing for limit, or
// when wall is over, 0: never; it ends with the function that it returns.
func (w *worker) watchLimits(ctx context.Context, limit, wall time.Duration) func() {
	stop, ended := make(chan struct{}), make(chan struct{})
	w.wire.noteHeard()
	began, paused := time.Now(), w.process.pausedFor()+w.called.read()
	go func() {
		defer close(ended)
		often := limit / 16
		if wall > 0 {
			often = min(often, wall/8)
		}
		tick := time.NewTicker(max(often, time.Millisecond))
		defer tick.Stop()
		stopped := false
		for {
			select {
			case <-stop:
				return
			case <-ctx.Done():
				w.process.kill()
				return
			case <-tick.C:
				was := stopped
				if stopped = w.process.isPaused(); stopped || was {
					w.wire.restartSilence()
					continue
				}
				deaf := w.wire.unreadFor() > limit
				if deaf || w.wire.silentFor() > limit {
					w.deaf.Store(deaf)
					w.mute.Store(int64(limit))
					w.process.kill()
					return
				}
				if used := time.Since(began) - (w.process.pausedFor() + w.called.read() - paused); wall > 0 && used > wall {
					w.over.Store(wallExcess(wall, used))
					w.process.kill()
					return
				}
			}
		}
	}()
	return func() {
		close(stop)
		<-ended // ctx may end right after this, and is not to kill an idle worker
	}
}

// failureReason converts the error of a broken worker into a readable reason: usually how the process ended.
func (w *worker) failureReason(ctx context.Context, err error) error {
	var f *failure
	if errors.As(err, &f) {
		w.killAndWait()
		return f
	}
	var source *sourceError
	if errors.As(err, &source) {
		w.killAndWait()
		return failf(proto.ReasonTransfer, uapi.EInternal, "the arguments did not arrive: %v", source)
	}
	// A broken stream usually means that the worker is ending by itself.
	ended := w.wait(2 * time.Second)
	w.killAndWait()
	e := w.process.exit
	if w.agent.bee.isSet() {
		e = e.underBee()
	}
	switch {
	case ctx.Err() != nil:
		return cancelFailure(ctx)
	case w.over.Load() != nil:
		return w.agent.limitFailure(w.over.Load())
	case e.Over != nil:
		return w.agent.limitFailure(e.Over)
	case w.deaf.Load():
		return failf(proto.ReasonMute, uapi.EWorker, "the worker read nothing for %v and was killed", time.Duration(w.mute.Load()))
	case w.mute.Load() != 0:
		return failf(proto.ReasonMute, uapi.EWorker, "the worker sent nothing for %v and was killed", time.Duration(w.mute.Load()))
	case !ended:
		return failf(proto.ReasonDied, uapi.EProtocol, "the worker was killed: %v", err)
	case w.agent.bee.isSet() && (e.Code == beeRefused || e.Code == beeNotFound) && w.output.lastSentence() != "":
		f := failf(proto.ReasonDied, uapi.EBadModule, "%s", w.output.lastSentence())
		f.status = e.status()
		return f
	}
	f = failf(proto.ReasonDied, uapi.EWorker, "the worker died: %s", e)
	f.status = e.status()
	return f
}

// killAndWait kills the worker and waits until all its processes have ended and their
// output was passed on.
func (w *worker) killAndWait() {
	w.process.kill()
	<-w.flushed
}

func (w *worker) wait(limit time.Duration) bool {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-w.flushed:
		return true
	case <-t.C:
		return false
	}
}

// sendBye lets a worker end in its own time, which is short.
func (w *worker) sendBye() {
	w.wire.write(uapi.Frame{Type: uapi.TypeBye}, nil)
	w.wait(time.Second)
	w.killAndWait()
}

// An answer is a RESULT whose data has not been read yet.
type answer struct {
	uapi.Result
	worker *worker
	call   uint64
	digest hash.Hash
	left   uint64 // bytes
	part   []byte // of the current frame
	buf    []byte
	last   bool
}

// run sends a call and waits for the head of its answer. After an error the worker
// cannot be used again, unless the error is a failure with ReasonError.
func (w *worker) run(ctx context.Context, l *proto.Lease, args io.Reader) (*answer, error) {
	c := uapi.Call{Function: l.Function, Length: l.Total(), Result: l.Result}
	if err := w.wire.write(uapi.Frame{Type: uapi.TypeCall, Call: l.Call}, uapi.Append(nil, c)); err != nil {
		return nil, err
	}
	sent := make(chan error, 1)
	go func() { sent <- w.wire.sendData(l.Call, args, l.Total()) }()
	r, err := w.readReply(l.Call, sent)
	for number := uint64(1); err == nil && r.Type == uapi.TypeCallback && l.Callbacks; number++ {
		if err = w.passCallback(ctx, l, number, r.payload); err == nil {
			r, err = w.readReply(l.Call, sent)
		}
	}
	var a *answer
	if err == nil {
		a, err = w.answerOf(l.Call, r)
	}
	if err != nil {
		return nil, err
	}
	if a.Length > l.Result {
		return nil, failf(proto.ReasonDied, uapi.EWorker,
			"the worker announced a result of %d bytes where the interface of %s and its arguments allow %d",
			a.Length, l.Name, l.Result)
	}
	return a, nil
}

// readReply reads what the worker sends when all its arguments were sent; an ERROR becomes an
// error.
func (w *worker) readReply(call uint64, sent chan error) (wireFrame, error) {
	type reply struct {
		f   wireFrame
		err error
	}
	got := make(chan reply, 1)
	go func() {
		f, err := w.wire.read(nil)
		got <- reply{f, err}
	}()
	var r reply
	select {
	case r = <-got:
	case err := <-sent:
		if err != nil {
			return wireFrame{}, err // the read ends with the worker
		}
		r = <-got
		sent <- nil
	}
	if r.err != nil {
		return wireFrame{}, r.err
	}
	if r.f.Call != call {
		return wireFrame{}, fmt.Errorf("it sent %v of another call", r.f.Type)
	}
	switch r.f.Type {
	case uapi.TypeError:
		return wireFrame{}, w.handleError(r.f.payload, sent)
	case uapi.TypeResult, uapi.TypeCallback:
		err := <-sent // they count only if all arguments were sent
		sent <- nil
		return r.f, err
	}
	return wireFrame{}, fmt.Errorf("it sent %v where RESULT was due", r.f.Type)
}

// answerOf returns the answer of which a worker sent the head.
func (w *worker) answerOf(call uint64, f wireFrame) (*answer, error) {
	if f.Type != uapi.TypeResult {
		return nil, fmt.Errorf("it sent %v where RESULT was due", f.Type)
	}
	res, err := uapi.DecodeExact[uapi.Result](f.payload)
	if err == nil {
		err = w.checkProof(res.Proof)
	}
	w.wire.idle.Add(1) // from now on silence counts only inside Read
	return &answer{Result: res, worker: w, call: call, digest: sha256.New(), left: res.Length}, err
}

// handleError returns the error with which a worker answered a call. The worker can take
// another call if all arguments were sent.
func (w *worker) handleError(payload []byte, sent chan error) error {
	err := workerError(payload)
	if sendErr := <-sent; sendErr != nil {
		return sendErr
	}
	return err
}

// Read returns the result's bytes, at most as many as were announced.
func (a *answer) Read(p []byte) (int, error) {
	a.worker.wire.noteHeard()
	a.worker.wire.idle.Add(-1)
	defer a.worker.wire.idle.Add(1)
	for len(a.part) == 0 {
		if a.last {
			if a.left != 0 {
				return 0, errors.New("the worker sent fewer bytes than it announced")
			}
			return 0, io.EOF
		}
		f, err := a.worker.wire.read(a.buf)
		switch {
		case err == io.EOF: // not the result's end
			return 0, io.ErrUnexpectedEOF
		case err != nil:
			return 0, err
		case f.Type != uapi.TypeData || f.Call != a.call:
			return 0, fmt.Errorf("the worker sent %v inside a result", f.Type)
		case uint64(f.Length) > a.left:
			return 0, errors.New("the worker sent more bytes than it announced")
		case f.Length == 0 && f.Flags&uapi.FlagLast == 0:
			return 0, errors.New("the worker sent an empty part")
		}
		a.buf, a.part, a.last = f.payload[:cap(f.payload)], f.payload, f.Flags&uapi.FlagLast != 0
		a.left -= uint64(f.Length)
	}
	n := copy(p, a.part)
	a.digest.Write(p[:n])
	a.part = a.part[n:]
	return n, nil
}

func (a *answer) digestHex() string { return hex.EncodeToString(a.digest.Sum(nil)) }
