// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"skep/internal/manual"
)

// roffMarks matches the parts of a page that are not words of the help text.
var roffMarks = regexp.MustCompile(`(?m)^\.(TH|\\").*$|^\.(SH|TP|PP|BR|nf|fi|SS)\b|\\f[BR]|\\&|"`)

// plainWords returns the words of a page as a reader sees them.
func plainWords(roff string) []string {
	text := roffMarks.ReplaceAllString(roff, "")
	text = strings.NewReplacer(`\-`, "-", `\(aq`, "'", `\(ti`, "~", `\(ha`, "^", `\(ga`, "`", `\e`, `\`, `"`, "").Replace(text)
	return strings.Fields(text)
}

// helpHeadings matches the headings, which a page has in capitals.
var helpHeadings = regexp.MustCompile(`(?m)^(Options|Examples|Files|Environment|Exit codes):$`)

// joinWords joins words without the differences that line breaks and fonts cause.
func joinWords(words []string) string {
	return strings.ReplaceAll(strings.Join(words, " "), " (", "(")
}

// The page of a command has the same words as its help in the same order, except the
// headings.
func TestPageHasTheWordsOfHelp(t *testing.T) {
	for _, c := range shownCommands(commands()) {
		p := c.page()
		var help, page strings.Builder
		if err := errors.Join(p.WriteHelp(&help), p.WriteRoff(&page, manual.Title{Section: 1})); err != nil {
			t.Fatal(err)
		}
		inPage := joinWords(plainWords(page.String()))
		text := helpHeadings.ReplaceAllString(strings.TrimPrefix(help.String(), "usage: "), "")
		text = strings.NewReplacer(p.CommandsEnd, "", "\nSee also: ", "\n", `"`, "").Replace(text)
		for part := range strings.SplitSeq(text, "\n\n") {
			if words := joinWords(strings.Fields(part)); !strings.Contains(inPage, words) {
				t.Errorf("%s: the page lacks %.300q", c.name, words)
			}
		}
	}
}

// Each command that people type has a description, an example that it accepts, exit codes,
// and variables and pages that exist.
func TestEachCommandIsDescribed(t *testing.T) {
	all := texts()
	names := map[string]bool{"": true}
	for _, c := range shownCommands(commands()) {
		names[c.name] = true
		about := all[c.name]
		if len(about.text) == 0 || len(about.examples) == 0 || about.exit == "" || about.see == "" {
			t.Errorf("skep %s is not described: %+v", c.name, about)
		}
		for _, e := range about.examples {
			checkExample(t, e.Name)
		}
	}
	for name, about := range all {
		if !names[name] {
			t.Errorf("there is no command %q", name)
		}
		variables := strings.Fields(about.environment)
		if got := manual.Environment(variables...); len(got) != len(variables) {
			t.Errorf("%s: of the variables %v only %v are known", name, variables, got)
		}
		for _, code := range strings.Fields(about.exit) {
			if exitTexts[code] == "" {
				t.Errorf("%s: exit code %s has no text", name, code)
			}
		}
	}
}

var quoted = regexp.MustCompile(`'[^']*'|"[^"]*"`)

// checkExample parses the options of an example's first command of skep.
func checkExample(t *testing.T, line string) {
	line = quoted.ReplaceAllString(line, "quoted")
	_, rest, found := strings.Cut(line, "skep ")
	if !found {
		t.Errorf("%q does not call skep", line)
		return
	}
	rest, _, _ = strings.Cut(rest, " | ")
	c, args := findCommand(strings.Fields(strings.TrimRight(rest, ")")))
	if c == nil {
		t.Errorf("%q calls no command", line)
		return
	}
	f := c.newFlags()
	var err error
	if s, ok := c.runner.(splitter); ok {
		args, err = s.splitArgs(f, args)
	}
	parse := f.Parse
	if c.program {
		parse = f.ParseCommand
	}
	if err == nil {
		_, err = parse(args)
	}
	// A cgroup or a group of the example need not exist.
	if err != nil && !errors.Is(err, flag.ErrHelp) && !strings.Contains(err.Error(), "job7") {
		t.Errorf("%q: %v", line, err)
	}
}

// Every page of ours that is mentioned exists.
func TestMentionedPagesAreThere(t *testing.T) {
	dir := t.TempDir()
	if _, code, text := outputOf(t, "pages", dir); code != 0 {
		t.Fatal(text)
	}
	for name, about := range texts() {
		for _, page := range strings.Fields(about.see) {
			file := strings.NewReplacer("(", ".", ")", "").Replace(page)
			_, made := os.Stat(filepath.Join(dir, "man", file))
			_, written := os.Stat(filepath.Join("../../docs/man", file))
			if made != nil && written != nil {
				t.Errorf("%s mentions %s, which is nowhere", name, page)
			}
		}
	}
}
