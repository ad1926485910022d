// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// A value is what a register or a place of the stack holds, in terms of what the
// function was called with. The zero value is not known.
type value struct {
	base string // "argument 0", a symbol, what lies at an address; numberBase
	off  int64  // is added
}

// numberBase is the base of values that are numbers.
const numberBase = "a number"

// longest limits what is known of a value: chains of pointers end somewhere.
const longest = 160

func (v value) String() string {
	switch {
	case v.base == "":
		return "?"
	case v.base == numberBase:
		return strconv.FormatInt(v.off, 10)
	case v.off == 0:
		return v.base
	}
	return fmt.Sprintf("%s%+d", v.base, v.off)
}

func (v value) plus(n int64) value {
	if v.base == "" {
		return v
	}
	return value{v.base, v.off + n}
}

// loaded is what lies at an address.
func (v value) loaded() value {
	if v.base == "" || len(v.base) > longest {
		return value{}
	}
	return value{base: "*(" + v.String() + ")"}
}

// values are what is known before a statement.
type values struct {
	reg   [spilled + 1]value
	stack map[int64]value // by distance from the stack pointer at the start
	depth int64           // of the stack pointer
	lost  bool            // the depth is not known
}

// valuesAtStart are those that a function is called with.
func valuesAtStart() *values {
	v := &values{stack: map[int64]value{}}
	for i := range 6 {
		v.reg[i] = value{base: fmt.Sprintf("argument %d", i)}
	}
	return v
}

func (v *values) clone() *values {
	c := *v
	c.stack = maps.Clone(v.stack)
	return &c
}

// join keeps what holds in both, and tells whether less is known than before.
func (v *values) join(o *values) bool {
	less := false
	for i := range v.reg {
		if v.reg[i] != o.reg[i] && v.reg[i].base != "" {
			v.reg[i], less = value{}, true
		}
	}
	for at, was := range v.stack {
		if o.stack[at] != was {
			delete(v.stack, at)
			less = true
		}
	}
	if !v.lost && (o.lost || o.depth != v.depth) {
		v.lost, v.stack, less = true, map[int64]value{}, true
	}
	return less
}

// A reader reads the values of one function's statements.
type reader struct {
	norm *normalizer
	fn   *Symbol
}

// number reads a displacement or an immediate that is one.
func number64(s string) (int64, bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 0, 64)
	return n, err == nil
}

// symbol is a name without the compiler's counters.
func (r *reader) symbol(text string) string {
	return strings.TrimPrefix(replaceTokens("x "+text, func(t string) string { return r.norm.normalToken(r.fn, t, map[string]int{}) }), "x ")
}

// address is where an operand in memory lies.
func (r *reader) address(v *values, op string) value {
	disp, in, ok := strings.Cut(op, "(")
	in, _, _ = strings.Cut(in, ")")
	parts := strings.Split(in, ",")
	if !ok || strings.TrimSpace(in) == "%rip" {
		return value{base: "&" + r.symbol(disp)}
	}
	base := value{}
	if n, found := registers[strings.TrimSpace(parts[0])]; found {
		base = v.reg[n]
	}
	if len(parts) > 1 || base.base == "" {
		return value{}
	}
	if n, isNumber := number64(disp); isNumber {
		return base.plus(n)
	}
	if disp == "" {
		return base
	}
	return value{}
}

// slot is the place on the stack that an operand names.
func (v *values) slot(op string) (int64, bool) {
	disp, in, ok := strings.Cut(op, "(")
	if !ok || in != "%rsp)" || v.lost {
		return 0, false
	}
	n, isNumber := number64(disp)
	if disp != "" && !isNumber {
		return 0, false
	}
	return v.depth + n, true
}

// read is what an operand holds.
func (r *reader) read(v *values, op string) value {
	switch {
	case isRegister(op):
		if n, ok := registers[op]; ok {
			return v.reg[n]
		}
		return value{}
	case strings.HasPrefix(op, "$"):
		if n, ok := number64(op[1:]); ok {
			return value{numberBase, n}
		}
		return value{base: "&" + r.symbol(op[1:])}
	case strings.HasPrefix(op, "%"): // of the processor
		return value{base: r.symbol(op)}
	case onStack(op):
		if at, ok := v.slot(op); ok {
			return v.stack[at]
		}
		return value{}
	}
	return r.address(v, op).loaded()
}

