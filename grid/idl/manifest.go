// SPDX-License-Identifier: MIT

package idl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"

	"skep/internal/uapi"
)

// Initialize is the function that every new worker runs first.
const Initialize = "Initialize"

// An encoder collects size code. Equal programs are stored once.
type encoder struct {
	code  []byte
	known map[string]uint32
}

// encode returns the manifest, or reports why the module exceeds a manifest's limits.
func (p *parser) encode(m *Module) {
	e := &encoder{known: map[string]uint32{}}
	out := &uapi.Manifest{Name: m.Name, Limits: m.limits}
	for _, d := range m.Defines {
		f := uapi.Function{Name: d.name, Init: d.name == Initialize, Ranks: d.ranks}
		for _, q := range d.params {
			f.Params = append(f.Params, e.encodeParam(d, q))
		}
		out.Functions = append(out.Functions, f)
	}
	e.encodeCallbacks(m, out)
	encodeClasses(m, out)
	out.Code = e.code
	m.manifest = out
	if _, err := out.Encode(); err != nil {
		p.problemf(m.Defines[0].at, "the sizes of this file are too complicated: %v", err)
	}
}

func (e *encoder) encodeParam(d *define, q *param) uapi.Param {
	out := uapi.Param{Name: q.name, Type: q.kind, Unsigned: q.unsigned, Mode: q.mode, Refers: uint32(q.refers)}
	for _, dim := range q.dims {
		out.Dims = append(out.Dims, uapi.Dim{
			Size: e.encodeProgram(d, dim.size), Low: e.encodeProgram(d, dim.low),
			High: e.encodeProgram(d, dim.high), Stride: e.encodeProgram(d, dim.stride)})
	}
	return out
}

func (e *encoder) encodeProgram(d *define, x *expr) uint32 {
	if x == nil {
		return uapi.CodeDefault
	}
	code := append(x.encode(d, nil), byte(uapi.OpEnd))
	at, ok := e.known[string(code)]
	if !ok {
		at = uint32(len(e.code))
		e.known[string(code)] = at
		e.code = append(e.code, code...)
	}
	return at
}

func (x *expr) encode(d *define, to []byte) []byte {
	for _, a := range x.args {
		to = a.encode(d, to)
	}
	switch x.op {
	case uapi.OpConst:
		return append(to, uapi.ConstCode(x.num)...)
	case uapi.OpParam, uapi.OpItem:
		return append(to, byte(x.op), byte(d.index(x.name)))
	}
	return append(to, byte(x.op))
}

var typeNames = [...]string{uapi.Char: "char", uapi.Short: "short", uapi.Int: "int", uapi.Long: "long",
	uapi.Float: "float", uapi.Double: "double", uapi.SComplex: "scomplex", uapi.DComplex: "dcomplex", uapi.String: "string",
	uapi.Filename: "filename", uapi.Filepointer: "filepointer"}

var modeNames = [...]string{uapi.ModeIn: "IN", uapi.ModeOut: "OUT", uapi.ModeInOut: "INOUT", uapi.ModeWork: "WORK"}

// DumpManifest writes a manifest as IDL.
func DumpManifest(m *uapi.Manifest) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Module %s;\n", m.Name)
	if list := dumpLimits(m.Limits); list != "" {
		fmt.Fprintf(&b, "Limits %q;\n", list)
	}
	for i := range m.Functions {
		f := &m.Functions[i]
		if f.Callback || f.Class {
			continue
		}
		var list []string
		for j := range f.Params {
			if j > 0 || !f.Ranks {
				list = append(list, dumpParam(m, f, &f.Params[j]))
			}
		}
		fmt.Fprintf(&b, "\nDefine %s(", f.Name)
		if len(list) > 0 {
			fmt.Fprintf(&b, "\n\t%s", strings.Join(list, ",\n\t"))
		}
		b.WriteString(")" + dumpBackend(f) + dumpClass(m, f))
		if f.Init {
			b.WriteString(" /* every new worker runs it first */")
		}
		b.WriteString("\n")
	}
	return b.String()
}

func dumpParam(m *uapi.Manifest, f *uapi.Function, p *uapi.Param) string {
	if p.Type == uapi.MasterFunction {
		return dumpCallback(m, p)
	}
	var b bytes.Buffer
	b.WriteString(modeNames[p.Mode] + " ")
	if p.Unsigned {
		b.WriteString("unsigned ")
	}
	b.WriteString(typeNames[p.Type] + " " + p.Name)
	for _, d := range p.Dims {
		b.WriteString("[" + sourceOf(m, f, d.Size))
		if d.Low != uapi.CodeDefault || d.High != uapi.CodeDefault || d.Stride != uapi.CodeDefault {
			low, high := "0", sourceOf(m, f, d.Size)
			if d.Low != uapi.CodeDefault {
				low = sourceOf(m, f, d.Low)
			}
			if d.High != uapi.CodeDefault {
				high = sourceOf(m, f, d.High)
			}
			b.WriteString(":" + low + "," + high)
			if d.Stride != uapi.CodeDefault {
				b.WriteString("," + sourceOf(m, f, d.Stride))
			}
		}
		b.WriteString("]")
	}
	return b.String()
}

var opSigns = map[uapi.Op]string{uapi.OpAdd: "+", uapi.OpSub: "-", uapi.OpMul: "*", uapi.OpDiv: "/", uapi.OpMod: "%", uapi.OpPow: "^",
	uapi.OpLT: "<", uapi.OpLE: "<=", uapi.OpGT: ">", uapi.OpGE: ">=", uapi.OpEQ: "==", uapi.OpUnequal: "!="}

// dumpMax bounds the text of one size, because the manifest is untrusted.
const dumpMax = 1 << 16

// sourceOf converts size code to an expression, with all parentheses.
// The manifest has been parsed, so its code is well formed.
func sourceOf(m *uapi.Manifest, f *uapi.Function, at uint32) string {
	var stack []string
	pop := func() string {
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		return s
	}
	for code := m.Code[at:]; ; {
		op, n := uapi.Op(code[0]), 1
		var s string
		switch op {
		case uapi.OpEnd:
			s = stack[0]
			if strings.HasPrefix(s, "(") {
				s = s[1 : len(s)-1]
			}
			return s
		case uapi.OpConst:
			n = 9
			s = fmt.Sprint(int64(binary.LittleEndian.Uint64(code[1:])))
		case uapi.OpParam:
			n = 2
			s = f.Params[code[1]].Name
		case uapi.OpItem:
			n = 2
			s = f.Params[code[1]].Name + "[" + pop() + "]"
		case uapi.OpNeg:
			s = "(-" + pop() + ")"
		case uapi.OpSelect:
			no, yes, cond := pop(), pop(), pop()
			s = "(" + cond + " ? " + yes + " : " + no + ")"
		default:
			right, left := pop(), pop()
			s = "(" + left + " " + opSigns[op] + " " + right + ")"
		}
		if len(s) > dumpMax {
			return "..."
		}
		stack = append(stack, s)
		code = code[n:]
	}
}
