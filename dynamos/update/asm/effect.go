// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"slices"
	"strings"
)

// An effect is what a statement does that others may depend on. Effects that
// outlive the call, such as taking a lock, are holds: which of them came last
// is noted for each effect. So the order, the conditions and the arguments of
// holds can be compared, whatever the compiler makes of the rest.
type effect struct {
	kind effectKind
	name string // of a function or an instruction
	args string // their values; `?` is not known
}

type effectKind int

// Kinds of effects.
const (
	aHold effectKind = iota
	aCall
	aWrite
	aRead
	theStart
	theReturn
)

func (e effect) String() string {
	switch e.kind {
	case theStart:
		return "the function's start"
	case theReturn:
		return "its return"
	case aWrite:
		return "the write to " + e.args
	case aRead:
		return "the read of " + e.args
	}
	return e.name + "(" + e.args + ")"
}

// A sequence is an effect and the hold that came last before it.
type sequence struct{ last, then effect }

// A watcher finds the effects of one file's functions.
type watcher struct {
	unit      *Unit
	norm      *normalizer
	holds     map[string]bool       // functions of the file, by name
	arguments func(name string) int // of a function; nil: one
}

func newWatcher(u *Unit, arguments func(string) int) *watcher {
	return &watcher{u, newNormalizer(u), map[string]bool{}, arguments}
}

// neverReturn are functions after whose call nothing follows.
var neverReturn = map[string]bool{"__stack_chk_fail": true, "panic": true, "fortify_panic": true, "__fortify_panic": true,
	"usercopy_abort": true, "do_exit": true, "make_task_dead": true}

// isHold reports whether a call matters beyond its return: by its name, or
// because the function is of this file and makes such a call.
func (w *watcher) isHold(name string) bool {
	if hasPrefix(name, ".", "__x86_") || hasPrefix(name, userAccess...) || strings.Contains(name, "trace") {
		return false
	}
	if pairs().MatchString(name) {
		return true
	}
	known, seen := w.holds[name]
	s := w.unit.byName[name]
	if seen || s == nil || !s.Func {
		return known
	}
	w.holds[name] = false // while it calls itself
	for _, l := range s.lines {
		word, rest := cutMnemonic(l.text)
		if word == "lock" || (word == "call" || word == "jmp") && w.isHold(firstArg(rest)) {
			w.holds[name] = true
			break
		}
	}
	return w.holds[name]
}

// effectsOf are the effects of one statement, in order.
func (w *watcher) effectsOf(r *reader, g *graph, s *step, v *values) []effect {
	switch {
	case s.aside || v == nil || strings.HasPrefix(s.word, "."):
		return nil
	case s.word == "ret" || s.word == "retq":
		return []effect{{kind: theReturn}}
	case s.branch:
		if g.isLocal(s) || strings.Contains(s.text, "__fentry__") {
			return nil
		}
		out := []effect{w.callOf(r, s, v)}
		if s.word != "call" {
			out = append(out, effect{kind: theReturn})
		}
		return out
	case strings.HasPrefix(s.text, "lock ") || hasPrefix(s.word, "xchg") && strings.Contains(s.text, "("):
		return []effect{{aHold, "atomic " + s.word, w.atomicArgs(r, s, v)}}
	case countsPreemption(s):
		return []effect{{aHold, s.word, "the count of preemption"}}
	}
	return w.accessesOf(r, s, v)
}

// countsPreemption reports whether an instruction turns preemption off or on.
func countsPreemption(s *step) bool {
	if !hasPrefix(s.word, "inc", "dec", "add", "sub") || len(s.operands) == 0 {
		return false
	}
	op := s.operands[len(s.operands)-1]
	return strings.HasPrefix(op, "%gs:") && (strings.Contains(op, "preempt_count") || strings.Contains(op, "pcpu_hot+8"))
}

