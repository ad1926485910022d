// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"fmt"
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
	return f.Usagef("%s", noWord("there", "is", words[0], w.words))
}

// noWord says that a word is no subcommand of those in list, and which one was meant.
func noWord(who, has, word string, list []command) string {
	text := fmt.Sprintf("%s %s no subcommand %q", who, has, word)
	if meant := cli.Nearest(word, shownWords(list)); meant != "" {
		return fmt.Sprintf("%s; did you mean %s?", text, meant)
	}
	return text + ": there are " + wordNames(list)
}

// lastWord returns the word that selects a subcommand.
func (c *command) lastWord() string { return c.name[strings.LastIndexByte(c.name, ' ')+1:] }

// shownWords returns the names of the subcommands that people type.
func shownWords(list []command) (names []string) {
	for _, c := range list {
		if !c.hidden {
			names = append(names, c.lastWord())
		}
	}
	return names
}

func wordNames(list []command) string { return strings.Join(shownWords(list), ", ") }

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

// oneFile returns the only word of a command, which is called what in the error if it is missing.
func oneFile(f *cli.Flags, words []string, what string) (string, error) {
	if len(words) == 0 {
		return "", f.Expectf("%s is expected", what)
	}
	return words[0], f.RefuseArgs(words[1:])
}
