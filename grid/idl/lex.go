// SPDX-License-Identifier: MIT

package idl

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

type kind int

const (
	end kind = iota
	word
	number
	text // a string; the token's text is without quotes, escapes as they are
	sign // anything else: one or two characters
)

type token struct {
	kind kind
	at   position
	text string
}

func (t token) is(s string) bool { return (t.kind == word || t.kind == sign) && t.text == s }

// name returns the name of t for error messages.
func (t token) name() string {
	switch t.kind {
	case end:
		return "the end of the file"
	case text:
		return "a string"
	}
	return fmt.Sprintf("%q", t.text)
}

// A lexer returns the tokens of a file one at a time, because only the parser knows
// where C text begins.
type lexer struct {
	src      string
	expanded bool     // src has line markers
	name     string   // of the file in them
	hidden   []string // directives that C text of src lacks
	at       position // next byte
	problems *Problems
}

func (l *lexer) problemf(at position, format string, args ...any) {
	start := strings.LastIndexByte(l.src[:at.offset], '\n') + 1
	line, _, _ := strings.Cut(l.src[start:], "\n")
	if len(l.problems.List) > 50*problemsMax {
		return
	}
	for _, q := range l.problems.List {
		if q.offset == at.offset {
			return // later ones at the same place follow from the first
		}
	}
	l.problems.List = append(l.problems.List, Problem{
		File: at.file, Line: at.line, Column: at.column, Text: fmt.Sprintf(format, args...),
		offset: at.offset, source: strings.TrimSuffix(line, "\r")})
}

func (l *lexer) remaining() string { return l.src[l.at.offset:] }

// advance skips n bytes.
func (l *lexer) advance(n int) {
	for _, r := range l.src[l.at.offset : l.at.offset+n] {
		l.at.column++
		if r == '\n' {
			l.at.line++
			l.at.column = 1
		}
	}
	l.at.offset += n
}

// skipComment skips a comment that begins here.
func (l *lexer) skipComment() bool {
	rest, n := l.remaining(), 0
	switch {
	case strings.HasPrefix(rest, "//"):
		if n = strings.IndexByte(rest, '\n'); n < 0 {
			n = len(rest)
		}
	case strings.HasPrefix(rest, "/*"):
		if n = strings.Index(rest[2:], "*/"); n < 0 {
			l.problemf(l.at, "this comment does not end: write */")
			n = len(rest)
		} else {
			n += 4
		}
	default:
		return false
	}
	l.advance(n)
	return true
}

func (l *lexer) skipBlanks() {
	for {
		for l.skipMarker() {
		}
		rest := l.remaining()
		n := len(rest) - len(strings.TrimLeft(rest, " \t\r\n\f\v"))
		l.advance(n)
		if n == 0 && !l.skipComment() {
			return
		}
	}
}

func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

func (l *lexer) next() token {
	l.skipBlanks()
	t := token{kind: end, at: l.at}
	rest := l.remaining()
	if rest == "" {
		return t
	}
	n := 1
	switch c := rest[0]; {
	case isLetter(c) || isDigit(c):
		t.kind = word
		if isDigit(c) {
			t.kind = number
		}
		for n < len(rest) && (isLetter(rest[n]) || isDigit(rest[n])) {
			n++
		}
	case c == '"':
		return l.lexString()
	default:
		t.kind = sign
		_, n = utf8.DecodeRuneInString(rest)
		for _, two := range []string{"<=", ">=", "==", "!=", "&&", "||", "<<", ">>"} {
			if strings.HasPrefix(rest, two) {
				n = 2
			}
		}
	}
	t.text = rest[:n]
	l.advance(n)
	return t
}

func (l *lexer) lexString() token {
	t := token{kind: text, at: l.at}
	n, ok := quotedLen(l.remaining())
	if !ok {
		l.problemf(t.at, "this string does not end in its line")
		l.advance(n)
		return t
	}
	t.text = l.remaining()[1 : n-1]
	l.advance(n)
	return t
}

// quotedLen returns the length of the string or character constant at the start of s,
// and whether it ends in its line.
func quotedLen(s string) (int, bool) {
	for i := 1; i < len(s) && s[i] != '\n'; i++ {
		switch s[i] {
		case '\\':
			if i++; i < len(s) && s[i] == '\r' {
				i++
			}
		case s[0]:
			return i + 1, true
		}
	}
	n := strings.IndexByte(s, '\n')
	if n < 0 {
		n = len(s)
	}
	return n, false
}

// lexBlock reads C text from the brace that was just read to the closing one. It skips
// braces in strings and comments.
func (l *lexer) lexBlock(open token) *block {
	start := strings.LastIndexByte(l.src[:open.at.offset], '\n') + 1
	b := &block{at: open.at, indent: blanksFor(l.src[start:], open.at.column-1)}
	for depth := 1; ; {
		rest := l.remaining()
		switch {
		case rest == "":
			l.problemf(open.at, "this brace is never closed: write }")
			return b
		case l.skipMarker(), l.skipComment():
			continue
		case rest[0] == '"' || rest[0] == '\'':
			n, ok := quotedLen(rest)
			if !ok { // an apostrophe, as in #error don't
				n = 1
			}
			l.advance(n)
			continue
		case rest[0] == '{':
			depth++
		case rest[0] == '}':
			depth--
		}
		l.advance(1)
		if depth == 0 {
			b.text = l.src[open.at.offset:l.at.offset]
			l.show(b)
			return b
		}
	}
}
