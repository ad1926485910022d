// SPDX-License-Identifier: MIT

package uapi

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Numbers of module.h.
const (
	ModuleMagic    = 0x444f4d50454b53
	ModuleRevision = 1
	NameMax        = 64
	DimsMax        = 4
	ParamsMax      = 64
	CodeMax        = 0x10000
	FunctionInit   = 1 // flag: the module's Initialize
	FunctionRanks  = 2 // flag: an MPI job runs it; the first parameter is the number of ranks
	RanksMax       = 1024
	// FunctionCallback is a flag: a function of the master.
	FunctionCallback = 4
	FunctionClass    = 8          // flag: a class, whose methods name it
	FunctionState    = 16         // flag of a class: its methods are called only as those of an object
	CodeDefault      = ^uint32(0) // a dimension's offset if it is omitted
	TypeUnsigned     = 0x80
	ManifestMax      = 0x80000 // largest size of a manifest in bytes; it is sent in one frame
	Section          = ".skep.module"
	LimitsSection    = ".skep.limits"
	LimitTimeMax     = 1000000000000 // milliseconds
)

// A Type is one of enum skep_type, without SKEP_TYPE_UNSIGNED.
type Type uint8

// Types, in the order of module.h.
const (
	Char Type = iota + 1
	Short
	Int
	Long
	Float
	Double
	SComplex
	DComplex
	String
	Filename
	Filepointer
	MasterFunction
)

var typeSizes = [...]int{Char: 1, Short: 2, Int: 4, Long: 8, Float: 4, Double: 8, SComplex: 8, DComplex: 16, String: 0, Filename: 0, Filepointer: 0, MasterFunction: 8}

// Text reports whether values of t have a variable length: strings and files.
func (t Type) Text() bool { return t >= String && t <= Filepointer }

// Size returns the size of one element in bytes, 0 for a text.
func (t Type) Size() int { return typeSizes[t] }

// Integer reports whether values of t may appear in sizes.
func (t Type) Integer() bool { return t >= Char && t <= Long }

// A Mode is one of enum skep_mode.
type Mode uint8

// Modes of module.h.
const (
	ModeIn    Mode = 1
	ModeOut   Mode = 2
	ModeInOut Mode = 3
	ModeWork  Mode = 4
)

// Op is one instruction of the size code (enum skep_code).
type Op byte

// Instructions, in the order of module.h.
const (
	OpEnd Op = iota
	OpConst
	OpParam
	OpItem
	OpAdd
	OpSub
	OpMul
	OpDiv
	OpMod
	OpPow
	OpNeg
	OpLT
	OpLE
	OpGT
	OpGE
	OpEQ
	OpUnequal
	OpSelect
)

type module struct {
	Magic                             uint64
	Revision, Functions, Params, Code uint32
	Name                              [NameMax]byte
}

type function struct {
	Name                     [NameMax]byte
	First, Params, Flags, Of uint32
}

type param struct {
	Name             [NameMax]byte
	Type, Mode, Dims uint8
	Pad              uint8
	Refers           uint32
	Dim              [DimsMax]Dim
}

// Dim is struct skep_dim: offsets in the size code, or CodeDefault.
type Dim struct {
	Size, Low, High, Stride uint32
}

// A Manifest describes a module: its functions and their parameters.
type Manifest struct {
	Name      string
	Functions []Function
	Code      []byte // size code that the dimensions point into
	Limits    Limits // of a section of its own: Encode leaves them out
}

// Limits is struct skep_limits; 0: not stated.
type Limits struct {
	Memory, Disk uint64 // bytes
	CPU, Wall    uint64 // milliseconds
	Processes    uint64
}

// A Function of a module.
type Function struct {
	Name  string
	Init  bool
	Ranks bool // an MPI job runs it, with as many ranks as its first parameter says
	// Callback: it is the master's, and cannot be called by its name.
	Callback bool
	// Class: it is no function but a class, which cannot be called. State: its methods belong
	// to objects.
	Class, State bool
	// Of is 0, or 1 + the class that has this method.
	Of     uint32
	Params []Param
}

// A Param of a function.
type Param struct {
	Name     string
	Type     Type
	Unsigned bool
	Mode     Mode
	Dims     []Dim
	// Refers is the index of the function that describes a MasterFunction. In such a function
	// it is 0, or 1 + the parameter of the called function whose value this one has.
	Refers uint32
}

// HasCallbacks reports whether calls of f may call their master.
func (f *Function) HasCallbacks() bool {
	return slices.ContainsFunc(f.Params, func(p Param) bool { return p.Type == MasterFunction })
}

// Lookup returns the index of a function that can be called, or -1.
func (m *Manifest) Lookup(name string) int {
	for i := range m.Functions {
		f := &m.Functions[i]
		if f.Name == name && !f.Callback && !f.Class && m.StateOf(i) == nil {
			return i
		}
	}
	return -1
}

// Initialize returns the index of the module's Initialize, or -1.
func (m *Manifest) Initialize() int {
	for i := range m.Functions {
		if m.Functions[i].Init {
			return i
		}
	}
	return -1
}

// HasRanks reports whether MPI jobs run some of the functions.
func (m *Manifest) HasRanks() bool {
	return slices.ContainsFunc(m.Functions, func(f Function) bool { return f.Ranks })
}

