// SPDX-License-Identifier: MIT

package agent

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"skep/grid/proto"
	"skep/internal/place"
	"skep/internal/uapi"
)

// A mover says how this node runs programs that can be moved; the zero value: it cannot.
type mover struct {
	bee string
	cpu string // what a program may see of this CPU, as bee names it
}

// findMover finds out whether this node can run movable programs. They need the same folders
// on every node, so namespaces of their own.
func (a *Agent) findMover(self string) mover {
	bee := string(a.bee)
	if bee == "" {
		path, err := place.FindFor(self, "bee")
		if err != nil {
			return mover{}
		}
		bee = path
	}
	out, err := exec.Command(bee, "--cpu", "-").Output()
	if err != nil || a.confined.Kind != ConfinedSpaces {
		return mover{}
	}
	return mover{bee, strings.TrimSpace(string(out))}
}

// A movable is one leg of a movable program. mu guards what follows it.
type movable struct {
	agent  *Agent
	exec   *proto.Exec
	stream *execStream
	cancel context.CancelFunc
	ctx    context.Context
	stop   context.CancelFunc // of ctx
	path   string             // of the program
	begin  chan string
	begun  chan bool  // the program runs, or its process has ended
	failed chan error // what arrives cannot be restored here
	out    *outlet
	errs   *outlet
	in     *inlet
	note   *lines

	dir     string // its folders are below
	report  string
	nonce   uint64
	process *process
	control *os.File
	fifo    *os.File // bee reads the snapshot from it; nil: there is none
	gate    *gate

	saving sync.Mutex // held while it is saved, and held

	mu      sync.Mutex
	runs    bool
	arrival *arrival
	sealed  bool          // nothing arrives any more
	resumed int           // the last serial that was resumed
	changed chan struct{} // closed when resumed changes
}

func (s *execStream) sendJSON(t proto.ExecType, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.send(t, b)
}

