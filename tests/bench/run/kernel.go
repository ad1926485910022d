// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"skep/lab"
)

// kernelSides are those of the paper's control experiment: one provider with its engine in
// the library or in the kernel, and MPICH's own TCP, all in the same guests.
var kernelSides = []kernelSide{
	{"user", "o2g", []string{"--engine", "user"}},
	{"kernel", "o2g", []string{"--engine", "kernel"}},
	{"tcp", "tcp", []string{"--tcp"}},
}

type kernelSide struct {
	name, provider string
	mpirun         []string
}

// kernelSeries is the guests' kernel.
const kernelSeries = "6.1"

// o2gKernel runs the parts that are named on the command line, or all.
func (b *bench) o2gKernel() error {
	unlock, err := b.onlyMachine()
	if err != nil {
		return err
	}
	defer unlock()
	ctx, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{"count", b.kernelCount}, {"nodes", b.kernelNodes}, {"pair", b.kernelPair}} {
		if flag.NArg() > 1 && !slices.Contains(flag.Args()[1:], part.name) {
			continue
		}
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// readOutput runs a program in a guest and returns its output.
func readOutput(ctx context.Context, g *lab.Guest, p lab.Program) (string, error) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Minute)
	defer stop()
	var out, errs bytes.Buffer
	status, err := g.Run(ctx, p, lab.Streams{Out: &out, Err: &errs})
	if err == nil && status != 0 {
		err = fmt.Errorf("%s: status %d: %s %s", p.Args[0], status, out.String(), errs.String())
	}
	return out.String() + errs.String(), err
}

// tellGuest prints what a guest with one processor runs on.
func tellGuest(ctx context.Context, g *lab.Guest) error {
	model, err := readOutput(ctx, g, lab.Program{Args: []string{"sed", "-n", "s/^model name.*: //p", "/proc/cpuinfo"}})
	if err != nil {
		return err
	}
	fmt.Printf("Debian's %s with one processor, %s (TCG is QEMU's emulator, and many times slower than a processor)\n",
		g.Hello().Release, strings.TrimSpace(model))
	return nil
}

func (b *bench) kernelMachine(name string) lab.Machine {
	return lab.Machine{Name: name, Kernel: kernelSeries, Memory: 2048, Build: b.build, Modules: []string{"o2g"}}
}

// ---- the cost of a message on a machine with one processor ----

// kernelQuestions are those of tests/bench/o2g-kernel/message.c, in its order.
var kernelQuestions = []string{"8 bytes", "8 KiB", "64 KiB", "1 MiB", "8 bytes, unexpected", "a read that finds nothing"}

const kernelMessages = 50

func (b *bench) kernelCount(ctx context.Context) error {
	m := b.kernelMachine("bench-kernel-count")
	m.CPUs, m.Count = 1, &lab.Count{}
	g, err := lab.Start(ctx, m)
	if err != nil {
		return err
	}
	defer os.RemoveAll(g.Dir())
	defer g.Kill()
	symbols, err := guestSymbols(ctx, g)
	if err != nil {
		return err
	}
	call, err := symbols.Address("entry_SYSCALL_64")
	if err != nil {
		return err
	}
	fmt.Printf("\nDebian's %s with one processor, QEMU without KVM: instructions and calls per message, %d of each; both ends\n",
		g.Hello().Release, kernelMessages)
	fmt.Printf("%-27s %-7s %10s %10s %6s %10s %10s %6s %7s\n", "", "", "send: user", "kernel", "calls", "rest: user", "kernel", "calls", "all")
	before := lab.Counts{Figures: map[lab.Interval]*lab.Figures{}}
	for _, side := range kernelSides {
		yields, err := b.countMessages(ctx, g, side)
		if err != nil {
			fmt.Printf("%-27s %-7s %v\n", "", side.name, err)
			continue
		}
		after, err := lab.ReadCounts(filepath.Join(g.Dir(), "counts"))
		if err != nil {
			return err
		}
		for q, name := range kernelQuestions {
			if err := b.kernelRow(q, name, side.name, call, yields[q], before, after); err != nil {
				return err
			}
		}
		before = after
	}
	return nil
}

var yieldsLine = regexp.MustCompile(`yields (\d+) (\d+)`)

