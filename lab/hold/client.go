// SPDX-License-Identifier: MIT

//go:build linux

package hold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skep/internal/peercred"
	"skep/lab"
	"skep/lab/wire"
)

// Time limits for a holder: to answer, to end its machine, and to end after SIGKILL.
const (
	infoPatient   = 3 * time.Second
	streamPatient = 30 * time.Second
	downPatient   = offPatient + flushTime + 10*time.Second
	killPatient   = 10 * time.Second
	hangPatient   = 3 * time.Second
	causeTimeout  = 10 * time.Second
)

// Gone says that the machine ended while a program ran on it, or did not exist.
type Gone struct{ Text string }

func (g *Gone) Error() string { return g.Text }

// A Machine is a machine kept by a holder.
type Machine struct {
	Info
	build string
	tie   io.WriteCloser // input of the holder, if this process started it; its end ends the machine
}

// Start runs holder, the command line of a holder, which boots a machine. The machine ends
// with this process unless Keep is called.
func Start(ctx context.Context, holder []string, build string, m lab.Machine, progress func(State)) (*Machine, error) {
	cmd := exec.Command(holder[0], holder[1:]...)
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr // used until the holder has a folder for its log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	tie, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// Kill a holder, and with it its QEMU, that does not end when its input ends,
	// because it is stopped or hangs.
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(killPatient, func() { cmd.Process.Kill() })
	})()
	info, err := followOrder(ctx, tie, out, order{build, m}, progress)
	if err != nil {
		tie.Close()
		cmd.Wait()
		return nil, err
	}
	go cmd.Wait()
	return &Machine{Info: *info, build: build, tie: tie}, nil
}

// followOrder reads the answers to an order up to the last one. When ctx ends, it closes
// the holder's input, so that the holder ends the machine and answers soon.
func followOrder(ctx context.Context, tie io.WriteCloser, out io.Reader, o order, progress func(State)) (*Info, error) {
	if err := wire.Write(tie, o); err != nil {
		return nil, fmt.Errorf("the holder did not accept the order: %w", err)
	}
	defer context.AfterFunc(ctx, func() { tie.Close() })()
	for {
		var a answer
		err := wire.Read(out, &a)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, fmt.Errorf("the owner process of the machine ended without a message (%w): start the machine again", err)
		case a.Error != "":
			return nil, errors.New(a.Error)
		case a.Info != nil:
			return a.Info, nil
		}
		progress(a.Progress)
	}
}

// Keep lets the machine outlive this process.
func (m *Machine) Keep() error {
	_, err := m.tie.Write([]byte{keep})
	return errors.Join(err, m.tie.Close())
}

// Exec runs a program and returns its exit status. Its error is a *lab.RunError if the
// program could not start, and a *Gone if the machine ended.
func (m *Machine) Exec(ctx context.Context, p lab.Program, s lab.Streams) (int, error) {
	c, err := m.openStream(ctx)
	if err != nil {
		return 0, err
	}
	// A guest that hangs does not react to the end of ctx, so close the connection.
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(hangPatient, func() { c.Close() })
	})()
	status, err := lab.RunProgram(ctx, c, p, s)
	var runErr *lab.RunError
	if err == nil || errors.As(err, &runErr) || errors.Is(err, lab.ErrOutput) {
		return status, err
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return 0, m.lostError(err)
}

