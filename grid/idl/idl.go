// SPDX-License-Identifier: MIT

// Package idl compiles OmniRPC's interface language into the parts of a worker
// program: the module's manifest and a stub in C. Parser and checks continue after
// an error, so that one run reports all errors of a file. docs/idl.md describes the
// language.
package idl

import "skep/internal/uapi"

// A Module is the content of one file without errors.
type Module struct {
	File     string // its name as given, for #line
	Name     string
	Globals  []block
	Defines  []*define
	Classes  []*class
	Begin    []*block // what a worker runs when it starts
	Files    []string // of Required and Library, in the order of the file
	Options  []string // of CompileOptions
	Compiler string   // or ""
	Linker   string
	HasRanks bool // MPI jobs run some of the functions
	// scomplex and dcomplex are structures in the C text
	structures bool
	allRanks   bool // Backend "MPI" for the whole file
	limits     uapi.Limits
	manifest   *uapi.Manifest
}

// A block is C text with its braces, and its position.
type block struct {
	at     position
	indent string // blanks as wide as the text before it in its line
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
	ranks  bool   // MPI jobs run it; params[0] is hiddenRanks
	class  *class // whose method it is, or nil
}

// A class of Ninf-G. Its methods are among the module's functions.
type class struct {
	at    position
	name  string
	state bool // DefState
}

// A call is the function and the arguments of Calls.
type call struct {
	at      position
	name    string
	fortran bool
	args    []argument
}

// An argument is a parameter, or an integer as written in the file.
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
	longlong bool // only for the type in C; long has 8 bytes too
	star     bool
	// a complex number that the file's C text takes for a structure
	structure bool
	dims      []dim
	hidden    bool // it is not in the file
	// of a callback: its parameters, and its function of the manifest
	callback *define
	function int
	refers   int // a hidden one of a callback: 1 + the parameter of the called function
}

type dim struct {
	at                      position
	empty                   bool // [], which is one element
	size, low, high, stride *expr
}

// A Way is how a file is read.
type Way struct {
	// MPI jobs run all functions, whether the file has Backend "MPI" or not: OmniRPC has no
	// such word, but a compiler of its own.
	AllRanks bool
	Expand   Expander // for files with directives of the C preprocessor outside of C text
}

// Parse reads the text of a file. It returns all of its errors as one *Problems.
func Parse(file string, text []byte) (*Module, error) { return Way{}.Parse(file, text) }

// Parse is the function Parse for that way. It returns errors of Expand as they are.
func (w Way) Parse(file string, text []byte) (*Module, error) {
	text, hidden, expanded, err := expand(file, text, w.Expand)
	if err != nil {
		return nil, err
	}
	p := newParser(file, text, hidden, expanded)
	m := p.parseModule(w.AllRanks)
	p.addRanks(m)
	p.check(m)
	m.setStructures()
	if len(p.problems.List) == 0 {
		p.encode(m)
	}
	if len(p.problems.List) > 0 {
		return nil, p.problems.sorted()
	}
	return m, nil
}

// Manifest returns the manifest of the module.
func (m *Module) Manifest() *uapi.Manifest { return m.manifest }
