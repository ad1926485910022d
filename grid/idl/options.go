// SPDX-License-Identifier: MIT

package idl

import "strings"

// options are the keywords that describe how to build a worker program or how to run
// a function. They are allowed at the top, in a class, and before a body. Strings
// follow each, and an expression follows CalcOrder.
var options = map[string]func(*parser, *Module, token){
	"Required":       (*parser).setFiles,
	"Library":        (*parser).setFiles,
	"CompileOptions": (*parser).setCompileOptions,
	"Compiler":       (*parser).setCompiler,
	"Linker":         (*parser).setLinker,
	"Limits":         (*parser).setLimits,
	"Language":       (*parser).setLanguage,
	"Backend":        (*parser).setBackend,
	"Shrink":         (*parser).setShrink,
	"FortranFormat":  (*parser).setFortranFormat,
	"Fortranformat":  (*parser).setFortranFormat,
}

// parseOption parses an option. It returns false if there is none.
func (p *parser) parseOption(m *Module, d *define) bool {
	at := p.tok
	switch {
	case at.kind != word:
		return false
	case at.text == "CalcOrder":
		p.parseCalcOrder(d)
		return true
	case at.text == "IDLINCLUDE":
		p.problemf(at.at, "IDLINCLUDE is not supported; write #include inside Globals { }")
		p.advance()
		p.skipStatement()
		return true
	}
	set := options[at.text]
	if set == nil {
		return false
	}
	p.define = d
	p.advance()
	if p.tok.kind != text {
		p.problemf(p.tok.at, "expected a string after %s, found %s", at.text, p.tok.name())
		p.skipStatement()
		return true
	}
	for p.tok.kind == text {
		set(p, m, p.tok)
		p.advance()
		p.accept(",")
	}
	p.accept(";")
	return true
}

// parseCalcOrder checks the expression for the cost of a call. The scheduler measures
// calls and does not need it.
func (p *parser) parseCalcOrder(d *define) {
	at := p.tok.at
	p.advance()
	if p.tok.kind == text {
		p.advance()
	} else if e := p.parseExpr(); e == nil {
		p.skipStatement()
		return
	} else if d == nil {
		p.problemf(at, "CalcOrder belongs after the parameters of a function")
	} else {
		d.order = e
	}
	p.accept(";")
}

func (p *parser) setFiles(m *Module, t token) {
	m.Files = append(m.Files, strings.Fields(t.text)...)
}

func (p *parser) setCompileOptions(m *Module, t token) {
	m.Options = append(m.Options, strings.Fields(t.text)...)
}

func (p *parser) setCompiler(m *Module, t token) {
	m.Compiler = p.setTool(m.Compiler, t)
}

func (p *parser) setLinker(m *Module, t token) {
	m.Linker = p.setTool(m.Linker, t)
}

func (p *parser) setTool(before string, t token) string {
	switch now := strings.TrimSpace(t.text); {
	case now == "":
		p.problemf(t.at, "the string names no program, such as \"gcc\"")
	case before != "" && before != now:
		p.problemf(t.at, "%q was named before: one program is made of the whole file", before)
	default:
		return now
	}
	return before
}

func (p *parser) setLanguage(_ *Module, t token) {
	switch strings.ToLower(t.text) {
	case "c":
	case "fortran": // the language of the function that Calls names
		p.fortran = &t
	default:
		p.problemf(t.at, "bodies are in C; call other languages with Calls, and link their files")
	}
}

// setBackend lets MPI jobs run a function, or all of the file.
func (p *parser) setBackend(m *Module, t token) {
	switch s := strings.ToLower(t.text); {
	case s == "normal" || s == "":
	case s != "mpi":
		p.problemf(t.at, "Backend %q is not supported: write \"MPI\", or leave Backend out", t.text)
	case p.define != nil:
		p.define.ranks = true
	default:
		m.allRanks = true
	}
}

func (p *parser) setShrink(_ *Module, t token) {
	if s := strings.ToLower(t.text); s != "yes" && s != "no" {
		p.problemf(t.at, "Shrink is \"yes\" or \"no\"")
	}
}

func (p *parser) setFortranFormat(_ *Module, t token) {
	rest := strings.NewReplacer("%s", "", "%l", "").Replace(t.text)
	if rest == t.text || strings.ContainsFunc(rest, func(r rune) bool { return r > 0x7f || !isLetter(byte(r)) && !isDigit(byte(r)) }) {
		p.problemf(t.at, "a Fortran format is letters around %%s (the name) or %%l (the name in small letters), such as \"%%l_\"")
		return
	}
	p.format = t.text
}

// fortranName returns the symbol that a Fortran compiler makes of a name. Without a
// format the name may already end in the compiler's underscore.
func (p *parser) fortranName(name string) string {
	if p.format != "" {
		return strings.NewReplacer("%s", name, "%l", strings.ToLower(name)).Replace(p.format)
	}
	if strings.HasSuffix(name, "_") {
		return name
	}
	return name + "_"
}

// moveSpecial moves the last method from the functions to m.Begin if it is the one that
// Ninf-G's workers run when they start.
func (p *parser) moveSpecial(m *Module) {
	if len(m.Defines) == 0 {
		return
	}
	switch d := m.Defines[len(m.Defines)-1]; {
	case d.name == "_finalize":
		p.problemf(d.at, "_finalize is not supported: a worker may be ended at any time; put what must be done at its end into a function for atexit")
	case d.name != "_initialize":
	case len(d.params) > 0 || d.body == nil:
		p.problemf(d.at, "_initialize has no parameters, and its body is { C }")
	default:
		m.Begin = append(m.Begin, d.body)
		m.Defines = m.Defines[:len(m.Defines)-1]
	}
}

// parseClass parses a class of Ninf-G. The methods of a class without state are
// ordinary functions too, which any worker may run.
func (p *parser) parseClass(m *Module) {
	name := p.tok
	c := &class{at: name.at, name: name.text}
	m.Classes = append(m.Classes, c)
	if !p.parseIdentifier("the class") {
		p.skipToItem()
		return
	}
	for p.tok.kind == text || p.parseOption(m, nil) {
		if p.tok.kind == text {
			p.advance()
		}
	}
	if !p.expect("{", "before the methods of the class") {
		p.skipToItem()
		return
	}
	for !p.accept("}") {
		switch at := p.tok; {
		case p.accept("DefMethod"):
			before := len(m.Defines)
			p.parseDefine(m)
			if len(m.Defines) > before {
				m.Defines[before].class = c
				p.moveSpecial(m)
			}
		case p.accept("DefState"):
			if c.state {
				p.problemf(at.at, "the class %q has one DefState: write all of its variables there", c.name)
			}
			b := p.cBlock("after DefState")
			if b == nil {
				return
			}
			c.state = true
			m.Globals = append(m.Globals, *b)
		case p.accept(";"):
		default:
			p.problemf(at.at, "expected DefMethod or \"}\" in the class %q, found %s", name.text, at.name())
			p.skipToItem()
			return
		}
	}
}
