// SPDX-License-Identifier: MIT

package trust

import (
	"fmt"
	"slices"
	"testing"
)

// treeOf returns the tree of so many lines, of which those from changed on are others.
func treeOf(lines, changed int) *Tree {
	t := &Tree{}
	for n := range lines {
		text := fmt.Sprint("line ", n)
		if n >= changed {
			text += " changed"
		}
		t.Add(text)
	}
	return t
}

const treeSize = 40

// The root is that of RFC 6962: its test vectors in certificate-transparency have it.
func TestTreeIsThatOfTheRFC(t *testing.T) {
	tree := &Tree{}
	for _, line := range []string{"", "\x00", "\x10", " !", "01", "@ABC", "PQRSTUVW", "`abcdefghijklmno"} {
		tree.Add(line)
	}
	if got := tree.Seen(); got.Lines != 8 || got.Root != "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328" {
		t.Errorf("%+v", got)
	}
	if (&Tree{}).Seen() != (Seen{}) || (Seen{}).Follow(tree.Seen(), nil) != nil {
		t.Error("nothing was seen, and yet a log is refused")
	}
}

// Every log that continues another one is proved, and none that does not.
func TestGrowthIsProved(t *testing.T) {
	for n := 1; n <= treeSize; n++ {
		long := treeOf(n, n)
		for m := 1; m <= n; m++ {
			seen, proof := treeOf(m, m).Seen(), long.Proof(uint64(m))
			if err := seen.Follow(long.Seen(), proof); err != nil {
				t.Fatalf("%d of %d lines: %v", m, n, err)
			}
			forked := treeOf(n, m-1)
			if err := seen.Follow(forked.Seen(), forked.Proof(uint64(m))); Name(err) != Forged {
				t.Fatalf("%d of %d lines, the last one changed: %v", m, n, err)
			}
			if err := long.Seen().Follow(seen, nil); m < n && Name(err) != Cut {
				t.Fatalf("%d lines after %d were seen: %v", m, n, err)
			}
		}
	}
}

// A proof of something else proves nothing, and no damage of one is taken.
func TestDamagedProofs(t *testing.T) {
	for n := 2; n <= treeSize; n++ {
		long := treeOf(n, n)
		for m := 1; m < n; m++ {
			seen, proof := treeOf(m, m).Seen(), long.Proof(uint64(m))
			refuse := func(what string, proof []string) {
				if err := seen.Follow(long.Seen(), proof); Name(err) != Forged {
					t.Fatalf("%d of %d lines, %s: %v", m, n, what, err)
				}
			}
			for i := range proof {
				refuse("a digest left out", slices.Delete(slices.Clone(proof), i, i+1))
				other := slices.Clone(proof)
				other[i] = long.Seen().Root
				refuse("another digest", other)
				other[i] = proof[i][1:]
				refuse("half a byte less", other)
			}
			refuse("no proof", nil)
			refuse("one digest more", append(slices.Clone(proof), proof[0]))
			refuse("endless proof", make([]string, 200))
		}
	}
}
