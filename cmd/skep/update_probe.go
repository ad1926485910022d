// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"skep/dynamos/update"
	"skep/internal/cli"
)

// updateProbe counts and times calls of functions of the kernel while it runs.
type updateProbe struct {
	each, json bool
	length     time.Duration
	every      time.Duration
}

func (u *updateProbe) options(f *cli.Flags) {
	f.BoolVar(&u.each, "each-call", false, "time every call, not one in 64, and print a histogram")
	f.DurationVar(&u.length, "for", 0, "end after this `TIME`; without it and without a program, with Ctrl-C")
	f.DurationVar(&u.every, "every", 0, "print also each time after this `TIME`")
	f.BoolVar(&u.json, "json", false, "print JSON, for programs")
}

func (u *updateProbe) run(ctx context.Context, f *cli.Flags, words []string) error {
	names, program := words, []string(nil)
	if at := slices.Index(words, "--"); at >= 0 {
		names, program = words[:at], words[at+1:]
		if len(program) == 0 {
			return f.Expectf("a program is expected after --")
		}
	}
	late := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "-") })
	switch {
	case late >= 0:
		return f.Usagef("%.80q comes behind a function: options are expected before them", names[late])
	case len(names) == 0:
		return f.Expectf("a function of the kernel is expected")
	case f.Given("for") && u.length <= 0, f.Given("every") && u.every <= 0:
		return f.Usagef("--for and --every take times, as 10s")
	case u.length > 0 && program != nil:
		return f.Usagef("give either --for or a program")
	}
	return withDevice(func(d *update.Device) error { return u.probe(ctx, d, names, program) })
}

func (u *updateProbe) probe(ctx context.Context, d *update.Device, names, program []string) error {
	if program != nil {
		if _, err := exec.LookPath(program[0]); err != nil {
			return notRun(program[0], err)
		}
	}
	probes, err := update.SetProbes(d, names, u.each)
	if err != nil {
		return err
	}
	fmt.Fprint(os.Stderr, probingText(probes.Types()))
	over, err := u.begin(ctx, program)
	if err != nil {
		return err
	}
	return u.follow(os.Stdout, over, probes)
}

// probingText says by which types functions are probed. The kernel's are those of names: the
// user sees whether the function of the name is meant.
func probingText(types []string) string {
	return fmt.Sprintf("skep: probing, by the kernel's types (BTF):\n  %s\n", strings.Join(types, "\n  "))
}

// begin returns a channel that gets a value at the end: of the program, of --for, or by
// Ctrl-C.
func (u *updateProbe) begin(ctx context.Context, program []string) (<-chan error, error) {
	over := make(chan error, 1)
	if program == nil {
		go func() {
			if u.length > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, u.length)
				defer cancel()
			}
			<-ctx.Done()
			over <- nil
		}()
		return over, nil
	}
	p := exec.Command(program[0], program[1:]...)
	p.Stdin, p.Stdout, p.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := p.Start(); err != nil {
		return nil, notRun(program[0], err)
	}
	go func() { over <- p.Wait() }() // Ctrl-C reaches the program too
	return over, nil
}

// A probeReader is update.Probes, or one of a test.
type probeReader interface {
	Read() ([]update.Probed, error)
}

// follow prints what was counted, at the end and each time after --every.
func (u *updateProbe) follow(w io.Writer, over <-chan error, probes probeReader) error {
	var ticks <-chan time.Time
	if u.every > 0 {
		t := time.NewTicker(u.every)
		defer t.Stop()
		ticks = t.C
	}
	for {
		var end error
		ended := false
		select {
		case end = <-over:
			ended = true
		case <-ticks:
		}
		list, err := probes.Read()
		if err == nil {
			err = u.print(w, list)
		}
		if err != nil {
			return err
		}
		if ended && end != nil {
			return fmt.Errorf("the program failed: %w", end)
		}
		if ended {
			return nil
		}
	}
}

func (u *updateProbe) print(w io.Writer, list []update.Probed) error {
	if u.json {
		return cli.PrintJSON(w, list)
	}
	table := cli.NewTable("FUNCTION", "CALLS", "INSIDE", "LOST", "ERRORS", "OUTSIDE", "P50", "P99", "BY")
	for _, p := range list {
		table.Row(p.Symbol, p.Calls, p.Inside, p.Lost, p.Errors, p.Outside, latencyText(p.Sampled, p.P50), latencyText(p.Sampled, p.P99), p.Installer)
	}
	if err := table.Write(w); err != nil || !u.each {
		return err
	}
	for i := range list {
		if err := writeHistogram(w, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

// histogramWidth is that of the longest bar.
const histogramWidth = 40

// writeHistogram prints how many calls took how long: a row for each power of two.
func writeHistogram(w io.Writer, p *update.Probed) error {
	first, last, most := -1, 0, uint64(0)
	for i, n := range p.Latency {
		if n == 0 {
			continue
		}
		if first < 0 {
			first = i
		}
		last, most = i, max(most, n)
	}
	if first < 0 {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\n%s\n", p.Symbol); err != nil {
		return err
	}
	table := cli.NewTable("FROM", "TO", "CALLS", "")
	for i := first; i <= last; i++ {
		n := p.Latency[i]
		table.Row(latencyText(1, 1<<i), latencyText(1, 1<<(i+1)), n, strings.Repeat("#", int(n*histogramWidth/most)))
	}
	return table.Write(w)
}
