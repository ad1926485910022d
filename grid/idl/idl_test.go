// SPDX-License-Identifier: MIT

package idl

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"skep/internal/uapi"
)

func readExample(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parseText(t testing.TB, text string) *Module {
	t.Helper()
	m, err := Parse("x.idl", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// roundTrip encodes a manifest and parses it again.
func roundTrip(t testing.TB, m *Module) *uapi.Manifest {
	t.Helper()
	b, err := m.Manifest().Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := uapi.ParseManifest(b)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, m.Manifest()) {
		t.Fatalf("the manifest came back as\n%s\nfrom\n%s", DumpManifest(back), DumpManifest(m.Manifest()))
	}
	return back
}

// The manifest of a file with all features equals the stored one.
func TestGolden(t *testing.T) {
	m := parseText(t, string(readExample(t, "all.idl")))
	if got, want := DumpManifest(roundTrip(t, m)), string(readExample(t, "all.golden")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if want := []string{"first.o", "second.o", "-lm"}; !reflect.DeepEqual(m.Files, want) {
		t.Errorf("files %q, want %q", m.Files, want)
	}
	if want := []string{"-DALL=1"}; !reflect.DeepEqual(m.Options, want) {
		t.Errorf("options %q, want %q", m.Options, want)
	}
	if doc := m.Defines[0].doc; doc != "keeps a number and says so" {
		t.Errorf("doc %q", doc)
	}
	if i := m.Manifest().Initialize(); i != 0 {
		t.Errorf("Initialize is function %d", i)
	}
}

// Dump prints IDL. With function bodies added it gives the same manifest.
func TestDumpIsIDL(t *testing.T) {
	first := DumpManifest(parseText(t, string(readExample(t, "all.idl"))).Manifest())
	text := strings.ReplaceAll(first, " /* every new worker runs it first */", "")
	text = strings.ReplaceAll(text, ")\n", ") {}\n")
	if second := DumpManifest(parseText(t, text).Manifest()); second != first {
		t.Errorf("got\n%s\nwant\n%s", second, first)
	}
}

// forms are spellings that occur in files of OmniRPC or Ninf-G, each with an equivalent form.
var forms = []struct{ text, want string }{
	{"Define f(OUT double r[]) {}", "f(\n\tOUT double r[1])"},
	{"Define f(IN int n, OUT int r[n][]) {}", "f(\n\tIN int n,\n\tOUT int r[n][1])"},
	{"Define f(IN int *x) {}", "f(\n\tIN int x[1])"},
	{"Define f(WORK double *x) {}", "f(\n\tWORK double x[1])"},
	{"Define f(OUT int *x) {}", "f(\n\tOUT int x)"},
	{"Define f(IN int (x)[3L]) {}", "f(\n\tIN int x[3])"},
	{"Define f(IN string x[2], OUT string y[]) {}", "f(\n\tIN string x[2],\n\tOUT string y[1])"},
	{"Define f(OUT string *x, filename INOUT y) {}", "f(\n\tOUT string x,\n\tINOUT filename y)"},
	{"Define f(IN filepointer x[2], IN dcomplex z) {}", "f(\n\tIN filepointer x[2],\n\tIN dcomplex z)"},
	{"Define f(unsigned IN long x) {}", "f(\n\tIN unsigned long x)"},
	{"Define f(IN int n, IN int x[n:n/2]) {}", "f(\n\tIN int n,\n\tIN int x[n:0,n / 2])"},
	{"Define f(IN int n) Shrink \"yes\" Backend \"normal\" CalcOrder n^3 Language \"C\" {}", "f(\n\tIN int n)"},
	{"Define f(IN int n) CalcOrder \"n\" Language \"Fortran\" Calls \"Fortran\" g(n);", "f(\n\tIN int n)"},
	{"Define f(IN int x[3:0,3,1]) {}", "f(\n\tIN int x[3:0,3,1])"},
	{"Define f(IN int n, OUT double x[n]) Backend \"MPI\" {}", "f(\n\tIN int n,\n\tOUT double x[n]) Backend \"MPI\""},
	{"Define f(IN int n, g(IN int k, IN double x[n])) Backend \"MPI\" {}", "f(\n\tIN int n,\n\tg(IN int k, IN double x[n])) Backend \"MPI\""},
	{"Define f() Backend \"mpi\" {}", "f() Backend \"MPI\""},
	{"Define f(IN int n) Language \"C\"; Shrink \"no\"; Backend \"\"; {}", "f(\n\tIN int n)"},
	{"Define f(IN broadcast int n, allocate OUT int *x, IN int broadcast) {}", "f(\n\tIN int n,\n\tOUT int x,\n\tIN int broadcast)"},
	{"DefClass c { DefMethod _initialize() { } DefMethod f() { } }", "f() /* a method of the class c */"},
	{"DefClass c { DefMethod Initialize() { } DefMethod f() { } }", "Initialize() /* every new worker runs it first */\n\nDefine f() /* a method of the class c */"},
	{"DefClass c { DefState { int x; } DefMethod f() { } }", "f() /* a method of objects of the class c, which have state */"},
	{"DefClass c { DefMethod f() { } DefState { int x; } }", "f() /* a method of objects of the class c, which have state */"},
	{"DefClass c \"doc\" Required \"x.o\" { DefMethod f(IN int n) \"doc\" { } }", "f(\n\tIN int n) /* a method of the class c */"},
}

func TestForms(t *testing.T) {
	for _, f := range forms {
		m := parseText(t, "Module a; "+f.text)
		if got, want := DumpManifest(roundTrip(t, m)), "Module a;\n\nDefine "+f.want+"\n"; got != want {
			t.Errorf("%s\n gave %q\n want %q", f.text, got, want)
		}
	}
}

// A Fortran name gets the compiler's underscore once, however it is written.
func TestFortranNames(t *testing.T) {
	for text, want := range map[string]string{
		`Define f(IN int n) Calls "Fortran" inner(n);`:                         "inner_",
		`Define f(IN int n) Calls "Fortran" inner_(n);`:                        "inner_",
		`FortranFormat "%l"; Define f(IN int n) Calls "Fortran" Inner(n);`:     "inner",
		`Fortranformat "_%l_"; Define f(IN int n) Calls "fortran" INNER(n);`:   "_inner_",
		`FortranFormat "%s__"; Define f(IN int n) Calls "Fortran" inner_x(n);`: "inner_x__",
	} {
		if got := parseText(t, "Module a; "+text).Defines[0].call.name; got != want {
			t.Errorf("%s calls %q, want %q", text, got, want)
		}
	}
}

// Compilers are named for the whole file.
func TestTools(t *testing.T) {
	m := parseText(t, `Module a; Compiler "cc -m64"; Linker "c++"; Linker "c++"; Define f() {}`)
	if m.Compiler != "cc -m64" || m.Linker != "c++" {
		t.Errorf("compiler %q, linker %q", m.Compiler, m.Linker)
	}
}

// Limits are for the whole file, come back from a manifest, and are in the stub.
func TestLimits(t *testing.T) {
	m := parseText(t, `Module a; Limits "memory=2G wall-time=1h", "processes=8"; Define f() Limits "cpu-time=1500ms disk=512M memory=2G" {}`)
	want := uapi.Limits{Memory: 2 << 30, Disk: 512 << 20, CPU: 1500, Wall: 3600000, Processes: 8}
	if m.Manifest().Limits != want {
		t.Errorf("%+v, want %+v", m.Manifest().Limits, want)
	}
	dump := DumpManifest(m.Manifest())
	if line := `Limits "memory=2147483648 disk=536870912 processes=8 cpu-time=1.5s wall-time=1h0m0s";`; !strings.Contains(dump, line+"\n") {
		t.Errorf("no %s in\n%s", line, dump)
	}
	if again := parseText(t, strings.TrimSuffix(dump, "\n")+"{}"); again.Manifest().Limits != want {
		t.Errorf("%+v came back", again.Manifest().Limits)
	}
	text, err := m.Stub("a_stub.c")
	if err != nil || !strings.Contains(string(text), "2147483648ull, 536870912ull, 1500ull, 3600000ull, 8ull};") {
		t.Errorf("%v: no limits in\n%s", err, text)
	}
	text, err = parseText(t, `Module a; Define f() {}`).Stub("a_stub.c")
	if err != nil || strings.Contains(string(text), uapi.LimitsSection) {
		t.Errorf("%v: limits in\n%s", err, text)
	}
}

var problems = []struct{ text, want string }{
	{"", "1:1: the file has no module: begin it with `Module NAME;`"},
	{"Module a;", "1:10: the module has no function: write Define NAME(...) { }"},
	{"Define f() {}", "1:1: the file has no module: begin it with `Module NAME;`"},
	{"Module a; Module b; Define f() {}", "1:11: a file has one Module"},
	{"Module 7; Define f() {}", `1:8: expected the name of the module, found "7"`},
	{"Module a Define f() {}", `1:10: expected ";" after the module's name, found "Define"`},
	{"Module a; #include <x.h>\nDefine f() {}", "1:11: a directive of the C preprocessor must begin its line"},
	{"Module a;\nint x;\nDefine f() {}", `2:1: expected Module, Define or Globals, found "int"`},
	{"Module a;\nGlobals int x;\nDefine f() {}", `2:9: expected "{" after Globals, found "int"`},
	{"Module a; Define f() { \"}\" // }\n", "1:22: this brace is never closed: write }"},
	{"Module a; Define f() {} /* ", "1:25: this comment does not end: write */"},
	{"Module a; Define f() \"doc\n {}", "1:22: this string does not end in its line"},
	{"Module a; Define f() ;", `1:22: expected the body of "f" as { C } or Calls, found ";"`},
	{"Module a; Define f()", `1:21: expected the body of "f" as { C } or Calls, found the end of the file`},
	{"Module a; Define f {}", `1:20: expected "(" after the function's name, found "{"`},
	{"Module a; Define f() {} Define f() {}", `1:32: the function "f" is defined twice`},
	{"Module a; Define int() {}", `1:18: "int" is a word of C and can't be the name of the function`},
	{"Module a; Define skep_x() {}", "1:18: names that begin with skep_ are kept for skep"},
	{"Module a; Define " + strings.Repeat("f", 64) + "() {}", "1:18: the name of the function has 64 characters, at most 63 may be"},
	{"Module a; Define f(int x) {}", `1:20: the parameter "x" has no mode: write IN, OUT, INOUT or WORK`},
	{"Module a; Define f(IN x) {}", `1:20: the parameter "x" has no type, such as int or double`},
	{"Module a; Define f(IN OUT int x) {}", "1:23: the parameter has two modes"},
	{"Module a; Define f(IN int double x) {}", "1:27: the parameter has two types"},
	{"Module a; Define f(IN long long long x) {}", "1:33: there are too many words long"},
	{"Module a; Define f(IN unsigned double x) {}", `1:39: the parameter "x" is unsigned but no integer`},
	{"Module a; Define f(IN int x, IN int x) {}", `1:37: the parameter "x" is declared twice`},
	{"Module a; Define f(IN int x IN int y) {}", `1:29: expected "," or ")" after a parameter, found "IN"`},
	{"Module a; Define f(IN int) {}", `1:26: expected the name of a parameter, found ")"`},
	{"Module a; Define f(IN int **x) {}", `1:29: "x" is a pointer to pointers: write an array with its size, such as x[n]`},
	{"Module a; Define f(OUT int *x[3]) {}", `1:29: "x" is a pointer: write an array with its size, such as x[n]`},
	{"Module a; Define f(IN int (x[2])) {}", `1:29: expected ")" after the parameter's name, found "["`},
	{"Module a; Define f(IN int n, IN int g(IN int x[n])) {}", `1:30: the callback "g" has a mode or a type: write its name and its parameters alone`},
	{"Module a; Define f(g(h(IN int x))) {}", `1:22: the callback "g" can't have a callback: give it to "f"`},
	{"Module a; Define f(g(WORK string x[2])) {}", `1:34: the WORK parameter "x" is a string or file: use a variable in the body`},
	{"Module a; Define f(g(IN filename x)) {}", `1:34: callbacks take no files: pass what is in "x" as a string, or as a char array with its size`},
	{"Module a; Define f(g(OUT filepointer x[2])) {}", `1:38: callbacks take no files: pass what is in "x" as a string, or as a char array with its size`},
	{"Module a; Define f(g(IN dcomplex x)) {}", "1:34: callbacks take complex numbers by address: write x[1]"},
	{"Module a; Define f(IN int n[2], g(IN int x[n[1]])) {}", `1:44: the size takes an item of "n", which is an array of "f": pass what it needs to "g"`},
	{"Module a; Define f(OUT int n, g(IN int x[n])) {}", `1:42: the size uses "n", which is not IN: its value is not known before the call`},
	{"Module a; Define f(IN double n, g(IN int x[n])) {}", `1:44: the size uses "n" of "f", which is not an integer`},
	{"Module a; Define f(g(IN int x[m])) {}", `1:31: the size names "m", which is not a parameter of "g"`},
	{"Module a; Define f(g(IN int x, IN int x)) {}", `1:39: the parameter "x" is declared twice`},
	{"Module a; Define f(g(IN int x[0])) {}", `1:31: the size of "x" is 0, at least 1 must be`},
	{"Module a; Define f(g(IN int x) {}", `1:32: expected "," or ")" after a parameter, found "{"`},
	{"Module a; Define Initialize(g(IN int x)) {}", "1:29: Initialize can't call the master, which does not wait for it"},
	{"Module a; Define f(g(IN int x, OUT string s)) Calls \"Fortran\" h(g);", `1:43: Fortran can't give the string "s" to "g": call a C function, or pass a char array with its size`},
	{"Module a; Define f(g(IN int x)[2]) {}", `1:31: expected "," or ")" after a parameter, found "["`},
	{"Module a; Define f(g(), IN int x[g]) {}", `1:34: the size uses "g", which is not an integer`},
	{"Module a; Define f(IN file x) {}", "1:23: file is not supported; write filename or filepointer"},
	{"Module a; Define f(CALLBACK g(IN int a[2], IN int b)) {}", "1:20: CALLBACK is not supported; write the callback's name and its parameters alone, as in step(IN int n, IN double x[n])"},
	{"Module a; Define f(WORK string x[2]) {}", `1:32: the WORK parameter "x" is a string or file: use a variable in the body`},
	{"Module a; Define f(IN string x[5:1,2]) {}", `1:30: strings and files are sent as a whole: write "x" without a range`},
	{"Module a; Define f(IN filename x) Calls \"Fortran\" g(x);", `1:51: Fortran can't take "x": call a C function, or pass a char array with its size`},
	{"Module a; Define f(void x, IN int y) {}", "1:20: void is not supported; name the type of what travels"},
	{"Module a; Define f() 7 { int x; } Define g() {}", `1:22: expected the body of "f" as { C } or Calls, found "7"`},
	{"Module a; DefClass c { DefMethod f() 7 { int x; } DefMethod g() {} }", `1:38: expected the body of "f" as { C } or Calls, found "7"`},
	{"Module a; Define f { \"Module b;\"; Module c; /* Define */ } Define g() {}", `1:20: expected "(" after the function's name, found "{"`},
	{"Module a; Define f(IN void x) {}", "1:23: void is not supported; name the type of what travels"},
	{"Module a; Define f(WORK int s) {}", `1:29: the WORK parameter "s" is not an array: use a variable in the body`},
	{"Module a; Define f(IN int x[][3]) {}", `1:28: the size of "x" is missing: only the last brackets may be empty, for one element`},
	{"Module a; Define f(IN int x[:2]) {}", `1:29: expected a number or a parameter's name in a size, found ":"`},
	{"Module a; Define f(IN int x[0]) {}", `1:29: the size of "x" is 0, at least 1 must be`},
	{"Module a; Define f(IN int x[2 - 5]) {}", `1:31: the size of "x" is -3, at least 1 must be`},
	{"Module a; Define f(IN int x[1/0]) {}", "1:30: this divides by zero"},
	{"Module a; Define f(IN int x[2^63]) {}", "1:30: an exponent is 0 to 62"},
	{"Module a; Define f(IN int x[3^62]) {}", "1:30: this value does not fit 64 bits"},
	{"Module a; Define f(IN int x[99999999999999999999]) {}", `1:29: "99999999999999999999" is not an integer of at most 64 bits`},
	{"Module a; Define f(IN int x[1.5]) {}", `1:30: "." can't be used in a size; there are + - * / % ^, comparisons and ?:`},
	{"Module a; Define f(IN int x[1 && 2]) {}", `1:31: "&&" can't be used in a size; there are + - * / % ^, comparisons and ?:`},
	{"Module a; Define f(IN int x[1 ? 2]) {}", `1:34: expected ":" between the two values behind ?, found "]"`},
	{"Module a; Define f(IN int x[(1]) {}", `1:31: expected ")" after the expression, found "]"`},
	{"Module a; Define f(IN int x[" + strings.Repeat("1^", 70) + "1]) {}", "1:159: this size is nested too deeply"},
	{"Module a; Define f(IN int x[" + strings.Repeat("(", 70) + "1" + strings.Repeat(")", 70) + "]) {}", "1:94: this size is nested too deeply"},
	{"Module a; Define f(IN int x[3:4]) {}", `1:31: the part of "x" ends at 4, behind its size 3`},
	{"Module a; Define f(IN int x[3:]) {}", `1:31: expected a number or a parameter's name in a size, found "]"`},
	{"Module a; Define f(IN int x[3:2,1]) {}", `1:33: the part of "x" ends before it begins`},
	{"Module a; Define f(IN int x[3:0,4]) {}", `1:33: the part of "x" ends at 4, behind its size 3`},
	{"Module a; Define f(IN int x[3:-1,2]) {}", `1:31: the first index of "x" is below 0`},
	{"Module a; Define f(IN int x[3:0,3,0]) {}", `1:35: the stride of "x" is 0, at least 1 must be`},
	{"Module a; Define f(IN int x[1][1][1][1][1]) {}", "1:40: an array has at most 4 dimensions"},
	{"Module a; Define f(IN int x[n]) {}", `1:29: the size names "n", which is not a parameter of "f"`},
	{"Module a; Define f(OUT int n, IN int x[n]) {}", `1:40: the size uses "n", which is not IN: its value is not known before the call`},
	{"Module a; Define f(IN double n, IN int x[n]) {}", `1:42: the size uses "n", which is not an integer`},
	{"Module a; Define f(IN int n[2], IN int x[n]) {}", `1:42: the size uses the array "n": write which item, such as n[0]`},
	{"Module a; Define f(IN int n, IN int x[n[0]]) {}", `1:39: the size takes an item of "n", which is not an array`},
	{"Module a; Define f(IN int x[n[0]], IN int n[1]) {}", `1:29: the size takes an item of "n", which is not declared before "x"`},
	{"Module a; Define f(IN int n) Calls \"C\" g(m);", `1:42: "m" is not a parameter of "f"`},
	{"Module a; Define f(IN int n) Calls \"Ada\" g(n);", `1:36: Calls knows "C" and "Fortran"`},
	{"Module a; Define f(IN int n) Calls \"C\" g(n + 1);", `1:44: expected a parameter's name, "," or ")", found "+"`},
	{"Module a; Define f() CalcOrder n^3; {}", `1:32: the size names "n", which is not a parameter of "f"`},
	{"Module a; Define f() Backend \"BLACS\" {}", `1:30: Backend "BLACS" is not supported: write "MPI", or leave Backend out`},
	{"Module a; Define f() Language \"Fortran\" {}", "1:31: bodies are in C; call other languages with Calls, and link their files"},
	{"Module a; Define f() Language \"Java\" {}", "1:31: bodies are in C; call other languages with Calls, and link their files"},
	{"Module a; Define f() CalcOrder {}", `1:32: expected a number or a parameter's name in a size, found "{"`},
	{"Module a; CalcOrder 3; Define f() {}", "1:11: CalcOrder belongs after the parameters of a function"},
	{"Module a; Limits \"speed=2\"; Define f() {}", `1:18: there is no limit "speed": write memory, disk, cpu-time, wall-time or processes, as in "memory=2G cpu-time=10m"`},
	{"Module a; Limits \"memory=0\"; Define f() {}", `1:18: "memory=0": memory is a size such as 512M or 2G`},
	{"Module a; Limits \"disk\"; Define f() {}", `1:18: "disk": disk is a size such as 512M or 2G`},
	{"Module a; Limits \"cpu-time=10\"; Define f() {}", `1:18: "cpu-time=10": cpu-time is a time such as 30s, 10m or 2h`},
	{"Module a; Limits \"wall-time=1us\"; Define f() {}", `1:18: "wall-time=1us": wall-time is a time such as 30s, 10m or 2h`},
	{"Module a; Limits \"wall-time=-1s\"; Define f() {}", `1:18: "wall-time=-1s": wall-time is a time such as 30s, 10m or 2h`},
	{"Module a; Limits \"processes=2K\"; Define f() {}", `1:18: "processes=2K": processes is a number above 0`},
	{"Module a; Limits \"processes=0\"; Define f() {}", `1:18: "processes=0": processes is a number above 0`},
	{"Module a; Limits \"cpu-time=300000h\"; Define f() {}", `1:18: "cpu-time=300000h": cpu-time is a time such as 30s, 10m or 2h`},
	{"Module a; Limits \"disk=1G\"; Define f() Limits \"disk=2G\" {}", `1:47: disk was limited before: one program is made of the whole file`},
	{"Module a; Define f() Shrink \"maybe\" {}", `1:29: Shrink is "yes" or "no"`},
	{"Module a; Compiler \"\"; Define f() {}", `1:20: the string names no program, such as "gcc"`},
	{"Module a; Linker \"cc\"; Linker \"ld\"; Define f() {}", `1:31: "cc" was named before: one program is made of the whole file`},
	{"Module a; DefClass c { DefState { int x; } DefState { int y; } DefMethod f() {} }", `1:44: the class "c" has one DefState: write all of its variables there`},
	{"Module a; Define g() {} DefClass c { DefState int x; }", `1:47: expected "{" after DefState, found "int"`},
	{"Module a; Define g() {} DefClass c { DefState { int x; } }", `1:34: the class "c" has no method: write DefMethod NAME(...) { }`},
	{"Module a; DefClass c { DefMethod f() {} } DefClass c { DefMethod g() {} }", `1:52: the class "c" is defined twice`},
	{"Module a; DefClass c { DefState {} DefMethod f() {} DefMethod f() {} }", `1:63: the function "f" is defined twice`},
	{"Module a; DefClass c { DefMethod f() {} } Define f() {}", `1:50: the function "f" is defined twice`},
	{"Module a; DefClass c { DefState {} DefMethod Initialize() {} }", `1:46: Initialize is run by every new worker of the module, before an object's first method: write it as a function of the module, outside of the class "c"`},
	{"Module a; DefClass c { DefState {} DefMethod f() Backend \"MPI\" {} }", `1:46: the class "c" has state, and an MPI job keeps none: write Backend "normal", or leave DefState out`},
	{"Module a; DefClass c { DefState {} DefMethod _finalize() {} }", "1:46: _finalize is not supported: a worker may be ended at any time; put what must be done at its end into a function for atexit"},
	{"Module a; DefClass c { DefMethod _initialize(IN int n) {} }", "1:34: _initialize has no parameters, and its body is { C }"},
	{"Module a; DefClass c { DefMethod _finalize() {} }", "1:34: _finalize is not supported: a worker may be ended at any time; put what must be done at its end into a function for atexit"},
	{"Module a; DefClass c { DefMethod f() {} int x; }", `1:41: expected DefMethod or "}" in the class "c", found "int"`},
	{"Module a; Define f() Required x.o {}", `1:31: expected a string after Required, found "x"`},
	{"Module a; Fortranformat \"%d\"; Define f() {}", `1:25: a Fortran format is letters around %s (the name) or %l (the name in small letters), such as "%l_"`},
	{"Module a; FortranFormat \"plain\"; Define f() {}", `1:25: a Fortran format is letters around %s (the name) or %l (the name in small letters), such as "%l_"`},
	{"Module a; FortranFormat \"%s-\"; Define f() {}", `1:25: a Fortran format is letters around %s (the name) or %l (the name in small letters), such as "%l_"`},
	{"Module a; Define f(unsigned double x) {}", `1:20: the parameter "x" has no mode: write IN, OUT, INOUT or WORK`},
	{"Module a; Define f(IN int größe) {}", `1:29: expected "," or ")" after a parameter, found "ö"`},
	{"Module a;\r\n\tDefine f(IN int x[n]) {}\r\n", `2:20: the size names "n", which is not a parameter of "f"`},
}

// Each planted error is reported, and no other, with its position.
func TestProblems(t *testing.T) {
	for _, c := range problems {
		_, err := Parse("x.idl", []byte(c.text))
		var p *Problems
		if !errors.As(err, &p) {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		first := p.List[0]
		got := fmt.Sprintf("%d:%d: %s", first.Line, first.Column, first.Text)
		if got != c.want || len(p.List) != 1 {
			t.Errorf("%q:\n got %s\nwant %s\n(%d errors)", c.text, got, c.want, len(p.List))
		}
	}
}

// One run reports all errors of a file in order, each with its line.
func TestProblemsTogether(t *testing.T) {
	_, err := Parse("bad.idl", []byte("Module bad;\n"+
		"Define one(IN file x, int y, IN int a[m])\n{ if (0) { } }\n"+
		"\tDefine two(IN int n, IN int b[n +]) {}\n"+
		"Define one(IN int\tn\x1b) {}\n"))
	want := `bad.idl:2:15: file is not supported; write filename or filepointer
  Define one(IN file x, int y, IN int a[m])
                ^
bad.idl:2:23: the parameter "y" has no mode: write IN, OUT, INOUT or WORK
  Define one(IN file x, int y, IN int a[m])
                        ^
bad.idl:2:39: the size names "m", which is not a parameter of "one"
  Define one(IN file x, int y, IN int a[m])
                                        ^
bad.idl:4:35: expected a number or a parameter's name in a size, found "]"
  	Define two(IN int n, IN int b[n +]) {}
  	                                 ^
bad.idl:5:8: the function "one" is defined twice
  Define one(IN int	n?) {}
         ^
bad.idl:5:20: expected "," or ")" after a parameter, found "\x1b"
  Define one(IN int	n?) {}
                   	 ^`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestProblemsAreCounted(t *testing.T) {
	_, err := Parse("x.idl", []byte("Module a;\n"+strings.Repeat("Define f(IN file x) {}\n", 25)))
	if err == nil || !strings.HasSuffix(err.Error(), "\nx.idl: 29 more errors are not shown") {
		t.Errorf("%v", err)
	}
}

// runCommand runs a compiler or a program that it made.
func runCommand(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

const root = "../.."

// Stubs compile without a warning. Errors in a body are reported at their position in the IDL
// file.
func TestStubCompiles(t *testing.T) {
	dir := t.TempDir()
	m, err := Parse(filepath.Join("testdata", "all.idl"), readExample(t, "all.idl"))
	if err != nil {
		t.Fatal(err)
	}
	stub := filepath.Join(dir, "all_stub.c")
	text, err := m.Stub(stub)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, stub, text)
	for _, cc := range []string{"gcc", "clang"} {
		runCommand(t, cc, "-std=gnu11", "-Wall", "-Wextra", "-Wmissing-prototypes", "-Wstrict-prototypes", "-Wshadow", "-Wundef", "-Wno-unused-parameter", "-Werror",
			"-I"+root+"/grid/include", "-c", "-o", stub+".o", stub)
	}
}

func writeFile(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A file whose C text takes complex numbers for structures gets Ninf-G's, with the names
// and headers that its stubs have; other files get C's complex numbers.
func TestComplexKinds(t *testing.T) {
	for text, want := range map[string]string{
		"Define f(IN dcomplex a, OUT dcomplex *b) { if (b != NULL) b->r = a.i; fprintf(stderr, \"x\"); }":    "dcomplex *b",
		"Define f(IN scomplex a[2], OUT float b[2]) { b[0] = a[1].r; }":                                      "scomplex *a",
		"Globals { static void g(scomplex *x) { x->i = 1; } } Define f(INOUT scomplex a[1]) { g(a); }":       "scomplex *a",
		"Globals { typedef struct { float r, i; } scomplex; } Define f(INOUT scomplex a[1]) { (*a).r = 0; }": "scomplex *a",
		"Define f(IN dcomplex a, OUT dcomplex b) { *b = a * 2; }":                                            "double _Complex *b",
		"Define f(IN scomplex a, OUT float b) { struct { float r; } x = {1}; *b = x.r; (void)a; }":           "float _Complex a",
	} {
		stub := filepath.Join(t.TempDir(), "a_stub.c")
		text, err := parseText(t, "Module a; "+text).Stub(stub)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v: no %q in\n%s", err, want, text)
		}
		writeFile(t, stub, text)
		runCommand(t, "gcc", "-Wall", "-Werror", "-I"+root+"/grid/include", "-c", "-o", stub+".o", stub)
	}
}

func TestStubPlaces(t *testing.T) {
	dir := t.TempDir()
	m := parseText(t, "Module a;\nGlobals { int f(void); }\nDefine f(IN int n)\n\t{ n = nowhere; }\nDefine g(IN int n)\n\tCalls \"C\" f(n);\n")
	stub := filepath.Join(dir, `odd "name\.c`)
	text, err := m.Stub(stub)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, stub, append(text, "#error here\n"...))
	out, err := exec.Command("gcc", "-I"+root+"/grid/include", "-fsyntax-only", stub).CombinedOutput()
	line := bytes.Count(text, []byte("\n")) + 1
	for _, want := range []string{"x.idl:4:8: error", "x.idl:6:", fmt.Sprintf(`name\.c:%d:2: error: #error here`, line)} {
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("no %q in (%v)\n%s", want, err, out)
		}
	}
}

const sizer = `
#include "grid/core/module.h"
#include <skep/worker.h>
#include <stdio.h>
int main(void)
{
	static const int list[] = {5, 6, 7};
	struct grid_value value[64] = {{.bits = 7}, {.bits = 3}, {.at = (void *)list, .count = 3}};
	struct grid_module m;
	const char *why;
	s64 size;
	u32 i;

	if (grid_module_open(&m, skep_worker.manifest, skep_worker.length, &why)) {
		puts(why);
		return 1;
	}
	for (i = 3; i < m.function[0].params; i++) {
		if (grid_module_size(&m, &m.function[0], value, m.param[i].dim[0].size, &size))
			puts("error");
		else
			printf("%lld\n", (long long)size);
	}
	return 0;
}
`

// The C side reads the manifest, and its size code gives the value of the expression for n = 7,
// m = 3, list = {5, 6, 7}.
func TestSizesInC(t *testing.T) {
	sizes := []struct{ text, want string }{
		{"1 + 2 * 3", "7"}, {"(1 + 2) * 3", "9"}, {"n - m - 1", "3"}, {"n / m * 2", "4"}, {"n % 4 + 1", "4"},
		{"2 ^ 3 ^ 2", "512"}, {"2 * m ^ 2", "18"}, {"10 + -2 ^ 2", "6"}, {"2 ^ -m", "error"}, {"- -n", "7"}, {"+n", "7"},
		{"n > m", "1"}, {"n < m", "0"}, {"m <= 3", "1"}, {"m >= 4", "0"}, {"n == 7", "1"}, {"n != 7", "0"}, {"1 + 1 < 3 == 1", "1"},
		{"n > m ? n : m", "7"}, {"n < m ? n : m ? 11 : 12", "11"}, {"list[0]", "5"}, {"list[n - 5] * 2", "14"}, {"list[list[0] - 4]", "6"},
		{"list[m]", "error"}, {"n / (m - 3)", "error"}, {"0x10 + 010", "24"}, {"9223372036854775807 - n + n", "9223372036854775807"}, {"9223372036854775807 + n", "error"},
	}
	var text, want strings.Builder
	text.WriteString("Module a; Define f(IN int n, IN int m, IN int list[3]")
	for i, s := range sizes {
		fmt.Fprintf(&text, ", OUT int x%d[%s]", i, s.text)
		want.WriteString(s.want + "\n")
	}
	text.WriteString(") {}")
	dir := t.TempDir()
	stub, err := parseText(t, text.String()).Stub("a_stub.c")
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "stub.c"), stub)
	writeFile(t, filepath.Join(dir, "main.c"), []byte(sizer))
	program := filepath.Join(dir, "sizer")
	runCommand(t, "gcc", "-I"+root, "-I"+root+"/include", "-I"+root+"/grid/include", "-o", program,
		filepath.Join(dir, "stub.c"), filepath.Join(dir, "main.c"), root+"/grid/core/module.c")
	got := strings.Split(runCommand(t, program), "\n")
	for i, s := range sizes {
		if i >= len(got) || got[i] != s.want {
			t.Errorf("%s is %q, want %s", s.text, got[i:min(i+1, len(got))], s.want)
		}
	}
}

// No input makes the compiler panic. Accepted input gives a manifest that is read back unchanged,
// and a stub.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "all.idl"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, c := range problems {
		f.Add([]byte(c.text))
	}
	for _, c := range forms {
		f.Add([]byte("Module a; " + c.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Parse("x.idl", text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a text")
			}
			return
		}
		DumpManifest(roundTrip(t, m))
		if _, err := m.Stub("x_stub.c"); err != nil {
			t.Error(err)
		}
	})
}

