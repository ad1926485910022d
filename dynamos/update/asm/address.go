// SPDX-License-Identifier: MIT

package asm

import "slices"

// ownName is what the new text calls a function of the kernel that the update
// replaces, where it takes its address: others may keep that address for longer
// than the update's module is there. Calls through it come to the hook, and so
// to the version that the policy says.
const ownName = "__kernel_own_"

// original tells whether the address of a function that the update takes is
// the kernel's own.
func (x *extractor) original(s *Symbol) bool {
	return s.Func && slices.Contains(x.c.Changed, s.Name) && (x.c.Sealed == nil || !x.c.Sealed(s.Name))
}

// address is name for a token whose address is taken.
func (x *extractor) address(t string) string {
	hit := x.c.After.find(t)
	if hit == nil || !x.take[hit.Name] || !x.original(hit) {
		return x.name(t)
	}
	x.own[ownName+hit.Name] = hit
	return ownName + hit.Name
}

// takesAddress tells whether a statement of a symbol uses what it names as a
// value: calls, jumps and what the assembler alone reads do not.
func takesAddress(s *Symbol, text string) bool {
	word, rest := cut(text)
	for _, prefix := range prefixes {
		if word == prefix {
			word, rest = cut(rest)
		}
	}
	if word != "" && word[0] == '.' {
		return !s.Func && dataWord.MatchString(word)
	}
	return !isBranch(word) && text[len(text)-1] != ':'
}

// point notes whose addresses the new text takes.
func (x *extractor) point() {
	for name := range x.take {
		s := x.c.After.find(name)
		for _, l := range s.lines {
			if !takesAddress(s, l.text) {
				continue
			}
			for _, t := range tokens(l.text) {
				if hit := x.c.After.find(l.text[t.begin:t.end]); hit != nil {
					x.pointed[hit.Name] = true
				}
			}
		}
	}
}
