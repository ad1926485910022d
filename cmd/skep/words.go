// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"strings"
	"time"

	"skep/internal/cli"
)

// A wordless is a command that was typed without a subcommand, or with a wrong one. The
// subcommands are in files COMMAND_WORD.go; a file may have several.
type wordless struct {
	words     []command
	elsewhere string // the message on a system that has none of them
}

func (w *wordless) options(*cli.Flags) {}

func (w *wordless) run(_ context.Context, f *cli.Flags, words []string) error {
	if len(w.words) == 0 {
		return cli.Errorf(cli.Refused, "%s", w.elsewhere)
	}
	if len(words) == 0 {
		return f.Expectf("a subcommand is expected: %s", wordNames(w.words))
	}
	return f.Usagef("there is no subcommand %q: there are %s", words[0], wordNames(w.words))
}

// wordNames lists the names of subcommands.
func wordNames(list []command) string {
	var names []string
	for _, c := range list {
		if !c.hidden {
			names = append(names, c.name[strings.IndexByte(c.name, ' ')+1:])
		}
	}
	return strings.Join(names, ", ")
}

// latencyText shows nanoseconds in few digits. None were measured if sampled is 0.
func latencyText(sampled, ns uint64) string {
	if sampled == 0 {
		return "-"
	}
	d := time.Duration(ns)
	for unit := time.Nanosecond; unit < time.Hour; unit *= 10 {
		if d < 100*unit {
			return d.Round(unit).String()
		}
	}
	return d.String()
}
