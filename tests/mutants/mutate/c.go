// SPDX-License-Identifier: MIT

package mutate

import (
	"bytes"
	"strconv"
	"strings"
)

// This file makes mutations of C from tokens, without a parser: parsers do not know the
// dialects of kernel and freestanding code, and a mutant that does not compile costs only a
// second.

type cToken struct {
	kind     byte // i identifier, n number, s string or character, o operator
	text     string
	at       int  // offset
	line     int  // from 1
	col      int  // from 1
	isolated bool // blanks on both sides: clang-format puts them around binary operators
}

func (t cToken) end() int { return t.at + len(t.text) }

var cOperators = []string{
	"<<=", ">>=", "...", "->", "++", "--", "<<", ">>", "<=", ">=", "==", "!=",
	"&&", "||", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##",
}

// cTokens returns the tokens without comments and preprocessor lines.
func cTokens(text []byte) []cToken {
	var list []cToken
	line, start, fresh := 1, 0, true // fresh: only blanks so far in this line
	for i := 0; i < len(text); {
		n, kind := cNext(text[i:], fresh)
		part := text[i : i+n]
		if kind != 0 {
			list = append(list, cToken{kind, string(part), i, line, i - start + 1,
				i > 0 && isBlank(text[i-1]) && i+n < len(text) && isBlank(text[i+n])})
			fresh = false
		}
		if k := bytes.Count(part, []byte("\n")); k > 0 {
			line += k
			start = i + bytes.LastIndexByte(part, '\n') + 1
			fresh = true
		}
		i += n
	}
	return list
}

func isBlank(b byte) bool { return b == ' ' || b == '\t' || b == '\n' }

// cNext returns the length and the kind of the next token; kind 0 is no token.
func cNext(s []byte, fresh bool) (int, byte) {
	switch {
	case bytes.HasPrefix(s, []byte("//")):
		return findMark(s, 2, "\n", false), 0
	case bytes.HasPrefix(s, []byte("/*")):
		return findMark(s, 2, "*/", true), 0
	case s[0] == '#' && fresh:
		n := 0
		for {
			n = findMark(s, n, "\n", true)
			if n < 2 || n == len(s) || s[n-2] != '\\' {
				return n, 0
			}
		}
	case isBlank(s[0]):
		return 1, 0
	case s[0] == '"' || s[0] == '\'':
		return cQuoted(s), 's'
	case wordByte(s[0]):
		n := 1
		for n < len(s) && (wordByte(s[n]) || s[0] <= '9' && s[n] == '.') {
			n++
		}
		if s[0] <= '9' {
			return n, 'n'
		}
		return n, 'i'
	}
	for _, op := range cOperators {
		if bytes.HasPrefix(s, []byte(op)) {
			return len(op), 'o'
		}
	}
	return 1, 'o'
}

