// SPDX-License-Identifier: MIT

// Package asm reads the assembly that gcc writes for one file of the kernel,
// before and after a patch. It finds the functions that differ and extracts
// them as assembly for a module.
//
// gcc writes a section for each function and variable, and no debug
// information. Names that contain the compiler's counters (labels, strings,
// static local variables) and the line numbers of WARN do not count as a
// difference; everything else does. A change that cannot be made by replacing
// whole functions gives a Refusal: nothing is left out silently.
package asm

import "fmt"

// A Unit is one file's assembly.
type Unit struct {
	Path string // of the source, as mm/rmap.c
	// Symbols are its functions and variables in the order of the text.
	Symbols []*Symbol

	byName  map[string]*Symbol
	consts  map[string]*Symbol // by label, as .LC3
	aliases map[string]string  // by name: what it is set to
	weak    map[string]bool
	loose   []*Symbol // top-level assembly of the source
}

// A Symbol is one function, variable or constant.
type Symbol struct {
	Name    string
	Func    bool
	Global  bool
	Weak    bool
	Section string // as .text.page_referenced
	Flags   string // what follows the section's name in its directive
	Traced  bool   // a function that begins with a call of ftrace

	lines []line
}

// A Change is what a patch does to one file.
type Change struct {
	Path          string
	Before, After *Unit
	Changed       []string // functions of both files that differ, or that call one of Clones
	New           []string // functions of the patched file alone that the update needs
	Gone          []string // functions that the patch removes
	// Clones are functions whose calls cannot be redirected, such as those
	// whose parameters the compiler changed. The update contains their new
	// text, and their callers are in Changed.
	Clones []string
	// Data are the update's own variables.
	Data []string
	// Idle are functions and variables that differ and are used only while the
	// kernel boots: their change has no effect.
	Idle []string
	// From maps a function that the patch moves to this file to the change of
	// the file that it comes from.
	From map[string]*Change
	// Locals maps static variables of the patched file to those of the running
	// kernel, because the compiler numbers them differently.
	Locals map[string]string
	Notes  []string // differences that were ignored
	// Sealed reports whether an indirect call of the kernel's function of that
	// name faults (IBT); nil: none does.
	Sealed func(name string) bool
	// Variadic reports whether a function of the kernel takes a format and its
	// arguments; nil: not known of any function.
	Variadic func(name string) bool
	// Arguments is the number of registers that a function of the kernel takes,
	// -1 if it is not known; nil: of none.
	Arguments func(name string) int
	// Late says that the kernel reads the tables of static keys and static calls
	// before the text's addresses are written: those are a module's.
	Late bool

	from *differ
}

// IsEmpty reports whether the update contains no code of the file.
func (c *Change) IsEmpty() bool { return len(c.Changed) == 0 && len(c.New) == 0 }

// A Refusal is a change that cannot be made by replacing functions.
type Refusal struct {
	Path   string // empty: the patch as a whole
	Symbol string // the symbol that changes; package source finds its line
	Line   int    // of the patched file; 0: not known
	Reason string // the reason, and the remedy
}

func (r *Refusal) Error() string {
	at := r.Path
	if at == "" {
		return r.Reason
	}
	if r.Line > 0 {
		at = fmt.Sprintf("%s:%d", at, r.Line)
	}
	if r.Symbol == "" {
		return at + ": " + r.Reason
	}
	return fmt.Sprintf("%s: %s: %s", at, r.Symbol, r.Reason)
}

// An Extract is assembly for a module with all changed functions of one file.
type Extract struct {
	Path      string
	Text      []byte // of a .S file
	Functions []Function
	Data      []string
	// Locals are static symbols of the original file that Text refers to.
	Locals []Local
	// Escapes are addresses of the module that may be in use after its last
	// call. Without any, the module can be unloaded then.
	Escapes []Escape
	// Pointed are the kernel's symbols whose addresses Text takes.
	Pointed []string
}

// A Function of an Extract replaces one of the kernel.
type Function struct {
	Name    string // in the kernel
	Version string // global symbol of the new text in the module
	End     string // global label after its last byte
}

// A Local is a static function or variable of the original file.
type Local struct {
	Name   string // in Text
	Is     string // in the original's assembly
	Func   bool
	Kernel bool // the update replaces Is, and Text takes the kernel's address of it
}

// A Class is how far versions may mix, as enum dynamos_class says.
type Class string

// The classes that can be proposed from a change alone. Only the author can
// choose `task` and `object`.
const (
	Any      Class = "any"
	Together Class = "together"
)

// A line is one statement of assembly, without comments.
type line struct {
	text   string
	number int // in the file
}
