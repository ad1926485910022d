// SPDX-License-Identifier: MIT

package idl

import "skep/internal/uapi"

var modes = map[string]uapi.Mode{
	"IN": uapi.ModeIn, "mode_in": uapi.ModeIn,
	"OUT": uapi.ModeOut, "mode_out": uapi.ModeOut,
	"INOUT": uapi.ModeInOut, "mode_inout": uapi.ModeInOut,
	"WORK": uapi.ModeWork, "mode_work": uapi.ModeWork,
}

var types = map[string]uapi.Type{
	"char": uapi.Char, "short": uapi.Short, "int": uapi.Int,
	"long": uapi.Long, "longlong": uapi.Long,
	"float": uapi.Float, "double": uapi.Double,
	"scomplex": uapi.SComplex, "dcomplex": uapi.DComplex, "string": uapi.String,
	"filename": uapi.Filename, "filepointer": uapi.Filepointer,
}

// modifiers of Ninf-G say how an MPI worker spreads an argument. They have no effect,
// because each rank has all arguments.
var modifiers = map[string]bool{"broadcast": true, "allocate": true}

// noTypes are types of OmniRPC and Ninf-G that cannot be sent.
var noTypes = map[string]string{
	"file":     "write filename or filepointer",
	"CALLBACK": "write the callback's name and its parameters alone, as in step(IN int n, IN double x[n])",
	"callback": "write the callback's name and its parameters alone, as in step(IN int n, IN double x[n])",
	"void":     "name the type of what travels",
}

// parseParams parses up to the closing parenthesis. It returns false if it could not find that.
func (p *parser) parseParams(d *define) bool {
	if p.tok.is("void") {
		void := p.tok
		if p.advance(); p.accept(")") {
			return true
		}
		p.problemf(void.at, "void is not supported; %s", noTypes["void"])
		p.restOfParam(void.at)
		p.accept(",")
	}
	if p.accept(")") {
		return true
	}
	for {
		from := p.tok.at
		q := &param{at: from}
		if !p.parseParam(q) {
			p.restOfParam(from)
		}
		if q.name != "" {
			p.addParam(d, q)
		}
		switch {
		case p.accept(","):
		case p.accept(")"):
			return true
		default:
			p.problemf(p.tok.at, "expected \",\" or \")\" after a parameter, found %s", p.tok.name())
			return false
		}
	}
}

func (p *parser) addParam(d *define, q *param) {
	if d.index(q.name) >= 0 {
		p.problemf(q.at, "the parameter %q is declared twice", q.name)
	}
	if len(d.params) == uapi.ParamsMax {
		p.problemf(q.at, "a function has at most %d parameters", uapi.ParamsMax)
	}
	d.params = append(d.params, q)
}

// restOfParam skips a wrong parameter from its beginning to the comma or parenthesis
// that ends it.
func (p *parser) restOfParam(from position) {
	p.at = from
	var open []string // brackets
	for p.advance(); !startsItem(p.tok) && !p.tok.is("{"); p.advance() {
		if p.tok.kind != sign {
			continue
		}
		switch n := len(open); p.tok.text {
		case "(", "[":
			open = append(open, p.tok.text)
		case "]": // closes open parentheses inside it too
			for n > 0 && open[n-1] != "[" {
				n--
			}
			open = open[:max(n-1, 0)]
		case ")":
			if n == 0 || open[n-1] == "[" {
				return
			}
			open = open[:n-1]
		case ",":
			if n == 0 {
				return
			}
		}
	}
}

