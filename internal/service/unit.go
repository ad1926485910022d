// SPDX-License-Identifier: MIT

package service

import (
	"fmt"
	"strings"
)

// Quote quotes a word for a command line or a list of paths of systemd, so that quotes,
// variables and specifiers in it have no effect.
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

// QuotePath is Quote for places where systemd expands no variables.
func QuotePath(path string) string { return strings.ReplaceAll(Quote(path), "$$", "$") }

// CommandLine returns the value of ExecStart= for a program and its arguments. systemd
// expands no variables in the program's path.
func CommandLine(program string, args ...string) string {
	line := QuotePath(program)
	for _, a := range args {
		line += " " + Quote(a)
	}
	return line
}