// countMessages runs the program and reports how often it yielded the processor, per question.
func (b *bench) countMessages(ctx context.Context, g *lab.Guest, side kernelSide) (map[int]uint64, error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	text, err := readOutput(ctx, g, lab.Program{
		Args: []string{filepath.Join(b.build, "bench", "o2g-kernel", "message"), side.provider, strconv.Itoa(kernelMessages)},
		Env: []string{
			"FI_PROVIDER_PATH=" + filepath.Join(b.build, "lib"),
			"LD_LIBRARY_PATH=" + filepath.Join(b.prefixMPI, "lib", "mpich"), // its libfabric
			"SKEP_O2G_SECRET=" + hex.EncodeToString(secret), "SKEP_O2G_IFACE=lo", "SKEP_O2G_ENGINE=" + side.name,
		},
	})
	yields := map[int]uint64{}
	for _, m := range yieldsLine.FindAllStringSubmatch(text, -1) {
		q, _ := strconv.Atoi(m[1])
		yields[q], _ = strconv.ParseUint(m[2], 10, 64)
	}
	return yields, err
}

func (b *bench) kernelRow(q int, name, side string, call, yields uint64, before, after lab.Counts) error {
	send, err := sumOf(2*q, before, after)
	if err != nil {
		return err
	}
	rest := lab.Figures{}
	if q < len(kernelQuestions)-1 { // the last one has no second half
		if rest, err = sumOf(2*q+1, before, after); err != nil {
			return err
		}
	}
	n := float64(send.Times)
	if n == 0 {
		return fmt.Errorf("%s: %s was never begun", side, name)
	}
	restCalls := float64(rest.Entry[call]) - float64(yields)
	all := float64(send.User+send.Kernel+rest.User+rest.Kernel) / n
	fmt.Printf("%-27s %-7s %10.0f %10.0f %6.2f %10.0f %10.0f %6.2f %7.0f\n", name, side,
		float64(send.User)/n, float64(send.Kernel)/n, float64(send.Entry[call])/n,
		float64(rest.User)/n, float64(rest.Kernel)/n, restCalls/n, all)
	b.writeRecord("result o2g-kernel both-ends %s %s %.0f instructions", side, strings.ReplaceAll(strings.ReplaceAll(name, ",", ""), " ", "-"), all)
	return nil
}

// ---- the effect on programs: two nodes of one guest, two guests ----

// A kernelPlace is where jobs of two ranks run.
type kernelPlace struct {
	guest    *lab.Guest
	launcher string
	hosts    string
	windows  func() (map[string]int, error) // zero-window counters of the receiver
}

var resultLine = regexp.MustCompile(`result (\S+) (\S+) (\S+)`)

// warmCaches makes guests read the files that a job needs at its start. Otherwise, in the
// emulator on a busy computer, an MPI's --version can exceed the time limit of skep mpirun.
func (b *bench) warmCaches(ctx context.Context, guests ...*lab.Guest) error {
	for _, g := range guests {
		if _, err := readOutput(ctx, g, lab.Program{Args: []string{filepath.Join(b.prefixMPI, "bin", "mpiexec"), "--version"}}); err != nil {
			return err
		}
	}
	return nil
}

// compare runs both programs on all sides and prints a row for each figure.
func (b *bench) compare(ctx context.Context, where string, p kernelPlace, programs [][]string) error {
	for _, words := range programs {
		rows, order := map[string]map[string]string{}, []string{}
		keep := func(row, side, value string) {
			if rows[row] == nil {
				rows[row] = map[string]string{}
				order = append(order, row)
			}
			rows[row][side] = value
		}
		for _, side := range kernelSides {
			before, err := p.windows()
			if err != nil {
				return err
			}
			text, err := b.kernelJob(ctx, p, side, words)
			if err != nil {
				return err
			}
			after, err := p.windows()
			if err != nil {
				return err
			}
			for _, m := range resultLine.FindAllStringSubmatch(text, -1) {
				keep(m[1]+", "+m[3], side.name, m[2])
			}
			for _, name := range windowCounters {
				keep(name, side.name, strconv.Itoa(after[name]-before[name]))
			}
		}
		fmt.Printf("\n%s: %s\n%-28s %12s %12s %12s\n", where, strings.Join(words, " "), "", "user", "kernel", "tcp")
		for _, row := range order {
			fmt.Printf("%-28s %12s %12s %12s\n", row, rows[row]["user"], rows[row]["kernel"], rows[row]["tcp"])
		}
	}
	return nil
}

