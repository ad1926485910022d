// SPDX-License-Identifier: MIT

package asm

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// compareByHand compares assembly that no compiler wrote.
func compareByHand(t *testing.T, before, after string) (*Change, error) {
	t.Helper()
	return Compare(parseUnit(t, before), parseUnit(t, after))
}

// Numbers that the compiler counts through a file are no change.
func TestCountedNamesAreNoChange(t *testing.T) {
	text := func(unique, local string) string {
		name := "__UNIQUE_ID_once" + unique + local
		return globalFunction("f", "\tmovl $1, "+name+"(%rip)\n") + "\t.section .bss." + name + ",\"aw\"\n\t.type " + name + ", @object\n\t.size " + name + ", 4\n" + name + ":\n\t.zero 4\n"
	}
	for name, c := range map[string][2]string{"the file's counter": {"7", ".0"}, "the compiler's counter": {"6", ".1"}, "both": {"17", ".12"}} {
		got, err := compareByHand(t, text("6", ".0"), text(c[0], c[1]))
		if err != nil || !got.IsEmpty() || len(got.Notes) != 0 {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		if is, was := "__UNIQUE_ID_once"+c[0]+c[1], "__UNIQUE_ID_once6.0"; got.Locals[is] != was {
			t.Errorf("%s: %s is the kernel's %q", name, is, got.Locals[is])
		}
	}
}

// What has no place of its own for a hook needs a caller that has.
func TestCloneNeedsACallerThatIsReplaced(t *testing.T) {
	clone := func(n string) string {
		return strings.ReplaceAll(strings.Replace(globalFunction("f.isra.0", "\tmovl $"+n+", %eax\n"), "\t.globl f.isra.0\n", "", 1), "call __fentry__", "nop")
	}
	caller := globalFunction("g", "\tcall f.isra.0\n")
	table := "\t.section .data.table,\"aw\"\n\t.type table, @object\n\t.size table, 8\ntable:\n\t.quad f.isra.0\n"
	list := "\t.section __ksymtab.f,\"a\"\n\t.type list, @object\n\t.size list, 8\nlist:\n\t.quad f.isra.0\n"
	for name, c := range map[string]struct{ more, why string }{
		"nobody":                    {"", "nothing that can be replaced calls it"},
		"a caller":                  {caller, ""},
		"a table":                   {table, "and table holds its address"},
		"a table and a caller":      {caller + table, "and table holds its address"},
		"an export's table":         {list, "nothing that can be replaced calls it"},
		"such a table and a caller": {list + caller, ""},
	} {
		got, err := compareByHand(t, clone("1")+c.more, clone("2")+c.more)
		var r *Refusal
		if c.why != "" {
			if !errors.As(err, &r) || r.Symbol != "f.isra.0" || !strings.Contains(r.Reason, c.why) {
				t.Errorf("%s: %v, want %q", name, err, c.why)
			}
			continue
		}
		if err != nil || !slices.Equal(got.Clones, []string{"f.isra.0"}) || !slices.Equal(got.Changed, []string{"g"}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A function whose kind changes, or that cannot go back, is refused by name.
func TestFunctionsThatNoHookServes(t *testing.T) {
	traced := globalFunction("f", "\tmovl $1, %eax\n")
	untraced := strings.Replace(traced, "call __fentry__", "nop", 1)
	boot := strings.Replace(traced, ".section .text.f,", ".section .init.text,", 1)
	endless := strings.Replace(traced, "\tret\n", "\tjmp .L1\n", 1)
	changed := func(s string) string { return strings.Replace(s, "$1", "$2", 1) }
	for name, c := range map[string]struct{ before, after, why string }{
		"traced":                       {traced, changed(traced), ""},
		"not traced in the kernel":     {untraced, changed(traced), "no place where calls of this function can be redirected"},
		"no longer traced":             {traced, changed(untraced), ""},
		"it becomes one of the start":  {traced, changed(boot), "runs only while the kernel or its module starts (.init.text)"},
		"both are of the start":        {boot, changed(boot), ""},
		"it never returned":            {endless, changed(traced), "does not return"},
		"it returns no more":           {traced, changed(endless), "does not return"},
		"it ends in a call of another": {traced, strings.Replace(changed(traced), "\tret\n", "\tjmp other\n", 1), ""},
		"it ends in a jump to a label": {traced, strings.Replace(changed(traced), "\tret\n", "\tjmp 1b\n", 1), "does not return"},
		"it ends in retq":              {traced, strings.Replace(changed(traced), "\tret\n", "\tretq\n", 1), ""},
	} {
		got, err := compareByHand(t, c.before, c.after)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), "t.c: f: ") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %+v, %v, want %q", name, got, err, c.why)
		}
		if name == "both are of the start" && (!got.IsEmpty() || !slices.Equal(got.Idle, []string{"f"})) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// dataOf is a variable by hand.
func dataOf(name, section, size, value string) string {
	return "\t.section " + section + ",\"aw\"\n\t.type " + name + ", @object\n\t.size " + name + ", " + size + "\n" + name + ":\n\t.long " + value + "\n"
}

// The kernel's variables are in use; those that only a start reads are not.
func TestVariablesThatChange(t *testing.T) {
	user := globalFunction("f", "\tmovl v(%rip), %eax\n")
	changed := strings.Replace(user, "\tret\n", "\tnop\n\tret\n", 1)
	for name, c := range map[string]struct{ before, after, why string }{
		"the same":                            {user + dataOf("v", ".data.v", "4", "1"), changed + dataOf("v", ".data.v", "4", "1"), ""},
		"another value":                       {user + dataOf("v", ".data.v", "4", "1"), user + dataOf("v", ".data.v", "4", "2"), "what this variable holds at the start"},
		"another size":                        {user + dataOf("v", ".data.v", "4", "1"), user + dataOf("v", ".data.v", "8", "1, 0"), "from 4 to 8 bytes"},
		"another value, of the start":         {dataOf("v", ".init.data", "4", "1"), dataOf("v", ".init.data", "4", "2"), ""},
		"one of the start that is used":       {user + dataOf("v", ".init.data", "4", "1"), changed + dataOf("v", ".init.data", "4", "2"), "which the patch changes, and which is freed after the kernel has booted (.init.data)"},
		"it leaves the start":                 {dataOf("v", ".init.data", "4", "1"), dataOf("v", ".data.v", "4", "2"), "what this variable holds at the start"},
		"a new one":                           {user, changed + dataOf("v", ".data.v", "4", "1"), ""},
		"a new one that nobody uses":          {user, user + dataOf("w", ".init.setup", "4", "1"), ""},
		"a new one in a section of the start": {user, changed + dataOf("v", ".init.setup", "4", "1"), "in section .init.setup, which only a kernel's start sets up"},
		"a new one, read-only after a start":  {user, changed + dataOf("v", ".data..ro_after_init", "4", "1"), "only a kernel's start sets up"},
		"a new one of each processor":         {user, changed + dataOf("v", ".data..percpu", "4", "1"), "only a kernel's start sets up"},
		"what a module has of its own":        {user + dataOf("v", "__ksymtab.v", "4", "1"), user + dataOf("v", "__ksymtab.v", "4", "2"), ""},
	} {
		got, err := compareByHand(t, c.before, c.after)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %+v, %v, want %q", name, got, err, c.why)
			continue
		}
		switch name {
		case "a new one":
			checkNames(t, name, got.Data, "v")
		case "another value, of the start":
			checkNames(t, name, got.Idle, "v")
		case "a new one that nobody uses", "the same":
			checkNames(t, name, got.Data)
		}
	}
}

// Branches inside of a function give nothing away, and all ways through it are followed.
func TestAddressIsFollowedThroughBranches(t *testing.T) {
	const give = "\tmovq %rdi, other(%rip)\n"
	for name, c := range map[string]struct {
		body string
		want bool
	}{
		"a jump to a label":                     {"\tmovq $fresh, %rdi\n\tjmp .L1\n.L1:\n", false},
		"a jump to a number":                    {"\tmovq $fresh, %rdi\n\tjmp 1f\n1:\n", false},
		"a condition":                           {"\tmovq $fresh, %rdi\n\tjne .L1\n.L1:\n", false},
		"what a jump passes over":               {"\tmovq $fresh, %rdi\n\tjmp .L1\n" + give + ".L1:\n", false},
		"what a condition may pass over":        {"\tmovq $fresh, %rdi\n\tjne .L1\n" + give + ".L1:\n", true},
		"behind a jump":                         {"\tmovq $fresh, %rdi\n\tjmp .L1\n.L2:\n" + give + "\tjmp .L3\n.L1:\n\tjmp .L2\n.L3:\n", true},
		"backwards":                             {"1:\n" + give + "\tmovq $fresh, %rdi\n\tjmp 1b\n", true},
		"forwards to the same number":           {"1:\n" + give + "\tmovq $fresh, %rdi\n\tjmp 1f\n1:\n", false},
		"one way clears it":                     {"\tmovq $fresh, %rdi\n\tjne .L1\n\txorl %edi, %edi\n.L1:\n" + give, true},
		"both ways clear it":                    {"\tmovq $fresh, %rdi\n\tjne .L1\n\txorl %edi, %edi\n\tjmp .L2\n.L1:\n\tmovl $0, %edi\n.L2:\n" + give, false},
		"xor with another register keeps it":    {"\tmovq $fresh, %rdi\n\txorl %esi, %edi\n" + give, true},
		"a comparison keeps it":                 {"\tmovq $fresh, %rdi\n\tcmpq %rsi, %rdi\n" + give, true},
		"an addition keeps it":                  {"\tmovq $fresh, %rdi\n\taddq $8, %rdi\n" + give, true},
		"the address of a member":               {"\tmovq $fresh, %rsi\n\tleaq 8(%rsi), %rdi\n" + give, true},
		"what lies at the address":              {"\tmovq $fresh, %rsi\n\tmovq 8(%rsi), %rdi\n" + give, false},
		"an exchange":                           {"\tmovq $fresh, %rsi\n\txchgq %rsi, %rdi\n" + give, true},
		"an exchange with memory":               {"\tmovq $fresh, %rdi\n\txchgq %rdi, (%rsi)\n", true},
		"a pop":                                 {"\tmovq $fresh, %rdi\n\tpopq %rdi\n" + give, false},
		"a push":                                {"\tpushq $fresh\n", false},
		"a write to its own stack":              {"\tmovq $fresh, 8(%rsp)\n", false},
		"a write to a stack that is passed on":  {"\tleaq 8(%rsp), %rdi\n\tmovq $fresh, 8(%rsp)\n", true},
		"a return":                              {"\tmovq $fresh, %rax\n", false},
		"a call by a pointer":                   {"\tmovq $fresh, %rdi\n\tcall *%rax\n", false},
		"a string instruction with no operands": {"\tmovq $fresh, %rax\n\trep stosq\n\tsubl %eax, %eax\n", true},
	} {
		got := escapesOf(t, c.body)
		if isWritten(got) != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		how := map[string]string{"a push": "is written to the stack", "a return": "is returned to the kernel", "a call by a pointer": "is passed on by a pointer to a function"}[name]
		if how != "" && !slices.Contains(got, Escape{"fresh", "f", how}) {
			t.Errorf("%s: %v, want %q", name, got, how)
		}
		if !c.want && how == "" && len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Instructions that only compare give an address to nobody.
func TestComparisonsKeepNoAddress(t *testing.T) {
	for _, word := range []string{"cmp", "cmpb", "cmpw", "cmpl", "cmpq", "test", "testb", "testw", "testl", "testq", "bt", "btw", "btl", "btq"} {
		if got := escapesOf(t, "\tmovq $fresh, %rdi\n\t"+word+" %rdi, (%rsi)\n\t"+word+" %rdi, %rdx\n\tmovq %rdx, other(%rip)\n"); len(got) != 0 {
			t.Errorf("%s: %v", word, got)
		}
	}
	for _, word := range []string{"prefetcht0", "prefetchw", "prefetchnta"} {
		if got := escapesOf(t, "\tmovq $fresh, %rdi\n\t"+word+" (%rdi)\n"); len(got) != 0 {
			t.Errorf("%s: %v", word, got)
		}
	}
}

// An instruction that only compares leaves the address where it is, in whichever operand.
func TestComparisonsKeepRegisters(t *testing.T) {
	for word := range compares {
		for _, operands := range []string{"%rdx, %rdi", "%rdi, %rdx"} {
			if strings.HasPrefix(word, "prefetch") {
				operands = "(%rdi)"
			}
			if got := escapesOf(t, "\tmovq $fresh, %rdi\n\t"+word+" "+operands+"\n\tmovq %rdx, other(%rip)\n"); len(got) != 0 {
				t.Errorf("%s %s gives the address to another register: %v", word, operands, got)
			}
			if got := escapesOf(t, "\tmovq $fresh, %rdi\n\t"+word+" "+operands+"\n\tmovq %rdi, other(%rip)\n"); !isWritten(got) {
				t.Errorf("%s %s takes the address away: %v", word, operands, got)
			}
		}
	}
}

// A further name of what is taken is taken too, and no other one.
func TestFurtherNamesAreKept(t *testing.T) {
	text := func(body string) string {
		return globalFunction("f", body) + globalFunction("g", "") + "\t.globl also\n\t.set also, f\n\t.globl zzz\n\t.set zzz, f\n\t.globl other\n\t.set other, g\n"
	}
	c, err := compareByHand(t, text(""), text("\tnop\n\tincl %eax\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := string(c.Extract("v").Text)
	if !strings.Contains(got, "\t.set also, f\n\t.set zzz, f\n") || strings.Contains(got, ".set other") {
		t.Errorf("%s", got)
	}
}

// Of several functions whose variables cannot be told apart always the first is named.
func TestVariablesThatCannotBeToldApart(t *testing.T) {
	text := func(n int) string {
		var b strings.Builder
		for i, f := range []string{"g", "h"} {
			body := ""
			for k := range n {
				name := "seen." + string(rune('0'+2*i+k))
				body += "\tmovl $1, " + name + "(%rip)\n"
				b.WriteString(dataOf(name, ".data."+name, "4", "1"))
			}
			b.WriteString(globalFunction(f, body))
		}
		return b.String()
	}
	for range 20 {
		_, err := compareByHand(t, text(1), text(2))
		if err == nil || !strings.Contains(err.Error(), "g has 2 static variables of this name and had 1") {
			t.Fatal(err)
		}
	}
}

// What a variable holds of the kernel's is no address of the module.
func TestVariableOfKernelAddressesLeadsNowhere(t *testing.T) {
	const read = "\tmovq $fresh, %rax\n\tmovq (%rax), %rbx\n\tmovq %rbx, other(%rip)\n"
	for name, c := range map[string]struct {
		value string
		want  bool
	}{"a function that stays": {"g", false}, "a function of another file": {"strange", false}, "a new function": {"made", true}, "a number": {"8", false},
		"itself": {"fresh", true}, "a place in itself": {"fresh+8", true}} {
		before := globalFunction("f", "") + globalFunction("g", "")
		after := globalFunction("f", read) + globalFunction("g", "") + globalFunction("made", "") + strings.Replace(fresh, ".quad 0", ".quad "+c.value, 1)
		got, err := compareByHand(t, before, after)
		if err != nil {
			t.Fatal(err)
		}
		if e := got.Extract("v").Escapes; isWritten(e) != c.want {
			t.Errorf("%s: %v, want %v", name, e, c.want)
		}
	}
}
