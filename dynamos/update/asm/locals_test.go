// SPDX-License-Identifier: MIT

package asm

import "testing"

// A variable of the patched file is one of the original, and no two are the same one. Whoever
// says otherwise changes nothing.
func TestEvidenceDoesNotContradictItself(t *testing.T) {
	e := &evidence{map[string]string{}, map[string]string{}}
	for _, c := range []struct {
		after, before string
		want          bool
	}{{"n.2", "n.1", true}, {"n.2", "n.1", true}, {"n.2", "n.5", false}, {"n.7", "n.1", false}, {"n.7", "n.5", true}, {"n.7", "n.1", false}, {"n.2", "n.1", true}} {
		if got := e.add(c.after, c.before); got != c.want {
			t.Errorf("%s is %s: %v", c.after, c.before, got)
		}
	}
	if len(e.to) != 2 || len(e.from) != 2 || e.from["n.1"] != "n.2" || e.from["n.5"] != "n.7" {
		t.Errorf("%v, %v", e.to, e.from)
	}
}