func (v *values) write(op string, to value) {
	if n, ok := registers[op]; ok && n != regSP {
		v.reg[n] = to
		return
	}
	if at, ok := v.slot(op); ok {
		if to.base == "" {
			delete(v.stack, at)
		} else {
			v.stack[at] = to
		}
	}
}

// step changes what is known by one statement.
func (r *reader) step(v *values, s *step) {
	switch {
	case len(s.operands) == 0 && !s.branch || compares[s.word]:
	case s.branch:
		if s.word == "call" && !ownRules(s.text) {
			for i := range v.reg {
				if kept&(1<<i) == 0 {
					v.reg[i] = value{}
				}
			}
			v.reg[regAX] = value{base: "the result of " + r.callee(s)}
		}
	case len(s.operands) == 1:
		r.stepOne(v, s)
	default:
		r.stepMore(v, s)
	}
}

// callee is the name of what a branch goes to, without the compiler's counters.
func (r *reader) callee(s *step) string {
	name := s.target()
	if name == "" {
		return "a pointer"
	}
	name, _, _ = strings.Cut(name, ".")
	return name
}

func (r *reader) stepOne(v *values, s *step) {
	op := s.operands[0]
	switch {
	case strings.HasPrefix(s.word, "push"):
		what := r.read(v, op)
		v.depth -= 8
		v.write("(%rsp)", what)
	case strings.HasPrefix(s.word, "pop"):
		what := r.read(v, "(%rsp)")
		v.depth += 8
		v.write(op, what)
	case strings.HasPrefix(s.word, "inc"):
		v.write(op, r.read(v, op).plus(1))
	case strings.HasPrefix(s.word, "dec"):
		v.write(op, r.read(v, op).plus(-1))
	case hasPrefix(s.word, "mul", "imul", "div", "idiv"):
		v.reg[regAX], v.reg[2] = value{}, value{}
	default:
		v.write(op, value{})
	}
}

func (r *reader) stepMore(v *values, s *step) {
	from, to := s.operands[0], s.operands[len(s.operands)-1]
	n, isNumber := number64(strings.TrimPrefix(from, "$"))
	isNumber = isNumber && strings.HasPrefix(from, "$")
	adds := hasPrefix(s.word, "add", "sub") && isNumber
	if strings.HasPrefix(s.word, "sub") {
		n = -n
	}
	if to == "%rsp" || to == "%esp" {
		v.depth += n
		v.lost = v.lost || !adds
		return
	}
	switch {
	case s.aside:
		v.write(to, value{})
	case zeroes(s):
		v.write(to, value{numberBase, 0})
	case strings.HasPrefix(s.word, "lea") && !onStack(from):
		v.write(to, r.address(v, from))
	case strings.HasPrefix(s.word, "mov") && len(s.operands) == 2:
		v.write(to, r.read(v, from))
	case adds:
		v.write(to, r.read(v, to).plus(n))
	case hasPrefix(s.word, "xchg", "xadd", "cmpxchg"):
		v.write(from, value{})
		v.write(to, value{})
		v.reg[regAX] = value{}
	default:
		v.write(to, value{})
	}
}

// valuesOf finds what is known before each statement of a function; nil: the
// statement is never reached.
func (r *reader) valuesOf(g *graph) []*values {
	at := make([]*values, len(g.steps)+1)
	at[0] = valuesAtStart()
	for todo := []int{0}; len(todo) > 0; todo = todo[1:] {
		i := todo[0]
		if i >= len(g.steps) {
			continue
		}
		after := at[i].clone()
		r.step(after, g.steps[i])
		for _, next := range g.next[i] {
			if at[next] == nil {
				at[next] = after.clone()
			} else if !at[next].join(after) {
				continue
			}
			todo = append(todo, next)
		}
	}
	return at
}
