// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"skep/internal/cli"
)

type help struct{}

func (h *help) options(*cli.Flags) {}

func (h *help) run(_ context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 {
		list(os.Stdout)
		return nil
	}
	about := find(words[0])
	if about == nil && len(words) == 1 {
		return noCommand(words[0])
	}
	if about != nil {
		about, words = about.next(words)
	}
	if err := f.None(words[1:]); err != nil {
		return err
	}
	return explain(os.Stdout, about)
}

func list(w io.Writer) {
	fmt.Fprint(w, "Skep runs one Linux program on every core you own.\n\n")
	for _, c := range commands() {
		if !c.hidden {
			fmt.Fprintf(w, "  skep %-9s %s\n", c.name, c.summary)
		}
	}
	fmt.Fprint(w, "\n'skep help COMMAND' shows the options of one.\n"+
		"Exit codes: 0 it worked, 1 it failed, 2 wrong use, 3 unreachable,\n"+
		"4 refused by a safety check.\n")
}

func explain(out io.Writer, c *command) error {
	fmt.Fprintf(out, "usage: skep %s\n\n%s\n\n", c.usage, c.summary)
	for _, w := range c.words {
		if !w.hidden {
			fmt.Fprintf(out, "  skep %-9s %s\n", w.name, w.summary)
		}
	}
	if len(c.words) > 0 {
		fmt.Fprintf(out, "\n'skep help %s WORD' shows the options of one.\n", c.name)
	}
	c.flags().VisitAll(func(o *flag.Flag) {
		kind, text := flag.UnquoteUsage(o)
		fmt.Fprintf(out, "  %-18s %s\n", "--"+o.Name+" "+kind, text)
	})
	return nil
}
