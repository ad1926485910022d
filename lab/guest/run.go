// SPDX-License-Identifier: MIT

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skep/grid/proto"
	"skep/lab/wire"
)

// runs is where each run has a control group, by which all of its processes
// can be ended, however they have placed themselves.
const runs = "/sys/fs/cgroup/skep"

var runCount atomic.Int64

// A job is one run of a program. The mutex guards writes to the stream.
type job struct {
	sync.Mutex
	stream net.Conn
	group  string // its control group
	pid    int
	input  chan []byte // nil ends the program's input
	files  *files
	over   atomic.Bool // it has ended: what it left behind may stay
}

// send drops what a host that is gone cannot take.
func (j *job) send(t proto.ExecType, payload []byte) error {
	j.Lock()
	defer j.Unlock()
	return proto.WriteExec(j.stream, t, payload)
}

func run(stream net.Conn, r *wire.Request) {
	j := &job{stream: stream, input: make(chan []byte, wire.Window)}
	status, err := j.run(r)
	if err != nil {
		j.send(proto.ExecFailed, wire.Failure(err))
		return
	}
	j.send(proto.ExecExit, binary.LittleEndian.AppendUint32(nil, uint32(exitStatus(status))))
}

func (j *job) run(r *wire.Request) (syscall.WaitStatus, error) {
	var err error
	if j.files, err = openFiles(r); err != nil {
		return 0, err
	}
	defer j.files.close()
	ended, err := j.start(r)
	j.files.closeTheirs()
	if err != nil {
		return 0, err
	}
	defer os.Remove(j.group) // stays where processes were left behind
	go j.listen()
	go j.feedInput()
	var outputs sync.WaitGroup
	outputs.Go(func() { j.forwardOutput(j.files.out, proto.ExecStdout) })
	outputs.Go(func() { j.forwardOutput(j.files.err, proto.ExecStderr) })
	status := <-ended
	j.over.Store(true)
	j.files.wakeReaders()
	outputs.Wait()
	if r.Results {
		err = drainResults()
	}
	return status, err
}

// start begins the program in a control group of its own.
func (j *job) start(r *wire.Request) (<-chan syscall.WaitStatus, error) {
	p := &r.Program
	env := buildEnv(p)
	dir := p.Dir
	if dir == "" {
		dir = "/"
	}
	path, err := lookPath(p.Args[0], dir, env)
	if err != nil {
		return nil, err
	}
	j.group = filepath.Join(runs, strconv.FormatInt(runCount.Add(1), 10))
	if err := os.Mkdir(j.group, 0o755); err != nil {
		return nil, err
	}
	group, err := os.Open(j.group)
	if err != nil {
		return nil, err
	}
	defer group.Close()
	s := start{path: path, args: p.Args, env: env, dir: dir, files: j.files.theirs, node: p.Node}
	s.sys = syscall.SysProcAttr{
		Setsid: true, Setctty: r.Terminal != nil, UseCgroupFD: true, CgroupFD: int(group.Fd()),
	}
	if p.User {
		s.sys.Credential = &syscall.Credential{Uid: userID, Gid: userID}
	}
	pid, ended, err := s.startProcess()
	if err != nil {
		os.Remove(j.group)
		return nil, fmt.Errorf("start %s in %s: %w", path, dir, err)
	}
	j.pid = pid
	return ended, nil
}

func buildEnv(p *wire.Program) []string {
	home, user := "/root", "root"
	if p.User {
		home, user = userHome, userName
	}
	env := []string{"PATH=" + pathList, "HOME=" + home, "USER=" + user, "LOGNAME=" + user, "LANG=C.UTF-8"}
	return merge(env, p.Env)
}

// merge adds entries to env; of those of one name the last stays, for some
// programs would take the first.
func merge(env, more []string) []string {
	all := append(env, more...)
	at := map[string]int{}
	var merged []string
	for _, e := range all {
		name, _, _ := strings.Cut(e, "=")
		if i, ok := at[name]; ok {
			merged[i] = e
			continue
		}
		at[name] = len(merged)
		merged = append(merged, e)
	}
	return merged
}

// listen takes frames until the run is over or the host has given it up.
func (j *job) listen() {
	defer close(j.input)
	buf := make([]byte, proto.ExecFrameMax)
	for {
		t, p, err := proto.ReadExec(j.stream, buf)
		if err == nil {
			err = j.handleFrame(t, p)
		}
		if err != nil {
			if !j.over.Load() {
				j.kill()
			}
			// There is no reader any more: no output may wait for it.
			j.stream.SetWriteDeadline(time.Now())
			return
		}
	}
}

func (j *job) handleFrame(t proto.ExecType, p []byte) error {
	switch t {
	case proto.ExecStdin:
		select {
		case j.input <- append([]byte(nil), p...):
			return nil
		default:
			return errors.New("more input than the window holds")
		}
	case proto.ExecSignal:
		if len(p) == 1 {
			syscall.Kill(-j.pid, syscall.Signal(p[0]))
		}
	case proto.ExecResize:
		size, err := wire.ParseSize(p)
		if err == nil {
			err = j.files.resize(size)
		}
		return err
	case proto.ExecGone:
		j.kill()
	default:
		return fmt.Errorf("an unexpected frame of type %d for a program", t)
	}
	return nil
}

// kill ends every process of the run.
func (j *job) kill() {
	os.WriteFile(j.group+"/cgroup.kill", []byte("1"), 0)
}

// feedInput acknowledges each piece once the program's pipe has it, or will never.
func (j *job) feedInput() {
	for p := range j.input {
		if len(p) == 0 {
			j.files.endInput()
		} else {
			j.files.in.Write(p)
		}
		if j.send(proto.ExecStdin, nil) != nil {
			return
		}
	}
}

// forwardOutput sends what the program writes. Processes that it leaves behind may
// hold the pipe open for ever: once it has ended only what is there is taken.
func (j *job) forwardOutput(from *os.File, t proto.ExecType) {
	if from == nil {
		return
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && j.send(t, buf[:n]) != nil {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return
		}
	}
	for left := pipeMax; left > 0; {
		n := readNow(from, buf)
		if n <= 0 || j.send(t, buf[:n]) != nil {
			return
		}
		left -= n
	}
}

// pipeMax is what a pipe may hold at most, and so what one that has ended can
// have left in it.
const pipeMax = 1 << 20

// readNow reads what is there, without waiting.
func readNow(f *os.File, buf []byte) (n int) {
	f.SetReadDeadline(time.Time{})
	c, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	c.Read(func(fd uintptr) bool {
		n, err = unix.Read(int(fd), buf)
		return true
	})
	return n
}
