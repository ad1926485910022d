// SPDX-License-Identifier: MIT

package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"skep/grid/proto"
	"skep/internal/proctree"
)

// A meter measures what the processes below a guard use. It measures more often when they
// come close to a limit. mu guards what the agent may change.
type meter struct {
	order  guardOrder
	tasks  func() []int // the processes
	disk   time.Time    // when the disk is to be measured again
	cgroup *groupMeter  // nil: the kernel has no group for the program
	mu     sync.Mutex
	cpu    float64 // limit of the call, 0: none
	before float64 // processor time when it began
	stop   bool    // the program is to be stopped
	runs   bool    // it has been started
}

const (
	growth    = 4 << 30 // bytes a second that a program may begin to use
	lookMin   = 10 * time.Millisecond
	lookMax   = 250 * time.Millisecond
	pageBytes = 4096
	procDir   = "/proc"
)

func newMeter(order guardOrder) *meter {
	m := &meter{order: order, cpu: order.Limits.CPU, tasks: func() []int { return proctree.Below(procDir, os.Getpid()) }}
	if order.Bounds.Kind == ConfinedSpaces {
		m.tasks = allProcesses
	}
	if order.Cgroup {
		m.cgroup = &groupMeter{fdCgroup}
	}
	return m
}

// start starts the account of a call.
func (m *meter) start(cpu float64) {
	used := m.processorTime(m.tasks())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cpu, m.before = cpu, used
}

// stopProgram stops all processes of the program, or lets them go on. A program may see
// that: SIGCONT has a handler where it wants one, and a parent is told of a stopped child.
func (m *meter) stopProgram(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stop = on
	if on && m.runs {
		stopAll(m.tasks)
	}
	if on {
		return
	}
	for _, pid := range m.tasks() {
		unix.Kill(pid, unix.SIGCONT)
	}
}

// programStarted says that the program runs, and stops it if it is to be stopped. Before,
// its process must not be stopped: this process waits for it to execute the program, in a
// call that holds up all of Go's run-time.
func (m *meter) programStarted() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs = true
	if m.stop {
		stopAll(m.tasks)
	}
}

// stopAll sends SIGSTOP until it finds only processes that are stopped or dead: one that
// was not may have forked another since the processes were listed.
func stopAll(tasks func() []int) {
	for range sweeps {
		found := false
		for _, pid := range tasks() {
			f := proctree.Stat(procDir, pid)
			if f != nil && !strings.Contains("TtZX", f[proctree.State]) {
				found = unix.Kill(pid, unix.SIGSTOP) == nil || found
			}
		}
		if !found {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// beforeMeasure lets tests keep the meter from measuring.
var beforeMeasure = func() {}

// waitExcess waits until a limit is exceeded, or forever.
func (m *meter) waitExcess(over chan<- excess) {
	for {
		beforeMeasure()
		e, next := m.measure()
		if e != nil {
			over <- *e
			return
		}
		time.Sleep(next)
	}
}

// measure measures once and returns when to measure again.
func (m *meter) measure() (*excess, time.Duration) {
	l, pids := m.order.Limits, m.tasks()
	next := lookMax
	if n := countThreads(pids); l.Processes != 0 && n > l.Processes {
		return &excess{proto.LimitProcesses, float64(n), float64(l.Processes)}, 0
	}
	if l.Memory != 0 {
		used := residentBytes(pids)
		if used > l.Memory {
			used = sharedOnce(pids)
		}
		if used > l.Memory {
			return &excess{proto.LimitMemory, float64(used), float64(l.Memory)}, 0
		}
		next = min(next, max(lookMin, time.Duration(min(l.Memory-used, growth))*time.Second/growth))
	}
	m.mu.Lock()
	limit, before := m.cpu, m.before
	if m.stop && m.runs {
		stopAll(m.tasks) // a process of the program may have continued another
	}
	m.mu.Unlock()
	if limit != 0 {
		if used := m.processorTime(pids) - before; used > limit {
			return &excess{proto.LimitCPU, used, limit}, 0
		}
	}
	if l.Disk != 0 && !time.Now().Before(m.disk) {
		began := time.Now()
		if used := diskBytes(m.order.Dir, pids, l.Disk); used > l.Disk {
			return &excess{proto.LimitDisk, float64(used), float64(l.Disk)}, 0
		}
		m.disk = time.Now().Add(max(2*lookMax, 20*time.Since(began)))
	}
	return nil, next
}

// allProcesses are those of a namespace whose first process this is.
func allProcesses() (pids []int) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

func countThreads(pids []int) (n uint64) {
	for _, pid := range pids {
		if f := proctree.Stat(procDir, pid); f != nil && f[proctree.State] != "Z" {
			t, _ := strconv.ParseUint(f[proctree.Threads], 10, 64)
			n += t
		}
	}
	return n
}

// killedFor returns the limit for which the kernel ended the program, or nil.
func (m *meter) killedFor() *excess {
	if m.cgroup == nil || m.order.Limits.Memory == 0 {
		return nil
	}
	return m.cgroup.memoryExcess(m.order.Limits.Memory)
}

// processorTime is the sum over live and ended processes.
func (m *meter) processorTime(pids []int) float64 {
	if m.cgroup != nil {
		return m.cgroup.processorTime()
	}
	var ended unix.Rusage
	unix.Getrusage(unix.RUSAGE_CHILDREN, &ended)
	return float64(ended.Utime.Nano()+ended.Stime.Nano())/1e9 + proctree.Seconds(procDir, pids...)
}

// residentBytes counts memory that forked processes share once per process.
func residentBytes(pids []int) uint64 {
	return sumOf(pids, "status", "RssAnon:", "RssShmem:", "VmSwap:")
}

// sharedOnce counts shared memory once, which takes the kernel longer. A process
// whose pages cannot be read counts as before.
func sharedOnce(pids []int) (sum uint64) {
	for _, pid := range pids {
		one := []int{pid}
		if n := sumOf(one, "smaps_rollup", "Pss_Anon:", "Pss_Shmem:", "SwapPss:"); n > 0 {
			sum += n
		} else {
			sum += residentBytes(one)
		}
	}
	return sum
}

func sumOf(pids []int, file string, names ...string) (sum uint64) {
	for _, pid := range pids {
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/" + file)
		for line := range strings.Lines(string(text)) {
			for _, name := range names {
				if rest, ok := strings.CutPrefix(line, name); ok {
					sum += parseKiB(strings.Fields(rest)[0])
				}
			}
		}
	}
	return sum
}

// diskBytes is what a directory holds, and what its processes hold open of
// files without a name. It stops counting once the sum exceeds `enough`.
func diskBytes(dir string, pids []int, enough uint64) (sum uint64) {
	var home unix.Stat_t
	if unix.Stat(dir, &home) != nil {
		return 0
	}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			sum = enough + 1 // an unreadable folder counts as too large
		}
		var st unix.Stat_t
		if unix.Lstat(path, &st) == nil {
			sum += max(uint64(st.Blocks)*512, pageBytes) // an empty file also uses space
		}
		if sum > enough {
			return fs.SkipAll
		}
		return nil
	})
	for _, pid := range pids {
		fds, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		for _, fd := range fds {
			var st unix.Stat_t
			if unix.Stat(fd, &st) == nil && st.Nlink == 0 && st.Dev == home.Dev && st.Mode&unix.S_IFMT == unix.S_IFREG {
				sum += uint64(st.Blocks) * 512
			}
		}
	}
	return sum
}
