// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"slices"
	"strings"
)

// An Escape is an address of the update's own module that may be in use after
// the last call of the update is through: its module can't be unloaded then.
type Escape struct {
	Symbol string // whose address it is
	In     string // the function that gives it away
	How    string
}

func (e Escape) String() string {
	return fmt.Sprintf("%s: in %s its address %s", e.Symbol, e.In, e.How)
}

// A follower follows one address of the module through the registers of the
// functions that take it.
type follower struct {
	x     *extractor
	of    *Symbol // whose address
	leads bool    // what lies at the address holds addresses of the module
	seen  map[string]*outcome
	out   []Escape
	depth int
}

// An outcome is what a function does with the address.
type outcome struct{ returns bool }

// findEscapes finds the addresses that the new text gives away.
func (x *extractor) findEscapes() []Escape {
	var out []Escape
	var names []string
	for n := range x.take {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		s := x.c.After.findSymbol(n)
		if !x.inModule(s) {
			continue
		}
		f := &follower{x: x, of: s, leads: x.leads(s), seen: map[string]*outcome{}}
		for _, in := range names {
			if fn := x.c.After.findSymbol(in); fn.Func {
				f.function(fn, 0)
			}
		}
		out = append(out, f.out...)
	}
	return out
}

// inModule reports whether the address of what the update takes is one of its
// module. That of a function which replaces the kernel's is the kernel's.
func (x *extractor) inModule(s *Symbol) bool {
	return !hasPrefix(s.Section, ".discard", "__dyndbg") && (!s.Func || !x.isOriginal(s))
}

// leads reports whether the data of a symbol holds addresses of the module.
func (x *extractor) leads(s *Symbol) bool {
	if s.Func {
		return false
	}
	return slices.ContainsFunc(x.c.After.refsOf(s), func(name string) bool {
		hit := x.c.After.findSymbol(name)
		return x.take[name] && x.inModule(hit)
	}) || x.c.After.holdsItself(s)
}

// holdsItself reports whether data holds its own address, as the head of an empty list does.
func (u *Unit) holdsItself(s *Symbol) bool {
	return slices.ContainsFunc(s.lines, func(l line) bool {
		return takesAddress(s, l.text) && slices.ContainsFunc(listTokens(l.text), func(t token) bool {
			return u.findSymbol(l.text[t.begin:t.end]) == s
		})
	})
}

// function follows the address through one function in which the arguments of
// mask hold it, and tells whether the result may.
func (f *follower) function(fn *Symbol, mask uint32) *outcome {
	key := fmt.Sprintf("%s %x", fn.Name, mask)
	if o := f.seen[key]; o != nil {
		return o
	}
	o := &outcome{}
	f.seen[key] = o
	g := f.x.graph(fn)
	if mask == 0 && !f.mayBegin(g) {
		return o
	}
	if f.depth++; f.depth > 12 {
		f.gives(fn, "goes through too many functions to be followed")
		f.depth--
		return o
	}
	f.walk(fn, g, mask, o)
	f.depth--
	if o.returns && mask == 0 && f.toKernel(fn) {
		f.gives(fn, "is returned to the kernel")
	}
	return o
}

// walk takes the statements in all orders that are possible, until no more
// registers hold the address.
func (f *follower) walk(fn *Symbol, g *graph, mask uint32, o *outcome) {
	state, visited := make([]uint32, len(g.steps)+1), make([]bool, len(g.steps)+1)
	state[0] = mask
	for todo := []int{0}; len(todo) > 0; todo = todo[1:] {
		i := todo[0]
		if i >= len(g.steps) {
			continue
		}
		after := f.step(fn, g, i, state[i], o)
		for _, next := range g.next[i] {
			if join := state[next] | after; join != state[next] || !visited[next] {
				state[next], visited[next] = join, true
				todo = append(todo, next)
			}
		}
	}
}

// graph reads a function once.
func (x *extractor) graph(fn *Symbol) *graph {
	if x.graphs[fn] == nil {
		x.graphs[fn] = graphOf(fn)
	}
	return x.graphs[fn]
}

