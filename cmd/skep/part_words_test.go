// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"strings"
	"testing"
)

// A user without a name is shown as a number.
func TestOwnerOfAPartition(t *testing.T) {
	if got := ownerName(0); got != "root" {
		t.Errorf("user 0 is %q", got)
	}
	if got := ownerName(4000000001); got != "4000000001" {
		t.Errorf("a user without a name is %q", got)
	}
}

// A warning lists five names and the number of the others.
func TestWarningOfLentCPUs(t *testing.T) {
	for names, want := range map[string]string{
		"":              "",
		"a":             "skep: warning: a: they move\n",
		"a b c d e":     "skep: warning: a, b, c, d, e: they move\n",
		"a b c d e f g": "skep: warning: a, b, c, d, e and 2 more: they move\n",
	} {
		if got := printedBy(t, &os.Stderr, func() { warnOf(strings.Fields(names), "they move") }); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}
