// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"strings"
)

// Registers 0 to 5 hold the arguments of a call; these follow.
const (
	regAX = 6 + iota
	regBX
	regBP
	regSP
	reg10
	reg11
	reg12
	reg13
	reg14
	reg15
	spilled // the function's stack has it
)

// kept are the registers that a call leaves as they are.
const kept = 1<<spilled | 1<<regBX | 1<<regBP | 1<<regSP | 1<<reg12 | 1<<reg13 | 1<<reg14 | 1<<reg15

// registers maps each register's names to its number.
var registers = makeRegisters()

func makeRegisters() map[string]int {
	m := map[string]int{}
	for i, name := range []string{"di", "si", "dx", "cx"} {
		for _, p := range []string{"%r", "%e", "%"} {
			m[p+name] = i
		}
		m["%"+name[:1]+"l"] = i
	}
	m["%dil"], m["%sil"], m["%dh"], m["%ch"] = 0, 1, 2, 3
	for name, n := range map[string]int{"ax": regAX, "bx": regBX, "bp": regBP, "sp": regSP} {
		for _, p := range []string{"%r", "%e", "%"} {
			m[p+name] = n
		}
	}
	m["%al"], m["%ah"], m["%bl"], m["%bh"], m["%bpl"], m["%spl"] = regAX, regAX, regBX, regBX, regBP, regSP
	for i, n := range []int{4, 5, reg10, reg11, reg12, reg13, reg14, reg15} {
		for _, s := range []string{"", "d", "w", "b"} {
			m[fmt.Sprintf("%%r%d%s", 8+i, s)] = n
		}
	}
	return m
}

func isRegister(op string) bool { return strings.HasPrefix(op, "%") && !strings.ContainsAny(op, "(:") }

func registerBit(op string) uint32 {
	if n, ok := registers[op]; ok {
		return 1 << n
	}
	return 0
}

// addressBits are the registers that an operand in memory is reached by.
func addressBits(op string) uint32 {
	_, in, _ := strings.Cut(op, "(")
	in, _, _ = strings.Cut(in, ")")
	var out uint32
	for _, r := range strings.Split(in, ",") {
		out |= registerBit(strings.TrimSpace(r))
	}
	return out
}
