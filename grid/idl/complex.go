// SPDX-License-Identifier: MIT

package idl

import (
	"regexp"

	"skep/internal/lazy"
	"skep/internal/uapi"
)

// Complex numbers are C's in OmniRPC and structures with the members r and i in Ninf-G.
// Both are passed alike, so only the C text of a file decides: if it names scomplex or
// dcomplex, or a member of such a parameter, it is Ninf-G's.

var (
	complexNames = lazy.Regexp(`\b[sd]complex\b`)
	complexTypes = lazy.Regexp(`(?s)\btypedef\b.*\b[sd]complex\s*;`)
)

// usesMembers reports whether the body takes r or i of a complex parameter.
func (d *define) usesMembers() bool {
	if d.body == nil {
		return false
	}
	for _, q := range d.params {
		if !q.isComplex() {
			continue
		}
		// As in x.r, x[i].r, (*x).r and x->r.
		member := regexp.MustCompile(`\b` + q.name + `\s*\)?\s*(\[[^;]*?\]\s*)*(\.|->)\s*[ri]\b`)
		if member.MatchString(d.body.text) {
			return true
		}
	}
	return false
}

func (q *param) isComplex() bool { return q.kind == uapi.SComplex || q.kind == uapi.DComplex }

// hasStructures reports whether the C text of the file is written for Ninf-G's structures.
func (m *Module) hasStructures() bool {
	for _, b := range m.Globals {
		if complexNames().MatchString(b.text) {
			return true
		}
	}
	for _, d := range m.Defines {
		if d.body != nil && complexNames().MatchString(d.body.text) || d.usesMembers() {
			return true
		}
	}
	return false
}

func (m *Module) setStructures() {
	m.structures = m.hasStructures()
	for _, d := range m.Defines {
		for _, q := range d.params {
			q.structure = m.structures && q.isComplex()
			if q.callback == nil {
				continue
			}
			for _, own := range q.callback.params {
				own.structure = m.structures && own.isComplex()
			}
		}
	}
}

// declareStructures declares them, unless Globals do.
func (m *Module) declareStructures(s *stub) {
	for _, b := range m.Globals {
		if complexTypes().MatchString(b.text) {
			return
		}
	}
	s.linef("typedef struct { float r, i; } scomplex;")
	s.linef("typedef struct { double r, i; } dcomplex;")
}
