// SPDX-License-Identifier: MIT

package service

import (
	"fmt"
	"strings"
)

// Quote writes a word so that systemd reads it as it is in a command line or in
// a list of paths: quotes, variables and specifiers mean nothing.
func Quote(word string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(word) {
		switch c := word[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '%' || c == '$':
			b.WriteByte(c)
			b.WriteByte(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// QuotePath is Quote where systemd expands no variables.
func QuotePath(path string) string { return strings.ReplaceAll(Quote(path), "$$", "$") }

// CommandLine is the value of ExecStart for a program and its words. The first
// one is a path, in which systemd expands no variables.
func CommandLine(program string, args ...string) string {
	line := QuotePath(program)
	for _, a := range args {
		line += " " + Quote(a)
	}
	return line
}
