// SPDX-License-Identifier: MIT

package agent

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"skep/grid/proto"
	"skep/internal/lockdep"
	"skep/internal/proctree"
)

var (
	queryInformationJob = kernel32.NewProc("QueryInformationJobObject")
	resumeProcess       = ntdll.NewProc("NtResumeProcess")
)

// Kinds of information of QueryInformationJobObject.
const (
	jobAccounting = 1 // JobObjectBasicAccountingInformation
	jobProcesses  = 3 // JobObjectBasicProcessIdList
)

// A programJob is the job object of one program: bee's process and those below it. It counts
// what they use, and ends all of them at once. bee has another job in it for the program's
// own process, which bounds its memory.
type programJob struct {
	handle windows.Handle
	bee    int // the process that is not the program's
	dir    string
	limits proto.Limits

	threads suspension

	mu     sync.Mutex
	closed bool
	cpu    float64 // limit of the call, 0: none
	before float64 // processor time when it began
	over   *excess // why the program was ended
}

// openJob makes a job object for a program that is not started yet.
func openJob(c *command) (*programJob, error) {
	h, err := createJob(nil, nil)
	if err != nil {
		return nil, fmt.Errorf("a program's job object cannot be made: %w", err)
	}
	j := &programJob{handle: h, dir: c.dir, limits: c.limits, cpu: c.limits.CPU}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{}
	info.BasicLimitInformation.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if n := c.limits.Processes; n != 0 { // of which each has a thread at least
		info.BasicLimitInformation.LimitFlags |= windows.JOB_OBJECT_LIMIT_ACTIVE_PROCESS
		info.BasicLimitInformation.ActiveProcessLimit = uint32(min(n, 1<<20)) + processesOver
	}
	if _, err := windows.SetInformationJobObject(h, windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info))); err != nil {
		windows.CloseHandle(h)
		return nil, fmt.Errorf("a program's job object takes no limits: %w", err)
	}
	return j, nil
}

// run puts a process that was created suspended into the job, and lets it run.
func (j *programJob) run(pid int) error {
	p, err := windows.OpenProcess(windows.PROCESS_SET_QUOTA|windows.PROCESS_TERMINATE|windows.PROCESS_SUSPEND_RESUME, false, uint32(pid))
	if err != nil {
		return fmt.Errorf("bee's process cannot be opened: %w", err)
	}
	defer windows.CloseHandle(p)
	j.bee = pid
	if err := windows.AssignProcessToJobObject(j.handle, p); err != nil {
		return fmt.Errorf("bee cannot be put under its job object: %w", err)
	}
	if status, _, _ := resumeProcess.Call(uintptr(p)); status != 0 {
		return fmt.Errorf("bee cannot be resumed: status %#x", uint32(status))
	}
	return nil
}

func (j *programJob) query(kind uint32, to unsafe.Pointer, size uintptr) bool {
	ok, _, _ := queryInformationJob.Call(uintptr(j.handle), uintptr(kind), uintptr(to), size, 0)
	return ok != 0
}

// jobUsage is JOBOBJECT_BASIC_ACCOUNTING_INFORMATION; times are in units of 100 ns.
type jobUsage struct {
	user, kernel, userPeriod, kernelPeriod int64
	faults, total, active, ended           uint32
}

// jobList is JOBOBJECT_BASIC_PROCESS_ID_LIST with room for those of one program.
type jobList struct {
	assigned, listed uint32
	pids             [2 * processesDefault]uintptr
}

func (j *programJob) processes() (pids []int) {
	l := &jobList{}
	j.query(jobProcesses, unsafe.Pointer(l), unsafe.Sizeof(*l)) // false if there are more
	for _, pid := range l.pids[:min(int(l.listed), len(l.pids))] {
		pids = append(pids, int(pid))
	}
	return pids
}

// processorTime returns the seconds of all processes, live and ended. Wine's job objects do
// not count them, so there it is that of the live ones.
func (j *programJob) processorTime() (live float64) {
	for _, pid := range j.processes() {
		if t, err := proctree.TimesOf(pid); err == nil {
			live += t.Used
		}
	}
	u := &jobUsage{}
	j.query(jobAccounting, unsafe.Pointer(u), unsafe.Sizeof(*u))
	return max(live, float64(u.user+u.kernel)/1e7)
}

// countThreads counts the threads of the program's processes.
func (j *programJob) countThreads() (n uint64) {
	pids := slices.DeleteFunc(j.processes(), func(pid int) bool { return pid == j.bee })
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return 0
	}
	defer windows.CloseHandle(snapshot)
	e := windows.ThreadEntry32{}
	e.Size = uint32(unsafe.Sizeof(e))
	for err = windows.Thread32First(snapshot, &e); err == nil; err = windows.Thread32Next(snapshot, &e) {
		if slices.Contains(pids, int(e.OwnerProcessID)) {
			n++
		}
	}
	return n
}

// folderBytes is what a directory holds. It stops counting once the sum exceeds enough.
func folderBytes(dir string, enough uint64) (sum uint64) {
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			if info, err := d.Info(); err == nil {
				sum += max(uint64(info.Size()), clusterBytes) // an empty file also uses space
			}
		}
		if sum > enough {
			return fs.SkipAll
		}
		return nil
	})
	return sum
}

const clusterBytes = 4096 // of NTFS

// begin starts the account of a call.
func (j *programJob) begin(cpu float64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.cpu, j.before = cpu, j.processorTime()
	}
}

// measure returns a limit that is exceeded, or nil.
func (j *programJob) measure() *excess {
	lockdep.AssertHeld(&j.mu)
	l := j.limits
	if j.cpu != 0 {
		if used := j.processorTime() - j.before; used > j.cpu {
			return &excess{proto.LimitCPU, used, j.cpu}
		}
	}
	if l.Processes != 0 {
		if n := j.countThreads(); n > l.Processes {
			return &excess{proto.LimitProcesses, float64(n), float64(l.Processes)}
		}
	}
	if l.Disk != 0 {
		if used := folderBytes(j.dir, l.Disk); used > l.Disk {
			return &excess{proto.LimitDisk, float64(used), float64(l.Disk)}
		}
	}
	return nil
}

// measureEvery is how often a program is measured. One whose measurement takes long, for
// example because of many files, is measured less often.
const measureEvery = 250 * time.Millisecond

// watch ends the program when it exceeds a limit, until done is closed.
func (j *programJob) watch(done <-chan struct{}) {
	for wait := measureEvery; ; {
		select {
		case <-done:
			return
		case <-time.After(wait):
		}
		began := time.Now()
		if j.enforce() {
			return
		}
		wait = max(measureEvery, 20*time.Since(began)) // it is to cost little
	}
}

// enforce reports whether the program has ended, for a limit or otherwise.
func (j *programJob) enforce() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return true
	}
	if j.over = j.measure(); j.over != nil {
		j.terminate()
	}
	return j.over != nil
}

func (j *programJob) terminate() {
	j.threads.end(func() { windows.TerminateJobObject(j.handle, beeSignal+signalKill) })
}

// close ends what is left and returns why the program was ended, or nil.
func (j *programJob) close() *excess {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.terminate()
	windows.CloseHandle(j.handle)
	j.closed = true
	return j.over
}
