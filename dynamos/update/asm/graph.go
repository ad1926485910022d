// SPDX-License-Identifier: MIT

package asm

import (
	"slices"
	"strings"
)

// A step is one statement of a function.
type step struct {
	text, word string
	operands   []string
	names      []string // tokens of its operands
	branch     bool     // it calls or jumps
	aside      bool     // it stands in another section, for the place of others
}

// A graph is a function's statements, and which may follow which.
type graph struct {
	steps  []*step
	next   [][]int
	labels map[string][]int
	bare   bool // no pointer to its stack is made: what it keeps there is its own
}

// prefixes may stand before an instruction.
var prefixes = []string{"rep", "repz", "repe", "repne", "repnz", "lock", "notrack", "bnd", "ds", "cs"}

func isBranch(word string) bool {
	return word == "call" || word == "callq" || strings.HasPrefix(word, "j") || strings.HasPrefix(word, "loop")
}

// owned are sections that belong to a module and go with it: the kernel takes
// its tables out of use before the module's text goes.
var owned = []string{"__bug_table", "__jump_table", "__ex_table", ".altinstructions", ".discard", ".smp_locks", ".static_call_sites",
	"__mcount_loc", ".retpoline_sites", ".return_sites", ".call_sites", ".ibt_endbr_seal", "__patchable_function_entries", ".rela", ".note", ".orc_"}

// returnThunk is where a kernel's functions jump in place of a ret.
const returnThunk = "__x86_return_thunk"

// graphOf reads a function.
func graphOf(fn *Symbol) *graph {
	g := &graph{labels: map[string][]int{}, bare: true}
	p := parser{now: place{fn.Section, fn.Flags}}
	for _, l := range fn.lines {
		_ = p.parseSection(l.text) // parsing has checked it
		if name, ok := strings.CutSuffix(l.text, ":"); ok {
			g.labels[name] = append(g.labels[name], len(g.steps))
			continue
		}
		g.add(l.text, p.now.name, p.now.name != fn.Section && !strings.HasPrefix(p.now.name, ".text"))
	}
	g.next = make([][]int, len(g.steps))
	for i := range g.steps {
		g.next[i] = g.successors(i)
	}
	return g
}

func (g *graph) add(text, section string, aside bool) {
	word, rest := cutMnemonic(text)
	for slices.Contains(prefixes, word) && rest != "" {
		word, rest = cutMnemonic(rest)
	}
	if word == "jmp" && rest == returnThunk {
		text, word, rest = "ret", "ret", ""
	}
	s := &step{text: text, word: word, aside: aside}
	if word != ".size" && word != ".type" { // these name the function, and nothing goes on there
		for _, t := range listTokens(text) {
			s.names = append(s.names, text[t.begin:t.end])
		}
	}
	if !strings.HasPrefix(word, ".") && !hasPrefix(section, owned...) {
		s.operands, s.branch = splitOperands(rest), isBranch(word)
		if word == "callq" {
			s.word = "call"
		}
	}
	if strings.HasPrefix(word, "lea") && onStack(rest) || strings.HasPrefix(word, "mov") && strings.HasPrefix(rest, "%rsp,") {
		g.bare = g.bare && strings.HasSuffix(rest, "%rsp")
	}
	g.steps = append(g.steps, s)
}

// onStack reports whether an operand is memory of the function's own stack.
func onStack(op string) bool { return addressBits(op)&(1<<regSP) != 0 }

// splitOperands parts them at the commas outside of brackets.
func splitOperands(s string) []string {
	var out []string
	depth, begin := 0, 0
	for i := 0; i <= len(s); i++ {
		switch {
		case i == len(s) || s[i] == ',' && depth == 0:
			if op := strings.TrimSpace(s[begin:i]); op != "" {
				out = append(out, op)
			}
			begin = i + 1
		case s[i] == '(':
			depth++
		case s[i] == ')':
			depth--
		}
	}
	return out
}

// successors returns the statements that may come after one.
func (g *graph) successors(i int) []int {
	s := g.steps[i]
	var out []int
	for _, name := range s.names {
		out = append(out, g.findLabel(name, i)...)
	}
	jumps := s.word == "jmp" && len(s.operands) == 1
	if jumps && strings.HasPrefix(s.operands[0], "*") && strings.Contains(s.operands[0], ".L") {
		for _, at := range g.labels { // a table of places in this function
			out = append(out, at...)
		}
	}
	never := s.word == "call" && neverReturn[s.target()]
	if !jumps && !never && s.word != "ret" && s.word != "retq" || s.aside {
		out = append(out, i+1)
	}
	return out
}

// findLabel returns the places of a label, also of one with a number.
func (g *graph) findLabel(name string, i int) []int {
	if at := g.labels[name]; at != nil && !number().MatchString(name) {
		return at
	}
	if !numRef().MatchString(name) {
		return nil
	}
	var out []int
	for _, at := range g.labels[name[:len(name)-1]] {
		if before := at <= i; before == strings.HasSuffix(name, "b") {
			out = append(out, at)
		}
	}
	return out
}

// isLocal reports whether a branch stays in the function.
func (g *graph) isLocal(s *step) bool {
	return slices.ContainsFunc(s.names, func(n string) bool { return g.labels[n] != nil || numRef().MatchString(n) })
}

// target is the function that a branch goes to; empty: a pointer says which.
func (s *step) target() string {
	if len(s.operands) != 1 || strings.HasPrefix(s.operands[0], "*") || strings.HasPrefix(s.operands[0], "__x86_indirect") {
		return ""
	}
	return s.operands[0]
}
