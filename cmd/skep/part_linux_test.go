// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"strings"
	"testing"

	"skep/internal/cli"
	lent "skep/shimos/part"
)

func TestPartErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		code int
		says string
	}{
		{&lent.RefusedError{Why: "CPU 0 stays"}, cli.Refused, "CPU 0 stays"},
		{context.Canceled, exitStopped, "stopped before the partition was created"},
	} {
		err := partError(c.err)
		if code, _ := cli.ExitCode(err); code != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %d, %q", c.err, code, err)
		}
	}
}