// toKernel reports whether others than the update's own functions call one.
func (f *follower) toKernel(fn *Symbol) bool {
	return slices.Contains(f.x.c.Changed, fn.Name) || f.x.pointed[fn.Name]
}

// mayBegin reports whether a function takes the address, or calls another one of
// this file that may return it.
func (f *follower) mayBegin(g *graph) bool {
	for _, s := range g.steps {
		for _, t := range s.names {
			hit := f.x.c.After.findSymbol(t)
			if hit == f.of || hit != nil && hit.Func && s.branch && f.x.take[hit.Name] || hit != nil && f.x.take[hit.Name] && f.holds(hit) {
				return true
			}
		}
	}
	return false
}

// holds reports whether data holds the address.
func (f *follower) holds(s *Symbol) bool {
	if s.Func || s == f.of {
		return false
	}
	return slices.Contains(f.x.c.After.refsOf(s), f.of.Name)
}

func (f *follower) gives(fn *Symbol, how string) {
	e := Escape{titleOf(f.of), fn.Name, how}
	if !slices.Contains(f.out, e) {
		f.out = append(f.out, e)
	}
}

// isText reports whether a symbol is a text.
func isText(s *Symbol) bool { return isPrivate(s) && strings.Contains(s.Section, ".str1.") }

// titleOf reports what a symbol is called, or what a text says.
func titleOf(s *Symbol) string {
	for _, l := range s.lines {
		if word, rest := cutMnemonic(l.text); isText(s) && word == ".string" {
			return "the text " + rest[:min(len(rest), 60)]
		}
	}
	return s.Name
}

// step returns the registers that hold the address after a statement.
func (f *follower) step(fn *Symbol, g *graph, i int, state uint32, o *outcome) uint32 {
	s := g.steps[i]
	switch {
	case s.word == "ret" || s.word == "retq":
		o.returns = o.returns || state&(1<<regAX) != 0
		return state
	case s.branch && s.word != "call" && g.isLocal(s), s.branch && ownRules(s.text), s.aside && len(s.operands) == 0:
		return state
	}
	var after uint32
	if s.branch {
		after = f.call(fn, s, state, o)
	} else {
		after = f.move(fn, g, s, state)
	}
	if s.aside { // in the place of others, perhaps
		after |= state
	}
	return after
}

