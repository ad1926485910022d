// SPDX-License-Identifier: MIT

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const streamBuffer = 1 << 20 // bytes

// socketPair returns two ends of a stream, neither of which a child inherits.
func socketPair(name string, kind int) (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("the socket pair of a %s cannot be made: %w", name, err)
	}
	unix.SetNonblock(fds[0], true)
	// Frames of arguments fit, so that the two sides wait for each other less often. The
	// system gives what its limit allows.
	unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, streamBuffer)
	return os.NewFile(uintptr(fds[0]), name), os.NewFile(uintptr(fds[1]), name), nil
}

// start runs a command below a guard, which is a process of its own: see RunGuard.
func (a *Agent) start(c *command) (_ *process, err error) {
	control, guardControl, err := socketPair("guard", unix.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	defer guardControl.Close()
	p := &process{done: make(chan struct{})}
	defer func() {
		if err != nil {
			control.Close()
			if p.stream != nil {
				p.stream.Close()
			}
		}
	}()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	guard := exec.Command(a.guard[0], a.guard[1:]...)
	if c.stdin != nil {
		guard.Stdin = c.stdin
	}
	guard.Stdout, guard.Stderr, guard.WaitDelay = c.stdout, c.stderr, drainLimit
	guard.ExtraFiles = []*os.File{null, guardControl, null, null, null}
	group, err := a.openCgroup(c)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && group != nil {
			group.remove()
		}
	}()
	if group != nil {
		guard.ExtraFiles[4] = group.dir
	}
	guard.SysProcAttr = c.bounds.sysProcAttr()
	if c.stream || c.control {
		ours, theirs, err := socketPair("worker", c.streamKind())
		if err != nil {
			return nil, err
		}
		defer theirs.Close()
		p.stream, guard.ExtraFiles[0] = ours, theirs
	}
	if c.program != nil {
		guard.ExtraFiles[2] = c.program
	}
	if c.initial != nil {
		own, err := reopenFile(c.initial)
		if err != nil {
			return nil, err
		}
		defer own.Close()
		guard.ExtraFiles[3] = own
	}
	if err := guard.Start(); err != nil {
		return nil, fmt.Errorf("the guard of a worker cannot be started: %w", err)
	}
	p.pid = guard.Process.Pid
	var once sync.Once
	raw, err := control.SyscallConn()
	if err != nil {
		return nil, err
	}
	p.kill = func() {
		once.Do(func() { raw.Control(func(fd uintptr) { unix.Shutdown(int(fd), unix.SHUT_WR) }) })
	}
	tell := func(c guardCall) { json.NewEncoder(control).Encode(c) }
	p.begin = func(cpu float64) { tell(guardCall{CPU: cpu}) }
	p.stop = func(on bool) { tell(guardCall{Stop: &on}) }
	if err := json.NewEncoder(control).Encode(c.order(group != nil)); err != nil {
		p.kill()
	}
	go p.watch(guard, control, c.dir, group)
	return p, nil
}

// streamKind is the kind of socket that the program gets.
func (c *command) streamKind() int {
	if c.control {
		return unix.SOCK_SEQPACKET
	}
	return unix.SOCK_STREAM
}

// order is what the guard is told.
func (c *command) order(grouped bool) guardOrder {
	o := guardOrder{Args: c.args, Env: c.env, Dir: c.dir, Cwd: c.cwd, Stream: c.stream || c.control, Initial: c.initial != nil,
		Cgroup: grouped, Bounds: c.bounds, Limits: c.limits}
	if c.program == nil {
		o.Path = c.path
	}
	return o
}

// reopenFile returns an open file description of its own, so that no worker moves the offset
// of another.
func reopenFile(f *os.File) (*os.File, error) {
	own, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("the data of Initialize cannot be handed on: %w", err)
	}
	return own, nil
}

func (p *process) watch(guard *exec.Cmd, control *os.File, dir string, group *controlGroup) {
	var e exit
	err := json.NewDecoder(control).Decode(&e)
	if err != nil {
		guard.Process.Kill() // it may only have closed its side
		killStrays(dir)
	}
	guard.Wait()
	control.Close()
	if group != nil {
		group.remove()
	}
	if err != nil {
		e = exit{Error: "its guard died"}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			e.Error = fmt.Sprintf("its guard died: %v", err)
		}
	}
	p.finish(e)
}

// sealProgram returns a copy of a program in sealed memory, which cannot change:
// the bytes that are digested here are those that run.
func sealProgram(from io.Reader, name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("memory for a program cannot be allocated: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := io.Copy(f, from); err != nil {
		f.Close()
		return nil, err
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|
		unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("a program cannot be sealed: %w", err)
	}
	return f, nil
}

const sweeps = 100

// killStrays kills the processes that a killed guard left: those that work in dir or have it
// as TMPDIR. It searches until it finds no more.
func killStrays(dir string) {
	for range sweeps {
		found := false
		list, _ := filepath.Glob("/proc/[0-9]*")
		for _, name := range list {
			pid, err := strconv.Atoi(filepath.Base(name))
			if err == nil && pid != os.Getpid() && worksIn(name, dir) {
				found = unix.Kill(pid, unix.SIGKILL) == nil || found
			}
		}
		if !found {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func worksIn(process, dir string) bool {
	cwd, _ := os.Readlink(process + "/cwd")
	if cwd == dir || strings.HasPrefix(cwd, dir+"/") {
		return true
	}
	env, _ := os.ReadFile(process + "/environ")
	return slices.Contains(strings.Split(string(env), "\x00"), "TMPDIR="+dir)
}
