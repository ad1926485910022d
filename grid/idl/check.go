// SPDX-License-Identifier: MIT

package idl

import "skep/internal/uapi"

// check reports what is syntactically correct but has no meaning.
func (p *parser) check(m *Module) {
	p.checkClasses(m)
	names := map[string]bool{}
	for _, d := range m.Defines {
		key := d.name
		if d.hasState() {
			key = d.class.name + " " + key
			p.checkMethod(d)
		}
		if names[key] {
			p.problemf(d.at, "the function %q is defined twice", d.name)
		}
		names[key] = true
		p.checkFortran(d)
		if d.order != nil {
			p.checkExpr(d, len(d.params), d.order)
		}
		p.checkParams(d)
	}
}

func (p *parser) checkParams(d *define) {
	for i, q := range d.params {
		p.checkParam(q)
		if q.callback != nil {
			p.checkCallback(d, q)
		}
		for _, dim := range q.dims {
			for _, e := range []*expr{dim.size, dim.low, dim.high, dim.stride} {
				if e != nil {
					p.checkExpr(d, i, e)
				}
			}
			p.checkConstants(q, dim)
		}
	}
}

func (p *parser) checkParam(q *param) {
	array := len(q.dims) > 0
	out := q.mode == uapi.ModeOut || q.mode == uapi.ModeInOut
	switch {
	case q.kind == 0 || q.mode == 0: // reported
	case q.unsigned && !q.kind.Integer():
		p.problemf(q.at, "the parameter %q is unsigned but no integer", q.name)
	case q.kind.Text() && q.mode == uapi.ModeWork:
		p.problemf(q.at, "the WORK parameter %q is a string or file: use a variable in the body", q.name)
	case q.kind.Text() && q.hasRange():
		p.problemf(q.at, "strings and files are sent as a whole: write %q without a range", q.name)
	case !array && q.mode == uapi.ModeWork:
		p.problemf(q.at, "the WORK parameter %q is not an array: use a variable in the body", q.name)
	case q.star && array && out:
		p.problemf(q.at, "%q is a pointer: write an array with its size, such as %s[n]", q.name, q.name)
	}
	p.checkEmpty(q)
}

// checkFortran refuses parameters that a Fortran procedure cannot have.
func (p *parser) checkFortran(d *define) {
	if d.call == nil || !d.call.fortran {
		return
	}
	for _, a := range d.call.args {
		if a.param >= 0 && d.params[a.param].callback != nil {
			p.checkFortranCallback(d, d.params[a.param])
		} else if a.param >= 0 && d.params[a.param].isTexts() {
			p.problemf(d.call.at, "Fortran can't take %q: call a C function, or pass a char array with its size", a.text)
		}
	}
}

// checkFortranCallback refuses a function of the master that a Fortran procedure cannot call.
func (p *parser) checkFortranCallback(d *define, q *param) {
	for _, own := range q.callback.params {
		if own.kind.Text() {
			p.problemf(own.at, "Fortran can't give the string %q to %q: call a C function, or pass a char array with its size", own.name, q.name)
		}
	}
}

func (q *param) hasRange() bool {
	for _, d := range q.dims {
		if d.high != nil {
			return true
		}
	}
	return false
}

// checkEmpty reports empty brackets before the last ones: a call needs these sizes,
// although C may omit the first.
func (p *parser) checkEmpty(q *param) {
	for i, d := range q.dims {
		if d.empty && i < len(q.dims)-1 {
			p.problemf(d.at, "the size of %q is missing: only the last brackets may be empty, for one element", q.name)
		}
	}
}

func (p *parser) checkExpr(d *define, self int, e *expr) {
	for _, a := range e.args {
		p.checkExpr(d, self, a)
	}
	if e.op != uapi.OpParam && e.op != uapi.OpItem {
		return
	}
	i := d.index(e.name)
	if i < 0 {
		p.problemf(e.at, "the size names %q, which is not a parameter of %q", e.name, d.name)
		return
	}
	q := d.params[i]
	switch {
	case q.kind == 0 || q.mode == 0: // reported
	case q.mode != uapi.ModeIn && q.mode != uapi.ModeInOut:
		p.problemf(e.at, "the size uses %q, which is not IN: its value is not known before the call", e.name)
	case !q.kind.Integer():
		p.problemf(e.at, "the size uses %q, which is not an integer", e.name)
	case e.op == uapi.OpParam && len(q.dims) > 0:
		p.problemf(e.at, "the size uses the array %q: write which item, such as %s[0]", e.name, e.name)
	case e.op == uapi.OpItem && len(q.dims) == 0:
		p.problemf(e.at, "the size takes an item of %q, which is not an array", e.name)
	case e.op == uapi.OpItem && i >= self:
		p.problemf(e.at, "the size takes an item of %q, which is not declared before %q", e.name, d.params[self].name)
	}
}

// checkConstants reports sizes that are wrong for all arguments.
func (p *parser) checkConstants(q *param, d dim) {
	if n, ok := d.size.eval(p); ok && n < 1 {
		p.problemf(d.size.at, "the size of %q is %d, at least 1 must be", q.name, n)
	}
	if d.high == nil {
		return
	}
	size, sized := d.size.eval(p)
	low, lows := int64(0), true
	if d.low != nil {
		low, lows = d.low.eval(p)
	}
	high, highs := d.high.eval(p)
	switch {
	case lows && low < 0:
		p.problemf(d.low.at, "the first index of %q is below 0", q.name)
	case lows && highs && high < low:
		p.problemf(d.high.at, "the part of %q ends before it begins", q.name)
	case sized && highs && high > size:
		p.problemf(d.high.at, "the part of %q ends at %d, behind its size %d", q.name, high, size)
	}
	if d.stride != nil {
		if n, ok := d.stride.eval(p); ok && n < 1 {
			p.problemf(d.stride.at, "the stride of %q is %d, at least 1 must be", q.name, n)
		}
	}
}

// eval returns the value of an expression without parameters. Overflow and
// division by zero are reported.
func (e *expr) eval(p *parser) (int64, bool) {
	values := make([]int64, len(e.args))
	for i, a := range e.args {
		n, ok := a.eval(p)
		if !ok {
			return 0, false
		}
		values[i] = n
	}
	switch e.op {
	case uapi.OpConst:
		return e.num, true
	case uapi.OpParam, uapi.OpItem:
		return 0, false
	}
	n, err := foldConstant(e.op, values)
	if err != "" {
		p.problemf(e.at, "%s", err)
		return 0, false
	}
	return n, true
}
