// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
	"skep/internal/cli"
)

type updateInspect struct{ json bool }

func (u *updateInspect) options(f *cli.Flags) {
	f.BoolVar(&u.json, "json", false, "print JSON, for programs")
}

func (u *updateInspect) run(_ context.Context, f *cli.Flags, words []string) error {
	p, err := onePackage(f, words)
	if err != nil {
		return err
	}
	if u.json {
		return cli.PrintJSON(os.Stdout, p.Manifest)
	}
	running, err := update.RunningBuildID("/sys")
	if err != nil {
		running = ""
	}
	return showPackage(os.Stdout, p, running)
}

// showPackage prints the contents of a package. running is the build-id of the running
// kernel.
func showPackage(w io.Writer, p *pack.Package, running string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: class %s\n", p.Name, p.Class)
	for _, why := range p.Reasons {
		fmt.Fprintf(&b, "  %s: %s\n", p.Proposed, why)
	}
	if p.Because != "" {
		fmt.Fprintf(&b, "  its author says: %s\n", p.Because)
	}
	if p.ReliesOnState() {
		fmt.Fprintf(&b, "relies on what older objects lack, see below\n  its author says: %s\n", p.State)
	}
	fmt.Fprintf(&b, "changes %s\n", strings.Join(p.Files, ", "))
	for i := range p.Kernels {
		if err := showKernel(&b, &p.Kernels[i], running); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func showKernel(b *strings.Builder, k *pack.Kernel, running string) error {
	here := ""
	if k.BuildID == running {
		here = ", which runs here"
	}
	fmt.Fprintf(b, "\nfor Linux %s of %s%s\n  build-id %s\n\n", k.Release, k.Version, here, k.BuildID)
	table := cli.NewTable("FUNCTION", "FILE", "BYTES", "INSTEAD OF", "RESULT", "TYPE")
	for _, f := range k.Functions {
		if f.Size == 0 {
			table.Row(symbolText(f.Symbol), "-", "as it is", f.OldSize, f.Result, f.Type)
			continue
		}
		table.Row(symbolText(f.Symbol), f.File, f.Size, f.OldSize, f.Result, f.Type)
	}
	if err := table.Write(b); err != nil {
		return err
	}
	var uncounted, says []string
	for i := range k.Functions {
		if k.Functions[i].Uncounted {
			uncounted = append(uncounted, symbolText(k.Functions[i].Symbol))
		}
		if text := statedText(&k.Functions[i]); text != "" {
			says = append(says, text)
		}
	}
	if len(uncounted) > 0 {
		fmt.Fprintf(b, "\ncalls are not counted, and no limit of errors, latency or time holds for: %s\n", strings.Join(uncounted, ", "))
	}
	if len(says) > 0 {
		fmt.Fprintf(b, "\nits author says: %s\n", strings.Join(says, "; "))
	}
	var names []string
	for _, s := range k.Imports {
		names = append(names, symbolText(s))
	}
	if len(names) > 0 {
		fmt.Fprintf(b, "\nuses %s, not exported to modules\n", strings.Join(names, ", "))
	}
	for _, l := range k.Layouts {
		fmt.Fprintf(b, "\nlays %s out in another way (%s; %d bytes, was %d)\n  its author says: %s\n", l.Name, l.What, l.Is, l.Was, l.Because)
	}
	if len(k.Relies) > 0 {
		fmt.Fprintf(b, "\nobjects that are there when it is applied or reverted lack something\n")
		for _, what := range k.Relies {
			fmt.Fprintf(b, "  %s\n", what)
		}
	}
	if len(k.Idle) > 0 {
		fmt.Fprintf(b, "\nwithout effect, because they run only while the kernel starts: %s\n", strings.Join(k.Idle, ", "))
	}
	if len(k.Held) > 0 {
		fmt.Fprintf(b, "\nonce applied it stays loaded until the next boot: it can be reverted and never removed, because\n")
		for _, why := range k.Held {
			fmt.Fprintf(b, "  %s\n", why)
		}
	}
	if len(k.Data) > 0 {
		fmt.Fprintf(b, "\nhas new data of its own: %s\n", strings.Join(k.Data, ", "))
	}
	return nil
}

// statedText returns the author's statements about a function.
func statedText(f *pack.Function) string {
	var list []string
	if f.Object != nil {
		list = append(list, fmt.Sprintf("the object is argument %d, from 0, of %s", *f.Object, f.Name))
	}
	if f.Ends {
		list = append(list, "whose life a call ends")
	}
	if f.Bare {
		list = append(list, fmt.Sprintf("no lock is held across %s", f.Name))
	}
	return strings.Join(list, ", ")
}

func symbolText(s pack.Symbol) string {
	if s.Position == 0 {
		return s.Name
	}
	return fmt.Sprintf("%s,%d", s.Name, s.Position)
}
