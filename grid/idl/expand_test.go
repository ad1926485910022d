// SPDX-License-Identifier: MIT

package idl

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runCPP is what skep gen does; dir is where headers are.
func runCPP(dir string) Expander {
	return func(text []byte) ([]byte, error) {
		cmd := exec.Command("gcc", "-E", "-x", "c", "-iquote", dir, "-")
		cmd.Stdin = bytes.NewReader(text)
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := cmd.Run(); err != nil {
			return nil, errors.New(said.String())
		}
		return out.Bytes(), nil
	}
}

const directives = `#include "sizes.h"
Module a;
#define max(a, b) ((a) > (b) ? (a) : (b))
#if 0
Define gone(IN file x) { }
#endif
Globals {
#include <stdio.h>
#define INNER \
	4
/* # not one */
static int helper(int n) { return n + INNER; }
}
Define f(IN int n, IN int m, INOUT double x[max(n, m)][COLUMNS])
{
#ifdef INNER
	x[0] += max(helper(n), m) + '}';
#else
#error directives of C text are for the compiler
#endif
	printf("# %d", n);
}
DefClass c {
#define NAME g
	DefMethod NAME(IN int n) {
#line 99
 n = nowhere; }
}
`

// Macros hold in sizes and in C text; the directives of C text go to the C compiler as they are.
func TestDirectives(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "sizes.h"), []byte("#define COLUMNS 3\n"))
	m, err := Way{Expand: runCPP(dir)}.Parse("x.idl", []byte(directives))
	if err != nil {
		t.Fatal(err)
	}
	dump := DumpManifest(m.Manifest())
	if want := "x[(n>m)?n:m][3]"; !strings.Contains(strings.ReplaceAll(dump, " ", ""), want) || !strings.Contains(dump, "Define g(") {
		t.Errorf("no %s and g in\n%s", want, dump)
	}
	stub := filepath.Join(dir, "a_stub.c")
	text, err := m.Stub(stub)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"#include <stdio.h>\n", "#define INNER \\\n\t4\n", `"# %d"`, "#ifdef INNER\n"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	writeFile(t, stub, text)
	out, err := exec.Command("gcc", "-I"+root+"/grid/include", "-fsyntax-only", stub).CombinedOutput()
	if err == nil || strings.Count(string(out), ": error: ") != 1 || !strings.Contains(string(out), "x.idl:99:6: error") {
		t.Errorf("%v, %s", err, out)
	}
}

// Errors name the line of the file, or of the header, behind any number of directives.
func TestPlacesBehindDirectives(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "params.h"), []byte("\n\n IN int n, IN file x\n"))
	text := "#define SIZE n\n\n#if 1\nModule a;\n#endif\n" + strings.Repeat("\n", 20) +
		"Define f(IN int n, OUT int y[SIZE + m]) { }\nDefine g(\n#include \"params.h\"\n) {\n#define A \\\n\t2\n" + strings.Repeat("\n", 20) + "}\nDefine h(IN int) { body }\n"
	_, err := Way{Expand: runCPP(dir)}.Parse("odd \"name\\.idl", []byte(text))
	var p *Problems
	if !errors.As(err, &p) || len(p.List) != 3 {
		t.Fatal(err)
	}
	for i, want := range []string{`odd "name\.idl:26:`, filepath.Join(dir, "params.h") + ":3:", `odd "name\.idl:53:16: expected the name`} {
		if line := strings.Split(err.Error(), "\n")[3*i]; !strings.HasPrefix(line, want) {
			t.Errorf("%q, want %q", line, want)
		}
	}
	text = "Module a;\n#include \"missing.h\"\nDefine f() {}\n"
	if _, err := (Way{Expand: runCPP(dir)}).Parse("x.idl", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "x.idl:2:10: fatal error: missing.h") {
		t.Errorf("%v", err)
	}
}

// Files without a directive outside of C text do not need the preprocessor.
func TestNoDirectives(t *testing.T) {
	never := func([]byte) ([]byte, error) { return nil, errors.New("it ran") }
	for _, text := range []string{
		"Module a; Globals {\n#include <math.h>\n}\nDefine f() {\n#if 1\n#endif\n}",
		"Module a;\n/*\n#define x\n*/ // \\\n\nDefine f() \"a\" {\n char c = '}'; }",
		"DefClass c {\nDefMethod f() {\n#if 1\n{\n#endif\n} } } Module a;",
	} {
		_, err := Way{Expand: never}.Parse("x.idl", []byte(text))
		if err != nil && err.Error() == "it ran" {
			t.Errorf("it ran for %q", text)
		}
	}
	for _, text := range []string{"Module a;\n  #define x\nDefine f() {}", "Module a; Define f() {}\n#", "DefClass c {\n#if 1\n"} {
		if _, err := (Way{Expand: never}).Parse("x.idl", []byte(text)); err == nil || err.Error() != "it ran" {
			t.Errorf("it did not run for %q: %v", text, err)
		}
	}
}

// A directive that the preprocessor has moved is not lost without a word.
func TestDirectiveInArguments(t *testing.T) {
	text := "#define twice(x) x x\nModule a;\nDefine f() {\n\ttwice(\n#if 1\n\tg();\n#endif\n\t)\n}\n"
	_, err := Way{Expand: runCPP(".")}.Parse("x.idl", []byte(text))
	if err == nil || !strings.Contains(err.Error(), "inside a macro's arguments") {
		t.Errorf("%v", err)
	}
}

// No text makes the parts panic that see what the preprocessor wrote.
func FuzzExpanded(f *testing.F) {
	f.Add([]byte(directives), []byte("# 3 \"a\\\"b\" 1 2\nModule a;\n# 999999999 \"c\"\nDefine f() {\n skep_directive_0_\n# 7 \"x.idl\"\nskep_directive_9_\n}"))
	f.Add([]byte("#\nDefine f() {\n#"), []byte("# 1 \"\\1\\12\\\\\"\n# 0 \"\"\n#"))
	f.Fuzz(func(t *testing.T, file, out []byte) {
		shown, hidden, _ := hide(string(file))
		if strings.Count(shown, "\n") != strings.Count(string(file), "\n") {
			t.Errorf("lines moved: %q", shown)
		}
		if n := strings.Count(shown, "skep_directive_") - strings.Count(string(file), "skep_directive_"); n < 0 || len(hidden) < n {
			t.Errorf("%d directives are hidden and %d seen", len(hidden), n)
		}
		m, err := Way{Expand: func([]byte) ([]byte, error) { return out, nil }}.Parse("x.idl", file)
		if err == nil {
			_, err = m.Stub("x_stub.c")
		} else if fmt.Sprint(err) == "" {
			t.Error("an error without a text")
		}
	})
}
