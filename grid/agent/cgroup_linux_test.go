// SPDX-License-Identifier: MIT

package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/grid/proto"
)

// An agent says why it has no control groups.
func TestCgroupsRefused(t *testing.T) {
	self := fmt.Sprint(os.Getpid(), "\n")
	for _, c := range []struct{ name, mount, own, controllers, procs, why string }{
		{"only version 1", "cgroup", "0::/a", "memory pids", self, "no version 2 cgroups are mounted"},
		{"a container's part", "part", "0::/a", "memory pids", self, "as in a container"},
		{"no group", "cgroup2", "4:memory:/a", "memory pids", self, "is in no control group of version 2"},
		{"no controller", "cgroup2", "0::/a", "cpu pids memory2", self, "/a was not given the controller memory"},
		{"no second controller", "cgroup2", "0::/a", "memory", self, "/a was not given the controller pids"},
		{"a login session", "cgroup2", "0::/a", "memory pids", self + "1\n", "Delegate=yes"},
		{"no file to write", "cgroup2", "0::/a", "cpu memory pids", self, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			line, kind := "30 20 0:26 / "+root+" rw,nosuid - ", c.mount
			if kind == "part" {
				line, kind = "30 20 0:26 /docker "+root+" rw,nosuid - ", "cgroup2"
			}
			write := func(path, text string) string {
				path = filepath.Join(root, path)
				os.MkdirAll(filepath.Dir(path), 0o755)
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return path
			}
			write("a/cgroup.controllers", c.controllers+"\n")
			write("a/cgroup.procs", c.procs)
			g, err := openCgroups(write("mountinfo", line+kind+" none rw\n"), write("own", "1:cpu:/b\n"+c.own+"\n"))
			if g != nil || err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%v, %v", g, err)
			}
		})
	}
}

// The kernel ends a program at its limit, so the program used no more than that.
func TestLimitOfTheKernelIsNamed(t *testing.T) {
	e := excess{proto.LimitMemory, 50 * mega, 50 * mega}
	want := "it exceeded its limit: it needed more than the 50 MiB of memory allowed; ask for more with --memory"
	if got := e.message(proto.Limits{}); got != want {
		t.Error(got)
	}
}

