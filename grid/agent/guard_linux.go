// SPDX-License-Identifier: MIT

package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"skep/grid/proto"
)

// Descriptors of a guard. The stream keeps its number in the program.
const (
	fdStream  = 3
	fdControl = 4
	fdProgram = 5
	fdInitial = 6 // 4 in the program, see initialPath
	fdCgroup  = 7
)

// A guardOrder is the one line that the agent sends on the control socket.
type guardOrder struct {
	Path    string       `json:"path"` // empty: the program's descriptor
	Args    []string     `json:"args"`
	Env     []string     `json:"env"`
	Dir     string       `json:"dir"`
	Cwd     string       `json:"cwd,omitempty"` // of the program; empty: Dir
	Stream  bool         `json:"stream"`
	Initial bool         `json:"initial,omitempty"` // with a stream
	Cgroup  bool         `json:"cgroup,omitempty"`
	Bounds  bounds       `json:"bounds"`
	Limits  proto.Limits `json:"limits"`
}

// A guardCall starts the accounting of a call's processor time or, if Stop is there, stops
// the program or lets it go on.
type guardCall struct {
	CPU  float64 `json:"cpu"` // seconds allowed
	Stop *bool   `json:"stop,omitempty"`
}

// RunGuard is the main function of `skep guard`. It starts one program, adopts its orphans,
// and kills all of them when the program or the agent ends, for whatever reason. It returns
// an exit code.
func RunGuard() int {
	// Caught, not ignored, because a program inherits ignored signals.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	closeErr := closeOnExec()
	control := os.NewFile(fdControl, "control")
	if control == nil {
		fmt.Fprintln(os.Stderr, "skep guard is started by the agent only")
		return 2
	}
	var order guardOrder
	in := json.NewDecoder(control)
	if err := in.Decode(&order); err != nil {
		fmt.Fprintln(os.Stderr, "skep guard is started by the agent only")
		return 2
	}
	if closeErr != nil {
		json.NewEncoder(control).Encode(exit{Error: closeErr.Error()})
		return 0
	}
	// The program has the same user, and must not find secrets here.
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	if order.Bounds.Kind == ConfinedSpaces {
		if err := enterRoot(&order.Bounds, order.Dir); err != nil {
			json.NewEncoder(control).Encode(exit{Error: err.Error()})
			return 0
		}
	}
	ended := make(chan exit, 1)
	m, over := newMeter(order), make(chan excess, 1)
	go guardRun(order, m, ended)
	go m.waitExcess(over)
	gone := make(chan struct{})
	go func() {
		defer close(gone) // the end of the agent ends everything
		for c := (guardCall{}); in.Decode(&c) == nil; c = (guardCall{}) {
			if c.Stop != nil {
				m.stopProgram(*c.Stop)
			} else {
				m.start(c.CPU)
			}
		}
	}()
	var e exit
	select {
	case e = <-ended:
		if x := m.killedFor(); x != nil && e.Signal != 0 {
			e.Over = x
		}
	case x := <-over:
		e = exit{Signal: int(syscall.SIGKILL), Over: &x}
	case <-gone:
		e = exit{Signal: int(syscall.SIGKILL)}
	}
	guardClear()
	json.NewEncoder(control).Encode(e)
	return 0
}

// closeOnExec keeps all descriptors from the program but those that guardStart hands on: also
// what the agent inherited, for example from a shell, which could lead out of the bounds.
func closeOnExec() error {
	if unix.CloseRange(fdStream, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	list, err := os.ReadDir("/proc/self/fd") // before Linux 5.11
	if err != nil {
		return fmt.Errorf("descriptors cannot be kept from the program: %w", err)
	}
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= fdStream {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

// limitProcesses sets RLIMIT_NPROC, so that a program cannot create many processes
// before the meter notices. This needs a user namespace, which counts its own
// processes. The program inherits the limit and has it from its first instruction.
// The function that is returned gets the program's pid. It takes the limit off this
// process, which may need threads, and makes it final for the program. It does the first
// on the caller's thread: a program that fills its limit at once keeps the Go runtime from
// creating one, which would end this process. The second needs another thread, because the
// caller's may not change limits of other processes any more.
func limitProcesses(order guardOrder) func(pid int) {
	most := order.Limits.Processes + processesOver
	var own unix.Rlimit
	if order.Limits.Processes == 0 || !order.Bounds.User || unix.Getrlimit(unix.RLIMIT_NPROC, &own) != nil {
		return func(int) {}
	}
	unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: min(most, own.Max), Max: own.Max})
	return func(pid int) {
		unix.Prlimit(0, unix.RLIMIT_NPROC, &own, nil)
		if pid > 0 {
			go unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: most, Max: most}, nil)
		}
	}
}

