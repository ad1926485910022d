// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// A shape is how a compiler laid a structure out.
type shape struct {
	file   string // that defines it, relative to the tree
	line   int
	size   int64
	fields []field // those of nameless members too, in the order of the text
}

// A field is a member. Its place is in bytes, and bits behind a colon.
type field struct{ name, place, kind string }

// readShapes returns the structures that an object's debug information tells of,
// by the name that programs call them by.
func readShapes(object string) (map[string]*shape, error) {
	f, err := elf.Open(object)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := f.DWARF()
	if err != nil {
		return nil, err
	}
	out := map[string]*shape{}
	reader := data.Reader()
	var files []*dwarf.LineFile
	dir := ""
	for {
		e, err := reader.Next()
		if err != nil || e == nil {
			return out, err
		}
		switch e.Tag {
		case dwarf.TagCompileUnit:
			dir, _ = e.Val(dwarf.AttrCompDir).(string)
			lines, err := data.LineReader(e)
			if err != nil || lines == nil {
				return nil, errors.Join(err, fmt.Errorf("%s names no files", object))
			}
			files = lines.Files()
			continue
		case dwarf.TagStructType, dwarf.TagUnionType, dwarf.TagTypedef:
			name, s, err := readShape(data, e)
			if err != nil {
				return nil, err
			}
			if s != nil {
				s.readDeclaration(e, files, dir)
				out[name] = s
			}
		}
		reader.SkipChildren()
	}
}

// readShape reads a structure with a name, be it only by a typedef.
func readShape(data *dwarf.Data, e *dwarf.Entry) (string, *shape, error) {
	name, _ := e.Val(dwarf.AttrName).(string)
	if declared, _ := e.Val(dwarf.AttrDeclaration).(bool); declared || name == "" {
		return "", nil, nil
	}
	t, err := data.Type(e.Offset)
	if err != nil {
		return "", nil, err
	}
	if alias, ok := t.(*dwarf.TypedefType); ok {
		t = alias.Type
	}
	s, ok := t.(*dwarf.StructType)
	if !ok || s.Incomplete || e.Tag == dwarf.TagTypedef && s.StructName != "" {
		return "", nil, nil
	}
	if e.Tag != dwarf.TagTypedef {
		name = s.Kind + " " + name
	}
	return name, &shape{size: s.ByteSize, fields: fieldsOf(s, 0)}, nil
}

func (s *shape) readDeclaration(e *dwarf.Entry, files []*dwarf.LineFile, dir string) {
	n, _ := e.Val(dwarf.AttrDeclFile).(int64)
	line, _ := e.Val(dwarf.AttrDeclLine).(int64)
	s.line = int(line)
	if n > 0 && n < int64(len(files)) && files[n] != nil {
		s.file = strings.TrimPrefix(path.Clean(files[n].Name), path.Clean(dir)+"/")
	}
}

func fieldsOf(s *dwarf.StructType, base int64) []field {
	var out []field
	for _, f := range s.Field {
		at := base + f.ByteOffset
		if inner, ok := plainType(f.Type).(*dwarf.StructType); ok && f.Name == "" {
			out = append(out, fieldsOf(inner, at)...)
			continue
		}
		place := fmt.Sprint(at)
		if f.BitSize > 0 {
			place = fmt.Sprintf("%d:%d+%d", at+f.DataBitOffset/8, f.DataBitOffset%8, f.BitSize)
		}
		out = append(out, field{f.Name, place, kindOf(f.Type)})
	}
	return out
}

// plainType is a type without its other names and qualifiers.
func plainType(t dwarf.Type) dwarf.Type {
	for {
		switch x := t.(type) {
		case *dwarf.TypedefType:
			t = x.Type
		case *dwarf.QualType:
			t = x.Type
		default:
			return t
		}
	}
}

// kindOf says of a type what old and new text must agree on to read the same
// bytes; signs and the names of numbers are no part of it.
func kindOf(t dwarf.Type) string {
	switch t := plainType(t).(type) {
	case *dwarf.PtrType:
		return "pointer to " + pointeeName(t.Type)
	case *dwarf.ArrayType:
		return fmt.Sprintf("%d times %s", t.Count, kindOf(t.Type))
	case *dwarf.StructType:
		if t.StructName != "" {
			return fmt.Sprintf("%s %s of %d", t.Kind, t.StructName, t.ByteSize)
		}
		return fmt.Sprintf("%s %v of %d", t.Kind, fieldsOf(t, 0), t.ByteSize)
	case *dwarf.FloatType:
		return fmt.Sprintf("floating point of %d", t.ByteSize)
	case nil:
		return "nothing"
	default:
		return fmt.Sprintf("number of %d", t.Size())
	}
}

// pointeeName names what a pointer leads to, and does not follow it.
func pointeeName(t dwarf.Type) string {
	switch t := plainType(t).(type) {
	case *dwarf.StructType:
		return strings.TrimSpace(t.Kind + " " + t.StructName)
	case *dwarf.FuncType:
		return functionKind(t)
	case *dwarf.PtrType:
		return "pointer"
	case *dwarf.ArrayType:
		return "array"
	case *dwarf.VoidType, nil:
		return "anything"
	default:
		return fmt.Sprintf("number of %d", t.Size())
	}
}

// functionKind says what both sides of a call must agree on.
func functionKind(t *dwarf.FuncType) string {
	var takes []string
	for _, p := range t.ParamType {
		if _, more := p.(*dwarf.DotDotDotType); more {
			takes = append(takes, "...")
		} else {
			takes = append(takes, kindOf(p))
		}
	}
	return fmt.Sprintf("function of (%s) that returns %s", strings.Join(takes, ", "), kindOf(t.ReturnType))
}

// difference reports what has another layout, or "". A member with another
// name in the same place is the same.
func (s *shape) difference(old *shape) string {
	for _, f := range s.fields {
		was := old.findField(f.name)
		switch {
		case was == nil && !old.hasField(f):
			return f.name + " is new"
		case was == nil:
		case was.place != f.place:
			return fmt.Sprintf("%s moves from byte %s to %s", f.name, was.place, f.place)
		case was.kind != f.kind:
			return f.name + " is of another type"
		}
	}
	for _, f := range old.fields {
		if s.findField(f.name) == nil && !s.hasField(f) {
			return f.name + " goes"
		}
	}
	if s.size != old.size {
		return "its end moves"
	}
	return ""
}

func (s *shape) findField(name string) *field {
	if i := slices.IndexFunc(s.fields, func(f field) bool { return f.name == name }); i >= 0 {
		return &s.fields[i]
	}
	return nil
}

// hasField reports whether a member of the same kind lies in the same place.
func (s *shape) hasField(f field) bool {
	return slices.ContainsFunc(s.fields, func(g field) bool { return g.place == f.place && g.kind == f.kind })
}