// A constant size equals the value that the same size code gives on a node.
func TestConstantsAreFolded(t *testing.T) {
	for _, c := range []struct {
		op   uapi.Op
		want [3]int64 // of 1 and 2, 2 and 2, 3 and 2
	}{
		{uapi.OpLT, [3]int64{1, 0, 0}}, {uapi.OpLE, [3]int64{1, 1, 0}},
		{uapi.OpGT, [3]int64{0, 0, 1}}, {uapi.OpGE, [3]int64{0, 1, 1}},
		{uapi.OpEQ, [3]int64{0, 1, 0}}, {uapi.OpUnequal, [3]int64{1, 0, 1}},
		{uapi.OpAdd, [3]int64{3, 4, 5}}, {uapi.OpSub, [3]int64{-1, 0, 1}}, {uapi.OpMul, [3]int64{2, 4, 6}},
		{uapi.OpDiv, [3]int64{0, 1, 1}}, {uapi.OpMod, [3]int64{1, 0, 1}}, {uapi.OpPow, [3]int64{1, 4, 9}},
	} {
		for i, want := range c.want {
			if got, wrong := foldConstant(c.op, []int64{int64(i + 1), 2}); got != want || wrong != "" {
				t.Errorf("%v of %d and 2: %d %s, want %d", c.op, i+1, got, wrong, want)
			}
		}
	}
	if got, wrong := foldConstant(uapi.OpNeg, []int64{7}); got != -7 || wrong != "" {
		t.Errorf("7 negated: %d %s", got, wrong)
	}
	for i, want := range []int64{6, 5} {
		if got, _ := foldConstant(uapi.OpSelect, []int64{int64(i), 5, 6}); got != want {
			t.Errorf("%d ? 5 : 6 is %d", i, got)
		}
	}
}

// The line before a block keeps its tabs, so that a compiler's caret is at the error.
func TestBlocksKeepTabs(t *testing.T) {
	m := parseText(t, "Module a;\nGlobals\t\t{ int x; }\nDefine f() {}")
	if got, want := m.Globals[0].indent, "       \t\t"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// An apostrophe that begins no character constant, as in a comment, does not hide a brace.
func TestApostrophesInBlocks(t *testing.T) {
	for _, text := range []string{"Define f() { #error don'}", "Define f() { #error '{ }\n}"} {
		if got := parseText(t, "Module a; "+text).Defines[0].body; got == nil || "Define f() "+got.text != text {
			t.Errorf("%q", got.text)
		}
	}
}

// A function's description is its own string, not that of an option.
func TestDocOfAFunction(t *testing.T) {
	for _, text := range []string{`Define f(IN int n) "doc" CalcOrder "n" {}`, `Define f(IN int n) CalcOrder "n" "doc" {}`, `Define f(IN int n) CalcOrder n "doc" {}`} {
		if doc := parseText(t, "Module a; "+text).Defines[0].doc; doc != "doc" {
			t.Errorf("%s: %q", text, doc)
		}
	}
}
