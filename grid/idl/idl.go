// SPDX-License-Identifier: MIT

// Package idl reads OmniRPC's interface language and makes of it what a worker
// program needs: the module's manifest and a stub in C. Check and parsing go
// over the whole file, so that one run reports all that is wrong in it.
// docs/idl.md describes the language.
package idl

import "skep/internal/uapi"

// A Module is one file that has nothing wrong in it.
type Module struct {
	File     string // as it was named, for #line
	Name     string
	Globals  []block
	Defines  []*define
	Files    []string // of Required and Library, in the order of the file
	Options  []string // of CompileOptions
	Compiler string   // or ""
	Linker   string
	limits   uapi.Limits
	manifest *uapi.Manifest
}

// A block is C text with its braces, and where it stands.
type block struct {
	at     position
	indent string // blanks as wide as what stands before it in its line
	text   string
}

type define struct {
	at     position
	name   string
	doc    string
	params []*param
	order  *expr // CalcOrder
	body   *block
	call   *call
}

// A call is what stands behind Calls.
type call struct {
	at      position
	name    string
	fortran bool
	args    []argument
}

// An argument is a parameter, or a whole number as it stands there.
type argument struct {
	param int // -1: number
	text  string
}

type param struct {
	at       position
	name     string
	mode     uapi.Mode
	kind     uapi.Type
	unsigned bool
	longlong bool // the C type only; both have 8 bytes
	star     bool
	dims     []dim
}

type dim struct {
	at                      position
	empty                   bool // [], which is one element
	size, low, high, stride *expr
}

// Parse reads the text of a file. All errors of it come as one *Problems.
func Parse(file string, text []byte) (*Module, error) {
	p := newParser(file, text)
	m := p.parseModule()
	p.check(m)
	if len(p.problems.List) == 0 {
		p.encode(m)
	}
	if len(p.problems.List) > 0 {
		return nil, p.problems.sorted()
	}
	return m, nil
}

// Manifest gives what the file describes.
func (m *Module) Manifest() *uapi.Manifest { return m.manifest }
