// SPDX-License-Identifier: MIT

// Package rely finds what a function relies on that, of a patch, only another function
// sets up: a lock or a member that one initializes and another uses, a reference that one
// takes and another gives back, memory that another function frees than before. Each
// function is right by itself. But what is there when the update is applied was set up by
// the old code, and what is there when it is reverted by the new code.
//
// It reads what gcc tells of each function before anything is inlined. Only statements
// that the patch adds count; for a revert, those that it removes.
package rely

import (
	"fmt"
	"slices"
	"strings"
)

// A Side is the source before or after a patch.
type Side struct {
	Dumps []string // of each file, made with Flag
	// Text has the files that the patch changes, by their paths in the tree.
	Text map[string]string
	// Global are functions that other files may call.
	Global map[string]bool
}

// Flag has gcc write a dump beside its output, with Suffix.
const (
	Flag   = "-fdump-tree-ssa-lineno-gimple"
	Suffix = ".ssa"
)

// A Hazard is what one function relies on and only another sets up.
type Hazard struct {
	Sets, Uses string // functions
	What       string
	Kind       Kind
	File       string
	Line       int // of what relies on it
}

// A Kind says when a hazard matters.
type Kind int

// Kinds of hazards.
const (
	OnApply  Kind = iota // what is there when the update is applied
	OnRevert             // what is there when it is reverted; Line is of the unpatched file
	Moved                // both: another function gives it back
)

// String says what a hazard is, without the place.
func (h Hazard) String() string {
	switch h.Kind {
	case OnRevert:
		return fmt.Sprintf("after a revert %s relies on %s, which %s sets up only without the patch: what the new code has set up lacks it", h.Uses, h.What, h.Sets)
	case Moved:
		return fmt.Sprintf("%s gives back %s, and %s no longer does: what is there when the update is applied or reverted may be given back never, or twice", h.Uses, h.What, h.Sets)
	}
	return fmt.Sprintf("%s relies on %s, which %s sets up only with the patch: what is there when the update is applied lacks it", h.Uses, h.What, h.Sets)
}

// Compare finds the hazards of a patch, those of applying it first. Missing are those of
// the changed functions that the dumps do not tell of.
func Compare(before, after Side, changed []string) (hazards []Hazard, missing []string) {
	was, is := before.read(), after.read()
	gains, losses := is.gains(was), was.gains(is)
	hazards = append(is.hazards(was, gains, OnApply), was.hazards(is, losses, OnRevert)...)
	missing = slices.DeleteFunc(slices.Clone(changed), func(n string) bool {
		plain, _, _ := strings.Cut(n, ".")
		return is.functions[plain] != nil
	})
	return append(hazards, is.movedReleases(was, gains, losses)...), missing
}

// A version is all functions of one side.
type version struct {
	side      Side
	functions map[string]*function
	texts     map[string][]statement // by file
	callers   map[string][]string
	pointed   map[string][]string        // who takes their address
	answers   map[string]map[string]bool // of does, by what is asked and the function
}

func (s Side) read() *version {
	r := newReader()
	for _, d := range s.Dumps {
		r.readDump(d)
	}
	r.finish()
	v := &version{s, r.out, map[string][]statement{}, map[string][]string{}, map[string][]string{}, map[string]map[string]bool{}}
	for file, text := range s.Text {
		v.texts[file] = splitStatements(text)
	}
	for _, name := range sortedKeys(v.functions) {
		for _, s := range v.functions[name].steps {
			for _, to := range s.points {
				v.pointed[to] = append(v.pointed[to], name)
			}
			if s.call != "" && !slices.Contains(v.callers[s.call], name) {
				v.callers[s.call] = append(v.callers[s.call], name)
			}
		}
	}
	return v
}

func sortedKeys[T any](m map[string]T) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// A gain is a statement that one side has and the other has not, or one of what it calls.
type gain struct {
	s    *step
	from *step     // the statement of the changed function
	in   *function // that has it
}

// gains are those of each function. Functions that one version alone has count with those
// that call them, so that what moves between them is no gain.
func (v *version) gains(other *version) map[string][]gain {
	out := map[string][]gain{}
	groups, had := v.groupBy(other), other.groupBy(v)
	for _, root := range sortedKeys(groups) {
		is, was := v.count(groups[root]), other.count(had[root])
		for _, f := range groups[root] {
			for i := range f.steps {
				s := &f.steps[i]
				text, patched := v.textAt(s)
				if !(patched && is.texts[text] > was.texts[text]) && is.contents[s.content()] <= was.contents[s.content()] {
					continue
				}
				out[root] = append(out[root], gain{s, s, f})
				for _, callee := range v.reached(s.call, other) {
					for j := range callee.steps {
						out[root] = append(out[root], gain{&callee.steps[j], s, f})
					}
				}
			}
		}
	}
	return out
}

// groupBy are the functions that count for each that both versions have, or that nobody
// is seen to call. Those of headers that stay are left out: who calls them counts.
func (v *version) groupBy(other *version) map[string][]*function {
	out := map[string][]*function{}
	for _, name := range sortedKeys(v.functions) {
		f := v.functions[name]
		if v.texts[f.file] == nil && other.functions[name] == nil {
			continue
		}
		for _, root := range v.rootsOf(name, other) {
			out[root] = append(out[root], f)
		}
	}
	return out
}

