// SPDX-License-Identifier: MIT

package image

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// Kinds of the kernel's type information (BTF).
const (
	kindInt = iota + 1
	kindPointer
	kindArray
	kindStruct
	kindUnion
	kindEnum
	kindForward
	kindTypedef
	kindVolatile
	kindConst
	kindRestrict
	kindFunc
	kindProto
	kindVar
	kindDatasec
	kindFloat
	kindDeclTag
	kindTypeTag
	kindEnum64
)

const (
	maxTypes  = 4_000_000
	maxParams = 255
)

// A kind is one type: its header, and where its details begin.
type kind struct {
	name, info, size uint32 // size is the type that it refers to for some
	at               int
}

func (k kind) kind() int { return int(k.info >> 24 & 0x1f) }
func (k kind) vlen() int { return int(k.info & 0xffff) }

// types are numbered from 1; 0 is void.
type types struct {
	body, names []byte
	list        []kind
	functions   map[string][]uint32 // their prototypes
}

// A Prototype is what a wrapper must know of a function.
type Prototype struct {
	Text   string // for people
	Args   int    // registers that its arguments take
	Result string // as the packages' manifest says
	// Uncounted is why no wrapper can pass its calls on, or empty: livepatch
	// alone then leads all of them, or none.
	Uncounted string
}

func readTypes(b []byte) (*types, error) {
	if len(b) < 24 || le16(b) != 0xeb9f || b[2] != 1 {
		return nil, errors.New("there are none")
	}
	header, typeOff, typeLen, nameOff, nameLen := uint64(le32(b[4:])), uint64(le32(b[8:])), uint64(le32(b[12:])), uint64(le32(b[16:])), uint64(le32(b[20:]))
	if header+typeOff+typeLen > uint64(len(b)) || header+nameOff+nameLen > uint64(len(b)) {
		return nil, errors.New("they lie outside of their section")
	}
	t := &types{
		body:      b[header+typeOff:][:typeLen],
		names:     b[header+nameOff:][:nameLen],
		list:      []kind{{}},
		functions: map[string][]uint32{},
	}
	for at := 0; at < len(t.body); {
		if at+12 > len(t.body) || len(t.list) > maxTypes {
			return nil, errors.New("they break off")
		}
		k := kind{le32(t.body[at:]), le32(t.body[at+4:]), le32(t.body[at+8:]), at + 12}
		size, ok := detailSize(k)
		if !ok || k.at+size > len(t.body) {
			return nil, fmt.Errorf("type %d is of an unknown kind", len(t.list))
		}
		if k.kind() == kindFunc {
			name := t.name(k.name)
			t.functions[name] = append(t.functions[name], k.size)
		}
		t.list = append(t.list, k)
		at = k.at + size
	}
	return t, nil
}

// detailSize is the length of what follows a type's header.
func detailSize(k kind) (size int, known bool) {
	switch k.kind() {
	case kindInt, kindVar, kindDeclTag:
		return 4, true
	case kindPointer, kindForward, kindTypedef, kindVolatile, kindConst, kindRestrict, kindFunc, kindFloat, kindTypeTag:
		return 0, true
	case kindArray:
		return 12, true
	case kindStruct, kindUnion, kindDatasec, kindEnum64:
		return 12 * k.vlen(), true
	case kindEnum, kindProto:
		return 8 * k.vlen(), true
	}
	return
}

func (t *types) name(at uint32) string {
	if uint64(at) >= uint64(len(t.names)) {
		return ""
	}
	text := t.names[at:]
	if end := bytes.IndexByte(text, 0); end >= 0 && end < 512 {
		return string(text[:end])
	}
	return ""
}

func (t *types) get(id uint32) (kind, bool) {
	if id == 0 || uint64(id) >= uint64(len(t.list)) {
		return kind{}, false
	}
	return t.list[id], true
}

// stripQualifiers follows typedefs and qualifiers.
func (t *types) stripQualifiers(id uint32) (kind, bool) {
	for range 64 {
		k, ok := t.get(id)
		if !ok {
			return kind{}, false
		}
		switch k.kind() {
		case kindTypedef, kindVolatile, kindConst, kindRestrict, kindTypeTag:
			id = k.size
		default:
			return k, true
		}
	}
	return kind{}, false
}

// Prototype returns a function's type, and whether it can stand behind a wrapper
// that passes six registers on and one back.
func (im *Image) Prototype(name string) (Prototype, error) { return im.types.prototype(name) }

func (t *types) prototype(name string) (Prototype, error) {
	list := t.functions[name]
	if len(list) == 0 {
		return Prototype{}, fmt.Errorf("the kernel's types (BTF) do not know %s: the compiler may have given it arguments of its own", name)
	}
	first, err := t.prototypeOf(name, list[0])
	for _, id := range list[1:] {
		other, otherErr := t.prototypeOf(name, id)
		if err != nil || otherErr != nil {
			return first, errors.Join(err, otherErr)
		}
		if !other.Alike(first) {
			return first, fmt.Errorf("the kernel has several functions %s, of different types: %s and %s", name, first.Text, other.Text)
		}
	}
	return first, err
}

