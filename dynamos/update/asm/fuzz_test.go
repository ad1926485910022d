// SPDX-License-Identifier: MIT

package asm

import "testing"

// Whatever the compiler may write, reading it ends, and what is the same is no
// change.
func FuzzParse(f *testing.F) {
	f.Add([]byte("\t.section .text.f,\"ax\"\n\t.globl f\n\t.type f,@function\nf:\n1:\tcall __fentry__\n\tret\n\t.size f,.-f\n"))
	f.Add([]byte("\t.section .data.x,\"aw\"\n\t.type x, @object\n\t.size x, 4\nx:\n\t.long 3\n\t.section .rodata\n.LC0:\n\t.string \"a;b # c\\\"\"\n"))
	f.Add([]byte("#APP\n.pushsection .a;.long 1b - .;.popsection\n#NO_APP\n\t.set a, b\n\t.comm c,4,4\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		u, err := Parse("x.c", text)
		if err != nil {
			return
		}
		again, err := Parse("x.c", text)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Compare(u, again)
		if err == nil && !c.IsEmpty() {
			t.Errorf("the same text differs: %v", c.Changed)
		}
		c, err = Compare(&Unit{}, u)
		if err == nil {
			c.Extract("v")
		}
	})
}
