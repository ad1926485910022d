// SPDX-License-Identifier: MIT

package idl

import (
	"strings"

	"skep/internal/uapi"
)

// A parser reads one token ahead. If that is an opening brace, the parser may read the
// C text behind it.
type parser struct {
	lexer
	tok      token
	problems Problems
	format   string  // of Fortran names; "" while the file gives none
	seen     bool    // Module
	fortran  *token  // Language "Fortran" of the function that is read
	define   *define // the function that is read, or nil
}

func newParser(file string, src []byte, hidden []string, expanded bool) *parser {
	p := &parser{problems: Problems{File: file}}
	p.lexer = lexer{src: string(src), expanded: expanded, name: cString(file), hidden: hidden, at: start, problems: &p.problems}
	p.advance()
	return p
}

var start = position{line: 1, column: 1}

func (p *parser) advance() { p.tok = p.next() }

func (p *parser) accept(s string) bool {
	if p.tok.is(s) {
		p.advance()
		return true
	}
	return false
}

// expect reports the token that is there instead.
func (p *parser) expect(s, why string) bool {
	if p.accept(s) {
		return true
	}
	p.problemf(p.tok.at, "expected %q %s, found %s", s, why, p.tok.name())
	return false
}

func startsItem(t token) bool {
	return t.is("Module") || t.is("Define") || t.is("DefClass") || t.is("Globals") || t.kind == end
}

// skipToItem skips to the next token that can begin a part of the file.
func (p *parser) skipToItem() {
	for !startsItem(p.tok) {
		if p.tok.is("{") {
			p.lexBlock(p.tok)
		}
		p.advance()
	}
}

func (p *parser) parseModule(allRanks bool) *Module {
	m := &Module{File: p.problems.File, allRanks: allRanks}
	for p.tok.kind != end {
		at := p.tok
		switch {
		case p.accept(";"):
		case p.accept("Module"):
			p.parseHeader(m, at)
		case p.accept("Globals"):
			if b := p.cBlock("after Globals"); b != nil {
				m.Globals = append(m.Globals, *b)
			}
		case p.accept("Define"):
			p.parseDefine(m)
		case p.accept("DefClass"):
			p.parseClass(m)
		case p.parseOption(m, nil):
		case p.tok.is("#"):
			p.problemf(at.at, "a directive of the C preprocessor must begin its line")
			p.advance()
			p.skipToItem()
		default:
			p.problemf(at.at, "expected Module, Define or Globals, found %s", at.name())
			p.advance()
			p.skipToItem()
		}
	}
	if !p.seen {
		p.problemf(start, "the file has no module: begin it with `Module NAME;`")
	} else if len(m.Defines) == 0 {
		p.problemf(p.tok.at, "the module has no function: write Define NAME(...) { }")
	}
	return m
}

func (p *parser) parseHeader(m *Module, at token) {
	if p.seen {
		p.problemf(at.at, "a file has one Module")
	}
	p.seen = true
	name := p.tok
	if p.parseIdentifier("the module") {
		if m.Name == "" {
			m.Name = name.text
		}
		if !p.expect(";", "after the module's name") {
			p.skipToItem()
		}
	} else {
		p.skipToItem()
	}
}

// parseIdentifier parses a word that may be a name in C and in a manifest.
func (p *parser) parseIdentifier(what string) bool {
	t := p.tok
	if t.kind != word {
		p.problemf(t.at, "expected the name of %s, found %s", what, t.name())
		return false
	}
	switch {
	case len(t.text) >= uapi.NameMax:
		p.problemf(t.at, "the name of %s has %d characters, at most %d may be", what, len(t.text), uapi.NameMax-1)
	case cWords[t.text]:
		p.problemf(t.at, "%q is a word of C and can't be the name of %s", t.text, what)
	case strings.HasPrefix(t.text, "skep_"):
		p.problemf(t.at, "names that begin with skep_ are kept for skep")
	}
	p.advance()
	return true
}

var cWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields("auto break case char const continue default do double else enum extern float for goto if inline int long register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof") {
		m[w] = true
	}
	return m
}()

func (p *parser) cBlock(where string) *block {
	open := p.tok
	if !open.is("{") {
		p.problemf(open.at, "expected \"{\" %s, found %s", where, open.name())
		p.skipToItem()
		return nil
	}
	b := p.lexBlock(open)
	p.advance()
	return b
}

// skipStatement skips past the next semicolon, or up to C text or the next part of the file.
func (p *parser) skipStatement() {
	for !startsItem(p.tok) && !p.tok.is("{") {
		if p.accept(";") {
			return
		}
		p.advance()
	}
}

func (p *parser) parseDefine(m *Module) {
	d := &define{at: p.tok.at, name: p.tok.text}
	p.fortran = nil
	if !p.parseIdentifier("the function") {
		p.skipToItem()
		return
	}
	m.Defines = append(m.Defines, d)
	if !p.expect("(", "after the function's name") || !p.parseParams(d) {
		p.skipToItem()
		return
	}
	for {
		switch {
		case p.tok.kind == text:
			d.doc += p.tok.text
			p.advance()
		case p.parseOption(m, d):
		case p.tok.is("Calls"):
			d.call = p.parseCalls(d)
			return
		case p.tok.is("{"):
			if p.fortran != nil {
				p.problemf(p.fortran.at, "bodies are in C; call other languages with Calls, and link their files")
			}
			d.body = p.cBlock("")
			return
		default:
			p.problemf(p.tok.at, "expected the body of %q as { C } or Calls, found %s", d.name, p.tok.name())
			return
		}
	}
}

func (p *parser) parseCalls(d *define) *call {
	p.advance()
	c := &call{}
	if p.tok.kind == text {
		switch strings.ToLower(p.tok.text) {
		case "c":
		case "fortran":
			c.fortran = true
		default:
			p.problemf(p.tok.at, "Calls knows \"C\" and \"Fortran\"")
		}
		p.advance()
	}
	c.at, c.name = p.tok.at, p.tok.text
	if !p.parseIdentifier("what is called") || !p.expect("(", "after the name of what is called") {
		p.skipToItem()
		return c
	}
	for !p.accept(")") {
		if !p.parseArgument(d, c) || !p.accept(",") && !p.tok.is(")") {
			p.problemf(p.tok.at, "expected a parameter's name, \",\" or \")\", found %s", p.tok.name())
			p.skipToItem()
			return c
		}
	}
	p.accept(";")
	if c.fortran {
		c.name = p.fortranName(c.name)
	}
	return c
}

func (p *parser) parseArgument(d *define, c *call) bool {
	t := p.tok
	a := argument{param: -1, text: t.text}
	switch {
	case t.kind == word:
		if a.param = d.index(t.text); a.param < 0 {
			p.problemf(t.at, "%q is not a parameter of %q", t.text, d.name)
		}
	case t.kind == number && !c.fortran:
		p.parseInteger(t)
	default:
		return false
	}
	c.args = append(c.args, a)
	p.advance()
	return true
}

func (d *define) index(name string) int {
	for i, q := range d.params {
		if q.name == name {
			return i
		}
	}
	return -1
}
