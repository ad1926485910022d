// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"flag"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"skep/internal/cli"
)

// completion prints cobra's completion script for a shell. The script runs this program
// to get the words that it offers.
type completion struct{}

func (*completion) options(*cli.Flags) {}

var shells = []string{"bash", "zsh", "fish", "powershell"}

func (*completion) run(_ context.Context, f *cli.Flags, words []string) error {
	if len(words) == 0 {
		return f.Expectf("a shell is expected: %s", strings.Join(shells, ", "))
	}
	if err := f.RefuseArgs(words[1:]); err != nil {
		return err
	}
	text, err := completionScript(words[0])
	if err != nil {
		return err
	}
	if text == "" {
		return f.Usagef("%q is not one of %s", words[0], strings.Join(shells, ", "))
	}
	_, err = os.Stdout.WriteString(text)
	return err
}

// completionScript returns an empty string for a shell that cobra does not support.
func completionScript(shell string) (string, error) {
	var b strings.Builder
	var err error
	root := newTree(true)
	switch shell {
	case "bash":
		err = root.GenBashCompletionV2(&b, true)
	case "zsh":
		err = root.GenZshCompletion(&b)
	case "fish":
		err = root.GenFishCompletion(&b, true)
	case "powershell":
		err = root.GenPowerShellCompletionWithDesc(&b)
	}
	return b.String(), err
}

// A completer returns the words that are possible. It may leave out those that do not begin
// with typed; offer leaves out the others.
type completer func(ctx context.Context, f *cli.Flags, typed string) []string

// addCompletion registers the options of a command with cobra, and the possible values of
// options and words.
func addCompletion(branch *cobra.Command, c *command) {
	f := c.newFlags()
	branch.Flags().SetInterspersed(!c.program)
	branch.Flags().AddGoFlagSet(f.FlagSet)
	f.VisitAll(func(o *flag.Flag) {
		kind, _ := flag.UnquoteUsage(o)
		if values := optionValues(c.name, o.Name); values != nil {
			branch.RegisterFlagCompletionFunc(o.Name, offer(f, values))
		} else if kind == "DIR" {
			branch.MarkFlagDirname(o.Name)
		} else if kind != "FILE" && kind != "PATH" && kind != "PROGRAM" {
			branch.RegisterFlagCompletionFunc(o.Name, cobra.NoFileCompletions)
		}
	})
	branch.Flags().VisitAll(func(o *pflag.Flag) { o.Usage = strings.ReplaceAll(o.Usage, "`", "") })
	switch values := wordValues(c.name); {
	case values != nil:
		branch.ValidArgsFunction = offer(f, values)
	case !takesFiles(c):
		branch.ValidArgsFunction = cobra.NoFileCompletions
	}
}

// takesFiles reports whether the words of a command name files, or are those of a program.
func takesFiles(c *command) bool {
	for _, word := range []string{"FILE", "PATCH", "./", "COMMAND [ARGS]"} {
		if strings.Contains(c.usage, word) && c.name != "part stats" {
			return true
		}
	}
	return false
}

// completionTimeout limits the wait for a hub that does not answer while a person waits at
// the prompt.
const completionTimeout = 2 * time.Second

func offer(f *cli.Flags, values completer) cobra.CompletionFunc {
	return func(b *cobra.Command, words []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, stop := context.WithTimeout(context.Background(), completionTimeout)
		defer stop()
		var fit []string
		for _, v := range values(ctx, f, typed) {
			if strings.HasPrefix(v, typed) {
				fit = append(fit, v)
			}
		}
		return fit, cobra.ShellCompDirectiveNoFileComp
	}
}

// constant returns a completer that always offers the same words.
func constant(values ...string) completer {
	return func(context.Context, *cli.Flags, string) []string { return values }
}

func optionValues(command, option string) completer {
	switch {
	case option == "on":
		return offerSelectors
	case option == "remove" && command == "nodes":
		return offerNodes
	case option == "session":
		return offerSessions
	case option == "engine":
		return constant(engines...)
	case option == "class":
		return constant("any", "task", "object", "together")
	}
	return systemOptionValues(command, option)
}

func wordValues(command string) completer {
	switch command {
	case "completion":
		return constant(shells...)
	case "o2g":
		return constant("status", "top")
	case "help":
		return offerCommands
	case "calls":
		return offerSessions
	case "cancel":
		return offerCalls
	}
	return systemWordValues(command)
}

func offerCommands(context.Context, *cli.Flags, string) []string {
	var names []string
	for _, c := range commands() {
		if !c.hidden {
			names = append(names, c.name)
		}
	}
	return names
}

// offerNodes offers the names of the hub's nodes, or nothing without a hub.
func offerNodes(ctx context.Context, f *cli.Flags, _ string) []string {
	c, err := openControl(f.Lookup("state").Value.String())
	if err != nil {
		return nil
	}
	list, err := c.Nodes(ctx, "")
	if err != nil {
		return nil
	}
	var names []string
	for _, i := range list {
		names = append(names, cli.CleanText(i.Name))
	}
	return names
}

// offerCalls offers the numbers of the hub's calls.
func offerCalls(ctx context.Context, f *cli.Flags, _ string) (numbers []string) {
	c, err := openControl(f.Lookup("state").Value.String())
	if err != nil {
		return nil
	}
	list, err := c.Calls(ctx, "")
	if err != nil {
		return nil
	}
	for _, i := range list.List {
		numbers = append(numbers, strconv.FormatUint(i.Call, 10))
	}
	return numbers
}

// offerSessions offers the hub's open sessions.
func offerSessions(ctx context.Context, f *cli.Flags, _ string) (keys []string) {
	c, err := openControl(f.Lookup("state").Value.String())
	if err != nil {
		return nil
	}
	o, err := c.Overview(ctx)
	if err != nil {
		return nil
	}
	for _, s := range o.Sessions {
		keys = append(keys, s.Key)
	}
	return keys
}

func offerSelectors(ctx context.Context, f *cli.Flags, typed string) []string {
	all := []string{"any", "all", "os=linux", "os=windows"}
	for _, name := range offerNodes(ctx, f, typed) {
		all = append(all, "node="+name)
	}
	return all
}
