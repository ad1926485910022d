// SPDX-License-Identifier: MIT

package idl

import (
	"fmt"
	"strings"

	"skep/internal/uapi"
)

// A callback is a parameter that is a function of the master. It has parameters of its own,
// and in the manifest it is a function that cannot be called by its name.

// parseCallback parses the parameters of a callback, whose name was read.
func (p *parser) parseCallback(q *param) bool {
	p.advance()
	q.kind, q.mode = uapi.MasterFunction, uapi.ModeIn
	q.callback = &define{at: q.at, name: q.name}
	return p.parseParams(q.callback)
}

// checkCallback checks a callback of d, and gives it the parameters of d that its sizes use.
func (p *parser) checkCallback(d *define, q *param) {
	if d.name == Initialize {
		p.problemf(q.at, "Initialize can't call the master, which does not wait for it")
	}
	b := q.callback
	for _, own := range b.params {
		p.checkOfCallback(d, q, own)
		for _, dim := range own.dims {
			for _, e := range []*expr{dim.size, dim.low, dim.high, dim.stride} {
				if e != nil {
					p.captureNames(d, b, e)
				}
			}
		}
	}
	p.checkParams(b)
}

func (p *parser) checkOfCallback(d *define, q, own *param) {
	value := len(own.dims) == 0 && own.mode == uapi.ModeIn
	switch {
	case own.callback != nil:
		p.problemf(own.at, "the callback %q can't have a callback: give it to %q", q.name, d.name)
	case own.kind == uapi.Filename || own.kind == uapi.Filepointer:
		p.problemf(own.at, "callbacks take no files: pass what is in %q as a string, or as a char array with its size", own.name)
	case own.isComplex() && value:
		p.problemf(own.at, "callbacks take complex numbers by address: write %s[1]", own.name)
	}
}

// captureNames adds the parameters of d that a size of its callback b uses.
func (p *parser) captureNames(d, b *define, e *expr) {
	for _, a := range e.args {
		p.captureNames(d, b, a)
	}
	if e.op != uapi.OpParam && e.op != uapi.OpItem || b.index(e.name) >= 0 {
		return
	}
	i := d.index(e.name)
	switch {
	case i < 0: // checkExpr reports it
	case e.op == uapi.OpItem:
		p.problemf(e.at, "the size takes an item of %q, which is an array of %q: pass what it needs to %q", e.name, d.name, b.name)
	case len(b.params) == uapi.ParamsMax:
		p.problemf(e.at, "a callback has at most %d parameters, with those of %q that its sizes use", uapi.ParamsMax, d.name)
	case d.params[i].kind.Integer() && len(d.params[i].dims) == 0:
		o := d.params[i]
		hidden := &param{at: o.at, name: o.name, mode: uapi.ModeIn, kind: o.kind, unsigned: o.unsigned, hidden: true, refers: i + 1}
		if o.mode == uapi.ModeIn || o.mode == uapi.ModeInOut {
			b.params = append(b.params, hidden)
		} else {
			p.problemf(e.at, "the size uses %q, which is not IN: its value is not known before the call", e.name)
		}
	default:
		p.problemf(e.at, "the size uses %q of %q, which is not an integer", e.name, d.name)
	}
}

// encodeCallbacks describes the callbacks of a module behind its other functions.
func (e *encoder) encodeCallbacks(m *Module, out *uapi.Manifest) {
	for i, d := range m.Defines {
		for j, q := range d.params {
			if q.callback == nil {
				continue
			}
			q.function = len(out.Functions)
			out.Functions[i].Params[j].Refers = uint32(q.function)
			f := uapi.Function{Name: q.name, Callback: true}
			for _, own := range q.callback.params {
				f.Params = append(f.Params, e.encodeParam(q.callback, own))
			}
			out.Functions = append(out.Functions, f)
		}
	}
}

// dumpCallback writes a callback as a parameter.
func dumpCallback(m *uapi.Manifest, p *uapi.Param) string {
	f := &m.Functions[p.Refers]
	var list []string
	for i := range f.Params {
		if f.Params[i].Refers == 0 {
			list = append(list, dumpParam(m, f, &f.Params[i]))
		}
	}
	return p.Name + "(" + strings.Join(list, ", ") + ")"
}

// callbackType declares a variable for a callback, or without a name its type.
func (q *param) callbackType(name string, fortran bool) string {
	var types []string
	for _, own := range q.callback.params {
		if !own.hidden {
			types = append(types, own.declaration("", fortran))
		}
	}
	return fmt.Sprintf("void (*%s)(%s)", name, list(types))
}

// wrapper is the name of the function in C that stands for that of the master.
func (q *param) wrapper() string { return fmt.Sprintf("skep_callback_%d_%s", q.function, q.name) }

// writeCallbacks writes the functions that stand for those of the master.
func (s *stub) writeCallbacks(d *define) {
	fortran := d.call != nil && d.call.fortran
	for _, q := range d.params {
		if q.callback == nil {
			continue
		}
		var declared, passed []string
		for _, own := range q.callback.params {
			if own.hidden {
				continue
			}
			name := fmt.Sprintf("a%d", len(declared))
			declared = append(declared, own.declaration(name, fortran))
			if !own.isPointer(fortran) {
				name = "&" + name
			}
			passed = append(passed, name)
		}
		s.linef("static void %s(%s)", q.wrapper(), list(declared))
		s.linef("{")
		if len(passed) == 0 {
			s.linef("\tskep_worker_callback(%d, 0);", q.function)
		} else {
			s.linef("\tvoid *argument[] = {%s};", strings.Join(passed, ", "))
			s.linef("\tskep_worker_callback(%d, argument);", q.function)
		}
		s.linef("}")
		s.linef("")
	}
}