func (b *bench) kernelJob(ctx context.Context, p kernelPlace, side kernelSide, words []string) (string, error) {
	args := append([]string{b.binPath("skep"), "mpirun", "--mpi", b.prefixMPI, "--no-shm", "-n", "2",
		"--launcher", p.launcher, "--hosts", p.hosts}, side.mpirun...)
	args = append(args, "--", filepath.Join(b.build, "bench", "o2g-kernel", words[0]))
	text, err := readOutput(ctx, p.guest, lab.Program{Args: append(args, words[1:]...)})
	if err == nil && side.provider == "o2g" && !strings.Contains(text, side.name+" engine") {
		err = fmt.Errorf("this was not the %s engine: %s", side.name, text)
	}
	return text, err
}

// windowCounters are counters of TcpExt: windows that were closed, and windows that should
// have been closed.
var windowCounters = []string{"TCPToZeroWindowAdv", "TCPWantZeroWindowAdv"}

// readWindows reads the windows on the node where command runs a shell.
func readWindows(ctx context.Context, g *lab.Guest, node int) (map[string]int, error) {
	text, err := readOutput(ctx, g, lab.Program{Args: []string{"/bin/cat", "/proc/net/netstat"}, Node: node})
	if err != nil {
		return nil, err
	}
	counters := map[string]int{}
	var names []string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "TcpExt:" {
			continue
		}
		if names == nil {
			names = words
			continue
		}
		for i := range min(len(names), len(words)) {
			counters[names[i]], _ = strconv.Atoi(words[i])
		}
	}
	return counters, nil
}

var kernelPrograms = [][]string{{"flood"}, {"held", "posted"}, {"held", "late"}, {"sort", "posted"}, {"sort", "late"}}

func (b *bench) kernelNodes(ctx context.Context) error {
	m := b.kernelMachine("bench-kernel-nodes")
	m.Nodes = 2
	g, err := lab.Start(ctx, m)
	if err != nil {
		return err
	}
	defer os.RemoveAll(g.Dir())
	defer g.Kill()
	const launcher = "/run/launcher"
	_, err = readOutput(ctx, g, lab.Program{Args: []string{"/bin/sh", "-c", `cat >` + launcher + ` <<'END' && chmod +x ` + launcher + `
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
node=${1##*.}
shift
exec ip netns exec "node$node" sh -c "$*"
END`}})
	if err != nil {
		return err
	}
	if err := b.warmCaches(ctx, g); err != nil {
		return err
	}
	p := kernelPlace{g, launcher, "10.77.0.1,10.77.0.2", func() (map[string]int, error) { return readWindows(ctx, g, 2) }}
	if err := b.compare(ctx, "two nodes of one guest", p, kernelPrograms); err != nil {
		return err
	}
	for _, node := range []string{"node1", "node2"} {
		_, err := readOutput(ctx, g, lab.Program{Args: []string{"tc", "-n", node, "qdisc", "add", "dev", "eth0", "root", "netem", "limit", "100000", "delay", "20ms"}})
		if err != nil {
			return err
		}
	}
	return b.compare(ctx, "two nodes of one guest, 20 ms apart", p, kernelPrograms)
}

func (b *bench) kernelPair(ctx context.Context) error {
	pair, err := lab.NewPair(ctx, b.kernelMachine("bench-one"), b.kernelMachine("bench-two"))
	if err != nil {
		return err
	}
	for _, g := range pair {
		defer os.RemoveAll(g.Dir())
		defer g.Kill()
	}
	if err := b.warmCaches(ctx, pair[0], pair[1]); err != nil {
		return err
	}
	shell := filepath.Join(b.build, "test", "vm", "o2g_shell")
	serving, stop := context.WithCancel(ctx)
	defer stop()
	go pair[1].Run(serving, lab.Program{Args: []string{shell, "serve"}}, lab.Streams{})
	p := kernelPlace{pair[0], shell, "bench-one,bench-two", func() (map[string]int, error) { return readWindows(ctx, pair[1], 0) }}
	return b.compare(ctx, "two guests", p, kernelPrograms)
}