// textAt is the source of a statement, if it lies in a file that the patch changes.
func (v *version) textAt(s *step) (string, bool) {
	list, ok := v.texts[s.file]
	return textOf(list, s.line), ok
}

// A tally counts statements by their text, in lines of the source, and by what they do, as
// the compiler split them.
type tally struct{ texts, contents map[string]int }

func (v *version) count(list []*function) tally {
	out := tally{map[string]int{}, map[string]int{}}
	seen := map[string]bool{}
	for _, f := range list {
		for i := range f.steps {
			s := &f.steps[i]
			out.contents[s.content()]++
			text, patched := v.textAt(s)
			if at := fmt.Sprint(s.file, s.line); patched && !seen[at] {
				seen[at] = true
				out.texts[text]++
			}
		}
	}
	return out
}

// rootsOf are the functions that one stands for: itself, or if only this side has it,
// those that call it.
func (v *version) rootsOf(name string, other *version) []string {
	seen, out := map[string]bool{}, map[string]bool{}
	var add func(string)
	add = func(n string) {
		if seen[n] {
			return
		}
		seen[n] = true
		if other.functions[n] != nil || len(v.pointed[n]) > 0 || len(v.callers[n]) == 0 {
			out[n] = true
			return
		}
		for _, c := range v.callers[n] {
			add(c)
		}
	}
	add(name)
	return sortedKeys(out)
}

// depth limits how far calls are followed.
const depth = 4

// reached are a function and those that it calls, as far as depth allows. What other does
// not have is left out, unless other is nil: it counts by itself.
func (v *version) reached(name string, other *version) (out []*function) {
	seen := map[string]bool{}
	now := []string{name}
	for level := 0; level < depth && len(now) > 0; level++ {
		var next []string
		for _, n := range now {
			f := v.functions[n]
			if f == nil || seen[n] || other != nil && v.texts[f.file] != nil && other.functions[n] == nil {
				continue
			}
			seen[n] = true
			out = append(out, f)
			for i := range f.steps {
				next = append(next, f.steps[i].call)
			}
		}
		now = next
	}
	return out
}

// A need is something that a statement may do, by its name.
type need struct {
	name string
	met  func(*step) bool
}

// does reports whether a function, or what it calls, does what is needed.
func (v *version) does(name string, n need) bool {
	if v.answers[n.name] == nil {
		v.answers[n.name] = map[string]bool{}
	}
	answer, known := v.answers[n.name][name]
	if !known {
		answer = slices.ContainsFunc(v.reached(name, nil), func(f *function) bool {
			return slices.ContainsFunc(f.steps, func(s step) bool { return n.met(&s) })
		})
		v.answers[n.name][name] = answer
	}
	return answer
}

// meets reports whether a statement, or what it calls, does what is needed.
func (v *version) meets(s *step, n need) bool { return n.met(s) || s.call != "" && v.does(s.call, n) }

// hazards are those of one direction, one for each two functions. One function may be
// both, as where it begins something in one call and ends it in another.
func (v *version) hazards(other *version, gains map[string][]gain, kind Kind) []Hazard {
	names := sortedKeys(gains)
	adds := map[string]*added{}
	for _, s := range names {
		adds[s] = v.sumUp(gains[s])
	}
	var out []Hazard
	for _, u := range names {
		needs := v.needsOf(gains[u])
		for _, s := range names {
			if v.handsOut(s, u, other) {
				continue
			}
			for _, n := range needs {
				if n.by(adds[s]) && !v.covered(n.gain, n.need) && !(s == u && v.follows(n.gain, n.need)) {
					out = append(out, Hazard{s, u, n.what, kind, n.from.file, n.from.line})
					break
				}
			}
		}
	}
	return out
}

// handsOut reports whether only one version has a function, and there only the other
// function takes its address: it is called for what that one has set up.
func (v *version) handsOut(from, name string, other *version) bool {
	return other.functions[name] == nil && len(v.pointed[name]) > 0 &&
		!slices.ContainsFunc(v.pointed[name], func(n string) bool { return !slices.Equal(v.rootsOf(n, other), []string{from}) })
}

// What the new statements of a function set up.
type added struct {
	places      placeSet
	made, taken map[string]bool // structures
}

func (v *version) sumUp(list []gain) *added {
	a := &added{placeSet{map[place]bool{}, map[place]bool{}}, map[string]bool{}, map[string]bool{}}
	read := map[place]bool{}
	for _, g := range list {
		for _, p := range g.s.uses {
			read[p] = true
		}
	}
	for _, g := range list {
		for _, p := range setsOf(g.s) {
			if !g.s.clears || !read[p] { // what is taken and then cleared is not set up
				a.places.add(p)
			}
		}
		for _, k := range v.madeOf(g.s) {
			a.made[k] = true
		}
		for _, k := range v.takenOf(g.s) {
			a.taken[k] = true
		}
	}
	return a
}

