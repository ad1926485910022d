// SPDX-License-Identifier: MIT

// Package hello runs the blocks of README and docs/calling.md word by word,
// and workers made of interface files end to end.
package hello

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/tests/built"
)

const (
	root    = "../.."
	runTime = 2 * time.Minute
)

// A place is a folder that looks like a built source tree.
type place struct {
	t    *testing.T
	dir  string
	skep string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	build := built.Folder(t, "make check T=hello")
	p := &place{t: t, dir: t.TempDir(), skep: filepath.Join(build, "bin", "skep")}
	if err := os.Mkdir(filepath.Join(p.dir, "build"), 0o755); err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs(filepath.Join(root, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{"build/bin": filepath.Join(build, "bin"), "build/wheel": filepath.Join(build, "wheel"), "examples": examples} {
		if err := os.Symlink(from, filepath.Join(p.dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// run returns a program's output and exit code. It uses its own state directory, so that no
// hub of this machine is used.
func (p *place) run(name string, args ...string) (output string, code int) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "XDG_RUNTIME_DIR=")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil || cmd.ProcessState == nil {
		p.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (p *place) mustRun(name string, args ...string) string {
	p.t.Helper()
	out, code := p.run(name, args...)
	if code != 0 {
		p.t.Fatalf("%s %q ended with %d:\n%s", name, args, code, out)
	}
	return out
}

func (p *place) write(name, text string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func readSource(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// blockOf returns the first indented block after a heading of a page.
func blockOf(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no %q", page, heading)
	}
	var block strings.Builder
	for _, line := range strings.Split(section, "\n") {
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case indented, line == "" && block.Len() > 0: // code may contain empty lines
			block.WriteString(code + "\n")
		case block.Len() > 0 || strings.HasPrefix(line, "#"):
			return block.String()
		}
	}
	return block.String()
}

// runTyped runs a block of commands. The comment of its last line is the expected output.
func (p *place) runTyped(block string) {
	p.t.Helper()
	lines := strings.Split(strings.TrimSpace(block), "\n")
	_, want, ok := strings.Cut(lines[len(lines)-1], " # ")
	if !ok {
		p.t.Fatalf("the block does not end with what is printed:\n%s", block)
	}
	out := p.mustRun("sh", "-euc", block)
	if got := strings.TrimSpace(out); got != want && !strings.HasSuffix(got, "\n"+want) {
		p.t.Errorf("the block printed\n%s\nnot %q", out, want)
	}
}

// The example of docs/calling.md works as typed.
func TestCallingPage(t *testing.T) {
	newPlace(t).runTyped(blockOf(t, "docs/calling.md", "## Many calls at once"))
}

// The examples of docs/gridrpc.md work as typed.
func TestGridRPCPage(t *testing.T) {
	newPlace(t).runTyped(blockOf(t, "docs/gridrpc.md", "## A program"))
	newPlace(t).runTyped(blockOf(t, "docs/gridrpc.md", "## Data that stays in the grid"))
	newPlace(t).runTyped(blockOf(t, "docs/gridrpc.md", "## Remote objects"))
}

// The commands of README work as typed, and the last one prints what its comment says.
func TestReadme(t *testing.T) {
	p := newPlace(t)
	block := blockOf(t, "README.md", "## Your own C function")
	lines := strings.Split(strings.TrimSpace(block), "\n")
	commands, inside := 0, false
	for _, line := range lines {
		if !inside {
			commands++
		}
		inside = strings.Contains(line, "<<'END'") || inside && line != "END"
	}
	if commands != 5 {
		t.Errorf("%d commands, README says five", commands)
	}
	p.runTyped(block)
	mine := p.mustRun(p.skep, "gen", "--manifest", "build/mine/hello.rex")
	if kept := p.mustRun(p.skep, "gen", "--manifest", "examples/hello/hello.idl"); kept != mine {
		t.Errorf("README's interface is\n%s\nthat of the example\n%s", mine, kept)
	}
}

// All types and modes, parts of arrays, bodies and calls, through a hub and a
// worker process.
func TestKinds(t *testing.T) {
	p := newPlace(t)
	p.mustRun(p.skep, "gen", "--build", readSource(t, "kinds.idl"), readSource(t, "called.c"), "-o", "kinds.rex")
	p.mustRun(p.skep, "gen", "--master", readSource(t, "master.c"), "-o", "master")
	const want = "1103511792563 1.75 42 !\n" +
		"1 3 2 4 | 1 1 12 1 1 15 1 1 1 1 | -2+1i 3-4i\n" +
		"10 5 1\n"
	if out := p.mustRun(p.skep, "run", "--", "./master"); out != want {
		t.Errorf("got\n%swant\n%s", out, want)
	}
}

// All that workers write is shown before the run ends, also what they write at exit.
func TestOutputAtExit(t *testing.T) {
	p := newPlace(t)
	p.write("late.c", `#include <stdio.h>
#include <stdlib.h>
static void print_end(void) { printf("in atexit\nwithout a newline"); }
void late(int n) { if (n == 0) atexit(print_end); printf("line of call %d\n", n); }
`)
	p.write("late.idl", "Module late;\nDefine late(IN int n) Calls \"C\" late(n);\n")
	p.write("master.c", `#include <OmniRpc.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	if (OmniRpcInit(&argc, &argv))
		return 1;
	for (int i = 0; i < 3; i++)
		if (OmniRpcCall("late.late", i))
			return 2;
	_Exit(0);
}
`)
	p.mustRun(p.skep, "gen", "--build", "late.idl", "late.c")
	p.mustRun(p.skep, "gen", "--master", "master.c", "-o", "master")
	for range 5 {
		out := p.mustRun(p.skep, "run", "--slots", "1", "--", "./master")
		for _, want := range []string{": line of call 0\n", ": line of call 2\n", ": in atexit\n", ": without a newline\n"} {
			if !strings.Contains(out, want) {
				t.Fatalf("the run does not show %q:\n%s", want, out)
			}
		}
	}
}

// The stub is written to the requested file, and can be linked by itself.
func TestStub(t *testing.T) {
	p := newPlace(t)
	p.mustRun(p.skep, "gen", "-o", "new/folder", readSource(t, "kinds.idl"))
	lib := filepath.Join(filepath.Dir(filepath.Dir(p.skep)), "lib")
	include, err := filepath.Abs(filepath.Join(root, "grid", "include"))
	if err != nil {
		t.Fatal(err)
	}
	p.mustRun("gcc", "-static", "-pthread", "-I"+include, "-o", "kinds.rex", "new/folder/kinds_stub.c", readSource(t, "called.c"), "-L"+lib, "-lskepworker")
	if out := p.mustRun(p.skep, "gen", "--manifest", "kinds.rex"); out != p.mustRun(p.skep, "gen", "--manifest", readSource(t, "kinds.idl")) {
		t.Errorf("the program offers\n%s", out)
	}
}

// Each mistake is reported once, with its exit code, and no file is left or damaged.
func TestWrong(t *testing.T) {
	p := newPlace(t)
	p.write("bad.idl", "Module bad;\nDefine f(IN file x) {}\n")
	p.write("good.idl", "Module good;\nDefine f(IN int n) { n = away(n); }\n")
	p.write("link.idl", "Module link;\nDefine f(IN int n) Calls \"C\" away(n);\n")
	p.write("dynamic.idl", "Module dynamic;\nDefine f(IN int n) {}\n")
	p.write("master.c", "int main(void) { return x; }\n")
	p.write("away.c", "void away(int n) { (void)n; }\n")
	p.write("dynamic-cc", "#!/bin/sh\nshift\nexec gcc \"$@\"\n")
	if err := os.Chmod(filepath.Join(p.dir, "dynamic-cc"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.write("link.rex", "what was there before")
	for _, c := range []struct {
		line string
		code int
		want string
	}{
		{"gen", 2, "name a file"},
		{"gen --build --master x.c", 2, "exclude each other"},
		{"gen a.idl b.idl", 2, `"b.idl" is not expected`},
		{"gen --build away.c", 2, "a file that ends in .idl"},
		{"gen --build bad.idl good.idl", 2, "one IDL file makes one program"},
		{"gen --nonsense", 2, "there is no option --nonsense"},
		{"gen none.idl", 1, "none.idl: no such file"},
		{"gen bad.idl", 1, "bad.idl:2:13: file is not supported"},
		{"gen --build bad.idl", 1, "bad.idl:2:13: file is not supported"},
		{"gen --manifest bad.idl", 1, "bad.idl:2:13: file is not supported"},
		{"gen --manifest build/bin/skep", 1, "has no manifest"},
		{"gen --build good.idl", 1, "good.idl:2:26: warning: implicit declaration of function"},
		{"gen --build link.idl", 1, "undefined reference to `away'"},
		{"gen --build --cc no-such-cc link.idl", 1, "no compiler no-such-cc"},
		{"gen --build --cc ./dynamic-cc dynamic.idl", 1, "the program is dynamically linked: link it with -static"},
		{"gen --master master.c", 1, "master.c:1:25: error:"},
	} {
		out, code := p.run(p.skep, strings.Fields(c.line)...)
		if code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%s: exit code %d\n%s\nwant %d and %q", c.line, code, out, c.code, c.want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(p.dir, "link.rex")); err != nil || string(text) != "what was there before" {
		t.Errorf("a failed build left %q, %v", text, err)
	}
	p.mustRun(p.skep, "gen", "--build", "link.idl", "away.c")
	p.mustRun(p.skep, "gen", "--manifest", "link.rex")
	left, err := filepath.Glob(filepath.Join(p.dir, "*stub*"))
	hidden, _ := filepath.Glob(filepath.Join(p.dir, ".skep*"))
	if err != nil || len(left)+len(hidden) > 0 {
		t.Errorf("left behind: %q %q %v", left, hidden, err)
	}
}

// A call is ended at the limit of its interface file, unless the run states another.
func TestLimits(t *testing.T) {
	p := newPlace(t)
	p.write("nap.idl", `Module nap;
Globals {
#include <unistd.h>
}
Limits "wall-time=500ms";
Define nap(IN int ms) { usleep((unsigned)ms * 1000); }
`)
	p.write("master.c", `#include <OmniRpc.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
	return OmniRpcInit(&argc, &argv) || OmniRpcCall("nap.nap", atoi(argv[1]));
}
`)
	p.mustRun(p.skep, "gen", "--build", "nap.idl")
	p.mustRun(p.skep, "gen", "--master", "master.c", "-o", "master")
	out, code := p.run(p.skep, "run", "--", "./master", "600000")
	if code == 0 || !strings.Contains(out, "more than the 500ms allowed; ask for more with --wall-time") {
		t.Errorf("%d\n%s", code, out)
	}
	p.mustRun(p.skep, "run", "--wall-time", "10m", "--", "./master", "1000")
}

// Limits that are not those of the interface file are refused, and a program that is there stays.
func TestLimitsOfAnotherFile(t *testing.T) {
	p := newPlace(t)
	p.write("plain.idl", "Module plain;\nDefine f() {}\n")
	p.write("plain.rex", "what was there before")
	p.write("more.c", `static const unsigned long long limits[5] __attribute__((
	aligned(8), section(".skep.limits"), used)) = {1 << 20};
`)
	out, code := p.run(p.skep, "gen", "--build", "plain.idl", "more.c")
	if code != 1 || !strings.Contains(out, "the limits in it are not those of the interface file: leave out what has a section .skep.limits") {
		t.Errorf("%d\n%s", code, out)
	}
	if text, err := os.ReadFile(filepath.Join(p.dir, "plain.rex")); err != nil || string(text) != "what was there before" {
		t.Errorf("a failed build left %q, %v", text, err)
	}
}

// A file of Required is linked only once if the command line also gives it or its source. It
// may be missing.
func TestRequired(t *testing.T) {
	p := newPlace(t)
	p.write("half.c", "int half(int n) { return n / 2; }\n")
	p.write("r.idl", `Module r;
Define f(IN int n, OUT int r[]) Required "half.o"
{ int half(int); *r = half(n) + more(); }
Define g(IN int n) Required "half.o none.o" { }
`)
	p.write("more.c", "int more(void) { return 1; }\n")
	p.mustRun("gcc", "-c", filepath.Join(p.dir, "half.c"), "-o", filepath.Join(p.dir, "half.o"))
	for _, files := range [][]string{{"more.c"}, {"more.c", "half.o"}, {"more.c", "half.c"}} {
		out := p.mustRun(p.skep, append([]string{"gen", "--build", "r.idl"}, files...)...)
		if !strings.Contains(out, "r.idl requires none.o, which is not there: it is left out") {
			t.Errorf("%q: no word of none.o:\n%s", files, out)
		}
		if !strings.Contains(out, "warning: implicit declaration of function") {
			t.Errorf("%q: no word of more, which nothing declares:\n%s", files, out)
		}
	}
}

// The programs of docs/python.md work as typed, with the wheel installed.
func TestPythonPage(t *testing.T) {
	p, page := newPlace(t), "docs/python.md"
	p.runTyped(blockOf(t, page, "## First steps"))
	p.runTyped(blockOf(t, "README.md", "## Your own C function"))
	for name, text := range map[string]string{
		"large.py": blockOf(t, page, "### Large data"),
		"hello.py": "import numpy, skep\n" + blockOf(t, page, "## Remote functions") + "future.result()\nassert x.tolist() == [20, 40, 60, 80] and total == 100, x\n",
	} {
		program := p.write(name, text)
		p.mustRun("build/bin/skep", "run", "--modules", "build/mine", "--", "build/py/venv/bin/python", program)
	}
}
