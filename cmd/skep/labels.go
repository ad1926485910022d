// SPDX-License-Identifier: MIT

package main

import (
	"slices"

	"skep/grid/label"
	"skep/internal/cli"
)

// labels are those that the owner of a node gives it.
type labels []string

func (l *labels) options(f *cli.Flags) {
	f.Func("label", "let users choose this node by `KEY=VALUE`, such as gpu=a30 (any number of times)", func(text string) error {
		if slices.Contains(*l, text) {
			return nil
		}
		*l = append(*l, text)
		return label.Check(*l)
	})
}
