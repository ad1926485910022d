// SPDX-License-Identifier: MIT

package agent

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	setProcessInformation = kernel32.NewProc("SetProcessInformation")
	setInformationProcess = ntdll.NewProc("NtSetInformationProcess")
)

const (
	pipeBytes    = 1 << 20
	streamNumber = "@stream" // becomes the handle's number
)

// pipePair returns two ends of a two-way pipe, both overlapped; a child inherits
// the second. Only this user may open it, and only once.
func pipePair() (*os.File, windows.Handle, error) {
	var b [16]byte
	rand.Read(b[:])
	name, err := windows.UTF16PtrFromString(`\\.\pipe\skep-` + hex.EncodeToString(b[:]))
	if err != nil {
		return nil, 0, err
	}
	ours, err := windows.CreateNamedPipe(name, windows.PIPE_ACCESS_DUPLEX|
		windows.FILE_FLAG_OVERLAPPED|windows.FILE_FLAG_FIRST_PIPE_INSTANCE,
		windows.PIPE_TYPE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS, 1, pipeBytes, pipeBytes, 0, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("a worker's pipe cannot be made: %w", err)
	}
	inherit := &windows.SecurityAttributes{InheritHandle: 1}
	inherit.Length = uint32(unsafe.Sizeof(*inherit))
	theirs, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, 0,
		inherit, windows.OPEN_EXISTING, windows.FILE_FLAG_OVERLAPPED, 0)
	if err != nil {
		windows.CloseHandle(ours)
		return nil, 0, fmt.Errorf("a worker's pipe cannot be connected: %w", err)
	}
	return os.NewFile(uintptr(ours), "worker"), theirs, nil
}

// start runs bee.exe; the kernel never sees the program as one. bee's parent
// process holds a job object that ends the program with it, and this process
// is under one that ends bee with it: see protectAgent. bee's own is between the two.
func (a *Agent) start(c *command) (*process, error) {
	if c.program != nil {
		return nil, errors.New("Windows runs programs under bee only")
	}
	p := &process{done: make(chan struct{})}
	args := append([]string(nil), c.args...)
	cmd := &exec.Cmd{Path: c.path, Args: args, Env: c.env, Dir: c.dir,
		Stdout: c.stdout, Stderr: c.stderr, WaitDelay: drainLimit}
	if c.stdin != nil {
		cmd.Stdin = c.stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true,
		CreationFlags: windows.IDLE_PRIORITY_CLASS | windows.CREATE_NO_WINDOW | windows.CREATE_SUSPENDED}
	if c.stream {
		ours, theirs, err := pipePair()
		if err != nil {
			return nil, err
		}
		defer windows.CloseHandle(theirs)
		p.stream = ours
		cmd.SysProcAttr.AdditionalInheritedHandles = []syscall.Handle{syscall.Handle(theirs)}
		for i := range args {
			if args[i] == streamNumber {
				args[i] = strconv.FormatUint(uint64(theirs), 10)
			}
		}
	}
	job, err := openJob(c)
	if err == nil {
		err = startUnder(job, cmd)
	}
	if err != nil {
		if p.stream != nil {
			p.stream.Close()
		}
		return nil, fmt.Errorf("bee cannot be started: %w", err)
	}
	p.pid = cmd.Process.Pid
	if err := yieldToOwner(uint32(p.pid)); err != nil {
		a.warnYield.Do(func() { a.config.Log("programs share the owner's disks and memory as equals: %v", err) })
	}
	var once sync.Once
	p.begin = job.begin
	p.stop = func(on bool) { job.threads.stop(p, on) }
	p.kill = func() { once.Do(func() { job.threads.end(func() { cmd.Process.Kill() }) }) }
	go p.watch(cmd, job)
	go job.watch(p.done)
	return p, nil
}

// startUnder starts bee in its job. If it fails, nothing is left.
func startUnder(job *programJob, cmd *exec.Cmd) error {
	err := cmd.Start()
	if err == nil {
		if err = job.run(cmd.Process.Pid); err != nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
	if err != nil {
		job.close()
	}
	return err
}

// What the disks and the memory manager know of a process, beside its priority class.
const (
	processMemoryPriority = 0 // of SetProcessInformation
	memoryPriorityVeryLow = 1
	processIoPriority     = 33 // of NtSetInformationProcess
	ioPriorityVeryLow     = 0
)

// yieldToOwner gives a process the lowest priority for its disk requests, and has its pages
// taken first when memory is short. Its children inherit both.
func yieldToOwner(pid uint32) error {
	h, err := windows.OpenProcess(windows.PROCESS_SET_INFORMATION, false, pid)
	if err != nil {
		return fmt.Errorf("OpenProcess: %w", err)
	}
	defer windows.CloseHandle(h)
	memory, disk := uint32(memoryPriorityVeryLow), uint32(ioPriorityVeryLow)
	var failed []error
	if setProcessInformation.Find() != nil {
		failed = append(failed, errors.New("SetProcessInformation is not there"))
	} else if ok, _, err := setProcessInformation.Call(uintptr(h), processMemoryPriority, uintptr(unsafe.Pointer(&memory)), unsafe.Sizeof(memory)); ok == 0 {
		failed = append(failed, fmt.Errorf("memory priority: %w", err))
	}
	status, _, _ := setInformationProcess.Call(uintptr(h), processIoPriority, uintptr(unsafe.Pointer(&disk)), unsafe.Sizeof(disk))
	if status != 0 {
		failed = append(failed, fmt.Errorf("disk priority: status %#x", uint32(status)))
	}
	return errors.Join(failed...)
}

func (p *process) watch(cmd *exec.Cmd, job *programJob) {
	err := cmd.Wait()
	over := job.close()
	var status *exec.ExitError
	switch {
	case over != nil:
		p.finish(exit{Signal: signalKill, Over: over})
	case err == nil, errors.As(err, &status), errors.Is(err, exec.ErrWaitDelay):
		p.finish(exit{Code: cmd.ProcessState.ExitCode()})
	default:
		p.finish(exit{Error: fmt.Sprintf("bee's end could not be seen: %v", err)})
	}
}

// sealProgram is for kernels that run Linux programs.
func sealProgram(io.Reader, string) (*os.File, error) {
	return nil, errors.New("Windows runs programs under bee only")
}

// RunGuard is not needed here: job objects replace it.
func RunGuard() int {
	fmt.Fprintln(os.Stderr, "skep guard exists on Linux only")
	return 2
}
