// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"strings"

	"skep/internal/lazy"
)

// The kernel reads the tables of static keys and static calls while it loads the update's
// module, before the addresses of the module that the update changes are written. So
// the new text of a late change has no entries in these tables: it reads the key, and
// calls the trampoline that the kernel keeps up to date.

var (
	branchKey   = lazy.Regexp(`^\.quad (.+) ?\+ ?([0-3]) ?- ?\.$`)
	branchPlace = lazy.Regexp(`^\.long ([0-9]+)b ?- ?\.$`)
	branchTo    = lazy.Regexp(`^\.long ([A-Za-z0-9_.$]+) ?- ?\.$`)
)

// A keyBranch is a branch on a static key: the instruction and its entry of the table.
type keyBranch struct {
	key, to string
	jumps   bool // while the key is off
	lines   int  // of the entry, and one for the instruction
}

// findKeyBranch reads the branch whose instruction is the first of the lines.
func findKeyBranch(lines []line) (b keyBranch, ok bool) {
	var parts []string
	for i, l := range lines[:min(len(lines), 8)] {
		word, rest := cutMnemonic(l.text)
		if i == 1 && (word != ".pushsection" || placeOf(rest).name != "__jump_table") {
			return b, false
		}
		if i > 0 && word != ".align" && word != ".balign" {
			parts = append(parts, l.text)
		}
		if word == ".popsection" {
			b.lines = i + 1
			break
		}
	}
	if b.lines == 0 || len(parts) != 5 || !branchPlace().MatchString(parts[1]) {
		return b, false
	}
	to, key := branchTo().FindStringSubmatch(parts[2]), branchKey().FindStringSubmatch(parts[3])
	if to == nil || key == nil {
		return b, false
	}
	b.to, b.key = to[1], strings.TrimSpace(key[1])
	b.jumps = key[2] == "1" || key[2] == "3" // the bit of 2 tells objtool that the instruction is a jump
	return b, true
}

// writeKeyBranch writes the branch that begins with the lines, if the change is late and
// the key not the update's own, and returns how many lines that were.
func (x *extractor) writeKeyBranch(s *Symbol, lines []line) int {
	if !x.c.Late {
		return 0
	}
	b, ok := findKeyBranch(lines)
	if !ok || x.ownsOneOf(b.key) {
		return 0
	}
	jump := "jne"
	if b.jumps {
		jump = "je"
	}
	x.writeStatement(s, fmt.Sprintf("cmpl $0, %s(%%rip)", b.key))
	x.writeStatement(s, jump+" "+b.to)
	return b.lines
}

// ownsOneOf reports whether an expression names something that the update has.
func (x *extractor) ownsOneOf(text string) bool {
	text = "x " + text
	for _, t := range listTokens(text) {
		if hit := x.c.After.findSymbol(text[t.begin:t.end]); hit != nil && x.take[hit.Name] {
			return true
		}
	}
	return false
}

// lateName names what the new text of a late change takes from elsewhere. The trampoline of
// a static call gets a name that objtool does not take for one, and THIS_MODULE one that
// the linker does not take for the update's own module: it is the module that the update
// changes, as in the old text.
func (x *extractor) lateName(t string) string {
	if t != thisModule && (!strings.HasPrefix(t, "__SCT__") || x.ownsOneOf(t)) {
		return t
	}
	x.own[ownName+t] = &Symbol{Name: t, Func: t != thisModule}
	return ownName + t
}

// thisModule is what THIS_MODULE points to.
const thisModule = "__this_module"
