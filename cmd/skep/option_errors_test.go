// SPDX-License-Identifier: MIT

package main

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"skep/internal/cli"
)

// walkCommands calls do for each command and subcommand, with the words that name it.
func walkCommands(list []command, do func(c *command, words []string)) {
	for i := range list {
		do(&list[i], strings.Fields(list[i].name))
		walkCommands(list[i].words, do)
	}
}

// judgeUsageError fails the test unless a command line is a usage error of one line, which
// contains want and not the usage of the command.
func judgeUsageError(t *testing.T, words []string, want string) {
	t.Helper()
	code, text := cli.ExitCode(dispatch(t.Context(), words))
	line := strings.Join(words, " ")
	if code != cli.Usage || !strings.Contains(text, want) {
		t.Errorf("skep %s: %d %q, want %d %q", line, code, text, cli.Usage, want)
	}
	if strings.Contains(text, "\n") || strings.Contains(text, "usage:") {
		t.Errorf("skep %s prints its usage: %q", line, text)
	}
}

// misspell exchanges the last two letters of a name. The result is empty if that does not
// change it, or if another name is as near.
func misspell(name string, names []string) string {
	n := len(name)
	if n < 4 {
		return ""
	}
	typo := name[:n-2] + name[n-1:] + name[n-2:n-1]
	if typo == name || cli.Nearest(typo, names) != name {
		return ""
	}
	return typo
}

// No command prints its usage below an error about an option: it names the option, and for
// a misspelled one the option that was meant.
func TestOptionErrorsOfEachCommand(t *testing.T) {
	suggested, refused := 0, 0
	walkCommands(commands(), func(c *command, words []string) {
		f := c.newFlags()
		var names []string
		f.VisitAll(func(o *flag.Flag) { names = append(names, o.Name) })
		_, passesOn := c.runner.(*mpirun) // to the launcher of the MPI
		if !passesOn {
			judgeUsageError(t, slices.Concat(words, []string{"--frobnicate"}), "there is no option --frobnicate")
		}
		f.VisitAll(func(o *flag.Flag) {
			if typo := misspell(o.Name, names); typo != "" && !passesOn {
				judgeUsageError(t, slices.Concat(words, []string{"--" + typo}), "there is no option --"+typo+"; did you mean --"+o.Name+"?")
				suggested++
			}
			if f.Values(o.Name) == 1 {
				judgeUsageError(t, slices.Concat(words, []string{"--" + o.Name}), cli.DashedName(o.Name)+" expects a value")
				refused++
			}
		})
	})
	if suggested < 80 || refused < 80 {
		t.Errorf("only %d misspelled options, and %d without a value, were tried", suggested, refused)
	}
}

// A misspelled command or subcommand gets a suggestion, and no usage; so does help.
func TestTypoOfEachCommand(t *testing.T) {
	tried := 0
	var walk func(list []command, before []string)
	walk = func(list []command, before []string) {
		for i := range list {
			c := &list[i]
			if typo := misspell(c.lastWord(), shownWords(list)); typo != "" {
				words := slices.Concat(before, []string{typo})
				judgeUsageError(t, words, "did you mean ")
				judgeUsageError(t, slices.Concat([]string{"help"}, words), "did you mean ")
				tried++
			}
			walk(c.words, slices.Concat(before, []string{c.lastWord()}))
		}
	}
	walk(commands(), nil)
	if tried < 40 {
		t.Errorf("only %d names were misspelled", tried)
	}
}
