// SPDX-License-Identifier: MIT

package uapi

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Limits on the work that a hostile manifest can cause.
const (
	stackMax   = 64   // values on the stack of size code
	programMax = 4096 // bytes of the size code of one dimension
)

// ParseManifest parses a manifest and checks all of it. The size code of an accepted
// manifest needs only the checks that depend on the arguments: overflow, division by zero,
// index in an array.
func ParseManifest(b []byte) (*Manifest, error) {
	if len(b) > ManifestMax {
		return nil, fmt.Errorf("a manifest of %d bytes, at most %d are taken", len(b), ManifestMax)
	}
	h, rest, err := DecodePrefix[module](b)
	switch {
	case err != nil:
		return nil, err
	case h.Magic != ModuleMagic:
		return nil, errors.New("the manifest does not start with its magic number")
	case h.Revision != ModuleRevision:
		return nil, fmt.Errorf("the manifest has revision %d, this program reads %d: run `skep gen` of the same version", h.Revision, ModuleRevision)
	}
	const functionSize, paramSize = 80, 136
	want := uint64(h.Functions)*functionSize + uint64(h.Params)*paramSize + uint64(h.Code)
	if want != uint64(len(rest)) || h.Code > CodeMax {
		return nil, fmt.Errorf("the manifest's tables need %d bytes, %d are there", want, len(rest))
	}
	functions, rest := rest[:h.Functions*functionSize], rest[h.Functions*functionSize:]
	params, code := rest[:h.Params*paramSize], rest[h.Params*paramSize:]
	m := &Manifest{Code: append([]byte(nil), code...)}
	if m.Name, err = parseName("module", h.Name[:]); err != nil {
		return nil, err
	}
	return m, m.parseFunctions(functions, params, h.Params)
}

func (m *Manifest) parseFunctions(functions, params []byte, all uint32) error {
	inits, first := 0, uint32(0)
	for len(functions) > 0 {
		var v function
		v, functions, _ = DecodePrefix[function](functions)
		name, err := parseName("function", v.Name[:])
		switch {
		case err != nil:
			return err
		case v.First != first || v.Params > ParamsMax || v.Params > all-first:
			return fmt.Errorf("function %q has parameters that are not its own part of the table", name)
		case v.Flags&^(FunctionInit|FunctionRanks|FunctionCallback|FunctionClass|FunctionState) != 0:
			return fmt.Errorf("function %q has flags that are not known", name)
		}
		first += v.Params
		f := Function{Name: name, Init: v.Flags&FunctionInit != 0, Ranks: v.Flags&FunctionRanks != 0, Callback: v.Flags&FunctionCallback != 0,
			Class: v.Flags&FunctionClass != 0, State: v.Flags&FunctionState != 0, Of: v.Of}
		if f.Init {
			inits++
		}
		const paramSize = 136
		if err := f.parse(params[v.First*paramSize:][:v.Params*paramSize]); err != nil {
			return fmt.Errorf("function %q: %w", name, err)
		}
		if f.Ranks && !f.takesRanks() {
			return fmt.Errorf("function %q does not begin with the number of its ranks", name)
		}
		if err := m.checkCode(&f); err != nil {
			return fmt.Errorf("function %q: %w", name, err)
		}
		m.Functions = append(m.Functions, f)
	}
	if first != all {
		return errors.New("the manifest has parameters of no function")
	}
	if inits > 1 {
		return errors.New("the module has more than one Initialize")
	}
	if err := m.checkClasses(); err != nil {
		return err
	}
	return m.checkCallbacks()
}

// takesRanks reports whether the first parameter can be the number of ranks.
func (f *Function) takesRanks() bool {
	if f.Init || len(f.Params) == 0 {
		return false
	}
	p := &f.Params[0]
	return p.Type == Int && !p.Unsigned && p.Mode == ModeIn && len(p.Dims) == 0
}