func (w *watcher) callOf(r *reader, s *step, v *values) effect {
	name := r.callee(s)
	if !w.isHold(s.target()) {
		return effect{kind: aCall, name: name}
	}
	n := 1
	if w.arguments != nil {
		if known := w.arguments(name); known >= 0 {
			n = min(known, 6)
		}
	}
	var args []string
	for i := range n {
		args = append(args, v.reg[i].String())
	}
	return effect{aHold, name, strings.Join(args, ", ")}
}

func (w *watcher) atomicArgs(r *reader, s *step, v *values) string {
	var args []string
	for _, op := range s.operands {
		if isRegister(op) || strings.HasPrefix(op, "$") {
			args = append(args, r.read(v, op).String())
		} else {
			args = append(args, r.address(v, op).String())
		}
	}
	return strings.Join(args, ", ")
}

// accessesOf are the reads and writes of memory that others may see, where the
// address is known. What a processor has for itself is left out.
func (w *watcher) accessesOf(r *reader, s *step, v *values) []effect {
	var out []effect
	if hasPrefix(s.word, "lea", "nop", "prefetch", "push", "pop") {
		return nil
	}
	for i, op := range s.operands {
		if isRegister(op) || hasPrefix(op, "$", "%", "*") || onStack(op) || !strings.Contains(op, "(") && !w.isName(op) {
			continue
		}
		at := r.address(v, op)
		if at.base == "" {
			continue
		}
		last := i == len(s.operands)-1
		if last && !compares[s.word] && s.word != "cmp" {
			out = append(out, effect{kind: aWrite, args: at.String()})
		} else {
			out = append(out, effect{kind: aRead, args: at.String()})
		}
	}
	return out
}

func (w *watcher) isName(op string) bool {
	_, isNumber := number64(op)
	return !isNumber
}

// A run is two holds that follow one another, and the hold after them.
type run struct {
	before sequence
	then   effect
}

// sequences are what comes after what, on any way through a function.
type sequences struct {
	pairs map[sequence]bool // a hold and what comes after it
	runs  map[run]bool
}

// sequencesOf finds the sequences of a function.
func (w *watcher) sequencesOf(fn *Symbol) sequences {
	g := graphOf(fn)
	r := &reader{w.norm, fn}
	known := r.valuesOf(g)
	out := sequences{map[sequence]bool{}, map[run]bool{}}
	last := make([]map[sequence]bool, len(g.steps)+1)
	start := effect{kind: theStart}
	last[0] = map[sequence]bool{{start, start}: true}
	for todo := []int{0}; len(todo) > 0; todo = todo[1:] {
		i := todo[0]
		if i >= len(g.steps) {
			continue
		}
		after := last[i]
		for _, e := range w.effectsOf(r, g, g.steps[i], known[i]) {
			after = out.add(after, e)
		}
		for _, next := range g.next[i] {
			if addAll(&last[next], after) {
				todo = append(todo, next)
			}
		}
	}
	return out
}

// add notes an effect, and returns the last two holds after it.
func (out sequences) add(last map[sequence]bool, e effect) map[sequence]bool {
	after := map[sequence]bool{}
	for l := range last {
		out.pairs[sequence{l.then, e}] = true
		if e.kind == aHold {
			out.runs[run{l, e}] = true
			after[sequence{l.then, e}] = true
		}
	}
	if e.kind == aHold {
		return after
	}
	return last
}

// addAll adds to a set and tells whether the statement has to be looked at again.
func addAll[T comparable](to *map[T]bool, from map[T]bool) bool {
	if *to == nil {
		*to = map[T]bool{}
	}
	n := len(*to)
	for e := range from {
		(*to)[e] = true
	}
	return len(*to) > n
}