// execMovable prepares a leg, waits until it is to start, and returns its exit status.
func (a *Agent) execMovable(ctx context.Context, cancel context.CancelFunc, e *proto.Exec, s *execStream) (int, error) {
	if a.mover.bee == "" {
		return 0, errors.New("this node cannot run movable programs: they need bee, and namespaces that confine them")
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	m := &movable{agent: a, exec: e, stream: s, ctx: ctx, stop: stop, cancel: cancel, begin: make(chan string, 1),
		failed: make(chan error, 1), changed: make(chan struct{})}
	owner := "exec " + e.ID
	defer a.ownArea().store.Unpin(owner)
	if err := m.prepare(owner); err != nil {
		return 0, err
	}
	in, err := newInlet()
	if err != nil {
		return 0, err
	}
	m.in = in
	defer in.close()
	if err := s.sendJSON(proto.ExecReady, proto.ExecCPU{CPU: a.mover.cpu, Early: true, Fits: true}); err != nil {
		return 0, err
	}
	defer m.close()
	go m.read()
	over := make(chan struct{})
	defer close(over)
	go s.probeReader(over, cancel)
	select {
	case image := <-m.begin:
		return m.run(image)
	case err := <-m.failed:
		return 0, err
	case <-ctx.Done():
		return 0, errStopped
	}
}

// prepare checks that this node can take the program.
func (m *movable) prepare(owner string) error {
	a := m.agent
	if m.exec.CPU != "" {
		out, err := exec.CommandContext(m.ctx, a.mover.bee, "--cpu", m.exec.CPU).CombinedOutput()
		if lacks := strings.TrimSpace(string(out)); err != nil {
			return fmt.Errorf("this CPU lacks %s, which the program may use", lacks)
		}
	}
	own := a.ownArea()
	own.store.Pin(m.exec.Program, owner)
	if _, err := a.fetchInto(m.ctx, own, m.exec.Program); err != nil {
		return fmt.Errorf("the program was not received: %w", err)
	}
	path, err := own.store.Path(m.exec.Program)
	if err != nil {
		return err
	}
	m.path = path
	if want := m.exec.Limits.Memory; want != 0 && want > a.room.read(a.work).memory {
		return fmt.Errorf("this node has less free memory than the %s that it may use", sizeText(float64(want)))
	}
	return checkCached(m.exec.Program, path)
}

// read takes frames of the hub until the stream ends, which ends the program.
func (m *movable) read() {
	defer m.cancel()
	buf := make([]byte, proto.ExecFrameMax)
	for {
		t, p, err := proto.ReadExec(m.stream.rw, buf)
		if err != nil || !m.take(t, p) {
			return
		}
	}
}

func (m *movable) take(t proto.ExecType, p []byte) bool {
	var v proto.ExecSave
	switch t {
	case proto.ExecStdin:
		return m.in.put(p)
	case proto.ExecImage:
		m.takeImage(p)
		return true
	case proto.ExecBegin, proto.ExecRestore:
		select {
		case m.begin <- string(p):
		default:
		}
		return true
	case proto.ExecFreeze:
		if json.Unmarshal(p, &v) != nil {
			return false
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		go m.save(v, m.runs)
		return true
	case proto.ExecFits:
		m.control.Write([]byte{uapi.SnapshotFits})
		return true
	case proto.ExecResume:
		if json.Unmarshal(p, &v) != nil {
			return false
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.resumed = v.Serial
		close(m.changed)
		m.changed = make(chan struct{})
		return true
	}
	return false // SIGNAL: it was interrupted
}

// run starts the program from its beginning or, if image is not empty, from an image.
func (m *movable) run(image string) (int, error) {
	a := m.agent
	program := a.owner.begin(false, func() { go m.stream.send(proto.ExecLeave, nil) })
	defer program.end()
	program.moves()
	if err := m.bring(image); err != nil {
		return 0, err
	}
	program.attach(m.process)
	go m.in.feed(func(n uint64) { m.stream.send(proto.ExecTaken, binary.LittleEndian.AppendUint64(nil, n)) })
	if image != "" {
		m.gate.open() // if it has ended, it says why
	}
	if err := m.awaitStart(); err != nil {
		return 0, err
	}
	wall := seconds(a.limitsFor(m.exec.Limits).Wall)
	select {
	case <-m.process.done:
	case <-m.process.wallTimer(wall):
		m.process.kill()
		<-m.process.done
		m.process.exit.Over = wallExcess(wall, wall)
	case <-m.ctx.Done():
		m.process.kill()
		<-m.process.done
		return 0, errStopped
	}
	m.out.wait()
	m.errs.wait()
	end := m.process.exit
	if end.Over != nil {
		text := fmt.Sprintf("skep: %s\n", end.Over.message(a.config.Limits))
		m.stream.send(proto.ExecStderr, []byte(text))
		return end.status(), nil
	}
	proved, err := a.execProved(end.underBee(), m.report, m.nonce, m.exec.Program, m.note)
	return proved.status, err
}

// makeDirs makes the folders that the program can write to, and that of its images.
func (m *movable) makeDirs(dir string) error {
	for _, d := range jobDirs {
		mode := os.FileMode(0o777) | os.ModeSticky
		if d.guest == jobDir {
			mode = 0o700
		}
		if err := m.makeDir(filepath.Join(dir, d.name), mode); err != nil {
			return err
		}
	}
	return m.makeDir(imageCache(dir), 0o700)
}

func (m *movable) makeDir(name string, mode os.FileMode) error {
	if err := os.Mkdir(name, 0o700); err != nil {
		return err
	}
	if own := m.agent.confined.RunAs; own != 0 {
		if err := os.Chown(name, own, own); err != nil {
			return err
		}
	}
	return os.Chmod(name, mode)
}

// imageCache is where bee keeps what it has rewritten for one leg, whose program may start others
// again and again. The program could change it, so no other has it, and it counts for its disk.
func imageCache(dir string) string { return filepath.Join(dir, "cache") }

// command returns what starts the program.
func (m *movable) command() (*command, error) {
	a := m.agent
	if err := m.makeDirs(m.dir); err != nil {
		return nil, err
	}
	if err := a.makeReport(m.report); err != nil {
		return nil, err
	}
	files := []string{a.mover.bee}
	args := []string{a.mover.bee, "--idle", "--control", streamNumber, "--report", m.report, "--nonce", fmt.Sprintf("%016x", m.nonce),
		"--cache", imageCache(m.dir)}
	l := a.limitsFor(m.exec.Limits)
	if a.bee.isSet() && l.Memory > 0 {
		args = append(args, "--memory", fmt.Sprint(max(l.Memory, lowestBytes)))
		l.Memory = 0 // bee measures it
	}
	if m.fifo != nil {
		files = append(files, m.fifo.Name())
		args = append(args, "--restore", m.fifo.Name(), programPlace)
	} else {
		args = append(args, "--clean-env", "--env", guestPATH, "--env", "TMPDIR=/tmp")
		for _, v := range m.exec.Env {
			args = append(args, "--env", v)
		}
		args = append(append(args, "--name", m.exec.Name, programPlace), m.exec.Args...)
	}
	b := a.boundsFor([]string{m.dir, m.report}, files)
	b.Job, b.Program = m.dir, m.path
	a.letRead(m.path)
	return &command{path: a.mover.bee, dir: m.dir, cwd: jobDir, env: os.Environ(), args: args, bounds: b, limits: l, control: true}, nil
}

// start starts the process and the copies of its streams.
func (m *movable) start(c *command) error {
	outs := []*outlet{m.out, m.errs}
	kinds := []proto.ExecType{proto.ExecStdout, proto.ExecStderr}
	var ends []*os.File
	for i, o := range outs {
		w, err := o.open()
		if err != nil {
			return err
		}
		defer w.Close()
		ends = append(ends, w)
		to := execOutput{m.stream, kinds[i], nil}
		if i == 1 {
			to.note = m.note
		}
		go o.run(to)
	}
	c.stdin, c.stdout, c.stderr = m.in.r, ends[0], ends[1]
	p, err := m.agent.start(c)
	if err != nil {
		return err
	}
	m.process, m.control, m.begun = p, p.stream.(*os.File), make(chan bool, 1)
	go m.awaitBegin(m.control, m.begun)
	return nil
}

// awaitBegin reads what bee says before the program runs.
func (m *movable) awaitBegin(control *os.File, begun chan bool) {
	var b [1]byte
	for {
		n, _ := control.Read(b[:])
		if n != 1 || b[0] != uapi.SnapshotFits {
			begun <- n == 1
			return
		}
		m.mu.Lock()
		tells := m.exec.Fits && !m.sealed
		m.mu.Unlock()
		if tells {
			m.stream.send(proto.ExecFits, nil)
		}
	}
}

// awaitStart waits until the program runs, or has ended without having run.
func (m *movable) awaitStart() error {
	select {
	case <-m.ctx.Done():
		return errStopped
	case ok := <-m.begun:
		if ok {
			m.mu.Lock()
			m.runs = true
			m.mu.Unlock()
			return m.stream.send(proto.ExecStarted, nil)
		}
	}
	return startError(m.process, m.errs, m.note)
}

// startError says why a process ended before its program ran.
func startError(p *process, errs *outlet, note *lines) error {
	<-p.done
	errs.wait()
	switch {
	case p.exit.Error != "":
		return errors.New(p.exit.Error)
	case note.lastSentence() != "":
		return failf(proto.ReasonError, uapi.EBadModule, "%s", note.lastSentence())
	}
	return fmt.Errorf("it did not start: %s", p.exit)
}

// Saving ----------------------------------------------------------------------

// askTimeout is what bee may take for a snapshot.
const askTimeout = 5 * time.Minute

// ask has bee write the program to a pipe and hold it; if it is to be held, most of it while it runs,
// unless it is paused. bee closes the pipe before it answers.
func (m *movable) ask(w int, v proto.ExecSave) (uapi.SnapshotAnswer, error) {
	var answer uapi.SnapshotAnswer
	raw, err := m.control.SyscallConn()
	if err != nil {
		return answer, errors.Join(err, unix.Close(w))
	}
	how := uapi.SnapshotAsk{End: uapi.SnapshotHold}
	if v.Hold && !m.process.isPaused() {
		how.Live = uapi.SnapshotLive
		if v.Await {
			how.Live = uapi.SnapshotAwait
		}
	}
	ask := uapi.Append(nil, how)
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), ask, unix.UnixRights(w), nil, unix.MSG_NOSIGNAL)
		return sent != unix.EAGAIN
	})
	if err = errors.Join(err, sent, unix.Close(w)); err != nil {
		return answer, err
	}
	// A program that the owner paused is saved too: it is asked to rest before it can go on.
	m.process.letAnswer(func() { m.control.Write([]byte{uapi.SnapshotHurry}) })
	defer m.process.stopAgain()
	m.control.SetReadDeadline(time.Now().Add(askTimeout))
	buf := make([]byte, 1024)
	n, err := m.control.Read(buf)
	if err != nil {
		return answer, err
	}
	return uapi.DecodeExact[uapi.SnapshotAnswer](buf[:n])
}

