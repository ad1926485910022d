// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"skep/internal/cli"
	"skep/internal/manual"
)

// pages writes the files of make man: a page for each command, the page of all variables,
// and a completion script for each shell.
type pages struct{}

func (*pages) options(*cli.Flags) {}

func (*pages) run(_ context.Context, f *cli.Flags, words []string) error {
	if len(words) != 1 {
		return f.Expectf("one folder is expected")
	}
	all := []*manual.Page{rootPage()}
	for _, c := range shownCommands(commands()) {
		all = append(all, c.page())
	}
	for _, p := range all {
		if err := writeFile(words[0], "man/"+p.PageName()+".1", func(out io.Writer) error {
			return p.WriteRoff(out, manual.Title{Section: 1, Date: released, Release: "Skep " + version})
		}); err != nil {
			return err
		}
	}
	if err := writeFile(words[0], "man/skep-environment.7", func(out io.Writer) error {
		return manual.WriteEnvironmentRoff(out, manual.Title{Section: 7, Date: released, Release: "Skep " + version})
	}); err != nil {
		return err
	}
	if err := writeFile(words[0], "environment.md", manual.WriteEnvironmentMarkdown); err != nil {
		return err
	}
	return writeScripts(words[0])
}

// scriptNames are the file names under which the shells look for skep's script.
var scriptNames = map[string]string{"bash": "skep", "zsh": "_skep", "fish": "skep.fish", "powershell": "skep.ps1"}

func writeScripts(dir string) error {
	for _, shell := range shells {
		text, err := completionScript(shell)
		if err != nil {
			return err
		}
		if err := writeFile(dir, filepath.Join("completion", shell, scriptNames[shell]), func(out io.Writer) error {
			_, err := io.WriteString(out, text)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// shownCommands returns the commands that people type, with their subcommands.
func shownCommands(list []command) []command {
	var all []command
	for _, c := range list {
		if !c.hidden {
			all = append(append(all, c), shownCommands(c.words)...)
		}
	}
	return all
}

func writeFile(dir, name string, write func(io.Writer) error) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
