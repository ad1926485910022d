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

// An alternative instruction may stand in the place of another, or not: what it clears may still
// hold an address.
func TestAlternativeInstructionsMayNotBeThere(t *testing.T) {
	for _, aside := range []bool{false, true} {
		g := &graph{labels: map[string][]int{}}
		g.add("xorl %ebx, %ebx", ".altinstr_replacement", aside)
		held := uint32(1<<regBX | 1<<regAX)
		want := held
		if !aside {
			want = 1 << regAX
		}
		if got := (&follower{}).step(&Symbol{Name: "f"}, g, 0, held, &outcome{}); got != want {
			t.Errorf("aside %v: %#x, want %#x", aside, got, want)
		}
	}
}
