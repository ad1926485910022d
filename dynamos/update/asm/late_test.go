// SPDX-License-Identifier: MIT

package asm

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// branches are static keys and a static call as the kernel's macros write them. A branch goes to
// `yes` if the key is on, or with bit 1 if it is off.
const branches = `
#define NOP ".byte 0x0f,0x1f,0x44,0x00,0x00"
#define JMP "jmp %l[yes] # objtool NOPs this"
struct point { const char *name; int key; } point = { "point" };
int plain, other;
extern int __SCT__hook(int);
int f(int a)
{
	__label__ yes1, yes2, yes3, yes4;
	if (A(&point.key, 2, JMP)) a += 10;
	if (B(&plain, 3, JMP)) a += 100;
	if (C(&other, 0, NOP)) a += 1000;
	if (D(&plain, 1, JMP)) a += 10000;
	return a + __SCT__hook(a);
}
`

// eachBranch gives each branch labels of its own.
func eachBranch(text string) string {
	for i, name := range []string{"A", "B", "C", "D"} {
		label := "yes" + string(rune('1'+i))
		text = strings.Replace(text, "#define NOP", "#define "+name+"(key, bits, site) ({ int r = 0; asm goto(\"1:\" site \"\\n\\t.pushsection __jump_table,  \\\"aw\\\" \\n\\t .balign 8 \\n\\t\" \\\n"+
			"\t\".long 1b - . \\n\\t.long %l["+label+"] - . \\n\\t .quad %c0 + %c1 - .\\n\\t.popsection \\n\\t\" :: \"i\" (key), \"i\" (bits) :: "+label+"); \\\n"+
			"\tif (0) { "+label+": r = 1; } r; })\n#define NOP", 1)
	}
	return strings.ReplaceAll(text, "jmp %l[yes]", "jmp %l2")
}

// A late change has no entry in the kernel's tables, and takes the branches that the keys say.
func TestLateChangeReadsItsKeys(t *testing.T) {
	source := eachBranch(branches)
	got, err := compareTexts(t, source, replaceText(t, source, "return a + __SCT__hook(a)", "return a + __SCT__hook(a) + 1"))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(got.Extract("v").Text); strings.Count(text, "__jump_table") != 4 || strings.Contains(text, ownName) || !strings.Contains(text, "__SCK__hook") {
		t.Errorf("a change that is not late has other entries:\n%s", text)
	}
	got.Late = true
	e := got.Extract("v")
	text := string(e.Text)
	if strings.Contains(text, "__jump_table") || strings.Contains(text, "__SCK__") || !strings.Contains(text, "call "+ownName+"__SCT__hook\n") {
		t.Errorf("a late change has entries:\n%s", text)
	}
	if !slices.Contains(e.Locals, Local{Name: ownName + "__SCT__hook", Is: "__SCT__hook", Func: true, Kernel: true}) {
		t.Errorf("locals %+v", e.Locals)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "new.S"), text)
	writeFile(t, filepath.Join(dir, "main.c"), `
struct point { const char *name; int key; } point;
int plain, other, v_0(int);
asm(".text\n.globl __fentry__\n__fentry__: ret\n.globl `+ownName+`__SCT__hook\n`+ownName+`__SCT__hook: xor %eax, %eax\nret");
int main(void)
{
	for (int i = 0; i < 8; i++) {
		point.key = i & 1; plain = i >> 1 & 1 ? -1 : 0; other = i >> 2;
		if (v_0(0) != 1 + 10 * point.key + (plain ? 0 : 10100) + 1000 * other)
			return 1 + i;
	}
	return 0;
}`)
	runTool(t, dir, "gcc", "-no-pie", "-o", "run", "main.c", "new.S")
	runTool(t, dir, "./run")
}

// THIS_MODULE of a late change is the module that the update changes; an update's own module
// has that name too.
func TestLateChangeNamesTheModuleThatItChanges(t *testing.T) {
	source := "extern char __this_module[];\nint get(void *module);\nint f(void) { return get(__this_module); }\n"
	for _, old := range []string{source, strings.Replace(source, "get(__this_module)", "1", 1)} {
		got, err := compareTexts(t, old, replaceText(t, source, "get(__this_module)", "get(__this_module) + 1"))
		if err != nil {
			t.Fatal(err)
		}
		got.Late = true
		e := got.Extract("v")
		if text := string(e.Text); strings.Count(text, "$"+ownName+"__this_module") != 1 || strings.Count(text, "__this_module") != 1 {
			t.Errorf("got %s", text)
		}
		if !slices.Contains(e.Locals, Local{Name: ownName + "__this_module", Is: "__this_module", Kernel: true}) {
			t.Errorf("locals %+v", e.Locals)
		}
	}
}

// A key that the update itself brings along has its address in time.
func TestLateChangeKeepsEntriesOfItsOwnKeys(t *testing.T) {
	source := eachBranch(branches)
	got, err := compareTexts(t, source, replaceText(t, replaceText(t, source, "int plain, other;", "int plain, other;\nstatic int fresh;\nvoid turn(int n) { fresh = n; }"), "B(&plain", "B(&fresh"))
	if err != nil {
		t.Fatal(err)
	}
	got.Late = true
	if text := string(got.Extract("v").Text); strings.Count(text, "__jump_table") != 1 || !strings.Contains(text, ".quad fresh + 3 - .") {
		t.Errorf("got %s", text)
	}
}

// What is not written as the kernel's macros write it stays as it is.
func TestOtherTextIsNoBranchOnAKey(t *testing.T) {
	entry := []string{"jmp .L5", ".pushsection __jump_table, \"aw\"", ".balign 8", ".long 1b - .", ".long .L5 - .", ".quad key+8 + 3 - .", ".popsection"}
	read := func(list []string) (keyBranch, bool) {
		var lines []line
		for i, text := range list {
			lines = append(lines, line{text, i})
		}
		return findKeyBranch(lines)
	}
	if b, ok := read(append(slices.Clone(entry), "ret")); !ok || b != (keyBranch{key: "key+8", to: ".L5", jumps: true, lines: 7}) {
		t.Errorf("%+v, %v", b, ok)
	}
	for at, text := range map[int]string{1: ".pushsection __bug_table, \"aw\"", 3: ".long 1b", 4: ".long 7", 5: ".quad key", 6: ".previous"} {
		other := slices.Clone(entry)
		other[at] = text
		if b, ok := read(other); ok {
			t.Errorf("%s: %+v", text, b)
		}
	}
	if b, ok := read(entry[:5]); ok {
		t.Errorf("a part of one: %+v", b)
	}
	if b, ok := read(append(slices.Insert(slices.Clone(entry), 5, ".long 4"), "ret")); ok {
		t.Errorf("one more number: %+v", b)
	}
}
