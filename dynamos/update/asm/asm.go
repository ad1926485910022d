// SPDX-License-Identifier: MIT

// Package asm reads the assembly that gcc writes for one file of the kernel,
// before and after a patch, finds which functions differ, and takes them out
// as assembly that a module can hold.
//
// The text compared is gcc's with a section for each function and variable and
// without debug information. Names that the compiler counts (labels, strings,
// static locals, line numbers of WARN) are no difference; what is left is.
// Every way in which a change cannot be carried by replacing whole functions
// is a Refusal: nothing is left out silently.
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
	loose   []*Symbol // assembly outside of functions
}

// A Symbol is one function, variable or constant.
type Symbol struct {
	Name    string
	Func    bool
	Global  bool
	Weak    bool
	Section string // as .text.page_referenced
	Flags   string // what follows the section's name in its directive
	Traced  bool   // a function that ftrace can reach

	lines []line
}

// A Change is what a patch does to one file.
type Change struct {
	Path          string
	Before, After *Unit
	Changed       []string // functions of both that differ, or must call one that does
	New           []string // functions that only the patched file has, and are needed
	Gone          []string // functions that the patch removes
	// Clones are functions whose calls cannot be redirected, such as those
	// whose parameters the compiler changed: their new text is carried too,
	// and their callers are in Changed.
	Clones []string
	// Data are variables that the update gets of its own.
	Data []string
	// Idle are functions and variables that differ and matter only while the
	// kernel starts: their change is not in force.
	Idle []string
	// From has the file in which the kernel has a function, where the patch
	// takes that function from another file to this one.
	From map[string]*Change
	// Locals says which variable of the running kernel a static variable of
	// the patched file is, where the compiler's numbers for them differ.
	Locals map[string]string
	Notes  []string // differences that were ignored
	// Sealed tells whether the kernel's function of a name faults where a
	// pointer leads to it; nil: none does.
	Sealed func(name string) bool
	// Variadic tells of functions of the kernel that take a format and what
	// goes with it; nil: nothing is known of any.
	Variadic func(name string) bool

	from *differ
}

// IsEmpty reports whether the update takes no code of the file.
func (c *Change) IsEmpty() bool { return len(c.Changed) == 0 && len(c.New) == 0 }

// A Refusal is a change that replacing functions cannot carry.
type Refusal struct {
	Path   string // empty: the patch as a whole
	Symbol string // where it was found; the source package finds its line
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
	// Locals are names that Text asks for and that the original file keeps to
	// itself: they are to be found in the image next to its other symbols.
	Locals []Local
	// Escapes are addresses of the module that may be in use after its last
	// call; none: it can be unloaded then.
	Escapes []Escape
	// Pointed are the kernel's symbols whose address Text takes.
	Pointed []string
}

// A Function of an Extract replaces one of the kernel.
type Function struct {
	Name    string // in the kernel
	Version string // of the new text, global in the module
	End     string // global label behind its last byte
}

// A Local is a static function or variable of the original file.
type Local struct {
	Name   string // as Text asks for it
	Is     string // as the original's assembly calls it
	Func   bool
	Kernel bool // Is is replaced, and Text wants the address that others know
}

// A Class is how far versions may mix, as enum dynamos_class says.
type Class string

// The classes that a change can ask for by itself. `task` and `object` need
// a person's statement.
const (
	Any      Class = "any"
	Together Class = "together"
)

// A line is one statement of assembly without its comment.
type line struct {
	text   string
	number int // in the file
}
