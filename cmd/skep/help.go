// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"flag"
	"io"
	"os"
	"strings"

	"skep/internal/cli"
	"skep/internal/manual"
)

type help struct{}

func (h *help) options(*cli.Flags) {}

func (h *help) run(_ context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 {
		return list(os.Stdout)
	}
	about, rest := findCommand(words)
	if about == nil {
		return noCommand(words[0])
	}
	if len(rest) > 0 && len(about.words) > 0 {
		return f.Usagef("%s", noWord("skep "+about.name, "has", rest[0], about.words))
	}
	if err := f.RefuseArgs(rest); err != nil {
		return err
	}
	return printHelp(os.Stdout, about)
}

// list prints skep's own page without files, environment, examples and references.
func list(out io.Writer) error {
	p := rootPage()
	p.Files, p.Environment, p.Examples, p.See = nil, nil, nil, nil
	return p.WriteHelp(out)
}

func printHelp(out io.Writer, c *command) error { return c.page().WriteHelp(out) }

// summaries returns the summaries of the commands that people type.
func summaries(list []command) []manual.Entry {
	var rows []manual.Entry
	for _, c := range list {
		if !c.hidden {
			rows = append(rows, manual.Entry{Name: "skep " + c.name, Text: c.summary})
		}
	}
	return rows
}

// page returns the page of a command, from its options and its text in texts().
func (c *command) page() *manual.Page {
	t := texts()[c.name]
	p := &manual.Page{Name: "skep " + c.name, Summary: c.summary, Text: t.text, Commands: summaries(c.words),
		Examples: t.examples, Files: t.files, Environment: manual.Environment(strings.Fields(t.environment)...),
		Exit: exits(t.exit), See: strings.Fields(t.see)}
	for _, line := range strings.Split(c.usage, " | "+c.name+" ") {
		p.Usage = append(p.Usage, "skep "+c.name+strings.TrimPrefix(" "+strings.TrimPrefix(line, c.name+" "), " "+c.name))
	}
	if len(c.words) > 0 {
		p.CommandsEnd = "'skep help " + c.name + " WORD' shows the options of one."
	}
	c.newFlags().VisitAll(func(o *flag.Flag) {
		kind, text := flag.UnquoteUsage(o)
		p.Options = append(p.Options, manual.Entry{Name: strings.TrimRight(cli.DashedName(o.Name)+" "+kind, " "), Text: text})
	})
	return p
}

// rootPage returns the page of skep itself.
func rootPage() *manual.Page {
	t := texts()[""]
	p := &manual.Page{Name: "skep", Usage: []string{"skep COMMAND [OPTIONS] [WORDS]"},
		Summary: "run Linux programs on Linux nodes, Windows PCs and lent cores, carry MPI messages, update kernels",
		Text:    t.text, Commands: summaries(commands()), CommandsEnd: "'skep help COMMAND' shows the options of one.",
		Examples: t.examples, Files: t.files, Environment: manual.Environment(strings.Fields(t.environment)...),
		Exit: exits(t.exit), See: strings.Fields(t.see)}
	for _, c := range commands() {
		if !c.hidden {
			p.See = append(p.See, "skep-"+strings.ReplaceAll(c.name, " ", "-")+"(1)")
		}
	}
	return p
}
