// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"skep/internal/cli"
	lent "skep/shimos/part"
)

type partCreate struct {
	cpus, memory, name string
	split              bool
}

func (p *partCreate) options(f *cli.Flags) {
	f.StringVar(&p.cpus, "cpus", "", "CPUs to lend: a `LIST` such as 2-3 or 1,4-7; never 0")
	f.StringVar(&p.memory, "mem", "", "`SIZE` of memory, such as 512M, or 0=256M,1=256M by node")
	f.StringVar(&p.name, "name", "", "call it `NAME`")
	f.BoolVar(&p.split, "split", false, "let Linux keep the other hyperthread of a core")
}

func (p *partCreate) run(ctx context.Context, f *cli.Flags, words []string) error {
	if err := f.RefuseArgs(words); err != nil {
		return err
	}
	if p.cpus == "" || p.memory == "" {
		return f.Expectf("--cpus and --mem are expected")
	}
	r := lent.Request{Name: p.name, Split: p.split}
	var err error
	if r.CPUs, r.Memory, err = partSizes(p.cpus, p.memory); err != nil {
		return err
	}
	threads, groups := lent.FindBound(os.DirFS("/"), r.CPUs)
	done := progressOf("taking CPUs " + r.CPUs.String() + " and memory from Linux")
	id, err := lent.CreatePartition(ctx, r)
	done()
	if err != nil {
		return partError(err)
	}
	warnOf(threads, "may run only on these CPUs: if they run, Linux moves them to other CPUs, where they stay ('taskset' moves them back)")
	warnOf(groups, "are control groups of version 1 and lose these CPUs from their cpuset.cpus: write it again afterwards")
	_, err = fmt.Printf("partition %d: CPUs %s\n", id, r.CPUs)
	return err
}

// warnOf prints a warning with some of these names and their number.
func warnOf(names []string, what string) {
	if len(names) == 0 {
		return
	}
	some := strings.Join(names[:min(len(names), 5)], ", ")
	if len(names) > 5 {
		some += fmt.Sprintf(" and %d more", len(names)-5)
	}
	fmt.Fprintf(os.Stderr, "skep: warning: %s: %s\n", cli.CleanText(some), what)
}

// progressOf shows a line on a terminal until the returned function is called. During the
// first second it shows nothing.
func progressOf(text string) func() {
	p := cli.NewProgress(os.Stderr)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.Tick(time.Second / 4)
		for begin := time.Now(); ; {
			select {
			case <-end:
				return
			case <-tick:
				p.Set([]string{fmt.Sprintf("skep: %s (%d s)", text, time.Since(begin)/time.Second)})
			}
		}
	}()
	return func() {
		close(end)
		<-ended
		p.Set(nil)
		p.Done()
	}
}