// save saves the program for the hub; if that fails, it goes on.
func (m *movable) save(v proto.ExecSave, runs bool) {
	m.saving.Lock() // after a Resume the next Freeze may be here before the program goes on
	defer m.saving.Unlock()
	err := errors.New("it has not begun")
	if runs {
		err = m.trySave(v)
	}
	if err != nil {
		text := err.Error()
		m.stream.sendJSON(proto.ExecUnsaved, proto.ExecWhy{Serial: v.Serial, Text: text[:min(len(text), proto.TextMax)]})
	}
}

// saved is what bee's part of an image has become.
type saved struct {
	bytes uint64
	err   error
}

// openPipe returns the pipe of a snapshot. Only bee writes to it, in blocking mode.
func openPipe() (r *os.File, w int, err error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return nil, -1, err
	}
	unix.FcntlInt(uintptr(fd[1]), unix.F_SETPIPE_SZ, 1<<20) // it works with less, too
	if err := unix.SetNonblock(fd[0], true); err != nil {
		return nil, -1, errors.Join(err, unix.Close(fd[0]), unix.Close(fd[1]))
	}
	r = os.NewFile(uintptr(fd[0]), "snapshot")
	return r, fd[1], r.SetReadDeadline(time.Now().Add(askTimeout))
}

// pack writes an image of at most `most` bytes to w. If it returns no error, the program is held since the time began.
// It gives up when the program is to go on. bee writes to a pipe, not to a file: it stands in the memory of the program, and would be
// bounded by nothing.
func (m *movable) pack(w io.Writer, idle func() error, most uint64, v proto.ExecSave) (began time.Time, a proto.ExecAccount, err error) {
	r, end, err := openPipe()
	if err != nil {
		return began, a, err
	}
	defer r.Close()
	over := make(chan struct{})
	defer close(over)
	go func() {
		if m.awaitResume(v.Serial, over) {
			r.Close() // bee gives up, and the program goes on or need not stop
		}
	}()
	t := tar.NewWriter(&capped{w, most})
	done := make(chan saved, 1)
	go func() {
		n, err := packSnapshot(t, r, idle)
		r.Close() // bee waits for nothing
		done <- saved{n, err}
	}()
	answer, err := m.ask(end, v)
	if err != nil {
		r.Close()
		<-done
		return began, a, fmt.Errorf("bee does not answer: %w", err)
	}
	saved := time.Now()
	began = time.Now().Add(-time.Duration(answer.PauseNS))
	s := <-done
	if answer.Saved == 0 {
		if s.err != nil {
			return began, a, s.err
		}
		return began, a, errors.New(unix.ByteSliceToString(answer.Why[:]))
	}
	if s.err == nil && s.bytes != answer.Bytes {
		s.err = fmt.Errorf("bee wrote %d bytes and says that it wrote %d", s.bytes, answer.Bytes)
	}
	if s.err == nil {
		s.err = packFolders(t, m.dir)
	}
	if s.err != nil {
		m.goOn()
	}
	return began, accountOf(&answer, time.Since(saved)), s.err
}