// ownRules tells of calls from hand-written assembly, which leave almost all
// registers alone and keep nothing.
func ownRules(text string) bool {
	for _, part := range []string{"pv_ops", "__get_user_", "__put_user_", "__fentry__", "__SCT__preempt_schedule", "preempt_schedule_thunk",
		"preempt_schedule_notrace_thunk", "__sw_hweight", "clear_page_", "copy_user_", "rep_movs_alternative", "rep_stos_alternative", "cmpxchg16b_emu", "cmpxchg8b_emu"} {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// call judges what is called with the address.
func (f *follower) call(fn *Symbol, s *step, state uint32, o *outcome) uint32 {
	args := uint8(state & argAll)
	var result bool
	target := s.target()
	hit := f.x.c.After.findSymbol(target)
	switch {
	case hit != nil && hit.Func && (f.x.take[hit.Name] || args != 0):
		result = f.function(hit, uint32(args)).returns
	case args == 0:
	case target == "":
		f.gives(fn, "is passed on by a pointer to a function")
	default:
		result = f.passed(fn, target, args)
	}
	after := state & kept
	if result {
		after |= 1 << regAX
	}
	if s.word != "call" && result {
		o.returns = true
	}
	if strings.HasPrefix(s.word, "j") && s.word != "jmp" { // not taken, perhaps
		after |= state
	}
	return after
}

// passed judges a call of a function of the kernel, and tells whether the
// result may hold the address.
func (f *follower) passed(fn *Symbol, target string, args uint8) bool {
	name := strings.TrimPrefix(target, "__SCT__")
	u := lookers[name]
	left := args &^ u.looks
	if f.x.c.Variadic != nil && f.x.c.Variadic(name) && isText(f.of) {
		left = 0 // it is printed
	}
	if barriers[name] && f.of.Func && left == arg1 && !f.x.pointed[fn.Name] {
		return false
	}
	if left != 0 {
		f.gives(fn, fmt.Sprintf("is passed to %s, %s", name, keepReason(name)))
	}
	if f.leads && args&u.copies != 0 {
		f.gives(fn, fmt.Sprintf("is what %s copies elsewhere", name))
	}
	return args&u.returns != 0
}

// move follows the address through an instruction that calls nothing.
func (f *follower) move(fn *Symbol, g *graph, s *step, state uint32) uint32 {
	if len(s.operands) == 0 {
		if f.leads && strings.Contains(s.text, "movs") && state&arg1 != 0 || strings.Contains(s.text, "stos") && state&(1<<regAX) != 0 {
			f.gives(fn, "is written to memory that others see")
		}
		return state
	}
	if compares[s.word] {
		return state
	}
	to := s.operands[len(s.operands)-1]
	from := s.operands[:len(s.operands)-1]
	if len(from) == 0 {
		if strings.HasPrefix(s.word, "push") && f.value(s, to, state) {
			f.gives(fn, "is written to the stack")
		}
		if strings.HasPrefix(s.word, "pop") {
			return state &^ registerBit(to)
		}
		return state
	}
	if zeroes(s) {
		return state &^ registerBit(to)
	}
	tainted := slices.ContainsFunc(from, func(op string) bool { return f.value(s, op, state) })
	if hasPrefix(s.word, "xchg", "xadd", "cmpxchg") {
		if tainted && !isRegister(to) {
			f.gives(fn, "is written to memory that others see")
		}
		tainted = tainted || f.value(s, to, state)
		for _, op := range s.operands {
			if tainted && isRegister(op) {
				state |= registerBit(op)
			}
		}
		return state
	}
	switch {
	case !isRegister(to) && tainted && onStack(to) && g.bare:
		return state | 1<<spilled
	case !isRegister(to):
		if tainted {
			f.gives(fn, "is written to memory that others see")
		}
		return state
	case tainted:
		return state | registerBit(to)
	case hasPrefix(s.word, replacing...):
		return state &^ registerBit(to)
	}
	return state
}

// compares are instructions that change no register and no memory.
var compares = map[string]bool{"cmp": true, "cmpb": true, "cmpw": true, "cmpl": true, "cmpq": true,
	"test": true, "testb": true, "testw": true, "testl": true, "testq": true,
	"bt": true, "btw": true, "btl": true, "btq": true, "prefetcht0": true, "prefetchw": true, "prefetchnta": true}

// replacing begin instructions whose result has nothing of what their last operand was.
var replacing = []string{"mov", "lea", "set", "bsf", "bsr", "tzcnt", "lzcnt", "popcnt"}

// zeroes reports whether an instruction sets a register to zero by itself.
func zeroes(s *step) bool {
	return hasPrefix(s.word, "xor", "sub") && len(s.operands) == 2 && registerBit(s.operands[0]) != 0 &&
		registerBit(s.operands[0]) == registerBit(s.operands[1])
}

// value reports whether an operand is the address, or holds it.
func (f *follower) value(s *step, op string, state uint32) bool {
	switch {
	case isRegister(op):
		return state&registerBit(op) != 0
	case strings.HasPrefix(op, "$"):
		return f.names(op)
	case strings.HasPrefix(s.word, "lea"):
		return f.names(op) || state&addressBits(op) != 0
	}
	if state&(1<<spilled) != 0 && onStack(op) {
		return true
	}
	// Memory: what is read there is an address where data of the module says so.
	if f.leads && (f.names(op) || state&addressBits(op) != 0) {
		return true
	}
	for _, t := range listTokens("x " + op) {
		if hit := f.x.c.After.findSymbol(("x " + op)[t.begin:t.end]); hit != nil && f.x.take[hit.Name] && f.holds(hit) {
			return true
		}
	}
	return false
}

// names reports whether an operand names what is followed.
func (f *follower) names(op string) bool {
	text := "x " + op
	for _, t := range listTokens(text) {
		if f.x.c.After.findSymbol(text[t.begin:t.end]) == f.of {
			return true
		}
	}
	return false
}