// The idle class of ioprio_set(2): its requests to a disk wait until nobody else has any.
const (
	ioprioProcess = 1
	ioprioIdle    = 3 << 13
)

// afterStart lets tests delay the guard while the program runs.
var afterStart = func(pid int) {}

// guardRun keeps its thread: the death signal of the program and its idle
// scheduling class belong to the thread that starts it.
func guardRun(order guardOrder, m *meter, ended chan<- exit) {
	runtime.LockOSThread()
	free := limitProcesses(order)
	pid, err := guardStart(order)
	if err == nil && order.Bounds.Probe {
		ended <- exit{}
		select {}
	}
	if err == nil {
		afterStart(pid)
	}
	free(pid)
	if err == nil {
		m.programStarted()
	}
	syscall.Close(0)
	syscall.Close(1)
	syscall.Close(fdStream)
	syscall.Close(fdProgram)
	syscall.Close(fdInitial)
	if err != nil {
		ended <- exit{Error: err.Error()}
		select {}
	}
	var status syscall.WaitStatus
	for {
		// Orphans are reaped here too; else they would count as processes forever.
		some, err2 := syscall.Wait4(-1, &status, 0, nil)
		if err = err2; err == nil && some == pid || err != nil && err != syscall.EINTR {
			break
		}
	}
	switch {
	case err != nil:
		ended <- exit{Error: fmt.Sprintf("its end could not be seen: %v", err)}
	case status.Signaled():
		ended <- exit{Signal: int(status.Signal())}
	default:
		ended <- exit{Code: status.ExitStatus()}
	}
	select {}
}

func guardStart(order guardOrder) (int, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("the kernel refuses to adopt processes: %w", err)
	}
	// The owner's processes have priority. If the kernel refuses, the guard continues without it.
	unix.Setpriority(unix.PRIO_PROCESS, 0, 19)
	unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE, Nice: 19}, 0)
	unix.Syscall(unix.SYS_IOPRIO_SET, ioprioProcess, 0, ioprioIdle)
	giveStreams(order.Bounds.RunAs)
	if err := restrictThread(&order.Bounds); err != nil {
		return 0, err
	}
	if order.Bounds.Probe {
		return 0, order.Bounds.verify()
	}
	path := order.Path
	if path == "" {
		path = fmt.Sprintf("/proc/self/fd/%d", fdProgram)
	}
	files := []uintptr{0, 1, 2}
	if order.Stream {
		files = append(files, fdStream)
	}
	if order.Stream && order.Initial {
		files = append(files, fdInitial)
	}
	attr := &syscall.ProcAttr{Dir: cmp.Or(order.Cwd, order.Dir), Env: order.Env, Files: files,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}}
	if order.Cgroup { // the program is in it from its first instruction
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fdCgroup
	}
	if id := order.Bounds.RunAs; id != 0 {
		attr.Sys.Credential = &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}
	}
	for tries := 0; ; tries++ {
		pid, err := syscall.ForkExec(path, order.Args, attr)
		// A process between fork and exec may still hold a new file open.
		if err == syscall.ETXTBSY && tries < 50 {
			time.Sleep(2 * time.Millisecond)
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("it cannot be started: %w", err)
		}
		return pid, nil
	}
}

// giveStreams lets another user reopen /dev/stdout. Only pipes change their owner, because
// they were created for this program.
func giveStreams(id int) {
	var st unix.Stat_t
	for fd := range 3 {
		if id != 0 && unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO {
			unix.Fchown(fd, id, id)
		}
	}
}

// guardClear ends all descendants: orphans become children of this process,
// so children are killed until there are none.
func guardClear() {
	for {
		if os.Getpid() == 1 { // of a namespace, which holds only this program
			syscall.Kill(-1, syscall.SIGKILL)
		}
		for _, pid := range childrenOf(os.Getpid()) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		_, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.ECHILD {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func childrenOf(parent int) []int {
	list, _ := filepath.Glob("/proc/[0-9]*/stat")
	var found []int
	for _, name := range list {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		// pid (any text) state ppid
		s := string(text)
		fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}
