// SPDX-License-Identifier: MIT

package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"skep/grid/proto"
	"skep/internal/proctree"
)

// testUser is an ordinary user's id, for tests that root runs.
const testUser = 23456

// Each limit ends a call that exceeds it. The message names the limit and who can raise it, and
// the node continues to work.
func TestLimits(t *testing.T) {
	cases := []struct {
		what  string
		limit proto.Limits
		name  string
	}{
		{"memory 400000000", proto.Limits{Memory: 50 * mega}, "memory"},
		{"cpu 1", proto.Limits{CPU: 0.3}, "cpu-time"},
		{"heirs 1", proto.Limits{CPU: 0.3}, "cpu-time"},
		{"orphans 1", proto.Limits{CPU: 0.3}, "cpu-time"},
		{"wall 1", proto.Limits{Wall: 0.3}, "wall-time"},
		{"processes 60", proto.Limits{Processes: 20}, "processes"},
		{"processes 100000", proto.Limits{Processes: 20}, "processes"},
		{"disk 30000000", proto.Limits{Disk: 10 * mega}, "disk"},
		{"hidden 30000000", proto.Limits{Disk: 10 * mega}, "disk"},
	}
	eachKind(t, func(t *testing.T, b bounds) {
		r := newRigOf(t, Config{State: tempDir(t), Slots: 2, confine: &b})
		for _, c := range cases {
			bomb := c.what == "processes 100000"
			if bomb && (!b.User || b.RunAs == 0 && os.Geteuid() == 0) {
				continue // only the meter enforces this limit
			}
			f := r.mustFail(r.consumeResource(c.what, c.limit), proto.ReasonLimit, "exceeded its limit")
			if !strings.Contains(f.Text, "ask for more with --"+c.name) {
				t.Errorf("%s: %s", c.what, f.Text)
			}
			var used uint64
			_, text, _ := strings.Cut(f.Text, "it used ")
			if fmt.Sscan(text, &used); bomb && (used <= 20 || used > 20+processesOver) {
				t.Errorf("a bomb made %d processes: %s", used, f.Text)
			}
		}
		if got, _ := r.mustSucceed(r.start(fnEcho, []byte("on"))); string(got) != "on" {
			t.Errorf("%q", got)
		}
	})
}

// The role is a guard that is delayed until the program waits for its first call. Limits that the
// guard sets afterwards would be too late.
func init() {
	roles["late guard"] = func([]string) {
		afterStart = func(pid int) {
			waitUntil(&victimT{}, "a program that waits", func() bool {
				stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
				_, state, _ := strings.Cut(string(stat), ") ")
				return strings.HasPrefix(state, "S ")
			})
		}
		os.Exit(RunGuard())
	}
}

// A program has its limit of processes before its first instruction.
func TestProcessLimitIsInherited(t *testing.T) {
	eachKind(t, func(t *testing.T, b bounds) {
		if !b.User {
			return // the kernel counts the user's other processes too
		}
		r := newRigOf(t, Config{State: tempDir(t), Slots: 1, confine: &b, Guard: []string{os.Args[0], "late guard"}})
		got, _ := r.mustSucceed(r.consumeResource("limit", proto.Limits{Processes: 20}))
		if want := fmt.Sprint(20 + processesOver); string(got) != want {
			t.Errorf("the program began with a limit of %s processes, not %s", got, want)
		}
	})
}

// A request above what the owner allows is refused with that reason.
func TestOwnersLimits(t *testing.T) {
	t.Parallel()
	r := newRigOf(t, Config{State: tempDir(t), Slots: 1, Limits: proto.Limits{Memory: 50 * mega}})
	f := r.mustFail(r.consumeResource("memory 400000000", proto.Limits{Memory: 1 << 40}), proto.ReasonLimit, "--limit-memory of skep join")
	if !strings.Contains(f.Text, "more than the 50 MiB allowed") {
		t.Error(f.Text)
	}
}

// Memory that processes share is counted once.
func TestSharedMemoryCountsOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", 1)
	call := r.consumeResource("shared 60000000", proto.Limits{Memory: 200 * mega})
	waitUntil(t, "eight processes with 60 MB each", func() bool {
		for _, w := range r.pool.releaseSession("") {
			if pids := proctree.Below(procDir, w.process.pid); len(pids) >= 8 && residentBytes(pids) > 400*mega {
				return sharedOnce(pids) < 100*mega
			}
		}
		return false
	})
	r.cancel(call)
	r.mustFail(call, proto.ReasonCancelled, "")
}

