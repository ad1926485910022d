// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"strings"

	"skep/internal/cli"
)

// A partition has words of its own, each in a file part_WORD.go.
type partition struct{}

func (p *partition) options(*cli.Flags) {}

func (p *partition) run(_ context.Context, f *cli.Flags, words []string) error {
	list := partWords()
	if len(list) == 0 {
		return cli.Errorf(cli.Refused, "partitions are lent by a Linux kernel: use skep part on a Linux machine")
	}
	if len(words) == 0 {
		return f.Usagef("a word is expected: %s", wordNames(list))
	}
	return f.Usagef("there is no word %q: there are %s", words[0], wordNames(list))
}

// wordNames lists the second words of commands.
func wordNames(list []command) string {
	var names []string
	for _, c := range list {
		if !c.hidden {
			names = append(names, c.name[strings.IndexByte(c.name, ' ')+1:])
		}
	}
	return strings.Join(names, ", ")
}