// Encode returns the bytes that ParseManifest reads, or an error if m is invalid.
func (m *Manifest) Encode() ([]byte, error) {
	h := module{Magic: ModuleMagic, Revision: ModuleRevision,
		Functions: uint32(len(m.Functions)), Code: uint32(len(m.Code))}
	copy(h.Name[:], m.Name)
	var functions, params []byte
	for _, f := range m.Functions {
		v := function{First: h.Params, Params: uint32(len(f.Params)), Of: f.Of}
		if f.Init {
			v.Flags = FunctionInit
		}
		if f.Ranks {
			v.Flags |= FunctionRanks
		}
		if f.Callback {
			v.Flags |= FunctionCallback
		}
		if f.Class {
			v.Flags |= FunctionClass
		}
		if f.State {
			v.Flags |= FunctionState
		}
		copy(v.Name[:], f.Name)
		functions = Append(functions, v)
		for i := range f.Params {
			p, err := encodeParam(&f.Params[i])
			if err != nil {
				return nil, err
			}
			params = append(params, p...)
		}
		h.Params += v.Params
	}
	b := append(append(append(Append(nil, h), functions...), params...), m.Code...)
	back, err := ParseManifest(b)
	if err == nil && back.Name != m.Name {
		err = fmt.Errorf("the module's name %q is too long", m.Name)
	}
	return b, err
}

func encodeParam(p *Param) ([]byte, error) {
	if len(p.Dims) > DimsMax || len(p.Name) >= NameMax {
		return nil, fmt.Errorf("parameter %q has too long a name or more than %d dimensions", p.Name, DimsMax)
	}
	v := param{Type: uint8(p.Type), Mode: uint8(p.Mode), Dims: uint8(len(p.Dims)), Refers: p.Refers}
	if p.Unsigned {
		v.Type |= TypeUnsigned
	}
	copy(v.Name[:], p.Name)
	copy(v.Dim[:], p.Dims)
	return Append(nil, v), nil
}

// ErrNoManifest says that a program has no manifest section.
var ErrNoManifest = errors.New("the program has no manifest: link it with what `skep gen` makes")

// ReadManifest returns the manifest of a worker program, parsed and as bytes. It checks that
// the file is a static x86-64 ELF program. It does not execute anything.
func ReadManifest(r io.ReaderAt) (*Manifest, []byte, error) {
	f, err := openELF(r)
	if err != nil {
		return nil, nil, err
	}
	if err := checkStatic(f); err != nil {
		return nil, nil, err
	}
	return readManifest(f)
}

// ReadRanksManifest is ReadManifest for the program of an MPI job's ranks, which is not
// static.
func ReadRanksManifest(r io.ReaderAt) (*Manifest, []byte, error) {
	f, err := openELF(r)
	if err != nil {
		return nil, nil, err
	}
	return readManifest(f)
}

func readManifest(f *elf.File) (*Manifest, []byte, error) {
	b, err := readSection(f, Section)
	switch {
	case err != nil:
		return nil, nil, err
	case b == nil:
		return nil, nil, ErrNoManifest
	}
	m, err := ParseManifest(b)
	if err != nil {
		return nil, nil, err
	}
	m.Limits, err = readLimits(f)
	return m, b, err
}

// readSection returns the bytes of a section, or nil if there is none.
func readSection(f *elf.File, name string) ([]byte, error) {
	s := f.Section(name)
	switch {
	case s == nil:
		return nil, nil
	case s.Type != elf.SHT_PROGBITS || s.Flags&elf.SHF_COMPRESSED != 0:
		return nil, fmt.Errorf("section %s does not hold plain bytes", name)
	case s.Size > ManifestMax:
		return nil, fmt.Errorf("section %s has %d bytes, at most %d are taken", name, s.Size, ManifestMax)
	}
	b := make([]byte, s.Size)
	if _, err := s.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("section %s cannot be read: %w", name, err)
	}
	return b, nil
}

func readLimits(f *elf.File) (l Limits, err error) {
	b, err := readSection(f, LimitsSection)
	if err != nil || b == nil {
		return l, err
	}
	if l, err = DecodeExact[Limits](b); err != nil {
		return Limits{}, fmt.Errorf("the limits of the module: %w", err)
	}
	if l.CPU > LimitTimeMax || l.Wall > LimitTimeMax {
		return Limits{}, fmt.Errorf("the limits of the module allow more than %d ms", uint64(LimitTimeMax))
	}
	return l, nil
}

// CheckStatic returns an error of one sentence if not every substrate can run a file.
func CheckStatic(r io.ReaderAt) error {
	f, err := openELF(r)
	if err != nil {
		return err
	}
	return checkStatic(f)
}

func openELF(r io.ReaderAt) (*elf.File, error) {
	magic := make([]byte, len(elf.ELFMAG))
	if _, err := r.ReadAt(magic, 0); err != nil || string(magic) != elf.ELFMAG {
		return nil, errors.New("not an ELF program: give a static one for Linux, not a script or a text")
	}
	f, err := elf.NewFile(r)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, errors.New("not a complete ELF program: it ends within its headers")
	}
	if err != nil {
		return nil, fmt.Errorf("not a complete ELF program: %w", err)
	}
	return f, nil
}

// CheckProgram returns an error of one sentence if bee on Linux cannot run a file.
func CheckProgram(r io.ReaderAt) error {
	f, err := openELF(r)
	if err != nil {
		return err
	}
	return checkMachine(f)
}

func checkMachine(f *elf.File) error {
	switch {
	case f.Class != elf.ELFCLASS64 || f.Machine != elf.EM_X86_64:
		return fmt.Errorf("a program for %v, not for x86-64", f.Machine)
	case f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN:
		return fmt.Errorf("an ELF file of %v, not a program", f.Type)
	}
	return nil
}

func checkStatic(f *elf.File) error {
	if err := checkMachine(f); err != nil {
		return err
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("the program is dynamically linked: link it with -static")
		}
	}
	return nil
}