func accountOf(v *uapi.SnapshotAnswer, pack time.Duration) proto.ExecAccount {
	return proto.ExecAccount{Early: v.Early, Frozen: v.Bytes - v.Early, Pages: v.Pages, Rest: int64(v.RestNS),
		Save: int64(v.PauseNS - v.RestNS), Used: int64(v.UsedNS), Pack: int64(pack)}
}

func (m *movable) goOn() { m.control.Write([]byte{0}) }

// imageMost bounds the bytes of an image, in which memory may come twice and a half. Without a
// limit of memory the node's memory bounds what a program has.
func (m *movable) imageMost() uint64 {
	l := m.agent.limitsFor(m.exec.Limits)
	total, _ := memoryInfo()
	return cmp.Or(l.Disk, unbounded) + 3*cmp.Or(l.Memory, total)
}

// fileMost bounds an image in a file of this node's.
func (m *movable) fileMost() uint64 { return min(m.imageMost(), freeBytes(m.agent.tmp)/2) }

// trySave packs what moves straight into the stream. What goes on is packed into a file, because
// that takes less time, and sent later. Before the hub has Saved, the program can always go on.
func (m *movable) trySave(v proto.ExecSave) error {
	stream := bufio.NewWriterSize(execOutput{m.stream, proto.ExecImage, nil}, proto.ExecFrameMax)
	to := io.Writer(stream)
	var file *os.File
	most := m.imageMost()
	if !v.Hold {
		var err error
		most = m.fileMost()
		if file, err = m.tempFile(); err != nil {
			return err
		}
		defer file.Close()
		to = file
	}
	sum, count := sha256.New(), new(counter)
	began, account, err := m.pack(io.MultiWriter(to, sum, count), stream.Flush, most, v)
	if err != nil {
		return err
	}
	packed := time.Now()
	m.out.drain()
	m.errs.drain()
	account.Pack += int64(time.Since(packed))
	end := proto.ExecImageEnd{Serial: v.Serial, Account: account, Input: m.in.consumed(), Bytes: int64(*count), Digest: hex.EncodeToString(sum.Sum(nil))}
	if err := m.stream.sendJSON(proto.ExecFrozen, v); err != nil {
		return nil // nobody hears of it: it ends
	}
	if !v.Hold {
		m.goOn()
	}
	end.Pause = int64(time.Since(began))
	if !v.Hold {
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.Copy(stream, file); err != nil {
			return nil
		}
	}
	if stream.Flush() != nil || m.stream.sendJSON(proto.ExecSaved, end) != nil || !v.Hold {
		return nil
	}
	if m.awaitResume(v.Serial, nil) {
		m.goOn()
	}
	return nil
}

// A counter counts the bytes that are written to it.
type counter uint64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// tempFile returns a file without a name.
func (m *movable) tempFile() (*os.File, error) {
	f, err := os.CreateTemp(m.agent.tmp, "i")
	if err == nil {
		err = os.Remove(f.Name())
	}
	return f, err
}

// awaitResume waits until a program is to go on; false: it is to end, or over is closed.
func (m *movable) awaitResume(serial int, over <-chan struct{}) bool {
	for {
		m.mu.Lock()
		done, changed := m.resumed == serial, m.changed
		m.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-changed:
		case <-over:
			return false
		case <-m.ctx.Done():
			return false
		}
	}
}
