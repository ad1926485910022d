// SPDX-License-Identifier: MIT

package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"math/bits"
)

// A hub's audit log only grows. A node keeps how many lines it has seen and one digest of
// them, the root of a Merkle tree as in RFC 6962, section 2.1. A hub proves with a few
// digests that its log is that one with lines added, however long it is.

// Seen is how far somebody has seen a log. The zero Seen has seen nothing.
type Seen struct {
	Lines uint64 `json:"lines"`
	Root  string `json:"root"` // in hex
}

type treeHash [sha256.Size]byte

// A Tree is that of a log. Its zero value has no line.
type Tree struct {
	levels [][]treeHash // [k][i]: of the 2^k lines from i<<k on
}

func leafHash(line string) treeHash { return sha256.Sum256(append([]byte{0}, line...)) }

func nodeHash(left, right treeHash) treeHash {
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

// Add adds a line.
func (t *Tree) Add(line string) {
	h := leafHash(line)
	for k := 0; ; k++ {
		if k == len(t.levels) {
			t.levels = append(t.levels, nil)
		}
		t.levels[k] = append(t.levels[k], h)
		n := len(t.levels[k])
		if n%2 == 1 {
			return
		}
		h = nodeHash(t.levels[k][n-2], t.levels[k][n-1])
	}
}

func (t *Tree) lines() uint64 {
	if len(t.levels) == 0 {
		return 0
	}
	return uint64(len(t.levels[0]))
}

// split returns the largest power of two below n, which is at least 2.
func split(n uint64) uint64 { return 1 << (bits.Len64(n-1) - 1) }

// hash returns the root of the lines from first on, up to last. first is a multiple of the
// power of two that is not below their number, as in all ranges of a tree.
func (t *Tree) hash(first, last uint64) treeHash {
	n := last - first
	if n&(n-1) == 0 {
		k := bits.TrailingZeros64(n)
		return t.levels[k][first>>k]
	}
	middle := first + split(n)
	return nodeHash(t.hash(first, middle), t.hash(middle, last))
}

// Seen returns what somebody has seen who saw the whole log.
func (t *Tree) Seen() Seen {
	n := t.lines()
	if n == 0 {
		return Seen{}
	}
	root := t.hash(0, n)
	return Seen{n, hex.EncodeToString(root[:])}
}

// Proof returns what proves that the log's first lines are the beginning of it. It is nil
// if they are none, all, or more than there are.
func (t *Tree) Proof(lines uint64) (proof []string) {
	if lines == 0 || lines >= t.lines() {
		return nil
	}
	for _, h := range t.subproof(lines, 0, t.lines(), true) {
		proof = append(proof, hex.EncodeToString(h[:]))
	}
	return proof
}

// subproof is SUBPROOF of RFC 6962 for the first m of a range's lines; known is whether the
// verifier has their root.
func (t *Tree) subproof(m, first, last uint64, known bool) []treeHash {
	n := last - first
	if m == n {
		if known {
			return nil
		}
		return []treeHash{t.hash(first, last)}
	}
	k := split(n)
	if m <= k {
		return append(t.subproof(m, first, first+k, known), t.hash(first+k, last))
	}
	return append(t.subproof(m-k, first+k, last, false), t.hash(first, first+k))
}

// Follow checks that a log that was seen up to now continues what was seen up to s. The
// refusal says whether lines were cut off or changed.
func (s Seen) Follow(now Seen, proof []string) error {
	switch {
	case s.Lines == 0:
		return nil
	case now.Lines < s.Lines:
		return refusef(Cut, "the hub's audit log ends at line %d, and line %d of it was seen: its end was cut off", now.Lines, s.Lines)
	case now.Lines == s.Lines && now.Root == s.Root:
		return nil
	case now.Lines == s.Lines || !provesGrowth(s, now, proof):
		return refusef(Forged, "the hub's audit log of %d lines does not continue the %d lines that were seen: the log was rewritten", now.Lines, s.Lines)
	}
	return nil
}

func parseHash(text string) (h treeHash, ok bool) {
	b, err := hex.DecodeString(text)
	return treeHash(append(b, h[:]...)[:len(h)]), err == nil && len(b) == len(h)
}

// provesGrowth verifies a proof as RFC 9162, section 2.1.4.2, does.
func provesGrowth(old, now Seen, proof []string) bool {
	first, ok1 := parseHash(old.Root)
	second, ok2 := parseHash(now.Root)
	path := make([]treeHash, 0, len(proof)+1)
	if old.Lines&(old.Lines-1) == 0 {
		path = append(path, first)
	}
	for _, text := range proof {
		h, ok := parseHash(text)
		ok1 = ok1 && ok
		path = append(path, h)
	}
	if !ok1 || !ok2 || len(path) == 0 || len(proof) > 128 {
		return false
	}
	f, s := old.Lines-1, now.Lines-1
	for f&1 == 1 {
		f, s = f>>1, s>>1
	}
	was, is := path[0], path[0]
	for _, h := range path[1:] {
		if s == 0 {
			return false
		}
		if f&1 == 1 || f == s {
			was, is = nodeHash(h, was), nodeHash(h, is)
			for f&1 == 0 && f != 0 {
				f, s = f>>1, s>>1
			}
		} else {
			is = nodeHash(is, h)
		}
		f, s = f>>1, s>>1
	}
	return was == first && is == second && s == 0
}
