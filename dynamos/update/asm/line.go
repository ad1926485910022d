// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"slices"
	"strings"
)

// maxText limits one file's assembly. The kernel's largest has 12 MB.
const maxText = 128 << 20

// gcc writes these marks around inline and top-level assembly.
const (
	appBegin = "#APP"
	appEnd   = "#NO_APP"
)

// split returns the statements without comments. Labels and marks are statements
// of their own.
func split(path string, text []byte) ([]line, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("assembly of %s has %d bytes; at most %d are possible", path, len(text), maxText)
	}
	var out []line
	for i, raw := range strings.Split(string(text), "\n") {
		if mark := strings.TrimSpace(raw); mark == appBegin || mark == appEnd {
			out = append(out, line{mark, i + 1})
			continue
		}
		for _, s := range joinPrefixes(splitStatements(raw)) {
			label, rest := cutLabel(s)
			for label != "" {
				out = append(out, line{label + ":", i + 1})
				label, rest = cutLabel(rest)
			}
			if rest != "" {
				out = append(out, line{strings.Join(splitBlanks(rest), " "), i + 1})
			}
		}
	}
	return out, nil
}

// joinPrefixes joins a prefix that the kernel writes as a statement, as in
// "lock; incl (%rdi)", to its instruction.
func joinPrefixes(list []string) []string {
	for i := 0; i+1 < len(list); i++ {
		if list[i] == "lock" {
			list[i] += " " + list[i+1]
			list = slices.Delete(list, i+1, i+2)
		}
	}
	return list
}

// splitStatements splits a line at semicolons and removes comments.
func splitStatements(raw string) []string {
	var out []string
	begin, quoted := 0, false
	add := func(end int) {
		if s := strings.TrimSpace(raw[begin:end]); s != "" {
			out = append(out, s)
		}
	}
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '#':
			add(i)
			return out
		case c == '/' && strings.HasPrefix(raw[i:], "/*"):
			n := strings.Index(raw[i:], "*/")
			if n < 0 {
				add(i)
				return out
			}
			raw = raw[:i] + " " + raw[i+n+2:]
		case c == ';':
			add(i)
			begin = i + 1
		}
	}
	add(len(raw))
	return out
}

// splitBlanks splits a statement at blanks outside of strings.
func splitBlanks(s string) []string {
	var out []string
	begin, quoted := -1, false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if quoted && c == '\\' {
			i++
			continue
		}
		if c == '"' {
			quoted = !quoted
		}
		blank := !quoted && (c == ' ' || c == '\t' || c == '\r')
		switch {
		case blank && begin >= 0:
			out = append(out, s[begin:i])
			begin = -1
		case !blank && begin < 0:
			begin = i
		}
	}
	if begin >= 0 {
		out = append(out, s[begin:])
	}
	return out
}

func cutLabel(s string) (label, rest string) {
	n := 0
	for n < len(s) && nameByte(s[n]) {
		n++
	}
	if n == 0 || n == len(s) || s[n] != ':' {
		return "", s
	}
	return s[:n], strings.TrimSpace(s[n+1:])
}

func nameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.'
}

// A token is a name or number in a statement.
type token struct{ begin, end int }

// listTokens lists what may be names in a statement's operands. Registers, strings
// and the mnemonic are omitted. The token of a label statement is the label.
func listTokens(s string) []token {
	var out []token
	first := !strings.HasSuffix(s, ":")
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"':
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
			i++
		case c == '%' || c == '@' || c == '\\':
			for i++; i < len(s) && nameByte(s[i]); i++ {
			}
		case nameByte(c):
			begin := i
			for i < len(s) && nameByte(s[i]) {
				i++
			}
			if !first {
				out = append(out, token{begin, i})
			}
			first = false
		default:
			i++
		}
	}
	return out
}

// replaceTokens returns s with each token replaced by f.
func replaceTokens(s string, f func(string) string) string {
	list := listTokens(s)
	if len(list) == 0 {
		return s
	}
	var b strings.Builder
	at := 0
	for _, t := range list {
		b.WriteString(s[at:t.begin])
		b.WriteString(f(s[t.begin:t.end]))
		at = t.end
	}
	b.WriteString(s[at:])
	return b.String()
}

// cutMnemonic returns the directive or mnemonic, and its operands.
func cutMnemonic(s string) (word, rest string) {
	word, rest, _ = strings.Cut(s, " ")
	return word, rest
}

// firstArg returns the first of operands that are separated by commas.
func firstArg(s string) string {
	a, _, _ := strings.Cut(s, ",")
	return strings.Trim(strings.TrimSpace(a), `"`)
}