// groupFiles makes a folder with the files that a control group has.
func groupFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func readGroup(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each limit is written to its file, and a limit that was not asked for to none.
func TestLimitsOfAGroup(t *testing.T) {
	const untouched = "-"
	for _, c := range []struct {
		name      string
		limits    proto.Limits
		pids, max string
		oom, swap string
	}{
		{"none", proto.Limits{}, untouched, untouched, untouched, untouched},
		{"processes", proto.Limits{Processes: 1}, fmt.Sprint(1 + processesOver), untouched, untouched, untouched},
		{"memory", proto.Limits{Memory: 50 * mega}, untouched, "52428800", "1", "0"},
		{"both", proto.Limits{Memory: 1, Processes: 20}, fmt.Sprint(20 + processesOver), "1", "1", "0"},
	} {
		files := map[string]string{}
		for _, name := range []string{"pids.max", "memory.max", "memory.oom.group", "memory.swap.max"} {
			files[name] = ""
		}
		g := &controlGroup{path: groupFiles(t, files)}
		if err := g.setLimits(c.limits); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for name, want := range map[string]string{"pids.max": c.pids, "memory.max": c.max, "memory.oom.group": c.oom, "memory.swap.max": c.swap} {
			if got := readGroup(t, g.path, name); got != want && !(want == untouched && got == "") {
				t.Errorf("%s: %s has %q, want %q", c.name, name, got, want)
			}
		}
	}
	all := proto.Limits{Memory: 5, Processes: 5}
	for _, missing := range []string{"pids.max", "memory.max", "memory.oom.group", "memory.swap.max"} {
		g := &controlGroup{path: groupFiles(t, map[string]string{"pids.max": "", "memory.max": "", "memory.oom.group": "", "memory.swap.max": ""})}
		if err := os.Remove(filepath.Join(g.path, missing)); err != nil {
			t.Fatal(err)
		}
		if err := g.setLimits(all); errors.Is(err, fs.ErrNotExist) != (missing != "memory.swap.max") {
			t.Errorf("without %s: %v", missing, err)
		}
	}
	g := &controlGroup{path: groupFiles(t, map[string]string{"pids.max": "", "memory.max": "", "memory.oom.group": ""})}
	if err := os.Mkdir(filepath.Join(g.path, "memory.swap.max"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := g.setLimits(all); err == nil || readGroup(t, g.path, "memory.max") != "" {
		t.Errorf("a limit of swap that cannot be set: %v", err)
	}
}

// What was not set up is removed again; each group has a name of its own.
func TestGroupThatCannotBeSetUp(t *testing.T) {
	g := &cgroups{dir: t.TempDir()}
	if c, err := g.create(proto.Limits{Processes: 1}); c != nil || err == nil || !strings.Contains(err.Error(), "a control group cannot be set up: ") {
		t.Errorf("%v, %v", c, err)
	}
	if left, _ := os.ReadDir(g.dir); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	one, err := g.create(proto.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := g.create(proto.Limits{})
	if err != nil || one.path == other.path || filepath.Base(one.path) != fmt.Sprintf("%s%d-2", programGroup, os.Getpid()) {
		t.Errorf("%q, %v", one.path, err)
	}
	if err := os.WriteFile(filepath.Join(g.dir, "keep"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	busy := filepath.Join(g.dir, programGroup+"busy")
	if err := os.MkdirAll(filepath.Join(busy, "child"), 0o755); err != nil {
		t.Fatal(err)
	}
	one.remove()
	if _, err := one.dir.Stat(); err == nil {
		t.Error("a removed group is open")
	}
	if g.removeOld(); g.dir == "" {
		t.Error("no folder")
	}
	left, _ := os.ReadDir(g.dir)
	if len(left) != 2 || left[0].Name() != "keep" && left[1].Name() != "keep" {
		t.Errorf("left: %v", left)
	}
	other.dir.Close()
	g.dir += "/none"
	if _, err := g.create(proto.Limits{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// An agent in a group of its own moves to a child; in the root it stays.
func TestAgentMovesToAChild(t *testing.T) {
	self := fmt.Sprint(os.Getpid())
	dir := groupFiles(t, map[string]string{"cgroup.procs": self + "\n"})
	g := &cgroups{dir: dir}
	if err := g.moveAgent(true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, agentGroup)); err == nil {
		t.Error("it moved out of the root")
	}
	child := filepath.Join(dir, agentGroup, "cgroup.procs")
	if err := errors.Join(os.Mkdir(filepath.Dir(child), 0o755), os.WriteFile(child, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := g.moveAgent(false); err != nil || readGroup(t, filepath.Dir(child), "cgroup.procs") != self {
		t.Errorf("%v, %q", err, readGroup(t, filepath.Dir(child), "cgroup.procs"))
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := g.moveAgent(false); err != nil { // it moved before
		t.Error(err)
	}
	g.dir += "/none"
	if err := g.moveAgent(false); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	a := &Agent{}
	if c, err := a.openCgroup(&command{}); c != nil || err != nil {
		t.Errorf("a group without groups: %v, %v", c, err)
	}
}

// The figures of a group come from its files; a file that is not there counts as 0.
func TestFiguresOfAGroup(t *testing.T) {
	dir := groupFiles(t, map[string]string{"cpu.stat": "usage_usec_more 9\nusage_usec 2500000\nuser_usec 7\n", "memory.peak": "77\n", "memory.events": "low 1\noom_kill 3 4\noom 5\noom_kill 1\n", "empty": ""})
	open, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	g := groupMeter{int(open.Fd())}
	if s := g.processorTime(); s != 2.5 {
		t.Errorf("%v s", s)
	}
	if e := g.memoryExcess(50); e == nil || *e != (excess{proto.LimitMemory, 77, 50}) {
		t.Errorf("%+v", e)
	}
	for _, c := range []struct {
		file, key string
		want      uint64
	}{{"memory.peak", "", 77}, {"memory.events", "oom", 5}, {"memory.events", "high", 0}, {"cpu.stat", "user_usec", 7}, {"empty", "", 0}, {"none", "", 0}, {"none", "x", 0}} {
		if n := g.value(c.file, c.key); n != c.want {
			t.Errorf("%s of %s is %d, want %d", c.key, c.file, n, c.want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "memory.events"), []byte("oom_kill 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if e := g.memoryExcess(50); e != nil {
		t.Errorf("nothing was killed: %+v", e)
	}
	m := &meter{cgroup: &g}
	if m.killedFor() != nil {
		t.Error("a program without a limit was killed for it")
	}
}
