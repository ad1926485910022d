// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"skep/lab"
)

// This file measures how many instructions the counting of a function's calls costs, by
// several mechanisms. tests/bench/dynamos/weigh.c says how each operation is marked.

const weighBatches = 15

// weighOperations are the operations, with the paper's figures in percent if it has any.
var weighOperations = []struct {
	name, text string
	paper      string
}{
	{"brk", "brk", "43"}, {"kill", "kill", "44"},
	{"read1", "read 1 byte", ""}, {"read4k", "read 4 KB", ""},
	{"write1", "write 1 byte", ""}, {"write4k", "write 4 KB", ""},
	{"open", "open and close", ""}, {"fault", "page fault", ""},
	{"fork", "fork, exit, wait", ""}, {"exec", "vfork, exec, wait", ""},
}

// weighRounds divide the batches of a run. Operations that always execute the same path
// need few batches.
var weighRounds = [][]string{{"brk", "kill", "read1", "read4k"}, {"write1", "write4k", "open", "fault"},
	{"fork"}, {"exec"}, {"fork"}, {"exec"}, {"fork"}, {"exec"}}

// weighWays are the mechanisms. The others are compared with the first one.
var weighWays = []string{"none", "direct", "direct-terms", "direct-share", "direct-program", "task", "ipmodify", "ipmodify-terms",
	"together", "livepatch", "probe", "probe-each", "kprobe", "kretprobe", "bpf"}

// A weighing holds the figures of one mechanism by operation: the instructions of each
// batch, and the number of calls of the functions.
type weighing struct {
	batches map[string][]float64
	calls   map[string]float64
}

func (w weighing) medianOf(op string) float64 {
	slices.Sort(w.batches[op])
	return w.batches[op][len(w.batches[op])/2]
}

func (b *bench) benchDynamos() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	kernel, ways := kernelSeries, weighWays
	if flag.NArg() > 1 {
		kernel = flag.Arg(1)
	}
	if flag.NArg() > 2 {
		ways = append([]string{weighWays[0]}, flag.Args()[2:]...)
	}
	g, err := lab.Start(ctx, lab.Machine{Name: "bench-dynamos", Kernel: kernel, Build: b.build, CPUs: 1,
		Modules: []string{"dynamos"}, Append: "norandmaps", Count: &lab.Count{Steady: true}})
	if err != nil {
		return err
	}
	defer os.RemoveAll(g.Dir())
	defer g.Kill()
	fmt.Printf("Debian's %s with one processor, QEMU without KVM: instructions per operation, the median of batches;\n",
		g.Hello().Release)
	fmt.Println("all eight functions are changed at once. more: than without; each: of a call of one of the functions.")
	module := filepath.Join(b.build, "kmod", kernel, "dynamos_weigh", "dynamos_weigh.ko")
	var none, direct weighing
	for _, way := range ways {
		if _, err := b.runWeighing(ctx, g, "set", way, module); err != nil {
			fmt.Printf("%-16s %v\n", way, err)
			continue
		}
		is, err := b.weighAll(ctx, g, way)
		if err != nil {
			return err
		}
		if _, err := b.runWeighing(ctx, g, "clear", way); err != nil {
			return err
		}
		switch way {
		case ways[0]:
			none = is
		case "direct":
			direct = is
		}
		b.printWeighing(way, is, none, direct)
	}
	return nil
}

// weighAll runs every operation in a guest whose functions are changed by one mechanism.
func (b *bench) weighAll(ctx context.Context, g *lab.Guest, way string) (weighing, error) {
	w := weighing{map[string][]float64{}, map[string]float64{}}
	file := filepath.Join(g.Dir(), "counts")
	for _, ops := range weighRounds {
		before, err := lab.ReadCounts(file)
		if errors.Is(err, fs.ErrNotExist) { // none yet
			before, err = lab.Counts{Figures: map[lab.Interval]*lab.Figures{}}, nil
		}
		if err != nil {
			return w, err
		}
		text, err := b.runWeighing(ctx, g, append([]string{"run", way}, ops...)...)
		if err != nil {
			return w, err
		}
		after, err := lab.ReadCounts(file)
		if err != nil {
			return w, err
		}
		if err := w.add(ops, strings.Fields(text), before, after); err != nil {
			return w, err
		}
	}
	return w, nil
}

// add adds a run of these operations; words is its output.
func (w weighing) add(ops, words []string, before, after lab.Counts) error {
	if len(words) != 2*len(ops) {
		return fmt.Errorf("weigh said %q of %d operations", words, len(ops))
	}
	share := weighBatches / len(ops)
	for n, op := range ops {
		times, err := strconv.ParseFloat(words[2*n], 64)
		if err != nil {
			return err
		}
		if w.calls[op], err = strconv.ParseFloat(words[2*n+1], 64); err != nil {
			return err
		}
		for i := n * share; i < (n+1)*share; i++ {
			f, err := sumOf(i, before, after)
			if err != nil {
				return err
			}
			if f.Times != 1 {
				return fmt.Errorf("batch %d was marked %d times", i, f.Times)
			}
			w.batches[op] = append(w.batches[op], float64(f.User+f.Kernel)/times)
		}
	}
	return nil
}

// printWeighing prints the figures of one mechanism. The updates' own counters show how many
// of the functions an operation calls.
func (b *bench) printWeighing(way string, is, none, direct weighing) {
	for _, op := range weighOperations {
		base := none.medianOf(op.name)
		more := is.medianOf(op.name) - base
		if way == weighWays[0] {
			fmt.Printf("%-16s %-18s %10.0f\n", way, op.text, base)
			continue
		}
		fmt.Printf("%-16s %-18s %+10.0f %6.1f %%", way, op.text, more, 100*more/base)
		if calls := direct.calls[op.name]; calls > 0 {
			fmt.Printf(" %+6.0f each of %.1f", more/calls, calls)
		}
		if op.paper != "" && way == "direct" {
			fmt.Printf("   the paper: %s %%", op.paper)
		}
		fmt.Println()
		b.writeRecord("result dynamos more-than-without %s %s %.0f instructions", way, op.name, more)
	}
}

func (b *bench) runWeighing(ctx context.Context, g *lab.Guest, args ...string) (string, error) {
	return readOutput(ctx, g, lab.Program{Args: append([]string{filepath.Join(b.build, "bench", "dynamos", "weigh")}, args...)})
}
