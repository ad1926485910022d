// SPDX-License-Identifier: MIT

package idl

import (
	"fmt"
	"slices"

	"skep/internal/uapi"
)

// Classes of Ninf-G, of which programs make objects. Each object has a worker of its own, so the
// variables of DefState are those of the C file.

// hasState reports whether d is a method that needs an object.
func (d *define) hasState() bool { return d.class != nil && d.class.state }

func (p *parser) checkClasses(m *Module) {
	names := map[string]bool{}
	for _, c := range m.Classes {
		if names[c.name] {
			p.problemf(c.at, "the class %q is defined twice", c.name)
		}
		names[c.name] = true
		if !slices.ContainsFunc(m.Defines, func(d *define) bool { return d.class == c }) && c.state {
			p.problemf(c.at, "the class %q has no method: write DefMethod NAME(...) { }", c.name)
		}
	}
}

// checkMethod refuses what a method of a class with state cannot be.
func (p *parser) checkMethod(d *define) {
	switch {
	case d.name == Initialize:
		p.problemf(d.at, "Initialize is run by every new worker of the module, before an object's first method: write it as a function of the module, outside of the class %q", d.class.name)
	case d.ranks:
		p.problemf(d.at, "the class %q has state, and an MPI job keeps none: write Backend \"normal\", or leave DefState out", d.class.name)
	}
}

// symbol is a function's part of names in the C file. Classes with state may have methods of the
// same name; names of the file do not begin with a digit.
func (m *Module) symbol(d *define) string {
	if !d.hasState() {
		return d.name
	}
	return fmt.Sprintf("%d_%s", slices.Index(m.Classes, d.class), d.name)
}

// encodeClasses describes the classes of a module behind its functions.
func encodeClasses(m *Module, out *uapi.Manifest) {
	for _, c := range m.Classes {
		out.Functions = append(out.Functions, uapi.Function{Name: c.name, Class: true, State: c.state})
		for i, d := range m.Defines {
			if d.class == c && d.name != Initialize {
				out.Functions[i].Of = uint32(len(out.Functions))
			}
		}
	}
}

// dumpClass says of which class a function is a method.
func dumpClass(m *uapi.Manifest, f *uapi.Function) string {
	if f.Of == 0 {
		return ""
	}
	of := &m.Functions[f.Of-1]
	if of.State {
		return fmt.Sprintf(" /* a method of objects of the class %s, which have state */", of.Name)
	}
	return fmt.Sprintf(" /* a method of the class %s */", of.Name)
}
