// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// globalFunction returns a global function as gcc writes it.
func globalFunction(name, body string) string {
	return fmt.Sprintf("\t.section .text.%[1]s,\"ax\"\n\t.globl %[1]s\n\t.type %[1]s,@function\n%[1]s:\n\tcall __fentry__\n%[2]s\tret\n\t.size %[1]s,.-%[1]s\n", name, body)
}

// fresh is a variable that only the patched file has.
const fresh = "\t.section .data.fresh,\"aw\"\n\t.type fresh, @object\n\t.size fresh, 8\nfresh:\n\t.quad 0\n"

// escapesOf are the uses of the address of fresh by which it outlives a call of
// a function with this text.
func escapesOf(t *testing.T, body string) []Escape {
	t.Helper()
	c, err := Compare(parseUnit(t, globalFunction("f", "")), parseUnit(t, globalFunction("f", body)+fresh))
	if err != nil {
		t.Fatal(err)
	}
	return c.Extract("v").Escapes
}

// isWritten reports whether the address is given away by a write to memory.
func isWritten(list []Escape) bool {
	return slices.Contains(list, Escape{"fresh", "f", "is written to memory that others see"})
}

// general are the registers, and the names of their lower halves.
var general = map[string]string{"%rax": "%eax", "%rbx": "%ebx", "%rcx": "%ecx", "%rdx": "%edx", "%rsi": "%esi", "%rdi": "%edi", "%rbp": "%ebp", "%rsp": "%esp",
	"%r8": "%r8d", "%r9": "%r9d", "%r10": "%r10d", "%r11": "%r11d", "%r12": "%r12d", "%r13": "%r13d", "%r14": "%r14d", "%r15": "%r15d"}

// calleeSaved are those that a call leaves as they are.
var calleeSaved = []string{"%rbx", "%rbp", "%rsp", "%r12", "%r13", "%r14", "%r15"}

func TestAddressIsFollowedBehindACall(t *testing.T) {
	for r := range general {
		got := escapesOf(t, "\tmovq $fresh, "+r+"\n\tcall _printk\n\tmovq "+r+", other(%rip)\n")
		if want := slices.Contains(calleeSaved, r); isWritten(got) != want {
			t.Errorf("%s, which a call keeps: %v: %v", r, want, got)
		}
	}
	if got := escapesOf(t, "\tmovq $fresh, 8(%rsp)\n\tcall _printk\n\tmovq 8(%rsp), %rax\n\tmovq %rax, other(%rip)\n"); !isWritten(got) {
		t.Errorf("on the stack: %v", got)
	}
}

// Where a kernel returns by a thunk, a jump to it is a return and no call.
func TestReturnByThunk(t *testing.T) {
	const thunk = "\tjmp\t__x86_return_thunk\n"
	if got := escapesOf(t, "\tmovq $fresh, %rdi\n"+thunk); len(got) != 0 {
		t.Errorf("an address that is left in a register: %v", got)
	}
	got := escapesOf(t, "\tmovq $fresh, %rax\n"+thunk)
	if !slices.Contains(got, Escape{"fresh", "f", "is returned to the kernel"}) {
		t.Errorf("an address that is the result: %v", got)
	}
}

func TestEachRegisterIsFollowedByItself(t *testing.T) {
	for r, half := range general {
		var others strings.Builder
		for o, h := range general {
			if o != r {
				fmt.Fprintf(&others, "\tmovl $0, %s\n", h)
			}
		}
		if got := escapesOf(t, "\tmovq $fresh, "+r+"\n"+others.String()+"\tmovq "+r+", other(%rip)\n"); !isWritten(got) {
			t.Errorf("%s, and all others overwritten: %v", r, got)
		}
		if got := escapesOf(t, "\tmovq $fresh, "+r+"\n\tmovl $0, "+half+"\n\tmovq "+r+", other(%rip)\n"); len(got) != 0 {
			t.Errorf("%s, overwritten: %v", r, got)
		}
	}
}

