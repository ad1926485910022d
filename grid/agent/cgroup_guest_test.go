// SPDX-License-Identifier: MIT

//go:build linux && guest

package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"skep/grid/proto"
	"skep/internal/cgroup"
)

// These tests need a machine whose control groups are theirs: they run in a guest.

const hierarchy = "/sys/fs/cgroup"

// giveControllers lets this process's group have the controllers, as a service manager would.
func giveControllers(t *testing.T) {
	t.Helper()
	own, err := cgroup.FindOwn("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(own) == agentGroup {
		return // a test before did it
	}
	for dir := "/"; dir != own; dir = filepath.Join(dir, strings.Split(strings.TrimPrefix(own[len(strings.TrimSuffix(dir, "/")):], "/"), "/")[0]) {
		if err := cgroup.Write(filepath.Join(hierarchy, dir), "cgroup.subtree_control", controllers); err != nil {
			t.Fatal(err)
		}
	}
}

func openGuestCgroups(t *testing.T) *cgroups {
	t.Helper()
	giveControllers(t)
	g, err := openCgroups("/proc/self/mountinfo", "/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// startGrouped starts a program in a group, without a guard.
func startGrouped(t *testing.T, c *controlGroup, args ...string) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	var out strings.Builder
	cmd := exec.Command(args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(c.dir.Fd())}
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &out
}

// The kernel alone holds a program to its memory and processes, counts its processor time, and
// ends what is left of it.
func TestGuestKernelEnforces(t *testing.T) {
	g := openGuestCgroups(t)
	c, err := g.create(proto.Limits{Memory: 50 * mega, Processes: 8})
	if err != nil {
		t.Fatal(err)
	}
	cmd, _ := startGrouped(t, c, "/bin/sh", "-c", "a=0123456789abcdef; while :; do a=$a$a; done")
	cmd.Wait()
	m := groupMeter{int(c.dir.Fd())}
	e := m.memoryExcess(50 * mega)
	if e == nil || e.Allowed != 50*mega || e.Used > 50*mega || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("%v, %+v", cmd.ProcessState, e)
	}
	if m.processorTime() <= 0 {
		t.Error("the program took no processor time")
	}
	bomb, out := startGrouped(t, c, "/bin/sh", "-c", "n=0; while [ $n -lt 200 ]; do sleep 1000 >/dev/null 2>&1 & n=$((n+1)); done")
	bomb.Wait()
	if n := m.value("pids.current", ""); !strings.Contains(out.String(), "fork") || n == 0 || n > 8+processesOver {
		t.Errorf("%d processes, %.200s", n, out)
	}
	c.remove()
	if _, err := os.Stat(c.path); !os.IsNotExist(err) {
		t.Errorf("the group is still there: %v", err)
	}
}

// A service manager may take the controllers away again: systemd does at each reload, unless the
// group was delegated.
func TestGuestControllersAreTaken(t *testing.T) {
	g := openGuestCgroups(t)
	if err := cgroup.Write(g.dir, "cgroup.subtree_control", strings.ReplaceAll(controllers, "+", "-")); err != nil {
		t.Fatal(err)
	}
	c, err := g.create(proto.Limits{Memory: 50 * mega, Processes: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer c.remove()
	if got := strings.TrimSpace(readGroup(t, c.path, "memory.max")); got != "52428800" {
		t.Errorf("memory.max is %q", got)
	}
}

func init() {
	roles["own cgroups"] = func([]string) {
		g, err := openCgroups("/proc/self/mountinfo", "/proc/self/cgroup")
		if err == nil {
			_, err = openCgroups("/proc/self/mountinfo", "/proc/self/cgroup") // started again by itself
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(g.dir)
		os.Exit(0)
	}
}

// An ordinary user makes groups below a group that was delegated, and nowhere else.
func TestGuestDelegated(t *testing.T) {
	g := openGuestCgroups(t)
	box, err := g.create(proto.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer box.remove()
	run := func() string {
		cmd, out := startGrouped(t, box, "/bin/sh", "-c", "exec setpriv --reuid 1000 --regid 1000 --clear-groups \""+os.Args[0]+"\" 'own cgroups'")
		cmd.Wait()
		return strings.TrimSpace(out.String())
	}
	if got := run(); !strings.Contains(got, "permission denied") {
		t.Errorf("without delegation: %s", got)
	}
	for _, name := range []string{"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"} {
		if err := os.Chown(box.path+name, 1000, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if got := run(); got != box.path {
		t.Errorf("with delegation: %s", got)
	}
	os.Remove(box.path + "/" + agentGroup)
}

// The role is a guard that does not measure.
func init() {
	roles["blind guard"] = func([]string) {
		beforeMeasure = func() { select {} }
		os.Exit(RunGuard())
	}
}

// What the kernel ends is named as what the guard ends.
func TestGuestKernelIsNamed(t *testing.T) {
	giveControllers(t)
	r := newRigOf(t, Config{State: tempDir(t), Slots: 1, Guard: []string{os.Args[0], "blind guard"}})
	r.mustFail(r.consumeResource("memory 400000000", proto.Limits{Memory: 50 * mega}), proto.ReasonLimit,
		"it needed more than the 50 MiB of memory allowed; ask for more with --memory")
}

// An agent of root has groups, and its limits are enforced as elsewhere.
func TestGuestLimits(t *testing.T) {
	giveControllers(t)
	r := newRigOf(t, Config{State: tempDir(t), Slots: 1})
	if r.cgroups == nil {
		t.Fatal("the agent has no control groups")
	}
	for what, l := range map[string]proto.Limits{"cpu 1": {CPU: 0.3},
		"orphans 1": {CPU: 0.3}, "processes 100000": {Processes: 20}} {
		f := r.mustFail(r.consumeResource(what, l), proto.ReasonLimit, "exceeded its limit")
		if !strings.Contains(f.Text, "ask for more with --") {
			t.Errorf("%s: %s", what, f.Text)
		}
	}
	if got, _ := r.mustSucceed(r.start(fnEcho, []byte("on"))); string(got) != "on" {
		t.Errorf("%q", got)
	}
}
