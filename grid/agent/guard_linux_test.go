// SPDX-License-Identifier: MIT

package agent

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"skep/grid/proto"
)

// The role victim is an agent in another process, with a worker that forks, for tests that kill
// it. It prints "ready" when the worker's children exist.
func init() { roles["victim"] = func(args []string) { runVictim(args[0], args[1]) } }

func runVictim(worker, bee string) {
	workerFile = worker
	if bee == "none" {
		bee = ""
	}
	testing.Init()
	t := &victimT{}
	r := newRig(t, bee, 1)
	function := uint32(fnFork)
	if bee != "" {
		function = fnCompute // bee refuses to fork
	}
	r.start(function, nil)
	waitUntil(t, "a worker", func() bool {
		r.pool.mu.Lock()
		defer r.pool.mu.Unlock()
		return len(r.pool.all) == 1
	})
	fmt.Println("ready", r.tmp)
	select {}
}

// victimT replaces the testing.TB of newRig in a process that is not a test.
type victimT struct{ testing.TB }

func (*victimT) Helper()                      {}
func (*victimT) Cleanup(func())               {}
func (*victimT) Logf(string, ...any)          {}
func (*victimT) Fatal(args ...any)            { fmt.Println(args...); os.Exit(1) }
func (*victimT) Fatalf(f string, args ...any) { fmt.Printf(f, args...); os.Exit(1) }
func (*victimT) TempDir() string              { return os.Getenv("VICTIM_DIR") }

// withMark lists the processes whose environment contains the text.
func withMark(mark string) (pids []string) {
	list, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range list {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), mark) {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

func TestKilledAgentLeavesNothing(t *testing.T) {
	for _, c := range []struct {
		name, bee string
		least     int // number of processes: agent, guard and those of the worker
	}{{"native", "none", 5}, {"bee", "bee", 4}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.bee == "bee" {
				c.bee = beeProgram(t)
			}
			dir := t.TempDir()
			cmd := exec.Command(os.Args[0], "victim", workerFile, c.bee)
			cmd.Env = append(os.Environ(), "VICTIM_DIR="+dir)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, _ := bufio.NewReader(out).ReadString('\n')
			if !strings.HasPrefix(line, "ready") {
				t.Fatalf("the victim said %q", line)
			}
			// The guard and the agent have the directory in their environment,
			// the worker and its children have it as TMPDIR.
			waitUntil(t, "all processes of the victim", func() bool { return len(withMark(dir)) >= c.least })
			cmd.Process.Kill()
			cmd.Wait()
			began := time.Now()
			waitUntil(t, "the end of all processes", func() bool { return len(withMark(dir)) == 0 })
			t.Logf("gone after %v", time.Since(began))
		})
	}
}

func TestWorkersHaveLowPriority(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", 1)
	l := r.makeLease(fnCount, nil)
	r.mustSucceed(r.send(l))
	pid := fmt.Sprint(childrenOf(r.pool.releaseSession("")[0].process.pid)[0])
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const state0, nice, policy = 3, 19, 41 // numbers of proc(5), which count from pid and comm
	if f[nice-state0] != "19" || f[policy-state0] != "5" {
		t.Errorf("nice %s, policy %s; want 19 and SCHED_IDLE (5)", f[nice-state0], f[policy-state0])
	}
	number, _ := strconv.Atoi(pid)
	if class, _, err := unix.Syscall(unix.SYS_IOPRIO_GET, ioprioProcess, uintptr(number), 0); class != ioprioIdle || err != 0 {
		t.Errorf("I/O priority %#x, %v; want the idle class (%#x)", class, err, ioprioIdle)
	}
	exe, _ := os.Readlink("/proc/" + pid + "/exe")
	if !strings.Contains(exe, "memfd:skep") {
		t.Errorf("it runs from %s and not from the sealed copy", exe)
	}
}

// A worker has its streams and no other descriptor: neither memory for Initialize, which it
// was not given, nor what this process inherited.
func TestWorkersInheritNothing(t *testing.T) {
	t.Parallel()
	root, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0) // stays open across an exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	r := newRig(t, "", 1)
	r.mustSucceed(r.start(fnCount, nil))
	pid := childrenOf(r.pool.releaseSession("")[0].process.pid)[0]
	var open []string
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, name := range files {
		open = append(open, filepath.Base(name))
	}
	if strings.Join(open, " ") != "0 1 2 3" {
		t.Errorf("it has the descriptors %v", open)
	}
}

func TestKilledGuardLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", 1)
	call := r.start(fnFork, nil)
	waitUntil(t, "the worker and its children", func() bool { return len(withMark("TMPDIR="+r.tmp)) >= 3 })
	workers := r.pool.releaseSession("")
	for _, w := range workers {
		syscall.Kill(w.process.pid, syscall.SIGKILL)
	}
	r.mustFail(call, proto.ReasonDied, "") // the reason is not waited for beyond 2 s
	for _, w := range workers {
		if <-w.process.done; w.process.exit.Error != "its guard died" {
			t.Errorf("the end is %+v", w.process.exit)
		}
	}
	if left := withMark("TMPDIR=" + r.tmp); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}
