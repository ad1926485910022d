// SPDX-License-Identifier: MIT

package cli

import (
	"flag"
	"io"
	"strings"
)

// Flags are the options of one command. What is wrong about them is an error
// with the code Usage and one sentence.
type Flags struct {
	*flag.FlagSet
	usage string
}

// NewFlags takes the command's name and the line that shows how it is used.
func NewFlags(name, usage string) *Flags {
	f := &Flags{flag.NewFlagSet(name, flag.ContinueOnError), usage}
	f.SetOutput(io.Discard)
	return f
}

// Usagef is the error for a command line that the command can't take.
func (f *Flags) Usagef(format string, args ...any) error {
	return Errorf(Usage, "%s: "+format+"; usage: skep %s", append(append([]any{f.Name()}, args...), f.usage)...)
}

// Parse takes options and words in any order and returns the words.
func (f *Flags) Parse(args []string) ([]string, error) {
	var words []string
	for {
		if err := f.FlagSet.Parse(args); err != nil {
			return nil, f.explain(err)
		}
		rest := f.FlagSet.Args()
		if len(rest) == 0 {
			return words, nil
		}
		if taken := len(args) - len(rest); taken > 0 && args[taken-1] == "--" {
			return append(words, rest...), nil
		}
		words = append(words, rest[0])
		args = rest[1:]
	}
}

// ParseCommand takes options up to the first word, or to "--": what follows
// is a program and its own options.
func (f *Flags) ParseCommand(args []string) ([]string, error) {
	if err := f.FlagSet.Parse(args); err != nil {
		return nil, f.explain(err)
	}
	return f.FlagSet.Args(), nil
}

// None refuses words after the options.
func (f *Flags) None(words []string) error {
	if len(words) > 0 {
		return f.Usagef("%q is not expected", words[0])
	}
	return nil
}

func (f *Flags) explain(err error) error {
	if err == flag.ErrHelp {
		return err
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return f.Usagef("there is no option --%s", strings.TrimLeft(name, "-"))
	}
	return f.Usagef("%s", text)
}
