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

// runs holds one control group per run. Killing the group ends all processes of the run,
// whatever sessions and process groups they are in.
const runs = "/sys/fs/cgroup/skep"

var runCount atomic.Int64

// A job is one run of a program. The mutex guards writes to the stream.
type job struct {
	sync.Mutex
	stream net.Conn
	group  string // path of its control group
	pid    int
	input  chan []byte // nil ends the program's input
	files  *files
	over   atomic.Bool // the program has ended; processes that it left may stay
}

// send sends one frame. It fails if the host has ended, which most callers ignore.
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
	defer os.Remove(j.group) // fails if processes were left behind
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

// start starts the program in a control group of its own.
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

// merge adds entries to env. It keeps only the last entry of each name, because some
// programs use the first.
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

// listen processes frames until the run ends or the host closes the stream.
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
			// Nobody reads any more, so no output may block.
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

// feedInput writes input to the program. It acknowledges each piece when it is in the
// program's pipe, or never can be.
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

// forwardOutput sends the program's output to the host. Processes that the program leaves
// behind may keep the pipe open for ever, so after the program's end only the bytes
// already in the pipe are sent.
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

// pipeMax is the largest capacity of a pipe, and so the most output that an ended program
// can have left in it.
const pipeMax = 1 << 20

// readNow reads the available bytes without waiting.
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