// openStream returns a connection that is joined to a stream of the guest.
func (m *Machine) openStream(ctx context.Context) (*net.UnixConn, error) {
	c, err := dial(machineDir(m.build, m.Name))
	if err != nil {
		return nil, m.lostError(err)
	}
	var a answer
	c.SetDeadline(time.Now().Add(streamPatient))
	defer c.SetDeadline(time.Time{})
	defer context.AfterFunc(ctx, func() { c.Close() })()
	err = wire.Write(c, ask{opStream})
	if err == nil {
		err = wire.Read(c, &a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if err != nil {
		err = m.lostError(err)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// lostError returns the reason why the machine does not answer. A broken connection usually
// means that the machine ended, so lostError waits a moment for the holder to record this.
func (m *Machine) lostError(err error) error {
	dir := machineDir(m.build, m.Name)
	left := causeTimeout
	var broken net.Error
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, &broken) {
		left = 0
	}
	for end := time.Now().Add(left); isAlive(dir); time.Sleep(tick) {
		if time.Now().After(end) {
			return &Gone{fmt.Sprintf("the machine %s does not answer (%v): try again, or end it with 'skep lab down %s'", m.Name, err, m.Name)}
		}
	}
	var gone *Gone
	failed := withLock(m.build, func() error {
		// A machine that ended in order leaves nothing, and its name may be in use
		// again.
		if exists(dir) && !isAlive(dir) {
			gone = &Gone{describeDead(m.build, m.Name).Death()}
		}
		return nil
	})
	switch {
	case failed != nil:
		gone = &Gone{fmt.Sprintf("the machine %s has ended, and the reason can't be looked up: %v", m.Name, failed)}
	case gone == nil:
		gone = &Gone{fmt.Sprintf("the machine %s was turned off", m.Name)}
	}
	return gone
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// List returns the machines of a build, sorted by name. It removes what dead machines left,
// except the folder that Info names.
func List(build string) (running []*Machine, dead []*Info, err error) {
	if !exists(rootDir(build)) {
		return nil, nil, nil
	}
	var names []string
	err = withLock(build, func() error {
		dirs, err := filepath.Glob(filepath.Join(rootDir(build), "*", lockName))
		for _, path := range dirs {
			name := filepath.Base(filepath.Dir(path))
			if isAlive(filepath.Dir(path)) {
				names = append(names, name)
			} else {
				dead = append(dead, removeDead(build, name))
			}
		}
		return err
	})
	slices.Sort(names)
	for _, name := range names {
		if m, found := queryHolder(build, name); found {
			running = append(running, m)
		}
	}
	return running, dead, err
}

// queryHolder asks a holder for its machine's Info. A holder that does not answer is
// silent, or has just ended.
func queryHolder(build, name string) (*Machine, bool) {
	dir := machineDir(build, name)
	m := &Machine{Info: Info{Name: name, State: Silent, Dir: recordsDir(build, name)}, build: build}
	if info, err := readInfo(dir); err == nil {
		m.Info = *info
		m.State = Silent
	}
	if info, err := askInfo(dir); err == nil {
		m.Info = *info
	}
	return m, isAlive(dir)
}

func askInfo(dir string) (*Info, error) {
	c, err := dial(dir)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(infoPatient))
	if err := wire.Write(c, ask{opInfo}); err != nil {
		return nil, err
	}
	var a answer
	if err := wire.Read(c, &a); err != nil {
		return nil, err
	}
	if a.Info == nil {
		return nil, fmt.Errorf("no info: %s", a.Error)
	}
	return a.Info, nil
}

// Down ends the machine, in order if possible, and removes all that it left.
func (m *Machine) Down(ctx context.Context) error {
	dir := machineDir(m.build, m.Name)
	c, err := dial(dir)
	if err != nil {
		return m.waitRemoved(err)
	}
	defer c.Close()
	err = askDown(ctx, c)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		err = kill(c, dir)
		defer removeRecords(m.Dir)
	}
	return m.waitRemoved(err)
}

func askDown(ctx context.Context, c *net.UnixConn) error {
	c.SetDeadline(time.Now().Add(downPatient))
	defer context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) })()
	if err := wire.Write(c, ask{opDown}); err != nil {
		return err
	}
	var a answer
	return wire.Read(c, &a)
}

// kill kills a holder that does not answer, and with it its QEMU. The socket's peer
// credentials name the process; a recorded process number could be reused.
func kill(c *net.UnixConn, dir string) error {
	peer, err := peercred.Read(c)
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(int(peer.Pid), 0)
	if err == unix.ESRCH || !isAlive(dir) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
}

// waitRemoved waits for the holder's end and removes the files that it left.
func (m *Machine) waitRemoved(err error) error {
	dir := machineDir(m.build, m.Name)
	for end := time.Now().Add(killPatient); isAlive(dir); time.Sleep(tick) {
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("the holder of the machine %s does not end: end the process that has %s open", m.Name, filepath.Join(dir, lockName)), err)
		}
	}
	return withLock(m.build, func() error {
		if !isAlive(dir) { // else a new machine has the same name
			return os.RemoveAll(dir)
		}
		return nil
	})
}

// FreeName returns an unused name for a machine, beginning with name: no machine has it,
// and no earlier machine left files under it.
func FreeName(build, name string) string {
	for n := 1; ; n++ {
		next := name
		if n > 1 {
			next = fmt.Sprintf("%s%d", name, n)
		}
		if !isAlive(machineDir(build, next)) && Empty(filepath.Join(recordsDir(build, next), "out")) {
			return next
		}
	}
}

// JoinNames returns the machines' names as part of a sentence.
func JoinNames(list []*Machine) string {
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}

func redirectStderr(f *os.File) error { return unix.Dup3(int(f.Fd()), 2, 0) }
