// SPDX-License-Identifier: MIT

package image

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"strings"
)

// IsFunction reports whether a symbol of this type, a letter as in /proc/kallsyms, is a function.
func IsFunction(letter byte) bool { return strings.IndexByte("tTwW", letter) >= 0 }

// CountFunctions returns how many functions the kernel has of a name. Its types (BTF) may
// describe only one of them, whichever was read first.
func (im *Image) CountFunctions(name string) int {
	n := 0
	for _, i := range im.byName[name] {
		if IsFunction(im.Symbols[i].Type) {
			n++
		}
	}
	return n
}

// Declared are the functions that a file's debug information describes, by name.
type Declared struct {
	Own    map[string]Prototype // defined in the file; in C these are one of a name
	Called map[string]Prototype // of other files
}

// Of returns the type of a function that the file defines or calls.
func (d *Declared) Of(name string) (Prototype, bool) {
	if p, ok := d.Own[name]; ok {
		return p, true
	}
	p, ok := d.Called[name]
	return p, ok
}

// ReadDeclared reads an object's debug information.
func ReadDeclared(object string) (*Declared, error) {
	f, err := elf.Open(object)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	out := &Declared{map[string]Prototype{}, map[string]Prototype{}}
	reader := data.Reader()
	for {
		e, err := reader.Next()
		if err != nil || e == nil {
			return out, err
		}
		name, _ := e.Val(dwarf.AttrName).(string)
		if e.Tag != dwarf.TagSubprogram || name == "" {
			continue
		}
		of := out.Own
		if only, _ := e.Val(dwarf.AttrDeclaration).(bool); only {
			of = out.Called
		}
		if of[name], err = readDeclared(data, reader, e, name); err != nil {
			return nil, fmt.Errorf("%s: the type of %s: %w", object, name, err)
		}
	}
}

// readDeclared reads one function and its parameters, up to the end of its entries.
func readDeclared(data *dwarf.Data, reader *dwarf.Reader, e *dwarf.Entry, name string) (Prototype, error) {
	var p Prototype
	var params []string
	result, err := typeOf(data, e)
	if err != nil {
		return p, err
	}
	for e.Children {
		child, _ := reader.Next() // who reads on gets an error again
		if child == nil || child.Tag == 0 {
			break
		}
		switch child.Tag {
		case dwarf.TagUnspecifiedParameters:
			params = append(params, p.addVariable())
		case dwarf.TagFormalParameter:
			t, err := typeOf(data, child)
			if err != nil {
				return p, err
			}
			is, _ := child.Val(dwarf.AttrName).(string)
			n, ok := countDeclared(t)
			params = append(params, p.addParam(declaredText(t, 0), is, n, ok))
		}
		reader.SkipChildren()
	}
	kind, ok := declaredResult(result)
	p.finish(name, params, declaredText(result, 0), kind, ok)
	return p, nil
}

// typeOf returns the type of an entry; void if it has none.
func typeOf(data *dwarf.Data, e *dwarf.Entry) (dwarf.Type, error) {
	at, ok := e.Val(dwarf.AttrType).(dwarf.Offset)
	if !ok {
		return &dwarf.VoidType{}, nil
	}
	return data.Type(at)
}

// plainDeclared follows typedefs and qualifiers.
func plainDeclared(t dwarf.Type) dwarf.Type {
	for {
		switch of := t.(type) {
		case *dwarf.TypedefType:
			t = of.Type
		case *dwarf.QualType:
			t = of.Type
		default:
			return t
		}
	}
}

// countDeclared is countRegisters for a type of debug information.
func countDeclared(t dwarf.Type) (int, bool) {
	t = plainDeclared(t)
	switch t.(type) {
	case *dwarf.FloatType, *dwarf.ComplexType, *dwarf.VoidType, *dwarf.UnspecifiedType:
		return 0, false
	}
	size := t.Size()
	return int(size+7) / 8, size >= 0 && size <= 16
}

// declaredResult is resultKind for a type of debug information.
func declaredResult(t dwarf.Type) (string, bool) {
	t = plainDeclared(t)
	switch t.(type) {
	case *dwarf.VoidType:
		return "void", true
	case *dwarf.PtrType:
		return "pointer", true
	case *dwarf.FloatType, *dwarf.ComplexType:
		return "", false
	case *dwarf.IntType:
		if t.Size() == 4 {
			return "int", true
		}
		if t.Size() == 8 {
			return "long", true
		}
	}
	return "value", t.Size() <= 8
}

// declaredText writes a type as typeText does.
func declaredText(t dwarf.Type, depth int) string {
	if depth > 16 {
		return "?"
	}
	switch of := t.(type) {
	case *dwarf.VoidType:
		return "void"
	case *dwarf.PtrType:
		return declaredText(of.Type, depth+1) + " *"
	case *dwarf.QualType:
		if of.Qual == "const" {
			return "const " + declaredText(of.Type, depth+1)
		}
		return declaredText(of.Type, depth+1)
	case *dwarf.StructType:
		return of.Kind + " " + of.StructName
	case *dwarf.EnumType:
		return "enum " + of.EnumName
	case *dwarf.FuncType:
		return "function"
	}
	if name := t.Common().Name; name != "" {
		return name
	}
	return "?"
}
