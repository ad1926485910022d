// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/internal/lab"
	"skep/internal/lab/vmtest"
)

// A lendingGuest is a machine that may go down in every way, which a vmtest.VM
// may not.
type lendingGuest struct {
	*lab.Guest
	ctx   context.Context
	build string
}

// Cores that are lent stop before the machine reboots, goes to another kernel
// or panics, and the next kernel has all of them: make soak ROOM=shimos-down.
func TestDownShimos(t *testing.T) {
	vmtest.Each(t, func(t *testing.T, kernel string) {
		vmtest.Lock(t)
		build, err := lab.BuildDir()
		if err != nil {
			t.Fatal(err)
		}
		limit := time.Duration(float64(4*time.Minute) * lab.Scale())
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		m := lending(kernel)
		m.Name, m.NUMA, m.Threads = "shimos-down-"+kernel, 1, 2
		guest, err := lab.Start(ctx, m)
		if err != nil {
			t.Fatal(err)
		}
		defer guest.Kill()
		g := &lendingGuest{guest, ctx, build}
		g.halves(t)
		g.reboot(t)
		g.kexec(t, kernel)
		if t.Failed() {
			t.Logf("console: %s", g.file("console.log"))
		} else if err := os.RemoveAll(g.Dir()); err != nil {
			t.Error(err)
		}
	})
}

func (g *lendingGuest) file(name string) string { return filepath.Join(g.Dir(), name) }

// down is the program that has cores lent and run.
func (g *lendingGuest) down(t *testing.T, more ...string) lab.Program {
	module := func(name string) string {
		return filepath.Join(g.build, "kmod", g.Machine().Kernel, name, name+".ko")
	}
	return lab.Program{Args: append([]string{tool(t, "lend_down"), tool(t, "image"), module("shimos"), module("witness")}, more...)}
}

// output gives all that a program says.
func (g *lendingGuest) output(t *testing.T, p lab.Program) string {
	t.Helper()
	var out strings.Builder
	if _, err := g.Run(g.ctx, p, lab.Streams{Out: &out, Err: &out}); err != nil {
		t.Fatalf("%v: %q", err, out.String())
	}
	return out.String()
}

// halves: one of a core's two threads is lent only to who says so.
func (g *lendingGuest) halves(t *testing.T) {
	text := g.output(t, shell("exec 2>&1; S="+skepOf(t)+`
		$S part create --cpus 3 --mem 32M || echo "exit $?"
		cat /sys/devices/system/cpu/online
		$S part create --cpus 3 --mem 32M --name half --split
		$S part release half`))
	for _, want := range []string{"CPU 2 is the other half of a core", "--split", "exit 4\n0-3\n", ": CPUs 3\n"} {
		claim(t, "half a core: "+want, strings.Contains(text, want), "it says %q", text)
	}
}

// reboot goes down while cores run, and comes up with all of them.
func (g *lendingGuest) reboot(t *testing.T) {
	p := g.down(t)
	r, w := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := g.Run(g.ctx, p, lab.Streams{Out: w})
		w.CloseWithError(err) // none: its end
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	if line != "down: ready\n" {
		t.Fatalf("no cores run: %q, %v", line, err)
	}
	if err := g.Reboot(g.ctx); err != nil {
		t.Fatal(err)
	}
	<-ended
	console := g.console(t)
	claim(t, "a reboot finds the cores stopped", strings.Count(console, "witness: reboot: the counter stands still") == 1 &&
		!strings.Contains(console, "the counter moves"), "the witness saw them run, or nothing")
	text := g.output(t, shell("cat /sys/devices/system/cpu/online"))
	claim(t, "the machine comes up with all CPUs", text == "0-3\n", "it has %q", text)
}

// kexec goes to another kernel while cores run; there cores are lent and run
// again when it panics.
func (g *lendingGuest) kexec(t *testing.T, kernel string) {
	p := g.down(t, filepath.Join(g.build, "kernel", kernel, "vmlinuz"))
	var out strings.Builder
	status, err := g.Run(g.ctx, p, lab.Streams{Out: &out, Err: &out})
	if err == nil {
		t.Fatalf("no kexec: status %d, %q", status, out.String())
	}
	select {
	case <-g.Done():
	case <-g.ctx.Done():
		t.Fatalf("the machine neither ended nor panicked: %v", context.Cause(g.ctx))
	}
	console := g.console(t)
	claim(t, "kexec finds the cores stopped", strings.Count(console, "witness: reboot: the counter stands still") == 2 &&
		!strings.Contains(console, "the counter moves"), "the witness saw them run, or nothing")
	claim(t, "the next kernel has all CPUs", strings.Contains(console, "down: the next kernel has CPUs 0-3"), "not on the console")
	claim(t, "a panic finds the cores stopped", strings.Count(console, "witness: panic: the counter stands still") == 1, "not on the console")
	claim(t, "the panic is the one that was asked for", strings.Contains(fmt.Sprint(g.Err()), "Kernel panic - not syncing: sysrq"),
		"the machine ended by %v", g.Err())
	seen, err := lab.Scan(strings.NewReader(console))
	if err != nil {
		t.Fatal(err)
	}
	missing, extra := lab.Compare([]lab.Report{{Kind: lab.Panic, Count: 1}}, seen)
	claim(t, "the kernels report nothing else", len(missing)+len(extra) == 0, "missing %v, extra %v", missing, extra)
}

func (g *lendingGuest) console(t *testing.T) string {
	text, err := os.ReadFile(g.file("console.log"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
