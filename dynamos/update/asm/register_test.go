// SPDX-License-Identifier: MIT

package asm

import "testing"

// Constants and the instruction pointer are no registers that a value lies in.
func TestOperandRegisters(t *testing.T) {
	ax, bx := uint32(1)<<regAX, uint32(1)<<regBX
	for op, want := range map[string]uint32{
		"%rax": ax, "%ah": ax, "%ebx": bx, "%bl": bx, "%r10d": 1 << reg10,
		"$8": 0, "%rip": 0, "%xmm0": 0, "name": 0, "": 0,
	} {
		if got := registerBit(op); got != want {
			t.Errorf("register of %q: %x, want %x", op, got, want)
		}
	}
	for op, want := range map[string]uint32{
		"8(%rbx)": bx, "(%rax,%rbx,8)": ax | bx, "name(,%rax,8)": ax, "%gs:8(%rbx)": bx,
		"name(%rip)": 0, "name": 0, "%rax": 0,
	} {
		if got := addressBits(op); got != want {
			t.Errorf("registers of the address %q: %x, want %x", op, got, want)
		}
	}
}
