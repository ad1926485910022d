// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"strings"

	"skep/internal/lazy"
)

// An item is one definition or declaration at the top of a C file.
type item struct {
	kind  byte     // 'm' macro, 'f' function with body, 'p' prototype or variable, 's' struct, union or enum
	names []string // that it declares
	tag   string   // of a struct or union
	parts []string // of one: its members
	head  string   // of a function: up to its body
	text  string   // with the conditions around it, blanks made one
}

var (
	commentText = lazy.Regexp(`(?s)/\*.*?\*/|//[^\n]*`)
	joined      = lazy.Regexp(`\\\r?\n`)
	blanks      = lazy.Regexp(`\s+`)
	ident       = lazy.Regexp(`[A-Za-z_][A-Za-z0-9_]*`)
	beforeParen = lazy.Regexp(`([A-Za-z_][A-Za-z0-9_]*)\s*\(`)
	tagged      = lazy.Regexp(`^(?:typedef\s+)?(?:struct|union|enum)\s+(?:__[a-z_]+\s+)?([A-Za-z_][A-Za-z0-9_]*)?`)
	declarator  = lazy.Regexp(`([A-Za-z_][A-Za-z0-9_]*)\s*(?:\[[^\]]*\]\s*)*(?::[^;,]*)?[;,=)}]`)
)

// attributes look like functions and are none.
var attributes = map[string]bool{"__attribute__": true, "__printf": true, "__scanf": true, "__aligned": true, "__section": true,
	"__acquires": true, "__releases": true, "__must_hold": true, "__alloc_size": true, "__malloc": true, "sizeof": true}

// An itemizer walks through a file's text.
type itemizer struct {
	conditions []string
	out        []item
}

// splitItems cuts a C file at its top level. If brackets do not pair, as between two branches of a condition, the result is incomplete.
func splitItems(text string) (list []item, complete bool) {
	text = joined().ReplaceAllString(commentText().ReplaceAllString(text, " "), " ")
	var z itemizer
	var body strings.Builder
	depth := 0
	for _, line := range strings.SplitAfter(text, "\n") {
		if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, "#") {
			if z.readDirective(trimmed) && depth > 0 {
				body.WriteString(" " + trimmed + "\n")
			}
			continue
		}
		depth = z.addLine(&body, line, depth)
	}
	z.endItem(body.String())
	return z.out, depth == 0 && len(z.conditions) == 0
}

// readDirective follows conditions and takes macros; it tells of those directives
// that change what is around them.
func (z *itemizer) readDirective(s string) bool {
	word, rest, _ := strings.Cut(strings.TrimSpace(s[1:]), " ")
	switch word {
	case "if", "ifdef", "ifndef":
		z.conditions = append(z.conditions, s)
	case "else", "elif":
		if n := len(z.conditions); n > 0 {
			z.conditions[n-1] += " " + s
		}
	case "endif":
		if n := len(z.conditions); n > 0 {
			z.conditions = z.conditions[:n-1]
		}
	case "define":
		if name := ident().FindString(rest); name != "" {
			z.add(item{kind: 'm', names: []string{name}, text: s})
		}
		return false
	default:
		return false
	}
	return true
}

// addLine adds a line to the item that is open, and ends it where it ends.
func (z *itemizer) addLine(body *strings.Builder, line string, depth int) int {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		body.WriteByte(c)
		switch {
		case quote != 0:
			if c == '\\' && i+1 < len(line) {
				i++
				body.WriteByte(line[i])
			} else if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '{' || c == '(':
			depth++
		case c == '}' || c == ')':
			depth = max(0, depth-1)
			if c == '}' && depth == 0 && isFunction(body.String()) {
				z.endItem(body.String())
				body.Reset()
			}
		case c == ';' && depth == 0:
			z.endItem(body.String())
			body.Reset()
		}
	}
	return depth
}

// isFunction tells a body from the members of a structure, and from values.
func isFunction(text string) bool {
	head, _, _ := strings.Cut(text, "{")
	return strings.Contains(head, "(") && !strings.Contains(head, "=")
}

func (z *itemizer) endItem(text string) {
	text = strings.TrimSpace(blanks().ReplaceAllString(text, " "))
	if text == "" || text == ";" {
		return
	}
	head, _, hasBody := strings.Cut(text, "{")
	it := item{kind: 'p', text: text}
	switch {
	case hasBody && isFunction(text):
		it.kind, it.head = 'f', strings.TrimSpace(head)
		it.names = calledNames(head)
	case hasBody && tagged().MatchString(text):
		it.kind = 's'
		if m := tagged().FindStringSubmatch(text); m[1] != "" {
			it.names = append(it.names, m[1])
		}
		if strings.Contains(head, "enum") {
			it.names = append(it.names, ident().FindAllString(text[len(head):], -1)...)
		} else if it.parts = declaredNames(text); len(it.names) > 0 { // what is behind its members has its type
			it.tag = it.names[0]
			it.names = append(it.names, declaredNames(text[strings.LastIndexByte(text, '}')+1:])...)
		} else {
			it.names = it.parts
		}
	case strings.Contains(head, "("):
		it.names = calledNames(head)
	default:
		it.names = declaredNames(text)
	}
	z.add(it)
}

// calledNames are the names before brackets: the function, or what a macro makes.
func calledNames(head string) []string {
	var out []string
	for _, m := range beforeParen().FindAllStringSubmatch(head, -1) {
		if !attributes[m[1]] {
			out = append(out, m[1])
			break
		}
	}
	if _, args, ok := strings.Cut(head, "("); ok && len(out) == 1 && out[0] == strings.ToUpper(out[0]) {
		out = append(out, ident().FindAllString(args, -1)...)
	}
	return out
}

func declaredNames(text string) []string {
	var out []string
	for _, m := range declarator().FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

func (z *itemizer) add(it item) {
	it.text = strings.Join(append(append([]string{}, z.conditions...), blanks().ReplaceAllString(it.text, " ")), "\n")
	z.out = append(z.out, it)
}

// differingItems are the items that only one of two versions has.
func differingItems(old, new []item) []item {
	count := map[string]int{}
	for _, it := range old {
		count[it.text]++
	}
	var out []item
	for _, it := range new {
		if count[it.text]--; count[it.text] < 0 {
			out = append(out, it)
		}
	}
	for _, it := range old {
		if count[it.text] > 0 {
			count[it.text]--
			out = append(out, it)
		}
	}
	return out
}
