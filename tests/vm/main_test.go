// SPDX-License-Identifier: MIT

//go:build linux

// Package vm holds the tests that boot machines; `make vm` runs them. A
// room's tests begin with its name: `make vm T=lab` runs TestLab...
package vm

import (
	"os"
	"path/filepath"
	"testing"

	"skep/lab"
)

// toolPath returns a program for guests that make built.
func toolPath(t *testing.T, name string) string {
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