// compareSequences says what the holds of a function do in another order, under
// another condition or with other arguments.
func compareSequences(was, is sequences) []string {
	before, after := was.pairs, is.pairs
	balanced := isBalanced(before) && isBalanced(after)
	had, has := holdNames(before), holdNames(after)
	var why []string
	// What comes before and after those is another thing anyway.
	both := func(s sequence) bool {
		return s.last.inBoth(had, has) && s.then.inBoth(had, has) && isOrder(s, balanced)
	}
	for s := range after {
		if both(s) && !before[s] {
			why = append(why, fmt.Sprintf("%s may now come right after %s", s.then, s.last))
		}
	}
	for s := range before {
		if both(s) && !after[s] {
			why = append(why, fmt.Sprintf("%s no longer comes right after %s", s.then, s.last))
		}
	}
	// A check more gives new runs, and takes none away.
	for r := range was.runs {
		pair := sequence{r.before.then, r.then}
		if !is.runs[r] && after[pair] && both(pair) && r.before.last.inBoth(had, has) {
			why = append(why, fmt.Sprintf("%s no longer comes after %s and %s", r.then, r.before.last, r.before.then))
		}
	}
	why = append(why, movedEffects(before, after)...)
	slices.Sort(why)
	return append(otherNames(had, has), slices.Compact(why)...)
}

// otherNames tells which holds only one of two functions has.
func otherNames(had, has map[string]bool) []string {
	var why []string
	for name := range has {
		if !had[name] {
			why = append(why, "now calls "+name)
		}
	}
	for name := range had {
		if !has[name] {
			why = append(why, "no longer calls "+name)
		}
	}
	slices.Sort(why)
	return why
}

// holdNames are the names of all holds.
func holdNames(set map[sequence]bool) map[string]bool {
	out := map[string]bool{}
	for s := range set {
		if s.then.kind == aHold {
			out[s.then.name] = true
		}
	}
	return out
}

func (e effect) inBoth(had, has map[string]bool) bool {
	return e.kind != aHold || had[e.name] && has[e.name]
}

// isOrder reports whether a pair is of holds, or of one and the function's start
// or end. That a call may return before it holds anything, or may not any
// longer, is no matter where the function gives back itself what it takes.
func isOrder(s sequence, balanced bool) bool {
	if s.last.kind == theStart && s.then.kind == theReturn {
		return !balanced
	}
	return s.then.kind == aHold || s.then.kind == theReturn
}

// movedEffects finds what stays and comes after another hold: a write always, a
// read or call if it no longer comes where it did.
func movedEffects(before, after map[sequence]bool) []string {
	was, is := byEffect(before), byEffect(after)
	var why []string
	for e, now := range is {
		old := was[e]
		if len(old) == 0 || e.kind != aWrite && !lacksOne(now, old) {
			continue
		}
		for _, l := range now {
			if !slices.Contains(old, l) {
				why = append(why, fmt.Sprintf("%s may now come after %s", e, l))
			}
		}
	}
	return why
}

// lacksOne reports whether one of old is not in now.
func lacksOne(now, old []effect) bool {
	return slices.ContainsFunc(old, func(o effect) bool { return !slices.Contains(now, o) })
}

func byEffect(set map[sequence]bool) map[effect][]effect {
	out := map[effect][]effect{}
	for s := range set {
		k := s.then.kind
		if k == aRead || k == aWrite || k == aCall && !strings.Contains(s.then.name, "printk") {
			out[s.then] = append(out[s.then], s.last)
		}
	}
	return out
}

// isBalanced reports whether each function that takes or gives back something
// has its opposite among those that the function calls.
func isBalanced(set map[sequence]bool) bool {
	var names []string
	for s := range set {
		if s.then.kind == aHold {
			names = append(names, s.then.name)
		}
	}
	has := func(part string) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			return strings.Contains(n, part) && (part != "lock" || !strings.Contains(n, "unlock"))
		})
	}
	paired := has("unlock") == has("lock") && has("up_") == has("down_") &&
		(has("put") || has("free")) == (has("get") || has("hold") || has("alloc"))
	return paired && !slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, " ") || hasPrefix(n, "inc", "dec", "add", "sub") })
}
