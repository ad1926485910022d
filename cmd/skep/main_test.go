// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"testing"

	"skep/grid/agent"
)

// TestMain is a guard where an agent of these tests asks for one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		os.Exit(agent.RunGuard())
	}
	os.Exit(m.Run())
}
