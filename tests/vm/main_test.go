// SPDX-License-Identifier: MIT

//go:build linux

// Package vm holds the tests that boot machines; `make vm` runs them. A
// room's tests begin with its name: `make vm T=lab` runs TestLab...
package vm

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"skep/internal/lab"
)

// plantedVar names a planted test, which this program then runs instead of its
// own: a test that is to fail can't be one of them.
const plantedVar = "SKEP_PLANTED"

func TestMain(m *testing.M) {
	if name := os.Getenv(plantedVar); name != "" {
		flag.Parse()
		test := testing.InternalTest{Name: name, F: planted[name]}
		if test.F == nil || !testing.RunTests(match, []testing.InternalTest{test}) {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func match(string, string) (bool, error) { return true, nil }

// tool is a program for guests that make built.
func tool(t *testing.T, name string) string {
	t.Helper()
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(build, "test", "vm", name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run make vm", err)
	}
	return path
}