// Variadic reports whether all functions of a name take a format, or something
// else, and as many arguments as that says.
func (im *Image) Variadic(name string) bool {
	list := im.types.functions[name]
	if im.CountFunctions(name) > 1 { // of the others nothing may be known
		return false
	}
	for _, id := range list {
		k, ok := im.types.get(id)
		if !ok || k.kind() != kindProto || k.vlen() == 0 || le32(im.types.body[k.at+8*k.vlen()-4:]) != 0 {
			return false
		}
	}
	return len(list) > 0
}

func (t *types) prototypeOf(name string, id uint32) (Prototype, error) {
	var p Prototype
	k, ok := t.get(id)
	if !ok || k.kind() != kindProto || k.vlen() > maxParams {
		return p, fmt.Errorf("the type of %s is damaged", name)
	}
	var params []string
	for i := range k.vlen() {
		detail := t.body[k.at+8*i:]
		paramName, paramType := t.name(le32(detail)), le32(detail[4:])
		if paramType == 0 { // only the last one, of a variable list
			params = append(params, p.addVariable())
			continue
		}
		if _, ok := t.stripQualifiers(paramType); !ok {
			return p, fmt.Errorf("the type of %s is damaged", name)
		}
		n, ok := t.countRegisters(paramType)
		params = append(params, p.addParam(t.typeText(paramType, 0), paramName, n, ok))
	}
	result, ok := t.resultKind(k.size)
	if _, plain := t.stripQualifiers(k.size); !ok && !plain {
		return p, fmt.Errorf("the type of %s is damaged", name)
	}
	p.finish(name, params, t.typeText(k.size, 0), result, ok)
	return p, nil
}

const variable = "takes a variable number of arguments"

// Alike reports whether a wrapper does the same for functions of two types.
func (p Prototype) Alike(other Prototype) bool {
	return p.Args == other.Args && p.Result == other.Result && p.Uncounted == other.Uncounted
}

// IsVariadic reports whether a function takes a variable list of arguments.
func (p Prototype) IsVariadic() bool { return p.Uncounted == variable }

// addVariable adds a variable list of parameters, and returns its text.
func (p *Prototype) addVariable() string {
	p.Uncounted = variable
	return "..."
}

// addParam adds a parameter that takes so many registers, or is in memory, and returns its text.
func (p *Prototype) addParam(text, name string, registers int, inRegisters bool) string {
	if !inRegisters {
		p.Uncounted = fmt.Sprintf("takes a %s in memory", text)
	}
	p.Args += registers
	return strings.TrimSpace(text + " " + name)
}

// finish adds the result, which may take more than one register.
func (p *Prototype) finish(name string, params []string, resultText, result string, inRegister bool) {
	p.Text = fmt.Sprintf("%s %s(%s)", resultText, name, strings.Join(params, ", "))
	p.Result = result
	switch {
	case p.Uncounted != "":
	case p.Args > 6:
		p.Uncounted = "takes more arguments than the six in registers"
	case !inRegister:
		p.Uncounted = fmt.Sprintf("gives back a %s, which takes more than one register", resultText)
	}
}

// countRegisters reports how many general registers an argument takes. Structs above
// 16 bytes are passed in memory, and so is what holds a float.
func (t *types) countRegisters(id uint32) (int, bool) {
	k, ok := t.stripQualifiers(id)
	if !ok {
		return 0, false
	}
	switch k.kind() {
	case kindPointer:
		return 1, true
	case kindInt, kindEnum, kindEnum64, kindStruct, kindUnion:
		return int(k.size+7) / 8, k.size <= 16
	}
	return 0, false
}

// resultKind sorts what a function gives back by how it tells of an error.
func (t *types) resultKind(id uint32) (string, bool) {
	if id == 0 {
		return "void", true
	}
	k, ok := t.stripQualifiers(id)
	if !ok {
		return "void", id != 0 && t.voidBehind(id)
	}
	switch k.kind() {
	case kindPointer:
		return "pointer", true
	case kindInt:
		const signed = 1
		encoding := le32(t.body[k.at:]) >> 24 & 0xf
		if encoding == signed && k.size == 4 {
			return "int", true
		}
		if encoding == signed && k.size == 8 {
			return "long", true
		}
		return "value", k.size <= 8
	case kindEnum, kindEnum64, kindStruct, kindUnion:
		return "value", k.size <= 8
	}
	return "", false
}

// voidBehind reports whether a type is only another name of void.
func (t *types) voidBehind(id uint32) bool {
	for range 64 {
		k, ok := t.get(id)
		if !ok {
			return id == 0
		}
		id = k.size
	}
	return false
}

// typeText writes a type nearly as C does.
func (t *types) typeText(id uint32, depth int) string {
	if id == 0 {
		return "void"
	}
	k, ok := t.get(id)
	if !ok || depth > 16 {
		return "?"
	}
	name := t.name(k.name)
	switch k.kind() {
	case kindPointer:
		return t.typeText(k.size, depth+1) + " *"
	case kindConst:
		return "const " + t.typeText(k.size, depth+1)
	case kindVolatile, kindRestrict, kindTypeTag:
		return t.typeText(k.size, depth+1)
	case kindStruct:
		return "struct " + name
	case kindUnion:
		return "union " + name
	case kindEnum, kindEnum64:
		return "enum " + name
	case kindForward:
		return "struct " + name
	case kindProto:
		return "function"
	}
	if name == "" {
		return "?"
	}
	return name
}
