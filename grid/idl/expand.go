// SPDX-License-Identifier: MIT

package idl

import (
	"fmt"
	"strconv"
	"strings"

	"skep/internal/lazy"
)

// An Expander runs the C preprocessor on text. Its output has line markers, such as
//
//	# 12 "file" 1
type Expander func(text []byte) ([]byte, error)

// The compilers of OmniRPC and Ninf-G run the preprocessor on every file. Here it runs on
// files with a directive outside of C text, and its macros hold in C text too. Directives
// in C text are for the C compiler: their lines are hidden from the preprocessor, because it
// would put a header into the stub a second time.

// hiddenName is what the preprocessor sees in place of a directive.
const hiddenName = "skep_directive_%d_"

var hiddenLine = lazy.Regexp(`(?m)^[ \t]*skep_directive_(\d+)_[ \t]*$`)

// hide returns the text without the directives in C text, these, and whether there are
// others.
func hide(text string) (out string, hidden []string, others bool) {
	var b strings.Builder
	class, inClass, depth := false, false, 0
	fresh := true // nothing but blanks in this line so far
	for rest := text; rest != ""; {
		n := 1
		switch c := rest[0]; {
		case c == '#' && fresh && depth > 0:
			n = directiveLen(rest)
			fmt.Fprintf(&b, hiddenName, len(hidden))
			b.WriteString(strings.Repeat("\n", strings.Count(rest[:n], "\n")))
			hidden, rest = append(hidden, rest[:n]), rest[n:]
			continue
		case c == '#' && fresh:
			n, others = directiveLen(rest), true
		case strings.HasPrefix(rest, "//"), strings.HasPrefix(rest, "/*"):
			n = commentLen(rest)
		case c == '"' || c == '\'' && depth > 0:
			if k, ok := quotedLen(rest); ok {
				n = k
			}
			fresh = false
		case isLetter(c) || isDigit(c):
			for n < len(rest) && (isLetter(rest[n]) || isDigit(rest[n])) {
				n++
			}
			class, fresh = class || depth == 0 && rest[:n] == "DefClass", false
		case c == '{' && class: // of a class, whose methods are in it
			class, inClass = false, true
		case c == '{':
			depth++
		case c == '}' && depth > 0:
			depth--
		case c == '}' && inClass:
			inClass = false
		case c == '\n':
			fresh = true
		default:
			fresh = fresh && (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v')
		}
		b.WriteString(rest[:n])
		rest = rest[n:]
	}
	return b.String(), hidden, others
}

func commentLen(s string) int {
	mark, skip := "\n", 0
	if s[1] == '*' {
		mark, skip = "*/", 2
	}
	n := strings.Index(s[2:], mark)
	if n < 0 {
		return len(s)
	}
	return 2 + n + skip
}

// directiveLen returns the length of a directive without the end of its last line.
// Backslashes and comments continue it.
func directiveLen(s string) int {
	n := 0
	for n < len(s) && s[n] != '\n' {
		switch {
		case strings.HasPrefix(s[n:], "\\\n"):
			n += 2
		case strings.HasPrefix(s[n:], "\\\r\n"):
			n += 3
		case strings.HasPrefix(s[n:], "/*"), strings.HasPrefix(s[n:], "//"):
			n += commentLen(s[n:])
		case s[n] == '"':
			k, _ := quotedLen(s[n:])
			n += k
		default:
			n++
		}
	}
	return min(n, len(s))
}

// show puts the hidden directives back into C text.
func (l *lexer) show(b *block) {
	if len(l.hidden) == 0 {
		return
	}
	b.text = hiddenLine().ReplaceAllStringFunc(b.text, func(line string) string {
		number := hiddenLine().FindStringSubmatch(line)[1]
		if n, err := strconv.Atoi(number); err == nil && n < len(l.hidden) {
			return l.hidden[n]
		}
		return line
	})
	if at := strings.Index(b.text, "skep_directive_"); at >= 0 {
		l.problemf(b.at, "a directive of the C preprocessor in this C text is inside a macro's arguments: write it before them")
	}
}

var markerLine = lazy.Regexp(`^# (\d{1,9}) ("(?:[^"\\\n]|\\.)*")[ \d]*(?:\n|$)`)

// skipMarker skips a line marker, which says where the next line is from.
func (l *lexer) skipMarker() bool {
	at := l.at.offset
	if !l.expanded || at > 0 && l.src[at-1] != '\n' {
		return false
	}
	m := markerLine().FindStringSubmatch(l.remaining())
	if m == nil {
		return false
	}
	line, _ := strconv.Atoi(m[1])
	l.at.offset += len(m[0])
	l.at.line, l.at.column, l.at.file = line, 1, ""
	if m[2] != l.name {
		l.at.file = unquoteC(m[2])
	}
	return true
}

// unquoteC is the inverse of cString.
func unquoteC(s string) string {
	var b strings.Builder
	for s = s[1 : len(s)-1]; s != ""; {
		n := 1
		switch {
		case s[0] == '\\' && len(s) >= 4 && isDigit(s[1]):
			n = 4
			if c, err := strconv.ParseUint(s[1:4], 8, 8); err == nil {
				b.WriteByte(byte(c))
			}
		case s[0] == '\\' && len(s) >= 2:
			n = 2
			b.WriteByte(s[1])
		default:
			b.WriteByte(s[0])
		}
		s = s[n:]
	}
	return b.String()
}

// expand returns the text that is parsed, and the directives that are hidden from it.
func expand(file string, text []byte, run Expander) (out []byte, hidden []string, expanded bool, err error) {
	if run == nil {
		return text, nil, false, nil
	}
	shown, hidden, others := hide(string(text))
	if !others {
		return text, nil, false, nil
	}
	out, err = run([]byte("# 1 " + cString(file) + "\n" + shown))
	return out, hidden, true, err
}
