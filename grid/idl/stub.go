// SPDX-License-Identifier: MIT

package idl

import (
	"bytes"
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"skep/internal/uapi"
)

// A stub is C text that counts its own lines, for #line.
type stub struct {
	bytes.Buffer
	name    string
	m       *Module
	lines   int // in the bytes that were counted
	counted int
}

// Stub returns the C file that turns the functions into a worker. It is compiled with
// grid/include and linked with libskepworker. name is the name of the C file.
func (m *Module) Stub(name string) ([]byte, error) {
	manifest, err := m.manifest.Encode()
	if err != nil {
		return nil, err
	}
	s := &stub{name: filepath.ToSlash(name), m: m}
	// The comment does not contain the file's name, which could end it.
	s.linef("/* Made by skep gen: change the IDL, not this file. */")
	s.linef("#include <skep/worker.h>")
	for _, header := range headers {
		s.linef("#include <%s>", header)
	}
	if m.HasRanks {
		s.linef("#include <mpi.h>")
	}
	if m.structures {
		m.declareStructures(s)
	}
	for i := range m.Globals {
		b := m.Globals[i]
		s.linef("")
		inner := " " + strings.TrimSuffix(strings.TrimPrefix(b.text, "{"), "}")
		s.writeFrom(b.at, b.indent+inner)
	}
	for i, b := range m.Begin {
		s.linef("")
		s.linef("__attribute__((constructor)) static void skep_begin_%d(void)", i)
		s.writeFrom(b.at, b.indent+b.text)
	}
	for i := range m.Defines {
		s.linef("")
		s.writeFunction(i)
	}
	s.writeTables(manifest)
	if m.HasRanks {
		s.writeRankMain()
	}
	return s.Bytes(), nil
}

// headers are those that the stubs of OmniRPC and Ninf-G include: bodies use their names
// without another include.
var headers = []string{"assert.h", "errno.h", "stdio.h", "stdlib.h", "string.h", "unistd.h"}

func (s *stub) linef(format string, args ...any) {
	fmt.Fprintf(s, format+"\n", args...)
}

// writeFrom writes text from a position of the IDL.
func (s *stub) writeFrom(at position, text string) {
	s.linef("#line %d %s", at.line, cString(filepath.ToSlash(cmp.Or(at.file, s.m.File))))
	s.WriteString(text)
	s.WriteString("\n")
	s.lines += bytes.Count(s.Bytes()[s.counted:], []byte("\n"))
	s.counted = s.Len()
	s.linef("#line %d %s", s.lines+2, cString(s.name))
}

