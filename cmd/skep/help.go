// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"skep/internal/cli"
)

type help struct{}

func (h *help) options(*cli.Flags) {}

func (h *help) run(_ context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 {
		return list(os.Stdout)
	}
	about := find(words[0])
	if about == nil {
		return noCommand(words[0])
	}
	if len(words) > 1 && len(about.words) > 0 {
		about, words = about.next(words)
		if len(words) > 1 && len(about.words) > 0 {
			return f.Usagef("skep %s has no word %q: there are %s", about.name, words[1], wordNames(about.words))
		}
	}
	if err := f.None(words[1:]); err != nil {
		return err
	}
	return explain(os.Stdout, about)
}

func list(out io.Writer) error {
	var b strings.Builder
	b.WriteString("Skep runs one Linux program on every core you own.\n\n")
	for _, c := range commands() {
		if !c.hidden {
			fmt.Fprintf(&b, "  skep %-9s %s\n", c.name, c.summary)
		}
	}
	b.WriteString("\n'skep help COMMAND' shows the options of one.\n" +
		"Exit codes: 0 it worked, 1 it failed, 2 wrong use, 3 unreachable,\n" +
		"4 refused by a safety check.\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func explain(out io.Writer, c *command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: skep %s\n\n%s\n\n", c.usage, c.summary)
	for _, w := range c.words {
		if !w.hidden {
			fmt.Fprintf(&b, "  skep %-9s %s\n", w.name, w.summary)
		}
	}
	if len(c.words) > 0 {
		fmt.Fprintf(&b, "\n'skep help %s WORD' shows the options of one.\n", c.name)
	}
	c.flags().VisitAll(func(o *flag.Flag) {
		kind, text := flag.UnquoteUsage(o)
		fmt.Fprintf(&b, "  %-18s %s\n", cli.Dashed(o.Name)+" "+kind, text)
	})
	_, err := io.WriteString(out, b.String())
	return err
}
