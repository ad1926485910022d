// SPDX-License-Identifier: MIT

package main

import (
	"strconv"
	"strings"
)

// mnemonics maps mnemonics that leak to the kind of leak. Each may have prefixes.
var mnemonics = map[string]string{
	"syscall": "syscall", "sysenter": "syscall",
	"cpuid": "cpuid", "xgetbv": "xgetbv",
	"rdfsbase": "fs", "wrfsbase": "fs", "lfs": "fs", "fs": "fs",
	"rdgsbase": "gs", "wrgsbase": "gs", "lgs": "gs", "gs": "gs", "swapgs": "gs",
}

// leakKind returns the kind of leak of an instruction in objdump's syntax: fs, gs, cpuid,
// xgetbv or syscall; "" for none.
func leakKind(text string) string {
	text = strings.ReplaceAll(text, ",", " ")
	for _, word := range strings.Fields(text) {
		if kind, ok := mnemonics[word]; ok {
			return kind
		}
		if strings.Contains(word, "%fs") {
			return "fs"
		}
		if strings.Contains(word, "%gs") {
			return "gs"
		}
		if word == "$0x80" && strings.Contains(text, "int ") {
			return "syscall"
		}
	}
	return ""
}

// isUnreadable reports whether objdump cannot decode the bytes. A zero before a new start is
// padding.
func isUnreadable(text string) bool {
	return strings.Contains(text, "(bad)") || strings.HasPrefix(text, ".byte") && text != ".byte 0x0"
}

// slotAccess returns the displacement of an access to gs: whose address has no other part.
// Rewritten code accesses a thread slot in this way.
func slotAccess(text string) (int32, bool) {
	_, rest, ok := strings.Cut(text, "%gs:")
	if !ok || strings.Contains(rest, "%gs") {
		return 0, false
	}
	number, _, _ := strings.Cut(rest, ",")
	value, err := strconv.ParseInt(number, 0, 32)
	return int32(value), err == nil
}

// branchTarget returns the target of a direct branch.
func branchTarget(text string) (uint64, bool) {
	words := strings.Fields(strings.ReplaceAll(text, ",", " "))
	for i, word := range words {
		if !isBranch(word) {
			continue
		}
		for _, operand := range words[i+1:] {
			if operand != "pn" && operand != "pt" { // hints: jne,pn
				addr, err := strconv.ParseUint(operand, 16, 64)
				return addr, err == nil
			}
		}
	}
	return 0, false
}

func isBranch(word string) bool {
	return strings.HasPrefix(word, "j") || strings.HasPrefix(word, "call") ||
		strings.HasPrefix(word, "loop") || word == "xbegin"
}

// endsFlow reports whether control never continues after this instruction.
func endsFlow(text string) bool {
	for _, word := range strings.Fields(text) {
		switch word {
		case "jmp", "ret", "lret", "iretq", "hlt", "ud2", "int3":
			return true
		}
	}
	return false
}
