// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"skep/internal/cli"
)

// A splitter removes words that belong to another program from the command line before the
// options are parsed.
type splitter interface {
	splitArgs(f *cli.Flags, args []string) ([]string, error)
}

// newTree passes the table of commands to cobra, which finds the command that was typed and
// completes names and options. cobra parses options only for completion: it would read
// -np 4, which MPI users type, as -n p, and its messages about wrong options differ from
// ours.
func newTree(completes bool) *cobra.Command {
	root := &cobra.Command{Use: "skep", SilenceErrors: true, SilenceUsage: true, DisableFlagParsing: !completes,
		Args: cobra.ArbitraryArgs, CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(c *cobra.Command, args []string) error { return runNone(args) }}
	root.SetOut(os.Stdout)
	cobra.MousetrapHelpText = "" // no special message if skep.exe is started from Explorer
	for _, c := range commands() {
		branch := newBranch(c, completes)
		root.AddCommand(branch)
		if c.name == "help" {
			root.SetHelpCommand(branch)
		}
	}
	return root
}

func newBranch(c command, completes bool) *cobra.Command {
	branch := &cobra.Command{Use: c.lastWord(), Short: c.summary, Hidden: c.hidden,
		Args: cobra.ArbitraryArgs, DisableFlagParsing: !completes, DisableFlagsInUseLine: true,
		RunE: func(b *cobra.Command, args []string) error { return c.start(b.Context(), args) }}
	if completes {
		addCompletion(branch, &c)
	}
	for _, w := range c.words {
		branch.AddCommand(newBranch(w, completes))
	}
	return branch
}

// start parses the options of a command, and runs it.
func (c *command) start(ctx context.Context, args []string) error {
	f := c.newFlags()
	parse := f.Parse
	if c.program {
		parse = f.ParseCommand
	}
	if s, ok := c.runner.(splitter); ok {
		var err error
		if args, err = s.splitArgs(f, args); err != nil {
			return err
		}
	}
	words, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return printHelp(os.Stdout, c)
	}
	if err != nil {
		return err
	}
	return c.runner.run(ctx, f, words)
}

func dispatch(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "-h", "--help":
			args = slices.Concat([]string{"help"}, args[1:])
		case "--version":
			args = slices.Concat([]string{"version"}, args[1:])
		}
		if strings.HasPrefix(args[0], "-") {
			return noCommand(args[0])
		}
	}
	completes := len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
	root := newTree(completes)
	root.SetArgs(slices.Concat([]string{}, args)) // for nil, cobra would use os.Args
	return root.ExecuteContext(ctx)
}

// runNone handles skep without a word, or with a word that is no command.
func runNone(args []string) error {
	if len(args) > 0 {
		return noCommand(args[0])
	}
	if err := list(os.Stderr); err != nil {
		return err
	}
	return cli.Exit(cli.Usage)
}

func noCommand(name string) error {
	if strings.HasPrefix(name, "-") {
		return cli.Errorf(cli.Usage, "%s comes before the command: put options after the command, as in 'skep nodes --json'", name)
	}
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	if meant := cli.Nearest(name, names); meant != "" {
		return cli.Errorf(cli.Usage, "there is no command %q; did you mean 'skep %s'?", name, meant)
	}
	return cli.Errorf(cli.Usage, "there is no command %q; 'skep help' lists them", name)
}

// findCommand returns the command that words name, and the words after its name.
func findCommand(words []string) (*command, []string) {
	var found *command
	list := commands()
	for len(words) > 0 {
		at := slices.IndexFunc(list, func(c command) bool {
			return c.name == words[0] || strings.HasSuffix(c.name, " "+words[0])
		})
		if at < 0 {
			break
		}
		found, list, words = &list[at], list[at].words, words[1:]
	}
	return found, words
}
