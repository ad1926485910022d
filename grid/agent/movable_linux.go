// SPDX-License-Identifier: MIT

package agent

import (
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
	path   string // of the program
	begin  chan string
	out    outlet
	errs   outlet
	in     *inlet
	note   *lines

	dir     string // its folders are below
	report  string
	nonce   uint64
	process *process
	control *os.File

	saving sync.Mutex // held while it is saved, and held

	mu      sync.Mutex
	runs    bool
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
	m := &movable{agent: a, exec: e, stream: s, ctx: ctx, cancel: cancel, begin: make(chan string, 1),
		changed: make(chan struct{}), note: newLines(func(string) {})}
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
	if err := s.sendJSON(proto.ExecReady, proto.ExecCPU{CPU: a.mover.cpu}); err != nil {
		return 0, err
	}
	go m.read()
	over := make(chan struct{})
	defer close(over)
	go s.probeReader(over, cancel)
	select {
	case image := <-m.begin:
		return m.run(owner, image)
	case <-ctx.Done():
		return 0, errors.New("the program was stopped")
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
	if want := m.exec.Limits.Memory; want != 0 && want > a.memory.read() {
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
func (m *movable) run(owner, image string) (int, error) {
	a := m.agent
	dir, err := a.makeOwn(a.ownArea(), "x")
	if err != nil {
		return 0, err
	}
	defer RemoveAll(dir)
	m.dir = dir
	m.report = a.reportFile(dir)
	defer os.Remove(m.report)
	c, snapshot, err := m.command(owner, dir, image)
	if snapshot != "" {
		defer os.Remove(snapshot)
	}
	if err != nil {
		return 0, err
	}
	program := a.owner.begin(false, func() { go m.stream.send(proto.ExecLeave, nil) })
	defer program.end()
	program.moves()
	if err := m.start(c); err != nil {
		return 0, err
	}
	program.attach(m.process)
	if err := m.awaitStart(image); err != nil {
		m.process.kill()
		<-m.process.done
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
		return 0, errors.New("the program was stopped")
	}
	m.out.wait()
	m.errs.wait()
	end := m.process.exit
	if end.Over != nil {
		text := fmt.Sprintf("skep: %s\n", end.Over.message(a.config.Limits))
		m.stream.send(proto.ExecStderr, []byte(text))
		return end.status(), nil
	}
	return a.execProved(end.underBee(), m.report, m.nonce, m.exec.Program, m.note)
}

// makeDirs makes the folders that the program can write to.
func (m *movable) makeDirs(dir string) error {
	for _, d := range jobDirs {
		name := filepath.Join(dir, d.name)
		mode := os.FileMode(0o777) | os.ModeSticky
		if d.guest == jobDir {
			mode = 0o700
		}
		if err := os.Mkdir(name, 0o700); err != nil {
			return err
		}
		if own := m.agent.confined.RunAs; own != 0 {
			if err := os.Chown(name, own, own); err != nil {
				return err
			}
		}
		if err := os.Chmod(name, mode); err != nil {
			return err
		}
	}
	return nil
}

// command returns what starts the program, and the name of the snapshot from which it goes on.
func (m *movable) command(owner, dir, image string) (c *command, snapshot string, err error) {
	a := m.agent
	if err := m.makeDirs(dir); err != nil {
		return nil, "", err
	}
	m.nonce = newNonce()
	if err := a.makeReport(m.report); err != nil {
		return nil, "", err
	}
	files := []string{a.mover.bee, m.path}
	args := []string{a.mover.bee, "--idle", "--control", streamNumber, "--report", m.report, "--nonce", fmt.Sprintf("%016x", m.nonce)}
	l := a.limitsFor(m.exec.Limits)
	if a.bee.isSet() && l.Memory > 0 {
		args = append(args, "--memory", fmt.Sprint(max(l.Memory, lowestBytes)))
		l.Memory = 0 // bee measures it
	}
	if image != "" {
		if snapshot, err = m.unpack(owner, dir, image, l.Disk); err != nil {
			return nil, snapshot, err
		}
		files = append(files, snapshot)
		args = append(args, "--restore", snapshot, m.path)
	} else {
		args = append(args, "--clean-env", "--env", guestPATH, "--env", "TMPDIR=/tmp")
		for _, v := range m.exec.Env {
			args = append(args, "--env", v)
		}
		args = append(append(args, "--name", m.exec.Name, m.path), m.exec.Args...)
	}
	b := a.boundsFor([]string{dir, m.report}, files)
	b.Job = dir
	return &command{path: a.mover.bee, dir: dir, cwd: jobDir, env: os.Environ(), args: args, bounds: b, limits: l, control: true}, snapshot, nil
}

func (m *movable) unpack(owner, dir, image string, most uint64) (string, error) {
	a := m.agent
	own := a.ownArea()
	own.store.Pin(image, owner)
	if _, err := a.fetchInto(m.ctx, own, image); err != nil {
		return "", fmt.Errorf("the program's image was not received: %w", err)
	}
	path, err := own.store.Path(image)
	if err != nil {
		return "", err
	}
	from, err := openCached(path)
	if err != nil {
		return "", err
	}
	defer from.Close()
	snapshot, err := os.CreateTemp(own.tmp, "s")
	if err != nil {
		return "", err
	}
	defer snapshot.Close()
	return snapshot.Name(), unpackImage(from, snapshot, dir, a.confined.RunAs, most)
}

// start starts the process and the copies of its streams.
func (m *movable) start(c *command) error {
	outs := []*outlet{&m.out, &m.errs}
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
	m.process, m.control = p, p.stream.(*os.File)
	go m.in.feed(func(n uint64) { m.stream.send(proto.ExecTaken, binary.LittleEndian.AppendUint64(nil, n)) })
	return nil
}

// awaitStart waits until the program runs, or has ended without having run.
func (m *movable) awaitStart(image string) error {
	begun := make(chan bool, 1)
	go func() {
		var b [1]byte
		n, _ := m.control.Read(b[:])
		begun <- n == 1
	}()
	select {
	case <-m.ctx.Done():
		return errors.New("the program was stopped")
	case ok := <-begun:
		if ok {
			m.mu.Lock()
			m.runs = true
			m.mu.Unlock()
			return m.stream.send(proto.ExecStarted, nil)
		}
	}
	<-m.process.done
	m.errs.wait()
	switch {
	case m.process.exit.Error != "":
		return errors.New(m.process.exit.Error)
	case m.note.lastSentence() != "":
		return failf(proto.ReasonError, uapi.EBadModule, "%s", m.note.lastSentence())
	}
	return fmt.Errorf("it did not start: %s", m.process.exit)
}

// Saving ----------------------------------------------------------------------

// askTimeout is what bee may take for a snapshot.
const askTimeout = 5 * time.Minute

// ask has bee save the program in a file and hold it.
func (m *movable) ask(f *os.File) (uapi.SnapshotAnswer, error) {
	var answer uapi.SnapshotAnswer
	raw, err := m.control.SyscallConn()
	if err != nil {
		return answer, err
	}
	ask := uapi.Append(nil, uapi.SnapshotAsk{End: uapi.SnapshotHold})
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), ask, unix.UnixRights(int(f.Fd())), nil, unix.MSG_NOSIGNAL)
		return sent != unix.EAGAIN
	})
	if err = errors.Join(err, sent); err != nil {
		return answer, err
	}
	// A program that the owner paused is saved too: it is asked to rest before it can go on.
	m.process.letAnswer()
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

