// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"skep/grid/proto"
	"skep/internal/cgroup"
	"skep/internal/uapi"
)

// See cgroups(7) and the kernel's cgroup-v2 document. A group cannot have both processes and
// children with controllers, except the root. So an agent that is in a group of its own moves
// to a child of that group, and programs get other children.
const (
	agentGroup   = "skep-agent"
	programGroup = "skep-program-"
	controllers  = "+memory +pids"
)

// cgroups makes a group of processes for each program.
type cgroups struct {
	dir  string // holds the groups
	next atomic.Uint64
}

// A controlGroup is the group of one program. dir is nil if there is none.
type controlGroup struct {
	path string
	dir  *os.File
	end  func() // of a kernel update that is in force for it; nil: none is
}

// openCgroups returns where this process may make groups whose memory and processes the kernel
// bounds, or why it cannot. mounts and own are /proc/self/mountinfo and /proc/self/cgroup.
func openCgroups(mounts, own string) (*cgroups, error) {
	root, err := cgroup.FindRoot(mounts)
	if err != nil {
		return nil, err
	}
	path, err := cgroup.FindOwn(own)
	if err != nil {
		return nil, err
	}
	if filepath.Base(path) == agentGroup { // it was started by an agent that has moved
		path = filepath.Dir(path)
	}
	g := &cgroups{dir: filepath.Join(root, path)}
	has, err := os.ReadFile(filepath.Join(g.dir, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"memory", "pids"} {
		if !slices.Contains(strings.Fields(string(has)), name) {
			return nil, fmt.Errorf("the control group %s was not given the controller %s", path, name)
		}
	}
	if err := g.moveAgent(path == "/"); err != nil {
		return nil, err
	}
	if err := cgroup.Write(g.dir, "cgroup.subtree_control", controllers); err != nil {
		return nil, err
	}
	g.removeOld()
	probe, err := g.create(proto.Limits{Memory: 1 << 30, Processes: 1})
	if err != nil {
		return nil, err
	}
	defer probe.remove()
	if _, err := os.Stat(filepath.Join(probe.path, "cgroup.kill")); err != nil {
		return nil, errors.New("the kernel cannot end the processes of a group (Linux 5.14 can)")
	}
	return g, nil
}

// moveAgent moves this process out of the group whose children are to get controllers.
func (g *cgroups) moveAgent(isRoot bool) error {
	if isRoot {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	self := strconv.Itoa(os.Getpid())
	for pid := range strings.FieldsSeq(string(text)) {
		if pid != self {
			return errors.New("other processes are in this program's control group: run it as a service, or with systemd-run --user --scope -p Delegate=yes")
		}
	}
	dir := filepath.Join(g.dir, agentGroup)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return cgroup.Write(dir, "cgroup.procs", self)
}

// removeOld removes what a killed agent left. Its guards ended its programs. In the root
// another agent may have groups, which have processes: those cannot be removed.
func (g *cgroups) removeOld() {
	old, _ := filepath.Glob(filepath.Join(g.dir, programGroup+"*"))
	for _, path := range old {
		unix.Rmdir(path)
	}
}

// create makes a group with limits. The caller removes it.
func (g *cgroups) create(l proto.Limits) (*controlGroup, error) {
	c := &controlGroup{path: filepath.Join(g.dir, fmt.Sprintf("%s%d-%d", programGroup, os.Getpid(), g.next.Add(1)))}
	if err := os.Mkdir(c.path, 0o755); err != nil {
		return nil, err
	}
	err := c.setLimits(l)
	if errors.Is(err, os.ErrNotExist) && cgroup.Write(g.dir, "cgroup.subtree_control", controllers) == nil {
		// A reload of systemd takes the controllers from a group that it did not delegate.
		err = c.setLimits(l)
	}
	if err == nil {
		c.dir, err = os.Open(c.path)
	}
	if err != nil {
		c.remove()
		return nil, fmt.Errorf("a control group cannot be set up: %w", err)
	}
	return c, nil
}

// setLimits sets the limits that the kernel enforces. The program's guard measures too, and
// ends the program for processes; only a program that outruns it meets pids.max.
func (c *controlGroup) setLimits(l proto.Limits) error {
	if l.Processes != 0 {
		if err := cgroup.Write(c.path, "pids.max", strconv.FormatUint(l.Processes+processesOver, 10)); err != nil {
			return err
		}
	}
	if l.Memory == 0 {
		return nil
	}
	// A machine without swap has no such file.
	if err := cgroup.Write(c.path, "memory.swap.max", "0"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := cgroup.Write(c.path, "memory.oom.group", "1"); err != nil {
		return err
	}
	return cgroup.Write(c.path, "memory.max", strconv.FormatUint(l.Memory, 10))
}

// removeIn is how long the kernel may take to end the processes of a group.
const removeIn = 10 * time.Second

// remove ends all processes of the group and removes it.
func (c *controlGroup) remove() {
	if c.dir != nil {
		c.dir.Close()
	}
	cgroup.Write(c.path, "cgroup.kill", "1")
	for end := time.Now().Add(removeIn); unix.Rmdir(c.path) == unix.EBUSY && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if c.end != nil {
		c.end()
	}
}

// A groupMeter reads what a program's group used. Its guard has only the descriptor of the
// group, whose path may not exist where the guard is.
type groupMeter struct{ fd int }

// value returns the number of a key, or of a file with one number if key is "".
func (g groupMeter) value(file, key string) (n uint64) {
	fd, err := unix.Openat(g.fd, file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	f := os.NewFile(uintptr(fd), file)
	defer f.Close()
	text, _ := io.ReadAll(f)
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) > 0 && key == "" || len(words) == 2 && words[0] == key {
			n, _ = strconv.ParseUint(words[len(words)-1], 10, 64)
			break
		}
	}
	return n
}

// processorTime returns the seconds of all processes of the group, live and ended.
func (g groupMeter) processorTime() float64 { return float64(g.value("cpu.stat", "usage_usec")) / 1e6 }

// memoryExcess returns the excess for which the kernel ended the program, or nil.
func (g groupMeter) memoryExcess(limit uint64) *excess {
	if g.value("memory.events", "oom_kill") == 0 {
		return nil
	}
	return &excess{proto.LimitMemory, float64(g.value("memory.peak", "")), float64(limit)}
}

// prepareCgroups finds out whether this machine lets the agent have control groups.
func (a *Agent) prepareCgroups() {
	a.cgroups, a.ungrouped = openCgroups("/proc/self/mountinfo", "/proc/self/cgroup")
}

// openCgroup makes the group of a program, or returns nil where there are none.
func (a *Agent) openCgroup(c *command) (*controlGroup, error) {
	if a.cgroups == nil && c.update != "" {
		return nil, failf(proto.ReasonRefused, uapi.ERefused, "kernel updates are for control groups, and this node's agent has none: %v", a.ungrouped)
	}
	if a.cgroups == nil || c.bounds.Probe {
		return nil, nil
	}
	g, err := a.cgroups.create(c.limits)
	if err != nil || c.update == "" {
		return g, err
	}
	if err := a.holdUpdate(c.update, g); err != nil {
		g.remove()
		return nil, err
	}
	return g, nil
}

// holdUpdate puts a kernel update in force for a group before a program is in it. It ends
// with the group.
func (a *Agent) holdUpdate(name string, g *controlGroup) (err error) {
	g.end, err = a.config.HoldUpdate(context.Background(), name, g.path)
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return failf(proto.ReasonRefused, uapi.ERefused, "the kernel update %s is not in force for the program: %s", name, refused.Text)
	}
	if err != nil {
		return fmt.Errorf("the kernel update %s is not in force for the program: %w", name, err)
	}
	return nil
}
