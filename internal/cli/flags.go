// SPDX-License-Identifier: MIT

package cli

import (
	"flag"
	"io"
	"regexp"
	"strings"
	"time"
)

// Flags are the options of one command. Their errors have the code Usage and one sentence.
type Flags struct {
	*flag.FlagSet
	ListedBy string // the command whose help lists the options; empty: this one
	usage    string
}

// NewFlags returns the options of the command with this name and usage line.
func NewFlags(name, usage string) *Flags {
	f := &Flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), usage: usage}
	f.SetOutput(io.Discard)
	return f
}

// Usagef returns the error for an invalid command line. The text says what to type instead.
func (f *Flags) Usagef(format string, args ...any) error {
	return Errorf(Usage, "%s: "+format, append([]any{f.Name()}, args...)...)
}

// Expectf returns the error for words that are missing or that nobody wants, with the usage.
func (f *Flags) Expectf(format string, args ...any) error {
	return f.Usagef(format+"; usage: skep %s", append(args, f.usage)...)
}

// Parse parses options and words in any order and returns the words.
func (f *Flags) Parse(args []string) ([]string, error) {
	var words []string
	for {
		if err := f.FlagSet.Parse(args); err != nil {
			return nil, f.explainError(err)
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

// ParseCommand parses options up to the first word or "--". It returns the rest, a program
// and its own options.
func (f *Flags) ParseCommand(args []string) ([]string, error) {
	if err := f.FlagSet.Parse(args); err != nil {
		return nil, f.explainError(err)
	}
	return f.FlagSet.Args(), nil
}

// Values returns the number of arguments of an option: 0 or 1, or -1 if there is no such
// option.
func (f *Flags) Values(option string) int {
	known := f.Lookup(option)
	if known == nil {
		return -1
	}
	if b, ok := known.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
		return 0
	}
	return 1
}

// RefuseArgs refuses words after the options.
func (f *Flags) RefuseArgs(words []string) error {
	if len(words) > 0 {
		return f.Expectf("%q is not expected", words[0])
	}
	return nil
}

func (f *Flags) explainError(err error) error {
	if err == flag.ErrHelp {
		return err
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		name = strings.TrimLeft(name, "-")
		if meant := f.nearest(name); meant != "" {
			return f.Usagef("there is no option %s; did you mean %s?", DashedName(name), DashedName(meant))
		}
		lists := f.ListedBy
		if lists == "" {
			lists = f.Name()
		}
		return f.Usagef("there is no option %s: 'skep %s --help' lists them", DashedName(name), lists)
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return f.Usagef("%s expects a value", DashedName(name))
	}
	if m := invalid.FindStringSubmatch(text); m != nil {
		return f.Usagef("%s %s: %s", DashedName(m[2]), m[1], f.wantedText(m[2], m[3]))
	}
	return f.Usagef("%s", text)
}

// invalid matches the standard library's error for a value: the value, its option, the
// reason.
var invalid = regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-(\S+): (.*)$`)

// wantedText says what an option requires. For numbers the library says only "parse error".
func (f *Flags) wantedText(option, why string) string {
	value, ok := f.Lookup(option).Value.(flag.Getter)
	if !ok {
		return why
	}
	switch value.Get().(type) {
	case time.Duration:
		return "want a time, as 500ms, 90s or 24h"
	case int, int64, uint, uint64:
		return "want a whole number"
	case float64:
		return "want a number"
	case bool:
		return "want no value, or =false"
	}
	return why
}

// Meant reports whether a name is that of an option, or a typo of it.
func (f *Flags) Meant(name string) bool { return f.nearest(name) != "" }

func (f *Flags) nearest(name string) string {
	var names []string
	f.VisitAll(func(known *flag.Flag) { names = append(names, known.Name) })
	return Nearest(name, names)
}

// DashedName returns an option with its dashes, as people type it.
func DashedName(option string) string {
	if len(option) == 1 {
		return "-" + option
	}
	return "--" + option
}

// Given reports whether an option was given, even with an empty value.
func (f *Flags) Given(option string) bool {
	given := false
	f.Visit(func(o *flag.Flag) { given = given || o.Name == option })
	return given
}
