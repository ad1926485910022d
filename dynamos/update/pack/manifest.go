// SPDX-License-Identifier: MIT

// Package pack reads and writes the packages of kernel updates: plain tar,
// with a manifest, the patch in source, and a module for each kernel.
//
//	manifest.json  first
//	source.patch
//	BUILD-ID.ko    one for each kernel of the manifest, in its order
//	signatures     last, if operators signed it; package trust reads it
//
// Nothing in a package is trusted: no length, name or digest.
package pack

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Revision is that of the manifest.
const Revision = 2

// Suffix ends the name of a package's file.
const Suffix = ".skepup"

// Bounds of what a package may hold.
const (
	MaxManifest  = 4 << 20
	MaxPatch     = 4 << 20
	MaxModule    = 64 << 20
	MaxKernels   = 32
	MaxFunctions = 64 // DYNAMOS_FUNCTIONS
	// MaxSignatures is trust.MaxDocument.
	MaxSignatures = 256 << 10
	// MaxPackage is the size of a package whose files are all as large as they may be. Each
	// has a header of tar, and two empty blocks end the package.
	MaxPackage = MaxManifest + MaxPatch + MaxKernels*MaxModule + MaxSignatures + (MaxKernels+3+2)*tarBlock

	tarBlock  = 512
	maxName   = 55 // of a module; struct module has 56 bytes with the NUL
	maxSymbol = 127
	maxText   = 1024
	maxList   = 4096
)

// A Manifest describes the contents of a package.
type Manifest struct {
	Revision int    `json:"revision"`
	Name     string `json:"name"`  // of the update and of its module
	Class    string `json:"class"` // any, task, object or together
	// Proposed is the class that the change itself asks for, Reasons tell
	// why. Because is the author's reason for another one.
	Proposed string   `json:"proposed"`
	Reasons  []string `json:"reasons,omitempty"`
	Because  string   `json:"because,omitempty"`
	// State is the author's reason why it does no harm that existing objects lack
	// what Relies names.
	State   string   `json:"state,omitempty"`
	Files   []string `json:"files"` // that the patch changes
	Kernels []Kernel `json:"kernels"`
}

// A Kernel is one that the package has a module for. Functions differ between
// kernels, because compilers inline differently.
type Kernel struct {
	BuildID   string     `json:"build_id"` // 40 hex digits
	Release   string     `json:"release"`  // as uname -r
	Version   string     `json:"version"`  // of the kernel's package
	File      string     `json:"file"`     // always BUILD-ID.ko
	SHA256    string     `json:"sha256"`   // of that file
	Functions []Function `json:"functions"`
	// Module is the one that all functions belong to, and ModuleID its build-id;
	// empty: the kernel's image.
	Module   string `json:"module,omitempty"`
	ModuleID string `json:"module_build_id,omitempty"`
	// Imports are symbols that the kernel does not export to modules;
	// livepatch finds them when the module is loaded.
	Imports []Symbol `json:"imports,omitempty"`
	// Data are variables that only the new code has.
	Data []string `json:"data,omitempty"`
	// Layouts are structures that the new code lays out in another way.
	Layouts []Layout `json:"layouts,omitempty"`
	// Idle are functions that the patch changes and that only run while the
	// kernel starts: their change is not in force.
	Idle []string `json:"idle,omitempty"`
	// Held are the reasons why the module, once it was in force, stays loaded
	// for good: somebody may have a pointer into it.
	Held []string `json:"held,omitempty"`
	// Relies are what functions rely on and objects lack that were there when the
	// update was applied or reverted.
	Relies []string `json:"relies,omitempty"`
}

// A Layout is a structure of which the kernel has older ones, and the author's reason why the new code works with them.
type Layout struct {
	Name    string `json:"name"` // as "struct kprobe"
	What    string `json:"what"` // that is different
	Was     int64  `json:"was"`  // bytes
	Is      int64  `json:"is"`
	Because string `json:"because"`
}

// A Symbol is one of the kernel's. Position says which of several with this
// name, from 1 in the order of addresses; 0: there is only one.
type Symbol struct {
	Name     string `json:"name"`
	Position int    `json:"position,omitempty"`
	Module   string `json:"module,omitempty"` // that has it; empty: the kernel's image
}