func (m *movable) trySave(v proto.ExecSave) error {
	snapshot, err := m.tempFile()
	if err != nil {
		return err
	}
	defer snapshot.Close()
	answer, err := m.ask(snapshot)
	if err != nil {
		return fmt.Errorf("bee does not answer: %w", err)
	}
	began := time.Now().Add(-time.Duration(answer.PauseNS))
	if answer.Saved == 0 {
		return errors.New(unix.ByteSliceToString(answer.Why[:]))
	}
	held := true
	goOn := func() {
		if held {
			m.control.Write([]byte{0})
		}
		held = false
	}
	m.out.drain()
	m.errs.drain()
	end := proto.ExecImageEnd{Serial: v.Serial, Input: m.in.consumed()}
	image, err := m.tempFile()
	if err != nil {
		goOn()
		return err
	}
	defer image.Close()
	sum := sha256.New()
	if err := packImage(io.MultiWriter(image, sum), snapshot, m.dir); err != nil {
		goOn()
		return err
	}
	if err := m.stream.sendJSON(proto.ExecFrozen, v); err != nil {
		return nil // nobody hears of it: it ends
	}
	if !v.Hold {
		goOn()
	}
	end.Pause, end.Digest = int64(time.Since(began)), hex.EncodeToString(sum.Sum(nil))
	if end.Bytes, err = m.sendImage(image); err == nil {
		err = m.stream.sendJSON(proto.ExecSaved, end)
	}
	if err != nil || !v.Hold {
		return nil
	}
	if m.awaitResume(v.Serial) {
		goOn()
	}
	return nil
}

// tempFile returns a file without a name.
func (m *movable) tempFile() (*os.File, error) {
	f, err := os.CreateTemp(m.agent.tmp, "i")
	if err == nil {
		err = os.Remove(f.Name())
	}
	return f, err
}

func (m *movable) sendImage(f *os.File) (n int64, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	return io.Copy(execOutput{m.stream, proto.ExecImage, nil}, f)
}

// awaitResume waits until a program that is held goes on; false: it is to end.
func (m *movable) awaitResume(serial int) bool {
	for {
		m.mu.Lock()
		done, changed := m.resumed == serial, m.changed
		m.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-changed:
		case <-m.ctx.Done():
			return false
		}
	}
}
