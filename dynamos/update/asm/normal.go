// SPDX-License-Identifier: MIT

package asm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"skep/internal/lazy"
)

var (
	counted = lazy.Regexp(`^(.*[^.])\.[0-9]+$`)
	clone   = lazy.Regexp(`\.(isra|part|constprop)\.[0-9]+`)
	unique  = lazy.Regexp(`^(__UNIQUE_ID_.*[^0-9.])[0-9]+(\.[0-9]+)?$`)
	number  = lazy.Regexp(`^[0-9]+$`)
	digits  = lazy.Regexp(`_[0-9]+`)
	numRef  = lazy.Regexp(`^[0-9]+[bf]$`)

	// immediate is a number that an instruction contains.
	immediate = lazy.Regexp(`\$-?[0-9]+\b`)
)

// isClone reports whether gcc changed a function's parameters or split it.
func isClone(name string) bool { return clone().MatchString(name) }

// baseName returns a name without the compiler's number, and whether it had one.
func baseName(name string) (string, bool) {
	if m := unique().FindStringSubmatch(name); m != nil {
		return m[1], true
	}
	if isClone(name) {
		return name, false
	}
	if m := counted().FindStringSubmatch(name); m != nil {
		return m[1], true
	}
	return name, false
}

func hasPrefix(s string, list ...string) bool {
	for _, p := range list {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// isPrivate reports whether a symbol is a constant that is known by its content
// alone, so that the update can have a copy.
func isPrivate(s *Symbol) bool {
	if s.Func || s.Global || !hasPrefix(s.Section, ".rodata") {
		return false
	}
	if hasPrefix(s.Name, ".LC") {
		return true
	}
	_, numbered := baseName(s.Name)
	return numbered
}

// isLocal reports whether a symbol is a static local variable, whose name has a number.
func isLocal(s *Symbol) bool {
	if s.Func || s.Global || isPrivate(s) {
		return false
	}
	_, numbered := baseName(s.Name)
	return numbered
}

// findSymbol returns the symbol or constant that a token names.
func (u *Unit) findSymbol(name string) *Symbol {
	if s := u.consts[name]; s != nil {
		return s
	}
	return u.Symbol(name)
}

// A normalizer writes a symbol's text without the compiler's counters.
type normalizer struct {
	unit   *Unit
	memo   map[*Symbol]string
	inside map[*Symbol]bool
}

func newNormalizer(u *Unit) *normalizer {
	return &normalizer{u, map[*Symbol]string{}, map[*Symbol]bool{}}
}

// textOf returns a symbol's normalized text. Symbols with equal text do the same if
// the static variables that they name are the same.
func (n *normalizer) textOf(s *Symbol) string {
	if t, ok := n.memo[s]; ok {
		return t
	}
	if n.inside[s] {
		return "itself"
	}
	n.inside[s] = true
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", sectionOf(s), s.Flags)
	labels := map[string]int{}
	lines := newBugLines(s)
	for _, l := range s.lines {
		if name, ok := strings.CutSuffix(l.text, ":"); ok && number().MatchString(name) {
			b.WriteString("label-" + index(labels, name) + ":\n")
			continue
		}
		if strings.HasPrefix(l.text, ".section "+padding) {
			continue // it names any function of the section
		}
		b.WriteString(replaceTokens(lines.maskLines(l.text), func(t string) string { return n.normalToken(s, t, labels) }))
		b.WriteByte('\n')
	}
	delete(n.inside, s)
	n.memo[s] = b.String()
	return b.String()
}

// pool matches the section of a constant, which names the first function that
// uses the constant.
var pool = lazy.Regexp(`^\.rodata\..*(\.(str|cst)[0-9.]+)$`)

// sectionOf returns the section of a variable without the variable's name.
func sectionOf(s *Symbol) string {
	if s.Func {
		return s.Section
	}
	if m := pool().FindStringSubmatch(s.Section); m != nil {
		return ".rodata" + m[1]
	}
	if cut, ok := strings.CutSuffix(s.Section, "."+s.Name); ok {
		return cut
	}
	return s.Section
}

func (n *normalizer) normalToken(s *Symbol, t string, labels map[string]int) string {
	if t == s.Name {
		if s.Func {
			return t
		}
		return "it"
	}
	if hit := n.unit.findSymbol(t); hit != nil {
		switch {
		case isPrivate(hit):
			sum := sha256.Sum256([]byte(n.textOf(hit)))
			return "constant-" + hex.EncodeToString(sum[:12])
		case isLocal(hit):
			b, _ := baseName(hit.Name)
			return "local-" + b
		}
		return t
	}
	if hasPrefix(t, ".L") || numRef().MatchString(t) {
		name := strings.TrimRight(t, "bf")
		if hasPrefix(t, ".L") {
			name = t
		}
		return "label-" + index(labels, name) + t[len(name):]
	}
	if b, numbered := baseName(t); numbered && hasPrefix(t, "__UNIQUE_ID_") {
		return b
	}
	if hasPrefix(t, "__initcall__") { // has its line in its name
		return digits().ReplaceAllString(t, "_")
	}
	return t
}

func index(m map[string]int, key string) string {
	i, ok := m[key]
	if !ok {
		i = len(m)
		m[key] = i
	}
	return fmt.Sprint(i)
}

// maskNumbers replaces the numbers that instructions contain.
func maskNumbers(text string) string { return immediate().ReplaceAllString(text, "$$number") }

// A bugLines masks the line numbers in the table of WARN and BUG. They change with
// each line that is added above.
type bugLines struct {
	p    parser
	word int // words seen since the table's entry began
	fn   bool
}

func newBugLines(s *Symbol) *bugLines {
	return &bugLines{p: parser{now: place{s.Section, s.Flags}}, fn: s.Func}
}

func (b *bugLines) maskLines(s string) string {
	if !b.fn {
		return s
	}
	_ = b.p.parseSection(s) // parsing has checked it
	word, _ := cutMnemonic(s)
	if word == ".pushsection" || word == ".section" {
		b.word = 0
	}
	if b.p.now.name == "__bug_table" && (word == ".word" || word == ".short" || word == ".value") {
		b.word++
		if b.word == 1 {
			return ".word line"
		}
	}
	return s
}
