// SPDX-License-Identifier: MIT

package rely

import (
	"strings"

	"skep/internal/lazy"
)

// A statement is a piece of source that ends with a semicolon or a brace.
type statement struct {
	first, last int // lines
	text        string
}

// branch begins a statement that ends with its brackets.
var branch = lazy.Regexp(`^\s*(else\s+)?(if|for|while|switch)\s*\(`)

// splitStatements parts a source. Text of comments and directives counts for nothing.
func splitStatements(text string) []statement {
	var out []statement
	var now strings.Builder
	line, first, depth := 1, 1, 0
	end := func() {
		if t := strings.Join(strings.Fields(now.String()), " "); t != "" {
			out = append(out, statement{first, line, t})
		}
		now.Reset()
	}
	text = blankComments(text)
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '#' && strings.TrimSpace(now.String()) == "" {
			n := directiveEnd(text[i:])
			line += strings.Count(text[i:i+n], "\n")
			i += n - 1
			continue
		}
		if strings.TrimSpace(now.String()) == "" {
			first = line
		}
		switch c {
		case '\n':
			line++
		case '"', '\'':
			n := quotedEnd(text[i:])
			now.WriteString(text[i : i+n])
			i += n - 1
			continue
		case '(':
			depth++
		case ')':
			if depth = max(0, depth-1); depth == 0 && branch().MatchString(now.String()) {
				now.WriteByte(c)
				end() // what follows is a statement of its own
				continue
			}
		case '{', '}':
			depth = 0
			end()
			continue
		case ';':
			if depth == 0 {
				end()
				continue
			}
		}
		now.WriteByte(c)
	}
	end()
	return out
}

// directiveEnd is how long a directive is, with the lines that go on.
func directiveEnd(text string) int {
	for i := 0; i < len(text); i++ {
		if text[i] == '\n' && (i == 0 || text[i-1] != '\\') {
			return i
		}
	}
	return len(text)
}

func quotedEnd(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		case '\n':
			return i // not a text
		}
	}
	return len(text)
}

// blankComments makes comments blanks, and keeps lines.
func blankComments(text string) string {
	b := []byte(text)
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '"' || b[i] == '\'':
			i += quotedEnd(text[i:]) - 1
		case b[i] == '/' && i+1 < len(b) && (b[i+1] == '*' || b[i+1] == '/'):
			end := strings.Index(text[i:], "\n")
			if b[i+1] == '*' {
				if end = strings.Index(text[i+2:], "*/"); end >= 0 {
					end += 4
				}
			}
			if end < 0 {
				end = len(text) - i
			}
			for j := i; j < i+end; j++ {
				if b[j] != '\n' {
					b[j] = ' '
				}
			}
			i += end - 1
		}
	}
	return string(b)
}

// textOf is the source of all statements that lie in a line.
func textOf(list []statement, line int) string {
	var out []string
	for _, s := range list {
		if s.first <= line && line <= s.last {
			out = append(out, s.text)
		}
	}
	return strings.Join(out, "; ")
}
