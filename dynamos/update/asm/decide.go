// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"slices"
	"strings"
)

// A condition is what a branch of a function asks. Its opposite is the same
// condition, not met.
type condition struct {
	of    string // the comparison, in terms of values
	is    string // "e", "l", ...
	known bool   // all of its values are
}

func (c condition) String() string { return c.of + " " + c.is }

// A rule says on which side of a branch a hold comes next, and not on the other.
type rule struct {
	then effect
	on   condition
	met  bool
}

// rules are those of a function; true: on the other side comes more than a return.
type rules map[rule]bool

// opposites are conditions of jumps that are others, not met.
var opposites = map[string]string{"ne": "e", "nz": "e", "ge": "l", "nl": "l", "g": "le", "nle": "le", "ae": "b", "nb": "b", "nc": "b", "a": "be", "nbe": "be",
	"ns": "s", "no": "o", "np": "p", "po": "p"}

// synonyms are conditions with two names.
var synonyms = map[string]string{"z": "e", "nge": "l", "ng": "le", "c": "b", "nae": "b", "na": "be", "pe": "p"}

// conditionOf is what a conditional jump asks, and whether it jumps if that is so.
func (r *reader) conditionOf(g *graph, known []*values, i int) (c condition, jumps bool) {
	is := strings.TrimPrefix(g.steps[i].word, "j")
	jumps = true
	if o := opposites[is]; o != "" {
		is, jumps = o, false
	}
	if s := synonyms[is]; s != "" {
		is = s
	}
	c = condition{of: "?", is: is}
	for n := i - 1; n >= 0; n-- {
		s := g.steps[n]
		if s.aside || strings.HasPrefix(s.word, ".") || hasPrefix(s.word, "mov", "lea", "push", "pop") {
			continue
		}
		if known[n] != nil && !s.branch {
			c.of = r.comparison(known[n], s)
		}
		break
	}
	c.known = !strings.Contains(c.of, "?")
	return c, jumps
}

// comparison names an instruction that a jump asks about.
func (r *reader) comparison(v *values, s *step) string {
	var of []string
	for _, op := range s.operands {
		of = append(of, r.read(v, op).String())
	}
	word := strings.TrimRight(s.word, "bwlq")
	if strings.HasPrefix(s.word, "test") && len(of) == 2 && s.operands[0] == s.operands[1] {
		word, of[0] = "cmp", "0"
	}
	return fmt.Sprintf("%s(%s)", word, strings.Join(of, ", "))
}

// rulesOf finds the branches that decide which hold comes next.
func (w *watcher) rulesOf(fn *Symbol) rules {
	g := graphOf(fn)
	r := &reader{w.norm, fn}
	known := r.valuesOf(g)
	ahead := w.findAhead(r, g, known)
	out := rules{}
	for i, s := range g.steps {
		if !s.branch || s.aside || known[i] == nil || !strings.HasPrefix(s.word, "j") || s.word == "jmp" || !g.isLocal(s) {
			continue
		}
		on, jumps := r.conditionOf(g, known, i)
		there, here := map[effect]bool{}, ahead[i+1]
		for _, n := range g.next[i] {
			if n != i+1 {
				addAll(&there, ahead[n])
			}
		}
		out.add(there, here, on, jumps)
		out.add(here, there, on, !jumps)
	}
	return out
}

// add notes the holds of one side of a branch that are not on the other.
func (m rules) add(side, other map[effect]bool, on condition, met bool) {
	more := false
	for e := range other {
		more = more || e.kind == aHold && !side[e]
	}
	for e := range side {
		if e.kind == aHold && !other[e] {
			k := rule{e, on, met}
			m[k] = m[k] || more
		}
	}
}

// findAhead finds for each statement which holds or returns come next.
func (w *watcher) findAhead(r *reader, g *graph, known []*values) []map[effect]bool {
	ahead, from := make([]map[effect]bool, len(g.steps)+1), make([][]int, len(g.steps)+1)
	fixed := make([]bool, len(g.steps)+1)
	var todo []int
	for i, s := range g.steps {
		for _, n := range g.next[i] {
			from[n] = append(from[n], i)
		}
		list := w.effectsOf(r, g, s, known[i])
		at := slices.IndexFunc(list, func(e effect) bool { return e.kind == aHold || e.kind == theReturn })
		if at >= 0 {
			ahead[i], fixed[i] = map[effect]bool{list[at]: true}, true
			todo = append(todo, i)
		}
	}
	for ; len(todo) > 0; todo = todo[1:] {
		for _, n := range from[todo[0]] {
			if !fixed[n] && addAll(&ahead[n], ahead[todo[0]]) {
				todo = append(todo, n)
			}
		}
	}
	return ahead
}

// writesWithout reports whether what is written right after a hold is written
// elsewhere as well.
func (s sequences) writesWithout(hold effect) bool {
	for p := range s.pairs {
		if p.then.kind == aWrite && p.last != hold && s.pairs[sequence{hold, p.then}] {
			return true
		}
	}
	return false
}

// compareRules says which holds have another condition than before. A check before a
// hold, without which the function only returns, may have another one.
func compareRules(before, after rules, was, is sequences) []string {
	balanced := isBalanced(was.pairs) && isBalanced(is.pairs)
	var why []string
	for k := range after {
		was := rule{k.then, k.on, !k.met}
		_, stays := after[was]
		_, had := before[k]
		if _, turned := before[was]; turned && !stays && !had {
			why = append(why, fmt.Sprintf("%s now comes under the opposite condition", k.then))
		}
	}
	for k, more := range before {
		if _, stays := after[k]; stays || !k.on.known || balanced && !more && !was.writesWithout(k.then) {
			continue
		}
		for n := range after {
			if _, had := before[n]; !had && n.on.known && n.on != k.on && n.then == k.then {
				why = append(why, fmt.Sprintf("%s has another condition: %s, was %s", k.then, n.on, k.on))
			}
		}
	}
	slices.Sort(why)
	return slices.Compact(why)
}
