// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"testing"

	"skep/grid/agent"
)

// TestMain acts as a guard if an agent of these tests starts it as one, and as skep if a
// test runs it as a process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		os.Exit(agent.RunGuard())
	}
	if os.Getenv("SKEP_TEST_MAIN") != "" {
		os.Exit(start(os.Args[0], os.Args[1:]))
	}
	os.Exit(m.Run())
}