func TestOtherValuesAreNoEscape(t *testing.T) {
	for name, body := range map[string]string{
		"a stack slot that does not hold the address":     "\tmovl fresh(%rip), %eax\n\tmovq 8(%rsp), %rax\n\tmovq %rax, other(%rip)\n",
		"other memory, while the address is on the stack": "\tmovq $fresh, 8(%rsp)\n\tmovq (%rsi), %rax\n\tmovq %rax, other(%rip)\n",
		"a register that is no argument of a call":        "\tmovq $fresh, %rax\n\tcall strange\n",
	} {
		if got := escapesOf(t, body); len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestEachArgumentOfAnUnknownFunctionIsAnEscape(t *testing.T) {
	for _, r := range []string{"%rdi", "%rsi", "%rdx", "%rcx", "%r8", "%r9"} {
		got := escapesOf(t, "\tmovq $fresh, "+r+"\n\tcall strange\n")
		if len(got) != 1 || !strings.Contains(got[0].How, "is passed to strange") {
			t.Errorf("%s: %v", r, got)
		}
	}
}

// A package is the same each time that it is built.
func TestExtractListsPointersInOrder(t *testing.T) {
	var before, after strings.Builder
	want := []string{"f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"}
	for _, n := range want {
		before.WriteString(globalFunction(n, ""))
		fmt.Fprintf(&after, "\tmovq $%s, %%rax\n", n)
	}
	c, err := Compare(parseUnit(t, globalFunction("f", "")+before.String()), parseUnit(t, globalFunction("f", after.String())+before.String()))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Extract("v").Pointed; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// In the table of WARN and BUG the first word is the line, the second says
// what is done.
func TestWarningDiffersByWhatItDoes(t *testing.T) {
	warning := func(line, flags int) string {
		return fmt.Sprintf("1:\t.byte 0x0f, 0x0b\n.pushsection __bug_table, \"aw\"\n2:\t.long 1b - .\n\t.word %d\n\t.word %d\n\t.org 2b+8\n.popsection\n", line, flags)
	}
	for _, c := range []struct {
		name    string
		body    string
		changed []string
	}{
		{"only line numbers differ", warning(20, 3) + warning(30, 5), nil},
		{"other flags of the first warning", warning(10, 4) + warning(11, 5), []string{"f"}},
		{"other flags of the second warning", warning(10, 3) + warning(11, 4), []string{"f"}},
	} {
		got, err := Compare(parseUnit(t, globalFunction("f", warning(10, 3)+warning(11, 5))), parseUnit(t, globalFunction("f", c.body)))
		if err != nil {
			t.Fatal(err)
		}
		checkNames(t, c.name, got.Changed, c.changed...)
	}
}

func TestAssemblyOutsideOfFunctionsThatStays(t *testing.T) {
	const loose = "asm(\".pushsection .init.data\\n .long 1\\n.popsection\");\n"
	got, err := compareTexts(t, plain+loose+loose+"EXPORT(g);\n", replaceText(t, plain, "a * 3", "a * 5")+loose+loose+"EXPORT(g);\n")
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, "changed", got.Changed, "g")
	checkNames(t, "notes", got.Notes)
	for _, after := range []string{loose, loose + loose + loose} {
		if got, err := compareTexts(t, plain+loose+loose, plain+after); err == nil || !strings.Contains(err.Error(), "assembly that stands outside of functions") {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// Whether a message was said already is forgotten with the message.
func TestAddedOrRemovedMessageIsNoVariable(t *testing.T) {
	const once = "{ static char __attribute__((section(\".data.once\"))) said; if (!said) { said = 1; seen(\"once\"); } }\n"
	text := func(n int) string {
		return "int f(int a) { seen(\"f\");\n" + strings.Repeat(once, n) + "return a; }\n"
	}
	for _, c := range [][2]int{{1, 2}, {2, 1}, {3, 1}} {
		got, err := compareTexts(t, text(c[0]), text(c[1]))
		if err != nil {
			t.Errorf("%d become %d: %v", c[0], c[1], err)
			continue
		}
		checkNames(t, "changed", got.Changed, "f")
	}
}

// Only a global function of both files is one that the patch moves.
func TestOtherFunctionsAreNotMoved(t *testing.T) {
	const body = "int goes(int a) { seen(\"goes\"); return a + 1; }\n"
	const other = "int other(int a) { seen(\"other\"); return a; }\n"
	const user = "int user(int a) { return goes(a); }\n"
	for _, c := range []struct {
		name, from, before, after string
		new                       []string // with what is called of it
	}{
		{"a static function is removed, and a global one of its name is in the other file", "static noinline " + body + "int kept(int a) { return goes(a); }\n", other, other + body, []string{"goes"}},
		{"the function is removed", body, other, other, nil},
		{"a variable of the other file has its name", body, other, other + "int goes = 4;\n", nil},
		{"a static function of its name is added to the other file", body, other, other + "static noinline " + body + user, []string{"goes", "user"}},
		{"the other file had a static function of its name already", body, other + "static noinline " + body + user, other + replaceText(t, body, "a + 1", "a + 2") + user, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, err := compareTexts(t, c.from+other, "int kept(int a) { return a; }\n"+other)
			if err != nil {
				t.Fatal(err)
			}
			to, err := compareTexts(t, c.before, c.after)
			if err != nil {
				t.Fatal(err)
			}
			if err := to.Adopt(from); err != nil {
				t.Fatal(err)
			}
			if len(to.From) > 0 {
				t.Errorf("it came from there: %v", to.From)
			}
			for _, name := range to.Added() {
				if err := to.Carry(name); err != nil {
					t.Error(err)
				}
			}
			checkNames(t, "new", to.New, c.new...)
		})
	}
}

// Functions that call one another move together.
func TestMovedFunctionsOfACircleStayTheKernels(t *testing.T) {
	const pair = "static int back(int a);\nnoinline int goes(int a) { seen(\"goes\"); return a > 9 ? a : back(a + 1); }\n" +
		"static noinline int back(int a) { seen(\"back\"); return a > 7 ? a : goes(a + 2); }\n"
	const other = "int other(int a) { seen(\"other\"); return a; }\n"
	from, err := compareTexts(t, other+pair, other)
	if err != nil {
		t.Fatal(err)
	}
	to, err := compareTexts(t, "int user(int a) { seen(\"u\"); return a; }\n", pair+"int user(int a) { seen(\"u\"); return goes(a); }\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := to.Adopt(from); err != nil {
		t.Fatal(err)
	}
	checkNames(t, "changed", to.Changed, "user")
	checkNames(t, "new", to.New)
}
