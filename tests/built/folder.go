// SPDX-License-Identifier: MIT

// Package built finds make's build folder for Go tests of what was built.
package built

import (
	"os"
	"testing"
)

// Folder returns the build folder. Only make names it, so a test of `go test ./...` is
// skipped, and the reason is the command that runs it.
func Folder(t *testing.T, command string) string {
	t.Helper()
	build := os.Getenv("BUILD")
	if build == "" {
		t.Skipf("BUILD does not name the build folder: %s does", command)
	}
	return build
}