func wordByte(b byte) bool {
	return b == '_' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

// findMark finds mark after from and returns the offset before it, or with behind after it.
func findMark(s []byte, from int, mark string, behind bool) int {
	n := bytes.Index(s[from:], []byte(mark))
	if n < 0 {
		return len(s)
	}
	if behind {
		n += len(mark)
	}
	return from + n
}

func cQuoted(s []byte) int {
	for n := 1; n < len(s); n++ {
		switch s[n] {
		case '\\':
			n++
		case s[0]:
			return n + 1
		}
	}
	return len(s)
}

// A cSource collects the mutations of one file.
type cSource struct {
	name string
	text []byte
	toks []cToken
	list []Mutation
}

// cMutations returns the mutations in functions and initialisers.
func cMutations(name string, text []byte) []Mutation {
	c := &cSource{name: name, text: text, toks: cTokens(text)}
	var inside []bool // for each open brace: code or data, no declaration
	round := 0        // open parentheses
	for i, t := range c.toks {
		switch t.text {
		case "(":
			round++
		case ")":
			round--
		case "{":
			last := c.textBefore(i)
			inside = append(inside, last == ")" || last == "=" || last == "else" || last == "do" ||
				len(inside) > 0 && inside[len(inside)-1] && !c.isTypeBrace(i))
			continue
		case "}":
			if len(inside) > 0 {
				inside = inside[:len(inside)-1]
			}
			continue
		}
		if len(inside) > 0 && inside[len(inside)-1] {
			c.mutateToken(i)
			if round == 0 {
				c.dropStatement(i)
			}
		}
	}
	return c.list
}

func (c *cSource) textBefore(i int) string {
	if i == 0 {
		return ""
	}
	return c.toks[i-1].text
}

// isTypeBrace reports whether the brace of a type from others.
func (c *cSource) isTypeBrace(i int) bool {
	for k := i - 1; k >= 0 && k >= i-2; k-- {
		switch c.toks[k].text {
		case "struct", "union", "enum":
			return true
		}
	}
	return false
}

func (c *cSource) add(from cToken, end int, new string) {
	c.list = append(c.list, Mutation{
		File: c.name, from: from.at, to: end, Line: from.line, col: from.col,
		old: string(c.text[from.at:end]), new: new,
	})
}

func (c *cSource) replace(t cToken, new string) { c.add(t, t.end(), new) }

// mutateToken adds mutations of one token, and of the condition after an if or a while.
func (c *cSource) mutateToken(i int) {
	t := c.toks[i]
	switch {
	case t.kind == 'n':
		if new, ok := plusOne(t.text); ok {
			c.replace(t, new)
		}
	case t.text == "true":
		c.replace(t, "false")
	case t.text == "false":
		c.replace(t, "true")
	case t.text == "if" || t.text == "while":
		if end := c.closingParen(i + 1); end > 0 {
			cond := string(c.text[c.toks[i+1].at:c.toks[end].end()])
			c.add(c.toks[i+1], c.toks[end].end(), "(!"+cond+")")
		}
	case t.text == "for":
		c.mutateLoop(i)
	case t.text == "return" && i+3 < len(c.toks) && c.toks[i+1].text == "-" &&
		strings.HasPrefix(c.toks[i+2].text, "E") && c.toks[i+3].text == ";":
		c.add(c.toks[i+1], c.toks[i+2].end(), "0")
	case t.kind == 'o' && (t.isolated || t.text == "++" || t.text == "--"):
		if new, ok := swaps[t.text]; ok {
			c.replace(t, new)
		}
	}
}

// mutateLoop negates the condition of a for.
func (c *cSource) mutateLoop(i int) {
	end := c.closingParen(i + 1)
	var marks []int
	depth := 0
	for k := i + 1; k < end; k++ {
		switch c.toks[k].text {
		case "(", "{":
			depth++
		case ")", "}":
			depth--
		case ";":
			if depth == 1 {
				marks = append(marks, k)
			}
		}
	}
	if len(marks) == 2 && marks[1] > marks[0]+1 {
		from, to := c.toks[marks[0]+1], c.toks[marks[1]-1]
		c.add(from, to.end(), "!("+string(c.text[from.at:to.end()])+")")
	}
}

// plusOne adds one to an integer and keeps its base and its suffix.
func plusOne(text string) (string, bool) {
	digits := strings.TrimRight(text, "uUlL")
	v, err := strconv.ParseUint(digits, 0, 64)
	if err != nil || v+1 == 0 || strings.HasPrefix(digits, "0b") {
		return "", false
	}
	suffix := text[len(digits):]
	if strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X") {
		return "0x" + strconv.FormatUint(v+1, 16) + suffix, true
	}
	return strconv.FormatUint(v+1, 10) + suffix, true
}

// closingParen finds the parenthesis that closes the one at i.
func (c *cSource) closingParen(i int) int {
	depth := 0
	for k := i; k < len(c.toks); k++ {
		switch c.toks[k].text {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth == 0 {
			if k == i {
				return 0 // it is not a parenthesis
			}
			return k
		}
	}
	return 0
}

// dropStatement adds the removal of the statement that begins at i, if it is a call, an
// assignment, an increment, a break or a continue.
func (c *cSource) dropStatement(i int) {
	if i == 0 || i+1 >= len(c.toks) {
		return
	}
	switch c.textBefore(i) {
	case ";", "{", "}", "else", "do", ":":
	case ")":
		if !c.isControlled(i - 1) {
			return
		}
	default:
		return
	}
	if !c.isDroppable(i) {
		return
	}
	depth := 0
	for k := i; k < len(c.toks); k++ {
		switch c.toks[k].text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		case ";":
			if depth == 0 {
				c.add(c.toks[i], c.toks[k].end(), ";")
				return
			}
		}
		if depth < 0 {
			return
		}
	}
}

// isControlled reports whether the parenthesis at i closes an if, a for or a while.
func (c *cSource) isControlled(i int) bool {
	depth := 0
	for k := i; k > 0; k-- {
		switch c.toks[k].text {
		case ")":
			depth++
		case "(":
			depth--
		}
		if depth == 0 {
			word := c.toks[k-1].text
			return word == "if" || word == "for" || word == "while" || strings.Contains(word, "for_each")
		}
	}
	return false
}

// isLockAssertion reports whether a function only asserts that its callers hold a lock. No
// caller that is right lets a test see whether it is there.
func isLockAssertion(name string) bool {
	switch name {
	case "lockdep_assert_held", "sms_spin_assert", "bee_filelock_assert":
		return true
	}
	return strings.HasSuffix(name, "_assert_locked")
}

// isDroppable reports whether a statement that may be removed begins at i.
func (c *cSource) isDroppable(i int) bool {
	t, next := c.toks[i], c.toks[i+1].text
	switch t.text {
	case "break", "continue":
		return next == ";"
	case "if", "while", "for", "switch", "return", "sizeof", "goto", "case", "default",
		"_Static_assert":
		return false
	case "++", "--", "*":
		return true
	}
	if t.kind != 'i' || isLockAssertion(t.text) {
		return false
	}
	switch next {
	case "(", "->", ".", "[", "=", "++", "--",
		"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=":
		return true
	}
	return false
}