// cString quotes a file name as a C string.
func cString(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(name) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

var cTypes = [...]string{uapi.Char: "char", uapi.Short: "short", uapi.Int: "int", uapi.Long: "long",
	uapi.Float: "float", uapi.Double: "double", uapi.SComplex: "float _Complex", uapi.DComplex: "double _Complex", uapi.String: "char",
	uapi.Filename: "char *", uapi.Filepointer: "FILE *"}

func (q *param) cType() string {
	t := cTypes[q.kind]
	if q.structure {
		t = typeNames[q.kind]
	}
	if q.kind == uapi.String && q.isTexts() {
		t = "char *"
	}
	if q.longlong {
		t = "long long"
	}
	if q.unsigned {
		t = "unsigned " + t
	}
	return t
}

// isTexts reports whether the library stores the argument as an array of pointers:
// files, strings of mode OUT, and arrays of both.
func (q *param) isTexts() bool {
	return q.kind.Text() && (q.kind != uapi.String || len(q.dims) > 0 || q.mode != uapi.ModeIn)
}

// isPointer reports whether C gets the argument's address rather than its value.
func (q *param) isPointer(fortran bool) bool {
	if q.kind == uapi.Filename || q.kind == uapi.Filepointer {
		return len(q.dims) > 0 // else it is the name or FILE * itself
	}
	return fortran || len(q.dims) > 0 || q.mode != uapi.ModeIn || q.kind == uapi.String
}

func (q *param) declaration(name string, fortran bool) string {
	if q.callback != nil {
		return q.callbackType(name, fortran)
	}
	if q.isPointer(fortran) {
		return q.cType() + " *" + name
	}
	return strings.TrimSuffix(q.cType()+" "+name, " ")
}

// argument returns argument i as a C expression.
func (d *define) argument(i int, fortran bool) string {
	q := d.params[i]
	if q.callback != nil {
		return q.wrapper()
	}
	if q.isPointer(fortran) {
		return fmt.Sprintf("argument[%d]", i)
	}
	return fmt.Sprintf("*(%s *)argument[%d]", q.cType(), i)
}

func (s *stub) writeFunction(i int) {
	d := s.m.Defines[i]
	s.writeCallbacks(d)
	if d.body != nil {
		var declared, passed []string
		for j, q := range d.params {
			if q.hidden {
				continue
			}
			declared = append(declared, q.declaration(q.name, false)+" __attribute__((unused))")
			passed = append(passed, d.argument(j, false))
		}
		s.linef("static void skep_body_%s(%s)", s.m.symbol(d), list(declared))
		s.writeFrom(d.body.at, d.body.indent+d.body.text)
		s.writeWrapper(d, fmt.Sprintf("\tskep_body_%s(%s);", s.m.symbol(d), strings.Join(passed, ", ")), nil)
		return
	}
	declared, passed := d.callArguments()
	if !s.m.mayDeclare(d.call.name) {
		s.writeFrom(d.call.at, fmt.Sprintf("void %s(%s);", d.call.name, list(declared)))
	}
	s.writeWrapper(d, fmt.Sprintf("\t%s(%s);", d.call.name, strings.Join(passed, ", ")), &d.call.at)
}

// callArguments returns the types and values of a call. Fortran compilers expect the
// lengths of strings behind all other arguments.
func (d *define) callArguments() (declared, passed []string) {
	fortran := d.call.fortran
	var lengths []string
	for _, a := range d.call.args {
		if a.param < 0 {
			declared, passed = append(declared, "long"), append(passed, a.text)
			continue
		}
		q := d.params[a.param]
		declared = append(declared, q.declaration("", fortran))
		passed = append(passed, d.argument(a.param, fortran))
		if fortran && q.kind == uapi.String {
			lengths = append(lengths, fmt.Sprintf("(argument[%[1]d] ? __builtin_strlen(argument[%[1]d]) : 0)", a.param))
		}
	}
	for _, length := range lengths {
		declared, passed = append(declared, "unsigned long"), append(passed, length)
	}
	return declared, passed
}

func list(declared []string) string {
	if len(declared) == 0 {
		return "void"
	}
	return strings.Join(declared, ", ")
}

// writeWrapper writes the function that the library calls.
func (s *stub) writeWrapper(d *define, statement string, at *position) {
	s.linef("")
	s.linef("static void skep_call_%s(void *const *argument)", s.m.symbol(d))
	s.linef("{")
	if !strings.Contains(statement, "argument[") {
		s.linef("\t(void)argument;")
	}
	if at != nil {
		s.writeFrom(*at, statement)
	} else {
		s.linef("%s", statement)
	}
	s.linef("}")
}

// mayDeclare reports whether Globals may declare a function already: they contain its
// name, or include a header of the user.
func (m *Module) mayDeclare(name string) bool {
	for _, b := range m.Globals {
		for _, w := range strings.FieldsFunc(b.text, func(r rune) bool { return r > 0x7f || !isLetter(byte(r)) && !isDigit(byte(r)) }) {
			if w == name {
				return true
			}
		}
		for _, l := range strings.Split(b.text, "\n") {
			l = strings.ReplaceAll(strings.ReplaceAll(l, " ", ""), "\t", "")
			if strings.HasPrefix(strings.TrimPrefix(l, "{"), "#include\"") {
				return true
			}
		}
	}
	return false
}

// writeLimits writes struct skep_limits, if the file states limits.
func (s *stub) writeLimits() {
	l := s.m.limits
	if l == (uapi.Limits{}) {
		return
	}
	s.linef("static const unsigned long long skep_limits[5] __attribute__((")
	s.linef("\taligned(8), section(%q), used)) = {", uapi.LimitsSection)
	s.linef("\t%dull, %dull, %dull, %dull, %dull};", l.Memory, l.Disk, l.CPU, l.Wall, l.Processes)
	s.linef("")
}

// writeManifest writes the manifest and the limits.
func (s *stub) writeManifest(manifest []byte) {
	s.linef("")
	s.linef("/* <skep/module.h>; `skep gen --manifest` shows it. */")
	s.linef("static const unsigned char skep_manifest[%d] __attribute__((", len(manifest))
	s.linef("\taligned(8), section(%q), used)) = {", uapi.Section)
	for len(manifest) > 0 {
		n := min(len(manifest), 12)
		s.WriteByte('\t')
		for i, b := range manifest[:n] {
			if i > 0 {
				s.WriteByte(' ')
			}
			fmt.Fprintf(s, "0x%02x,", b)
		}
		s.WriteByte('\n')
		manifest = manifest[n:]
	}
	s.linef("};")
	s.linef("")
	s.writeLimits()
}

func (s *stub) writeTables(manifest []byte) {
	s.writeManifest(manifest)
	s.linef("static skep_worker_function *const skep_functions[] = {")
	for _, d := range s.m.Defines {
		s.linef("\tskep_call_%s,", s.m.symbol(d))
	}
	s.linef("};")
	s.linef("")
	s.linef("const struct skep_worker skep_worker = {")
	s.linef("\tskep_manifest, sizeof(skep_manifest), skep_functions};")
}