// A reliance is what a new statement needs, and whether new statements give it.
type reliance struct {
	gain
	need
	what string
	by   func(*added) bool
}

// needsOf are the reliances of a function.
func (v *version) needsOf(list []gain) (out []reliance) {
	seen := map[string]bool{}
	add := func(g gain, what string, by func(*added) bool, met func(*step) bool) {
		if key := fmt.Sprintf("%p %s", g.from, what); !seen[key] {
			seen[key] = true
			out = append(out, reliance{g, need{what, met}, what, by})
		}
	}
	for _, g := range list {
		for _, p := range v.usesOf(g.s) {
			add(g, p.String(), func(a *added) bool { return a.places.overlaps(p) },
				func(s *step) bool { return overlapsOne(p, setsOf(s)) })
		}
		for _, k := range v.givenOf(g.s) {
			add(g, "a "+k, func(a *added) bool { return a.made[k] }, func(s *step) bool { return slices.Contains(v.madeOf(s), k) })
		}
		for _, k := range releasedOf(g.s) {
			add(g, "a reference to a "+k, func(a *added) bool { return a.taken[k] }, func(s *step) bool { return slices.Contains(v.takenOf(s), k) })
		}
	}
	return out
}

// follows reports whether what is needed may be done later in the function: what reads
// and then writes, as a count, relies on nothing of its own.
func (v *version) follows(g gain, n need) bool {
	found, seen := false, map[int]bool{}
	if g.s != g.from {
		found = v.does(g.from.call, n)
	}
	look := func(block int, before bool) {
		for i := range g.in.steps {
			s := &g.in.steps[i]
			if s.block == block && !before {
				found = found || v.meets(s, n)
			}
			before = before && s != g.from
		}
	}
	look(g.from.block, true)
	for todo := slices.Clone(g.in.next[g.from.block]); len(todo) > 0 && !found; todo = todo[1:] {
		if b := todo[0]; !seen[b] {
			seen[b] = true
			look(b, false)
			todo = append(todo, g.in.next[b]...)
		}
	}
	return found
}

// covered reports whether each way to a statement comes by one that does what is needed:
// in its function, or before each call of that.
func (v *version) covered(g gain, n need) bool { return v.coveredBy(g, n, map[string]bool{}) }

func (v *version) coveredBy(g gain, n need, seen map[string]bool) bool {
	name := g.in.name
	if !v.reaches(g, n) {
		return true
	}
	if seen[name] || len(v.pointed[name]) > 0 || len(v.callers[name]) == 0 || v.side.Global[name] {
		return false
	}
	seen[name] = true
	for _, c := range v.callers[name] {
		from := v.functions[c]
		for i := range from.steps {
			s := &from.steps[i]
			if s.call == name && !v.coveredBy(gain{s, s, from}, n, seen) {
				return false
			}
		}
	}
	return true
}

// reaches reports whether a statement can be reached from its function's start with none
// before it that does what is needed.
func (v *version) reaches(g gain, n need) bool {
	blocks := map[int][]*step{}
	for i := range g.in.steps {
		s := &g.in.steps[i]
		blocks[s.block] = append(blocks[s.block], s)
	}
	seen := map[int]bool{}
	for todo := []int{g.in.first}; len(todo) > 0; todo = todo[1:] {
		b := todo[0]
		if seen[b] {
			continue
		}
		seen[b] = true
		stopped := false
		for _, s := range blocks[b] {
			if s == g.from && !stopped && (s == g.s || v.comesFirst(s.call, g.s, n)) {
				return true
			}
			stopped = stopped || v.meets(s, n)
		}
		if !stopped {
			todo = append(todo, g.in.next[b]...)
		}
	}
	return false
}

// comesFirst reports whether a function comes to a statement, its own or of what it
// calls, before one that does what is needed, in the order of the text.
func (v *version) comesFirst(name string, at *step, n need) bool {
	for _, f := range v.reached(name, nil) {
		for i := range f.steps {
			if s := &f.steps[i]; s == at {
				return true
			} else if n.met(s) {
				return false
			}
		}
	}
	return false
}

// movedReleases are places whose contents another function gives back than before.
func (v *version) movedReleases(old *version, gains, losses map[string][]gain) []Hazard {
	var out []Hazard
	for _, b := range sortedKeys(gains) {
		for _, a := range sortedKeys(losses) {
			if p, g := v.movedRelease(old, a, losses[a], b, gains[b]); a != b && g != nil {
				out = append(out, Hazard{a, b, "what " + p.String() + " points to", Moved, g.from.file, g.from.line})
			}
		}
	}
	return out
}

func (v *version) movedRelease(old *version, a string, lost []gain, b string, got []gain) (place, *gain) {
	for i := range got {
		for _, p := range releasedPlaces(got[i].s) {
			n := need{"the release of " + p.String(), func(s *step) bool { return overlapsOne(p, releasedPlaces(s)) }}
			if slices.ContainsFunc(lost, func(g gain) bool { return n.met(g.s) }) && !v.does(a, n) && !old.does(b, n) {
				return p, &got[i]
			}
		}
	}
	return place{}, nil
}
