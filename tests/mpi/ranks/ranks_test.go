// SPDX-License-Identifier: MIT

package ranks

import "testing"

func TestCountMessages(t *testing.T) {
	for text, want := range map[string]struct {
		count  uint64
		engine string
	}{
		"skep: MPICH 5.0.2: 2 of 2 ranks reported; 43807 messages over O2G (user engine), 39 MB\n": {43807, "user"},
		"ok\nskep: Open MPI: 2 of 2 ranks reported; 1 message over O2G (kernel engine), 1 B\n":     {1, "kernel"},
		"skep: no message went over O2G\n": {},
	} {
		if count, engine := CountMessages(text); count != want.count || engine != want.engine {
			t.Errorf("%q: %d, %q", text, count, engine)
		}
	}
}

func TestEnvironment(t *testing.T) {
	base := append(make([]string, 0, 9), "A=1")
	one, two := Environment(base, "B=1"), Environment(base, "C=1")
	if one[0] != "A=1" || one[len(one)-1] != "B=1" || two[len(two)-1] != "C=1" {
		t.Errorf("%q, %q", one, two)
	}
}
