// SPDX-License-Identifier: MIT

package asm

import "slices"

// ownName is what the new text calls a function of the kernel that the update
// replaces, where it takes its address: others may keep that address for longer
// than the update's module is there. Calls through it come to the hook, and so
// to the version that the policy says.
const ownName = "__kernel_own_"

// isOriginal reports whether the address of a function that the update takes is
// the kernel's own.
func (x *extractor) isOriginal(s *Symbol) bool {
	return s.Func && slices.Contains(x.c.Changed, s.Name) && (x.c.Sealed == nil || !x.c.Sealed(s.Name))
}

// addressName is name for a token whose address is taken.
func (x *extractor) addressName(t string) string {
	hit := x.c.After.findSymbol(t)
	if hit == nil || !x.take[hit.Name] || !x.isOriginal(hit) {
		return x.name(t)
	}
	name := ownName + x.nameInModule(hit)
	x.own[name] = hit
	return name
}

// takesAddress reports whether a statement of a symbol uses what it names as a
// value: calls, jumps and what the assembler alone reads do not.
func takesAddress(s *Symbol, text string) bool {
	word, rest := cutMnemonic(text)
	for _, prefix := range prefixes {
		if word == prefix {
			word, rest = cutMnemonic(rest)
		}
	}
	if word != "" && word[0] == '.' {
		return !s.Func && dataWord().MatchString(word)
	}
	return !isBranch(word) && text[len(text)-1] != ':'
}

// notePointers notes whose addresses the new text takes.
func (x *extractor) notePointers() {
	for name := range x.take {
		s := x.c.After.findSymbol(name)
		for _, l := range s.lines {
			if !takesAddress(s, l.text) {
				continue
			}
			for _, t := range listTokens(l.text) {
				if hit := x.c.After.findSymbol(l.text[t.begin:t.end]); hit != nil {
					x.pointed[hit.Name] = true
				}
			}
		}
	}
}