func (f *Function) parse(params []byte) error {
	for len(params) > 0 {
		var v param
		v, params, _ = DecodePrefix[param](params)
		name, err := parseName("parameter", v.Name[:])
		if err != nil {
			return err
		}
		p := Param{Name: name, Type: Type(v.Type &^ TypeUnsigned), Mode: Mode(v.Mode),
			Unsigned: v.Type&TypeUnsigned != 0, Refers: v.Refers}
		switch {
		case p.Type < Char || p.Type > MasterFunction:
			return fmt.Errorf("parameter %q has type %#x", name, v.Type)
		case p.Unsigned && !p.Type.Integer():
			return fmt.Errorf("parameter %q is unsigned but no integer", name)
		case p.Mode < ModeIn || p.Mode > ModeWork:
			return fmt.Errorf("parameter %q has mode %d", name, v.Mode)
		case v.Dims > DimsMax || v.Pad != 0:
			return fmt.Errorf("parameter %q has %d dimensions, at most %d may be", name, v.Dims, DimsMax)
		}
		p.Dims = append(p.Dims, v.Dim[:v.Dims]...)
		f.Params = append(f.Params, p)
	}
	return nil
}

func parseName(what string, b []byte) (string, error) {
	name := textOf(b)
	if name == "" || len(name) == len(b) {
		return "", fmt.Errorf("a %s has no name, or one that does not end", what)
	}
	for _, c := range b[len(name):] {
		if c != 0 {
			return "", fmt.Errorf("bytes follow the name of %s %q", what, name)
		}
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || c == '/' {
			return "", fmt.Errorf("%s name %q has other than printable characters", what, name)
		}
	}
	return name, nil
}

// checkCode walks every size program of f. There are no jumps, so the depth of
// the stack is known at each instruction.
func (m *Manifest) checkCode(f *Function) error {
	for i := range f.Params {
		p := &f.Params[i]
		for _, d := range p.Dims {
			if d.Size == CodeDefault {
				return fmt.Errorf("parameter %q has a dimension without a size", p.Name)
			}
			for _, at := range []uint32{d.Size, d.Low, d.High, d.Stride} {
				if at == CodeDefault {
					continue
				}
				if err := m.checkProgram(f, i, at); err != nil {
					return fmt.Errorf("parameter %q: %w", p.Name, err)
				}
			}
		}
	}
	return nil
}

func (m *Manifest) checkProgram(f *Function, self int, at uint32) error {
	depth := 0
	for pc := uint64(at); ; {
		if pc >= uint64(len(m.Code)) || pc-uint64(at) >= programMax {
			return fmt.Errorf("size code at %d is not terminated", at)
		}
		op, args := Op(m.Code[pc]), m.Code[pc+1:]
		if op > OpSelect || len(args) < op.operands() {
			return fmt.Errorf("size code at %d has a wrong instruction", pc)
		}
		if err := f.checkOperand(op, args, self); err != nil {
			return err
		}
		pops, pushes := op.effect()
		if depth < pops || depth-pops+pushes > stackMax {
			return fmt.Errorf("size code at %d has too few values or too many", pc)
		}
		if op == OpEnd {
			if depth != 1 {
				return fmt.Errorf("size code at %d leaves %d values, not one", at, depth)
			}
			return nil
		}
		depth += pushes - pops
		pc += 1 + uint64(op.operands())
	}
}

// checkOperand checks the operand of PARAM, an IN integer scalar, or of ITEM, another IN
// array of integers.
func (f *Function) checkOperand(op Op, args []byte, self int) error {
	if op != OpParam && op != OpItem {
		return nil
	}
	i := int(args[0])
	if i >= len(f.Params) {
		return fmt.Errorf("size code names parameter %d of %d", i, len(f.Params))
	}
	p := &f.Params[i]
	scalar := len(p.Dims) == 0
	if p.Mode&ModeIn == 0 || !p.Type.Integer() || scalar != (op == OpParam) || i == self {
		return fmt.Errorf("size code uses parameter %q, whose value is no known integer", p.Name)
	}
	return nil
}

func (op Op) operands() int {
	switch op {
	case OpConst:
		return 8
	case OpParam, OpItem:
		return 1
	}
	return 0
}

func (op Op) effect() (pops, pushes int) {
	switch op {
	case OpEnd:
		return 1, 0
	case OpConst, OpParam:
		return 0, 1
	case OpItem, OpNeg:
		return 1, 1
	case OpSelect:
		return 3, 1
	}
	return 2, 1
}

// ConstCode returns the size code of a constant.
func ConstCode(v int64) []byte {
	return binary.LittleEndian.AppendUint64([]byte{byte(OpConst)}, uint64(v))
}
