// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/internal/load"
	"skep/lab"
	"skep/tests/vmtest"
	"skep/tests/vmtest/report"
)

// A lendingGuest is a machine that may end in any way, which a vmtest.VM may not.
type lendingGuest struct {
	*lab.Guest
	ctx   context.Context
	build string
}

// Lent cores stop before the machine reboots, starts another kernel by kexec or panics, and the next
// kernel has all of them: make test-full T=vm-down.
func TestDownShimos(t *testing.T) {
	vmtest.Each(t, func(t *testing.T, kernel string) {
		vmtest.Lock(t)
		t.Run("reboot", func(t *testing.T) { onGuest(t, kernel, (*lendingGuest).reboot) })
		t.Run("kexec", func(t *testing.T) { onGuest(t, kernel, (*lendingGuest).testKexec) })
	})
}

func onGuest(t *testing.T, kernel string, test func(*lendingGuest, *testing.T)) {
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), load.Stretch(4*time.Minute))
	defer cancel()
	m := lendingMachine(kernel)
	m.Name, m.NUMA, m.Threads = "shimos-down-"+kernel, 1, 2
	guest, err := lab.Start(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Kill()
	g := &lendingGuest{guest, ctx, build}
	test(g, t)
	if t.Failed() {
		t.Logf("console: %s", g.guestPath("console.log"))
	} else if err := os.RemoveAll(g.Dir()); err != nil {
		t.Error(err)
	}
}

func (g *lendingGuest) guestPath(name string) string { return filepath.Join(g.Dir(), name) }

// downProgram returns the program that has cores lent and run.
func (g *lendingGuest) downProgram(t *testing.T, more ...string) lab.Program {
	module := func(name string) string {
		return filepath.Join(g.build, "kmod", g.Machine().Kernel, name, name+".ko")
	}
	return lab.Program{Args: append([]string{toolPath(t, "lend_down"), toolPath(t, "image"), module("shimos"), module("witness")}, more...)}
}

// readOutput returns all that a program says.
func (g *lendingGuest) readOutput(t *testing.T, p lab.Program) string {
	t.Helper()
	var out strings.Builder
	if _, err := g.Run(g.ctx, p, lab.Streams{Out: &out, Err: &out}); err != nil {
		t.Fatalf("%v: %q", err, out.String())
	}
	return out.String()
}

// testThreadPairs checks that one of a core's two threads is lent only if the user permits it.
func (g *lendingGuest) testThreadPairs(t *testing.T) {
	text := g.readOutput(t, shellProgram("exec 2>&1; S="+skepOf(t)+`
		$S part create --cpus 3 --mem 32M || echo "exit $?"
		cat /sys/devices/system/cpu/online
		$S part create --cpus 3 --mem 32M --name half --split
		$S part release half`))
	for _, want := range []string{"CPU 2 is the hyperthread sibling of a requested CPU", "--split", "exit 4\n0-3\n", ": CPUs 3\n"} {
		checkGuest(t, "half a core: "+want, strings.Contains(text, want), "it says %q", text)
	}
}

// goDown runs the program that ends the machine, and waits for that end.
func (g *lendingGuest) goDown(t *testing.T, more ...string) {
	t.Helper()
	var out strings.Builder
	status, err := g.Run(g.ctx, g.downProgram(t, more...), lab.Streams{Out: &out, Err: &out})
	if err == nil {
		t.Fatalf("the machine goes on: status %d, %q", status, out.String())
	}
	select {
	case <-g.Done():
	case <-g.ctx.Done():
		t.Fatalf("the machine did not end: %v", context.Cause(g.ctx))
	}
}

// checkNotified checks that the witness saw both cores run when it was notified first, and wait when it was notified last, so often.
func (g *lendingGuest) checkNotified(t *testing.T, event string, times int) {
	t.Helper()
	var want, got []string
	for range times {
		for _, seen := range []string{"first: core 0 runs", "first: core 1 runs", "last: core 0 waits", "last: core 1 waits"} {
			want = append(want, event+", "+seen)
		}
	}
	for _, line := range strings.Split(g.readConsole(t), "\n") {
		if _, seen, found := strings.Cut(line, "witness: "); found && strings.HasPrefix(seen, event) {
			got = append(got, strings.TrimSpace(seen))
		}
	}
	checkGuest(t, "a "+event+" stops the cores", slices.Equal(want, got), "the witness says %q", got)
}

func (g *lendingGuest) reboot(t *testing.T) {
	g.testThreadPairs(t)
	g.goDown(t)
	g.checkNotified(t, "reboot", 1)
	g.checkReports(t)
}

// testKexec goes to another kernel while cores run; there cores are lent and run
// again when it panics.
func (g *lendingGuest) testKexec(t *testing.T) {
	g.goDown(t, filepath.Join(g.build, "kernel", g.Machine().Kernel, "vmlinuz"))
	g.checkNotified(t, "reboot", 1)
	checkGuest(t, "the next kernel has all CPUs", strings.Contains(g.readConsole(t), "down: the next kernel has CPUs 0-3"), "not on the console")
	g.checkNotified(t, "panic", 1)
	checkGuest(t, "the panic is the one that was requested", strings.Contains(fmt.Sprint(g.Err()), "Kernel panic - not syncing: sysrq"),
		"the machine ended by %v", g.Err())
	g.checkReports(t, report.Report{Kind: report.Panic, Count: 1})
}

// checkReports checks that the kernels reported exactly this.
func (g *lendingGuest) checkReports(t *testing.T, want ...report.Report) {
	t.Helper()
	seen, err := report.Scan(strings.NewReader(g.readConsole(t)))
	if err != nil {
		t.Fatal(err)
	}
	missing, extra := report.Compare(want, seen)
	checkGuest(t, "the kernels report nothing else", len(missing)+len(extra) == 0, "missing %v, extra %v", missing, extra)
}

func (g *lendingGuest) readConsole(t *testing.T) string {
	text, err := os.ReadFile(g.guestPath("console.log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
