// SPDX-License-Identifier: MIT

package asm

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func runTool(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const running = `
int shared = 10;
static int hidden = 100;
static noinline int helper(int a) { seen("helper"); return a + hidden; }
int f(int a) { static int calls; calls++; if (__builtin_expect(a < 0, 0)) { WARN(); seen("cold %d", a); return -1; } return helper(a) + shared + calls; }
int g(int a) { hidden = a; return helper(1); }
`

// The text taken out runs beside the original in one program: it uses the
// original's variables and functions, static ones too, and its own new ones.
func TestExtractRunsWithTheOriginal(t *testing.T) {
	before := compileSource(t, "before", running)
	after := compileSource(t, "after", replaceText(t, running, "calls++;", "static int mine = 1000; mine++; calls += mine;"))
	c, err := Compare(parseUnit(t, before), parseUnit(t, after))
	if err != nil {
		t.Fatal(err)
	}
	x := c.Extract("v")
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "old.s"), before)
	writeFile(t, filepath.Join(dir, "new.S"), string(x.Text))
	writeFile(t, filepath.Join(dir, "main.c"), `
#include <stdio.h>
int f(int), g(int), v_0(int);
extern char v_0_end[];
void seen(const char *s, ...) { }
asm(".globl __fentry__\n__fentry__: ret");
int main(void)
{
	int a = f(1);      /* 1 + 100 + 10 + 1 */
	int b = v_0(1);    /* 1 + 100 + 10 + 1 + 1001 */
	g(200);
	int c = v_0(1);    /* 1 + 200 + 10 + 1002 + 1002 */
	int d = f(1);      /* 1 + 200 + 10 + 2005 */
	printf("%d %d %d %d %d\n", a, b, c, d, v_0_end > (char *)v_0);
}
`)
	runTool(t, dir, "gcc", "-c", "-o", "old.o", "old.s")
	runTool(t, dir, "gcc", "-c", "-o", "new.o", "new.S")
	var globalize []string
	for _, l := range x.Locals {
		globalize = append(globalize, "--globalize-symbol="+l.Name, "--redefine-sym", l.Is+"="+l.Name)
	}
	runTool(t, dir, slices.Concat([]string{"objcopy"}, globalize, []string{"old.o"})...)
	runTool(t, dir, "gcc", "-no-pie", "-fcf-protection=none", "-o", "all", "main.c", "old.o", "new.o")
	if got := runTool(t, dir, "./all"); got != "112 1113 2215 2216 1\n" {
		t.Errorf("got %s", got)
	}
	checkNames(t, "data", []string{strings.Split(x.Data[0], ".")[0]}, "mine")
}

// What is asked for and not carried is exactly what the assembled text lacks.
func TestExtractNamesWhatItNeeds(t *testing.T) {
	before := compileSource(t, "before", running)
	after := compileSource(t, "after", replaceText(t, running, "calls++;", "calls += 2;"))
	c, err := Compare(parseUnit(t, before), parseUnit(t, after))
	if err != nil {
		t.Fatal(err)
	}
	x := c.Extract("v")
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "new.S"), string(x.Text))
	runTool(t, dir, "gcc", "-c", "-o", "new.o", "new.S")
	f, err := elf.Open(filepath.Join(dir, "new.o"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var asked, locals []string
	for _, s := range list {
		if s.Section == elf.SHN_UNDEF && s.Name != "" && !slices.Contains([]string{"__fentry__", "seen", "shared"}, s.Name) {
			asked = append(asked, s.Name)
		}
	}
	for _, l := range x.Locals {
		locals = append(locals, l.Name)
	}
	slices.Sort(asked)
	checkNames(t, "locals", locals, asked...)
	if len(locals) != 2 || locals[1] != "helper.v" {
		t.Errorf("told %v", locals)
	}
	for _, name := range []string{"__bug_table", "__mcount_loc"} {
		if f.Section(name) == nil {
			t.Errorf("the text has no %s", name)
		}
	}
}

// A jump label's entry lies in a section of its own, inside the function.
func TestExtractCarriesJumpLabels(t *testing.T) {
	src := `
int key;
int f(int a) { if (KEY(key)) seen("on"); return a; }
`
	c, err := compareTexts(t, src, replaceText(t, src, "return a", "return a + 1"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(c.Extract("v").Text)
	if strings.Count(text, "__jump_table") != 1 || !strings.Contains(text, ".quad key - .") {
		t.Errorf("got %s", text)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "new.S"), text)
	runTool(t, dir, "gcc", "-c", "-o", "new.o", "new.S")
}

// Newer kernels have room before each function, and note where it begins.
func TestExtractKeepsRoomBeforeFunctions(t *testing.T) {
	const room = "-fpatchable-function-entry=16,16"
	c, err := Compare(parseUnit(t, compileSource(t, "before", plain, room)), parseUnit(t, compileSource(t, "after", "int first(int a) { seen(\"first\"); return a; }\n"+replaceText(t, plain, "a * 3", "a * 5"), room)))
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, "changed", c.Changed, "g")
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "new.S"), string(c.Extract("v").Text))
	runTool(t, dir, "gcc", "-c", "-o", "new.o", "new.S")
	f, err := elf.Open(filepath.Join(dir, "new.o"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text := f.Section(".text")
	if f.Section("__patchable_function_entries") == nil || text == nil {
		t.Fatal("a section is missing")
	}
	data, err := text.Data()
	if err != nil || len(data) < 17 || strings.Trim(string(data[:16]), "\x90") != "" || data[16] == 0x90 {
		t.Errorf("no room: % x, %v", data, err)
	}
}

func TestExtractNamesKeysOfStaticCalls(t *testing.T) {
	before := "\t.section .text.f,\"ax\"\n\t.globl f\n\t.type f,@function\nf:\n\tcall __fentry__\n\tcall __SCT__resched\n\tret\n\t.size f,.-f\n"
	c, err := Compare(parseUnit(t, before), parseUnit(t, strings.Replace(before, "\tret", "\tnop\n\tret", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(c.Extract("v").Text); !strings.Contains(text, ".quad __SCK__resched") {
		t.Errorf("got %s", text)
	}
}

// Static names of two files of an update do not meet in its module, those of the kernel's own
// functions neither. What the kernel is asked about a pointer has the kernel's name.
func TestStaticNamesOfFilesDiffer(t *testing.T) {
	const source = kernelWords + "static noinline int woken(struct wait *w, unsigned m) { _printk(\"w\"); return m; }\n" +
		"static noinline int asleep(struct wait *w, unsigned m) { _printk(\"a\"); return m + 7; }\n" +
		"void other(struct wait *w) { w->func = asleep; _printk(\"o\"); }\n" +
		"int queue(struct wait *w) { w->func = woken; _printk(\"q\"); return asleep(w, 1); }\n"
	got, err := compareTexts(t, source, replaceText(t, replaceText(t, source, "return m; }", "return m + 1; }"),
		"w->func = woken; _printk(\"q\");", "w->func = w->next ? woken : asleep; _printk(\"more\");"))
	if err != nil {
		t.Fatal(err)
	}
	one, other := got.Extract("u_0"), got.Extract("u_1")
	for _, l := range one.Locals {
		if slices.ContainsFunc(other.Locals, func(o Local) bool { return o.Name == l.Name }) || strings.Contains(l.Is, "u_0") {
			t.Errorf("both have %+v", l)
		}
	}
	if len(one.Locals) != 2 || len(other.Locals) != 2 {
		t.Errorf("locals %+v", one.Locals)
	}
	checkNames(t, "pointed", one.Pointed, "asleep")
}
