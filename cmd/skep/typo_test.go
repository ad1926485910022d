// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"strings"
	"testing"
)

// The error for a misspelled command or option names the one that was probably meant. The
// error for 0 workers gives the allowed range.
func TestTypos(t *testing.T) {
	for line, want := range map[string]string{
		"noeds":             "there is no command \"noeds\"; did you mean 'skep nodes'?",
		"frobnicate":        "there is no command \"frobnicate\"; 'skep help' lists them",
		"nodes --jsn":       "there is no option --jsn; did you mean --json?",
		"nodes --frobnicat": "there is no option --frobnicat: 'skep nodes --help' lists them",
		"up --slots 0":      "--slots 0 is not between 1 and 4096",
		"join --slots -1 x": "--slots -1 is not between 1 and 4096",
	} {
		err := dispatch(context.Background(), strings.Fields(line))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("skep %s: %v; want %q", line, err, want)
		}
	}
}
