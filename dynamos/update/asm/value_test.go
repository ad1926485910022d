// SPDX-License-Identifier: MIT

package asm

import "testing"

// valueAtCall is what %rdi holds where a function calls probe.
func valueAtCall(t *testing.T, body string) string {
	t.Helper()
	u := parseUnit(t, globalFunction("f", body))
	g := graphOf(u.byName["f"])
	known := (&reader{newNormalizer(u), u.byName["f"]}).valuesOf(g)
	for i, s := range g.steps {
		if s.target() == "probe" {
			return known[i].reg[0].String()
		}
	}
	t.Fatal("probe is not called")
	return ""
}

// A value is known as long as all ways to a statement agree on it.
func TestValuesOfRegisters(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"an argument":                      {"", "argument 0"},
		"another one":                      {"\tmovq %rsi, %rdi\n", "argument 1"},
		"its low half":                     {"\tmovl %esi, %edi\n", "argument 1"},
		"a number":                         {"\tmovl $7, %edi\n", "7"},
		"zero":                             {"\txorl %edi, %edi\n", "0"},
		"the third, and a member of it":    {"\tmovq %rdx, %rdi\n\tmovq 8(%rdi), %rdi\n", "*(argument 2+8)"},
		"the fourth":                       {"\tmovq %rcx, %rdi\n", "argument 3"},
		"the fifth":                        {"\tmovq %r8, %rdi\n", "argument 4"},
		"the sixth":                        {"\tmovq %r9, %rdi\n", "argument 5"},
		"no argument":                      {"\tmovq %rax, %rdi\n", "?"},
		"another register at the start":    {"\tmovq %r10, %rdi\n", "?"},
		"an addition":                      {"\taddq $8, %rdi\n", "argument 0+8"},
		"a subtraction":                    {"\tsubq $8, %rdi\n", "argument 0-8"},
		"both":                             {"\taddq $8, %rdi\n\tsubq $8, %rdi\n", "argument 0"},
		"inc and dec":                      {"\tincq %rdi\n\tincq %rdi\n\tdecq %rdi\n", "argument 0+1"},
		"the address of a member":          {"\tleaq 16(%rsi), %rdi\n", "argument 1+16"},
		"a member":                         {"\tmovq 16(%rsi), %rdi\n", "*(argument 1+16)"},
		"a member of a member":             {"\tmovq (%rsi), %rax\n\tmovq 8(%rax), %rdi\n", "*(*(argument 1)+8)"},
		"an element that an index chooses": {"\tmovq (%rsi,%rdx,8), %rdi\n", "?"},
		"a symbol":                         {"\tmovq $table, %rdi\n", "&table"},
		"what a variable holds":            {"\tmovq table(%rip), %rdi\n", "*(&table)"},
		"of the processor":                 {"\tmovq %gs:here, %rdi\n", "%gs:here"},
		"a kept register over a call":      {"\tmovq %rdi, %rbx\n\tcall other\n\tmovq %rbx, %rdi\n", "argument 0"},
		"another register over a call":     {"\tcall other\n", "?"},
		"a result":                         {"\tcall other\n\tmovq %rax, %rdi\n", "the result of other"},
		"the stack":                        {"\tsubq $16, %rsp\n\tmovq %rsi, 8(%rsp)\n\tmovq 8(%rsp), %rdi\n\taddq $16, %rsp\n", "argument 1"},
		"the stack at another depth":       {"\tpushq %rsi\n\tpushq %rdx\n\tmovq 8(%rsp), %rdi\n\tpopq %rax\n\tpopq %rax\n", "argument 1"},
		"push and pop":                     {"\tpushq %rsi\n\tpopq %rdi\n", "argument 1"},
		"a stack of unknown depth":         {"\tandq $-16, %rsp\n\tmovq %rsi, 8(%rsp)\n\tmovq 8(%rsp), %rdi\n", "?"},
		"two ways agree":                   {"\tjne .L1\n\tmovq %rsi, %rdi\n\tjmp .L2\n.L1:\n\tmovq %rsi, %rdi\n.L2:\n", "argument 1"},
		"two ways differ":                  {"\tjne .L1\n\tmovq %rsi, %rdi\n.L1:\n", "?"},
		"a loop":                           {"1:\n\taddq $8, %rdi\n\tjne 1b\n", "?"},
		"an exchange":                      {"\txchgq %rsi, %rdi\n", "?"},
		"a condition":                      {"\tcmovne %rsi, %rdi\n", "?"},
		"a multiplication":                 {"\timulq $8, %rsi, %rdi\n", "?"},
		"the stack after prefetcht0":       {"\tpushq %rsi\n\tprefetcht0 (%rsp)\n\tpopq %rdi\n", "argument 1"},
		"the stack after prefetchw":        {"\tpushq %rsi\n\tprefetchw (%rsp)\n\tpopq %rdi\n", "argument 1"},
		"the stack after prefetchnta":      {"\tpushq %rsi\n\tprefetchnta (%rsp)\n\tpopq %rdi\n", "argument 1"},
	} {
		if got := valueAtCall(t, c.body+"\tcall probe\n"); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
