// SPDX-License-Identifier: MIT

package main

import (
	"context"

	"skep/internal/cli"
)

// An update of a kernel has words of its own, each in a file update_WORD.go.
type kernelUpdate struct{}

func (u *kernelUpdate) options(*cli.Flags) {}

func (u *kernelUpdate) run(_ context.Context, f *cli.Flags, words []string) error {
	list := updateWords()
	if len(list) == 0 {
		return cli.Errorf(cli.Refused, "updates are of Linux kernels: use skep update on a Linux machine")
	}
	if len(words) == 0 {
		return f.Usagef("a word is expected: %s", wordNames(list))
	}
	return f.Usagef("there is no word %q: there are %s", words[0], wordNames(list))
}
