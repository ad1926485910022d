// SPDX-License-Identifier: MIT

package main

import (
	"skep/grid/agent"
	"skep/internal/cli"
)

func updateWords() []command { return nil }

func takeRolls(*agent.Config) error { return nil }

func pinKeys(string, bool, bool) error {
	return cli.Errorf(cli.Refused, "only Linux kernels can be updated: leave out --update-keys")
}