// parseParam parses words in any order up to the name. It returns false if the rest
// cannot be read; then it has reported the error.
func (p *parser) parseParam(q *param) bool {
	begin := p.tok.at
	typed := p.parseParamWords(q)
	stars, open := 0, 0
	for p.tok.is("*") || p.tok.is("(") {
		if p.accept("*") {
			stars++
		} else {
			p.advance()
			open++
		}
	}
	q.star = stars > 0
	q.at = p.tok.at
	name := p.tok.text
	if !p.parseIdentifier("a parameter") {
		return false
	}
	q.name = name
	for ; open > 0; open-- {
		if !p.expect(")", "after the parameter's name") {
			return false
		}
	}
	switch {
	case p.tok.is("(") && typed == wrong:
		return false
	case p.tok.is("(") && (typed == found || q.mode != 0 || stars > 0):
		p.problemf(begin, "the callback %q has a mode or a type: write its name and its parameters alone", name)
		return false
	case p.tok.is("("):
		return p.parseCallback(q)
	case stars > 1:
		p.problemf(q.at, "%q is a pointer to pointers: write an array with its size, such as %s[n]", name, name)
		return false
	case typed == wrong:
		return false
	case q.mode == 0:
		p.problemf(begin, "the parameter %q has no mode: write IN, OUT, INOUT or WORK", name)
	case typed == missing:
		p.problemf(begin, "the parameter %q has no type, such as int or double", name)
	}
	for p.tok.is("[") {
		if !p.parseDim(q) {
			return false
		}
	}
	if q.star && (len(q.dims) > 0 || !q.isOutScalar()) {
		q.dims = append(q.dims, dim{at: q.at, size: oneElement(q.at)})
	}
	return true
}

// isOutScalar reports whether C gets a pointer although none is written.
func (q *param) isOutScalar() bool {
	return q.mode == uapi.ModeOut || q.mode == uapi.ModeInOut
}

func oneElement(at position) *expr { return &expr{at: at, op: uapi.OpConst, num: 1} }

type outcome int

const (
	missing outcome = iota
	found
	wrong
)

// parseParamWords parses modes and types.
func (p *parser) parseParamWords(q *param) outcome {
	typed, bases, longs := missing, 0, 0
	for ; p.tok.kind == word; p.advance() {
		t := p.tok
		if why := noTypes[t.text]; why != "" {
			p.problemf(t.at, "%s is not supported; %s", t.text, why)
			typed = wrong
			continue
		}
		if modifiers[t.text] && !p.endsParam() {
			continue
		}
		if mode := modes[t.text]; mode != 0 {
			if q.mode != 0 {
				p.problemf(t.at, "the parameter has two modes")
			}
			q.mode = mode
			continue
		}
		base := types[t.text]
		switch {
		case t.is("unsigned"):
			q.unsigned = true
			if bases+longs == 0 {
				q.kind = uapi.Int
			}
		case t.is("int") && (longs > 0 || q.kind == uapi.Short):
			// as in long int and short int
		case base == uapi.Long && bases == 0:
			if longs++; longs > 2 {
				p.problemf(t.at, "there are too many words long")
			}
			q.longlong = longs == 2 || t.is("longlong")
			q.kind = uapi.Long
		case base != 0 && (t.is("short") || t.is("long")) && q.kind == uapi.Int && bases == 1:
			q.kind = base
		case base != 0:
			if bases+longs > 0 {
				p.problemf(t.at, "the parameter has two types")
			}
			bases++
			q.kind = base
		default:
			return typed
		}
		if typed == missing {
			typed = found
		}
	}
	return typed
}

// endsParam reports whether the token behind this one can stand behind a parameter's name.
func (p *parser) endsParam() bool {
	ahead := p.lexer
	ahead.problems = &Problems{}
	t := ahead.next()
	return t.kind != word && !t.is("*") && !t.is("(")
}

// parseDim parses [size] or [size:low,high,stride].
func (p *parser) parseDim(q *param) bool {
	at := p.tok.at
	p.advance()
	d := dim{at: at, empty: p.tok.is("]")}
	if d.empty {
		d.size = oneElement(at)
	} else if d.size = p.parseExpr(); d.size == nil {
		return false
	}
	if p.accept(":") && !p.parseRange(&d) {
		return false
	}
	if !p.expect("]", "after the size") {
		return false
	}
	if len(q.dims) == uapi.DimsMax {
		p.problemf(at, "an array has at most %d dimensions", uapi.DimsMax)
		return true
	}
	q.dims = append(q.dims, d)
	return true
}

// parseRange parses the text behind the colon: high, or low,high, or
// low,high,stride.
func (p *parser) parseRange(d *dim) bool {
	first := p.parseExpr()
	if first == nil {
		return false
	}
	if !p.accept(",") {
		d.high = first
		return true
	}
	d.low = first
	if d.high = p.parseExpr(); d.high == nil {
		return false
	}
	if p.accept(",") {
		d.stride = p.parseExpr()
		return d.stride != nil
	}
	return true
}
