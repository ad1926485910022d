// SPDX-License-Identifier: MIT

package main

import (
	"skep/grid/rolls"
	"skep/internal/cli"
)

func updateWords() []command { return nil }

func nodeRolls() (rolls.Kernel, error) { return nil, nil }

func pinKeys(string, bool, bool) error {
	return cli.Errorf(cli.Refused, "only Linux kernels can be updated: leave out --update-keys")
}