// A Function is one that the update changes.
type Function struct {
	Symbol
	File string `json:"file"` // the source that it stands in
	Type string `json:"type"` // its prototype, for people
	Args int    `json:"args"` // in registers
	// Uncounted: no wrapper can pass its calls on, so livepatch leads them
	// straight to the new function, and none is counted. Args is 0.
	Uncounted bool   `json:"uncounted,omitempty"`
	Result    string `json:"result"`
	Object    *int   `json:"object,omitempty"` // class object: which argument
	Ends      bool   `json:"ends,omitempty"`   // the object's life ends with a call
	Bare      bool   `json:"bare,omitempty"`   // no lock is held across it
	OldSize   int    `json:"old_size"`
	Size      int    `json:"size"` // 0: it stays as it is, and its calls are seen
	// Original is the SHA-256 of the kernel's own text as in its image, the
	// five bytes at its ftrace location zero.
	Original string `json:"original"`
}

// What Result may be; see enum dynamos_result.
const (
	Void    = "void"
	Int     = "int"
	Long    = "long"
	Pointer = "pointer"
	Value   = "value"
)

// The classes; see enum dynamos_class.
const (
	Any      = "any"
	Task     = "task"
	Object   = "object"
	Together = "together"
)

// Changed returns the names of the functions that change in any of its kernels, sorted.
func (m *Manifest) Changed() (names []string) {
	for _, k := range m.Kernels {
		for _, f := range k.Functions {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ReliesOnState reports whether existing objects lack something that code relies on.
func (m *Manifest) ReliesOnState() bool {
	return slices.ContainsFunc(m.Kernels, func(k Kernel) bool { return len(k.Relies) > 0 })
}

// Kernel finds the kernel with a build-id.
func (m *Manifest) Kernel(buildID string) (*Kernel, bool) {
	for i := range m.Kernels {
		if m.Kernels[i].BuildID == buildID {
			return &m.Kernels[i], true
		}
	}
	return nil, false
}

// ValidName reports whether s is a valid name of an update: a C identifier, so that it is the same in the module and in file names.
func ValidName(s string) bool {
	if s == "" || len(s) > maxName || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// Check returns the first error in a manifest.
func (m *Manifest) Check() error {
	switch {
	case m.Revision != Revision:
		return fmt.Errorf("its manifest has revision %d, and this skep knows %d: build it again", m.Revision, Revision)
	case !ValidName(m.Name):
		return fmt.Errorf("%.80q is not the name of an update: lower case letters, digits and _, at most %d", m.Name, maxName)
	case !validClass(m.Class):
		return fmt.Errorf("%.80q is not a class", m.Class)
	case !validClass(m.Proposed):
		return fmt.Errorf("%.80q is not a class to propose", m.Proposed)
	case m.Class != m.Proposed && strings.TrimSpace(m.Because) == "":
		return fmt.Errorf("its class is %s, the change asks for %s, and no reason is given", m.Class, m.Proposed)
	case m.ReliesOnState() && strings.TrimSpace(m.State) == "":
		return errors.New("it relies on what existing objects lack, and no reason is given why this does no harm")
	case !validText(m.Because) || !validText(m.State) || !validTexts(m.Reasons) || !validTexts(m.Files):
		return errors.New("a text of its manifest is too long, or not text")
	case len(m.Kernels) == 0 || len(m.Kernels) > MaxKernels:
		return fmt.Errorf("it is for %d kernels; 1 to %d are possible", len(m.Kernels), MaxKernels)
	}
	seen := map[string]bool{}
	for i := range m.Kernels {
		k := &m.Kernels[i]
		if err := k.check(m.Class); err != nil {
			return fmt.Errorf("kernel %d of its manifest: %w", i+1, err)
		}
		if seen[k.BuildID] {
			return fmt.Errorf("its manifest names kernel %s twice", k.BuildID)
		}
		seen[k.BuildID] = true
	}
	return nil
}

func (k *Kernel) check(class string) error {
	switch {
	case !hexDigits(k.BuildID, 40):
		return fmt.Errorf("%.80q is not a build-id", k.BuildID)
	case k.File != k.BuildID+".ko":
		return fmt.Errorf("its module must be called %s.ko, not %.80q", k.BuildID, k.File)
	case !hexDigits(k.SHA256, 64):
		return fmt.Errorf("%.80q is not a SHA-256", k.SHA256)
	case !validText(k.Release) || !validText(k.Version) || !validTexts(k.Data) || !validTexts(k.Idle) || !validTexts(k.Held) || !validTexts(k.Relies):
		return errors.New("a text is too long, or not text")
	case (k.Module == "") != (k.ModuleID == "") || k.Module != "" && !(validModule(k.Module) && hexDigits(k.ModuleID, 40)):
		return fmt.Errorf("%.80q with build-id %.80q is not a module", k.Module, k.ModuleID)
	case len(k.Functions) == 0 || len(k.Functions) > MaxFunctions:
		return fmt.Errorf("%d functions; 1 to %d are possible", len(k.Functions), MaxFunctions)
	case len(k.Imports) > maxList || len(k.Layouts) > maxList:
		return fmt.Errorf("%d imports, %d layouts; at most %d are possible", len(k.Imports), len(k.Layouts), maxList)
	}
	seen := map[Symbol]bool{}
	for i := range k.Functions {
		f := &k.Functions[i]
		if err := f.check(class); err != nil {
			return fmt.Errorf("function %d: %w", i+1, err)
		}
		if f.Module != k.Module || k.Module != "" && !f.Uncounted {
			return fmt.Errorf("function %s is of the module %.80q, and the update of %.80q, whose calls are not counted", f.Name, f.Module, k.Module)
		}
		if seen[f.Symbol] {
			return fmt.Errorf("function %s is named twice", f.Name)
		}
		seen[f.Symbol] = true
	}
	if !slices.ContainsFunc(k.Functions, func(f Function) bool { return f.Size > 0 }) {
		return errors.New("all its functions stay as they are")
	}
	for _, l := range k.Layouts {
		switch {
		case !validText(l.Name) || !validText(l.What) || !validText(l.Because):
			return errors.New("a text is too long, or not text")
		case strings.TrimSpace(l.Because) == "":
			return fmt.Errorf("%s has another layout, and no reason is given why this is safe", l.Name)
		}
	}
	for _, s := range k.Imports {
		if !s.isValid() || s.Module != "" && (k.Module == "" || !validModule(s.Module)) {
			return fmt.Errorf("%.80q, %d of %.80q is not a symbol", s.Name, s.Position, s.Module)
		}
	}
	return nil
}

func (f *Function) check(class string) error {
	switch {
	case !f.Symbol.isValid():
		return fmt.Errorf("%.80q, %d is not a symbol", f.Name, f.Position)
	case !validText(f.File) || !validText(f.Type):
		return errors.New("a text is too long, or not text")
	case f.Args < 0 || f.Args > 6:
		return fmt.Errorf("%s has %d arguments; 0 to 6 are possible", f.Name, f.Args)
	case f.Uncounted && (class != Together || f.Args != 0):
		return fmt.Errorf("the calls of %s cannot be counted, which only class together allows, and it has %d counted arguments of class %s", f.Name, f.Args, class)
	case f.Size == 0 && class != Task && class != Object:
		return fmt.Errorf("%s stays as it is, which only classes task and object allow", f.Name)
	case f.OldSize <= 0 || f.Size < 0 || f.OldSize > MaxModule || f.Size > MaxModule:
		return fmt.Errorf("%s has %d bytes in place of %d, which cannot be", f.Name, f.Size, f.OldSize)
	case !hexDigits(f.Original, 64):
		return fmt.Errorf("%.80q is not a SHA-256", f.Original)
	case (f.Object != nil || f.Ends) && class != Object:
		return fmt.Errorf("%s names an object, and the class is %s", f.Name, class)
	case f.Object != nil && (*f.Object < 0 || *f.Object >= f.Args):
		return fmt.Errorf("%s has no argument %d", f.Name, *f.Object)
	case f.Ends && f.Object == nil:
		return fmt.Errorf("%s ends the life of no object", f.Name)
	}
	switch f.Result {
	case Void, Int, Long, Pointer, Value:
		return nil
	}
	return fmt.Errorf("%s has a result %.80q, which cannot be", f.Name, f.Result)
}

func (s Symbol) isValid() bool {
	return ValidSymbol(s.Name) && s.Position >= 0 && s.Position < 1<<20
}

// validModule accepts names of modules, as /proc/modules has them.
func validModule(s string) bool {
	return s != "" && len(s) <= maxName && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// ValidSymbol accepts only names that compilers make from C names.
func ValidSymbol(s string) bool {
	if s == "" || len(s) > maxSymbol || s[0] >= '0' && s[0] <= '9' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") == ""
}

func validClass(s string) bool {
	return s == Any || s == Task || s == Object || s == Together
}

// validText keeps what is shown to people to printable ASCII.
func validText(s string) bool {
	if len(s) > maxText {
		return false
	}
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func validTexts(list []string) bool {
	if len(list) > maxList {
		return false
	}
	for _, s := range list {
		if !validText(s) {
			return false
		}
	}
	return true
}

func hexDigits(s string, n int) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == n && strings.ToLower(s) == s
}

// decode reads a manifest; unknown fields are refused.
func decode(text []byte) (Manifest, error) {
	var m Manifest
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, fmt.Errorf("its manifest is invalid: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return m, errors.New("its manifest continues after its end")
	}
	return m, m.Check()
}
