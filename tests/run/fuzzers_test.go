// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var fuzzFunction = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(`)

// make fuzz runs each fuzzer that is in the tree, and no others.
func TestFuzzersAreListed(t *testing.T) {
	out, err := exec.Command("git", "-C", "../..", "ls-files", "*_test.go").Output()
	if err != nil || len(out) == 0 {
		t.Skip("no git here, or not a clone")
	}
	var found []string
	for _, name := range strings.Fields(string(out)) {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			continue // deleted, not yet committed
		}
		for _, m := range fuzzFunction.FindAllStringSubmatch(string(text), -1) {
			found = append(found, path.Dir(name)+"."+m[1])
		}
	}
	listed := slices.DeleteFunc(makeLists(t)["fuzz"], func(name string) bool { return !strings.Contains(name, ".Fuzz") })
	slices.Sort(found)
	slices.Sort(listed)
	if !slices.Equal(found, listed) || len(found) < 20 {
		t.Errorf("GO_FUZZERS of tests/fuzz/room.mk has\n%s\nand the tree has\n%s", strings.Join(listed, "\n"), strings.Join(found, "\n"))
	}
}
