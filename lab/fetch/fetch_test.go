// SPDX-License-Identifier: MIT

package main

import "testing"

// The program must fail without a kernel, so that make stops.
func TestFetchFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir()) // without apt
	for _, c := range []struct {
		args []string
		want int
	}{
		{nil, 2}, {[]string{t.TempDir()}, 2}, {[]string{t.TempDir(), "6.1"}, 1}, {[]string{t.TempDir(), "frob"}, 1},
	} {
		if got := fetchKernels(c.args); got != c.want {
			t.Errorf("%q: %d, want %d", c.args, got, c.want)
		}
	}
}