// The limit on processor time applies to one call and not to its worker's earlier calls.
func TestProcessorTimeOfACall(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", 1)
	for range 4 { // 0.2 s each at most, and 0.5 s together
		l := r.makeLease(fnConsume, []byte("tick 150"))
		inline.Store(l.Digest, []byte("tick 150"))
		l.Limits.CPU = 0.4
		r.mustSucceed(r.send(l))
	}
}

// A folder whose permissions a program removed is counted and deleted too.
func TestClosedFolderIsRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/w/a/b", 0o755); err != nil {
		t.Fatal(err)
	}
	os.Chmod(dir+"/w/a", 0)
	if err := RemoveAll(filepath.Join(dir, "w")); err != nil {
		t.Error(err)
	}
}

func TestDefaultLimits(t *testing.T) {
	total, _ := memoryInfo()
	for slots, least := range map[int]uint64{1: total / 10 * 8, 1 << 20: min(1<<30, total/2)} {
		c := Config{}
		c.setDefaults(slots, 100<<30, false)
		if c.Limits.Memory < least || c.Limits.Memory > total/10*9 || c.Limits.Disk != (50<<30)/uint64(slots) || c.Limits.Processes == 0 {
			t.Errorf("%d slots: %+v", slots, c.Limits)
		}
	}
}

// The limits of skep exec are enforced on Linux, and reported on standard error.
func TestExecLimits(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", 1)
	eat := "a=0123456789abcdef; while :; do a=$a$a; done"
	got := r.executeWith(readBusybox(t), proto.Limits{Memory: 50 * mega}, "sh", "-c", eat)
	if got.status != 137 || !strings.Contains(got.err, "skep: it exceeded its limit") || !strings.Contains(got.err, "--memory") {
		t.Errorf("%+v", got)
	}
	got = r.executeWith(readBusybox(t), proto.Limits{Wall: 0.2}, "sleep", "1000")
	if got.status != 137 || !strings.Contains(got.err, "--wall-time") {
		t.Errorf("%+v", got)
	}
}

func (r *rig) executeWith(program []byte, l proto.Limits, args ...string) ran {
	r.t.Helper()
	return r.execAndWait(proto.Exec{ID: "1", Program: r.cache.put(r.t, program), Name: "busybox", Args: args, Limits: l}, "")
}

// The role is a process whose Go runtime cannot create threads any more when the function of
// limitProcesses is called: it has no idle one, and its user has more than the limit allows.
func init() {
	roles["full guard"] = func([]string) {
		runtime.LockOSThread() // as the caller in a guard
		if os.Geteuid() == 0 {
			if err := syscall.Setresuid(testUser, testUser, testUser); err != nil { // limits bind it
				fmt.Println(err)
				os.Exit(1)
			}
		}
		var own, now unix.Rlimit
		unix.Getrlimit(unix.RLIMIT_NPROC, &own)
		free := limitProcesses(guardOrder{Bounds: bounds{User: true}, Limits: proto.Limits{Processes: 1000}})
		for created := 0; created < 3; { // threads that are not idle, until each is a new one
			before := countThreads([]int{os.Getpid()})
			var waits atomic.Bool
			go func() {
				waits.Store(true)
				unix.Poll(nil, -1)
			}()
			for !waits.Load() { // not idle, so that no thread waits for work
			}
			if created++; countThreads([]int{os.Getpid()}) == before {
				created = 0
			}
		}
		unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: own.Max})
		free(os.Getpid())
		unix.Getrlimit(unix.RLIMIT_NPROC, &now)
		fmt.Println(now.Cur > 1)
		os.Exit(0)
	}
}

// A program that has filled its limit before the guard takes it off itself does not end the guard.
func TestFullLimitSparesTheGuard(t *testing.T) {
	out, err := exec.Command(os.Args[0], "full guard").CombinedOutput()
	if err != nil || string(out) != "true\n" {
		t.Errorf("%v\n%.400s", err, out)
	}
}
