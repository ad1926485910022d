// SPDX-License-Identifier: MIT

package idl

import (
	"strconv"
	"strings"

	"skep/internal/uapi"
)

// An expr is a node of a size expression: a number, a parameter's value, an element
// of an array, or an operation.
type expr struct {
	at   position
	op   uapi.Op
	args []*expr
	name string // PARAM, ITEM
	num  int64  // CONST
}

// exprDepth bounds the recursion. The limits of a manifest are checked later.
const exprDepth = 64

// levels are the binary operators, those of the lowest precedence first. All are left-associative.
var levels = []map[string]uapi.Op{
	{"==": uapi.OpEQ, "!=": uapi.OpUnequal},
	{"<": uapi.OpLT, "<=": uapi.OpLE, ">": uapi.OpGT, ">=": uapi.OpGE},
	{"+": uapi.OpAdd, "-": uapi.OpSub},
	{"*": uapi.OpMul, "/": uapi.OpDiv, "%": uapi.OpMod},
}

// parseExpr returns nil if it has reported an error.
func (p *parser) parseExpr() *expr {
	e := p.parseConditional(0)
	if e == nil {
		return nil
	}
	switch p.tok.text {
	case "&&", "||", "<<", ">>", "&", "|", "!", "~", "=", ".":
		p.problemf(p.tok.at, "%q can't be used in a size; there are + - * / %% ^, comparisons and ?:", p.tok.text)
		return nil
	}
	return e
}

func (p *parser) parseConditional(depth int) *expr {
	at := p.tok.at
	if depth > exprDepth {
		p.problemf(at, "this size is nested too deeply")
		return nil
	}
	cond := p.parseBinary(0, depth)
	if cond == nil || !p.tok.is("?") {
		return cond
	}
	e := &expr{at: p.tok.at, op: uapi.OpSelect}
	p.advance()
	yes := p.parseConditional(depth + 1)
	if yes == nil || !p.expect(":", "between the two values behind ?") {
		return nil
	}
	no := p.parseConditional(depth + 1)
	if no == nil {
		return nil
	}
	e.args = []*expr{cond, yes, no}
	return e
}

func (p *parser) parseBinary(level, depth int) *expr {
	if level == len(levels) {
		return p.parseUnary(depth)
	}
	e := p.parseBinary(level+1, depth)
	for e != nil && p.tok.kind == sign && levels[level][p.tok.text] != 0 {
		op := &expr{at: p.tok.at, op: levels[level][p.tok.text]}
		p.advance()
		right := p.parseBinary(level+1, depth)
		if right == nil {
			return nil
		}
		op.args = []*expr{e, right}
		e = op
	}
	return e
}

func (p *parser) parseUnary(depth int) *expr {
	at := p.tok.at
	if depth > exprDepth {
		p.problemf(at, "this size is nested too deeply")
		return nil
	}
	if p.accept("+") {
		return p.parseUnary(depth + 1)
	}
	if p.accept("-") {
		e := p.parseUnary(depth + 1)
		if e == nil {
			return nil
		}
		return &expr{at: at, op: uapi.OpNeg, args: []*expr{e}}
	}
	e := p.parsePrimary(depth)
	at = p.tok.at
	if e == nil || !p.accept("^") {
		return e
	}
	right := p.parseUnary(depth + 1) // 2^3^2 is 2^9
	if right == nil {
		return nil
	}
	return &expr{at: at, op: uapi.OpPow, args: []*expr{e, right}}
}

func (p *parser) parsePrimary(depth int) *expr {
	t := p.tok
	switch {
	case t.kind == number:
		p.advance()
		return &expr{at: t.at, op: uapi.OpConst, num: p.parseInteger(t)}
	case p.accept("("):
		e := p.parseConditional(depth + 1)
		if e == nil || !p.expect(")", "after the expression") {
			return nil
		}
		return e
	case t.kind != word:
		p.problemf(t.at, "expected a number or a parameter's name in a size, found %s", t.name())
		return nil
	}
	p.advance()
	if !p.accept("[") {
		return &expr{at: t.at, op: uapi.OpParam, name: t.text}
	}
	index := p.parseConditional(depth + 1)
	if index == nil || !p.expect("]", "after the index") {
		return nil
	}
	return &expr{at: t.at, op: uapi.OpItem, name: t.text, args: []*expr{index}}
}

// parseInteger reads an integer constant of C; a suffix L changes nothing.
func (p *parser) parseInteger(t token) int64 {
	t.text = strings.TrimSuffix(t.text, "L")
	n, err := strconv.ParseInt(t.text, 0, 64)
	for i := range len(t.text) {
		if t.text[i] == '_' || i > 0 && t.text[0] == '0' && (t.text[i]|0x20 == 'o' || t.text[i]|0x20 == 'b' && i == 1) {
			err = strconv.ErrSyntax
		}
	}
	if err != nil {
		p.problemf(t.at, "%q is not an integer of at most 64 bits", t.text)
	}
	return n
}
