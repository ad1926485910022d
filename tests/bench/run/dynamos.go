// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"skep/internal/lab"
)

// What counting the calls of a function costs in instructions, in one way and
// another: tests/bench/dynamos/weigh.c says how each operation is marked.

const (
	weighBatches = 15
	weighBatch   = 20
	// Batches within this part of the least had no interrupt; they are averaged.
	weighSlack = 1.1
)

// weighOperations with the paper's own figures, in percent, where it has one.
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

// weighWays begins with what the others are compared to.
var weighWays = []string{"none", "direct", "direct-terms", "ipmodify", "ipmodify-terms", "together",
	"livepatch", "kprobe", "kretprobe", "bpf"}

func (b *bench) dynamos() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	g, err := lab.Start(ctx, lab.Machine{Name: "bench-dynamos", Kernel: kernelSeries, Build: b.build, CPUs: 1,
		Modules: []string{"dynamos"}, Count: &lab.Count{}})
	if err != nil {
		return err
	}
	defer os.RemoveAll(g.Dir())
	defer g.Kill()
	fmt.Printf("Debian's %s with one processor, QEMU without KVM: instructions per operation, %d batches of %d;\n",
		g.Hello().Release, weighBatches, weighBatch)
	fmt.Println("all eight functions are changed at once. Each column: what the operation takes more than in the first.")
	base := map[string]float64{}
	before := lab.Counts{Figures: map[lab.Interval]*lab.Figures{}}
	for _, way := range weighWays {
		if err := b.weigh(ctx, g, "set", way, filepath.Join(b.build, "kmod", kernelSeries, "dynamos_weigh", "dynamos_weigh.ko")); err != nil {
			fmt.Printf("%-16s %v\n", way, err)
			continue
		}
		for _, op := range weighOperations {
			if err := b.weigh(ctx, g, "run", way, op.name); err != nil {
				return err
			}
			after, err := lab.ReadCounts(filepath.Join(g.Dir(), "counts"))
			if err != nil {
				return err
			}
			n, err := batches(before, after)
			if err != nil {
				return err
			}
			before = after
			if way == weighWays[0] {
				base[op.name] = n
				fmt.Printf("%-16s %-18s %10.0f\n", way, op.text, n)
				continue
			}
			more := n - base[op.name]
			fmt.Printf("%-16s %-18s %+10.0f %6.1f %%", way, op.text, more, 100*more/base[op.name])
			if op.paper != "" && way == "direct" {
				fmt.Printf("   the paper: %s %%", op.paper)
			}
			fmt.Println()
			fmt.Fprintf(os.Stderr, "result dynamos %s %s %.0f %.1f\n", way, op.name, more, 100*more/base[op.name])
		}
		if err := b.weigh(ctx, g, "clear", way); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) weigh(ctx context.Context, g *lab.Guest, args ...string) error {
	_, err := said(ctx, g, lab.Program{Args: append([]string{filepath.Join(b.build, "bench", "dynamos", "weigh")}, args...)})
	return err
}

// batches is what one operation took, without the batches that an interrupt
// made longer.
func batches(before, after lab.Counts) (float64, error) {
	var all []float64
	least := 0.0
	for i := range weighBatches {
		f, err := sumOf(i, before, after)
		if err != nil {
			return 0, err
		}
		if f.Times != 1 {
			return 0, fmt.Errorf("batch %d was marked %d times", i, f.Times)
		}
		n := float64(f.User+f.Kernel) / weighBatch
		if i == 0 || n < least {
			least = n
		}
		all = append(all, n)
	}
	sum, count := 0.0, 0.0
	for _, n := range all {
		if n <= least*weighSlack {
			sum += n
			count++
		}
	}
	return sum / count, nil
}
