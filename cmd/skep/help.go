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
	about := findCommand(words[0])
	if about == nil {
		return noCommand(words[0])
	}
	about, words = about.next(words)
	if len(words) > 1 && len(about.words) > 0 {
		return f.Usagef("skep %s has no subcommand %q: there are %s", about.name, words[1], wordNames(about.words))
	}
	if err := f.RefuseArgs(words[1:]); err != nil {
		return err
	}
	return printHelp(os.Stdout, about)
}

func list(out io.Writer) error {
	var b strings.Builder
	b.WriteString("Skep runs Linux programs on Linux nodes, Windows PCs and lent cores,\ncarries MPI messages, and updates running kernels.\n\n")
	writeSummaries(&b, commands())
	b.WriteString("\n'skep help COMMAND' shows the options of one.\n" +
		"Exit codes: 0 success, 1 failure, 2 usage, 3 unreachable, 4 refused by a\n" +
		"safety check. A program's own exit code is passed on; 126: it cannot be run,\n" +
		"127: it does not exist, 130: you interrupted it.\n")
	_, err := io.WriteString(out, b.String())
	return err
}

func printHelp(out io.Writer, c *command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: skep %s\n\n%s\n\n", c.usage, c.summary)
	if len(c.words) > 0 {
		writeSummaries(&b, c.words)
		fmt.Fprintf(&b, "\n'skep help %s WORD' shows the options of one.\n", c.name)
	}
	var options [][2]string
	c.newFlags().VisitAll(func(o *flag.Flag) {
		kind, text := flag.UnquoteUsage(o)
		options = append(options, [2]string{strings.TrimRight(cli.DashedName(o.Name)+" "+kind, " "), text})
	})
	writeColumns(&b, options)
	_, err := io.WriteString(out, b.String())
	return err
}

func writeSummaries(b *strings.Builder, list []command) {
	var rows [][2]string
	for _, c := range list {
		if !c.hidden {
			rows = append(rows, [2]string{"skep " + c.name, c.summary})
		}
	}
	writeColumns(b, rows)
}

// writeColumns writes what is explained, and in a second column what of it.
func writeColumns(b *strings.Builder, rows [][2]string) {
	width := 0
	for _, r := range rows {
		width = max(width, len(r[0]))
	}
	for _, r := range rows {
		fmt.Fprintf(b, "  %-*s  %s\n", width, r[0], r[1])
	}
}
