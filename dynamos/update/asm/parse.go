// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"slices"
	"strings"

	"skep/internal/lazy"
)

// A place is a section as a directive names it.
type place struct{ name, flags string }

// A parser assigns a unit's statements to symbols. gcc writes one symbol after
// another. Only functions have parts in several sections; what inline assembly
// pushes to another section belongs to the function around it.
type parser struct {
	unit      *Unit
	now, last place
	pushed    [][2]place
	item      *Symbol // the open symbol
	sized     bool    // the end of the open function was seen
	app       bool    // between #APP and #NO_APP
	pending   []line  // statements before a symbol that belong to it
	padded    bool    // pending reserves bytes before a function
	globals   map[string]bool
	flags     map[string]string // by section
}

// padding is the section in which gcc lists the bytes that it reserves before
// functions. Newer kernels use these bytes for checks of calls.
const padding = "__patchable_function_entries"

// Parse reads what gcc wrote for one file.
func Parse(path string, text []byte) (*Unit, error) {
	list, err := split(path, text)
	if err != nil {
		return nil, err
	}
	p := parser{
		unit: &Unit{Path: path, byName: map[string]*Symbol{}, consts: map[string]*Symbol{},
			aliases: map[string]string{}, weak: map[string]bool{}},
		now:     place{name: ".text"},
		globals: map[string]bool{},
	}
	for _, l := range list {
		if err := p.parseLine(l); err != nil {
			return nil, fmt.Errorf("assembly of %s, line %d: %w", path, l.number, err)
		}
	}
	if p.item != nil && p.item.Func && !p.sized {
		return nil, fmt.Errorf("assembly of %s ends inside of %s", path, p.item.Name)
	}
	for _, s := range p.unit.Symbols {
		s.Global, s.Weak = p.globals[s.Name], p.unit.weak[s.Name]
	}
	return p.unit, nil
}

func (p *parser) parseLine(l line) error {
	switch {
	case l.text == appBegin || l.text == appEnd:
		p.parseMark(l)
		return nil
	case p.app && p.item != nil && !p.item.Func:
		return p.parsePiece(l)
	case p.item != nil && p.isInSymbol(l.text):
		p.item.lines = append(p.item.lines, l)
		if p.item.Func && l.text == "call __fentry__" {
			p.item.Traced = true
		}
		return p.parseSection(l.text)
	}
	p.item = nil
	if err := p.parseSection(l.text); err != nil {
		return err
	}
	return p.parseTop(l)
}

// parseMark opens or closes a symbol for top-level assembly.
func (p *parser) parseMark(l line) {
	p.app = l.text == appBegin
	if p.item != nil && p.item.Func && !p.sized {
		return
	}
	p.item, p.pending = nil, nil
	if p.app {
		p.item = &Symbol{Section: p.now.name, Flags: p.now.flags}
	}
}

// parsePiece adds a statement of top-level assembly. A piece ends when the
// assembly returns to the section in which it began.
//
// gcc may write a string literal before #NO_APP. Only its label shows that.
func (p *parser) parsePiece(l line) error {
	if constLabel().MatchString(l.text) {
		p.unit.loose = slices.DeleteFunc(p.unit.loose, func(s *Symbol) bool { return s == p.item })
		p.app, p.pending = false, keepAlignment(p.item.lines)
		return p.parseTop(l)
	}
	if len(p.item.lines) == 0 {
		p.unit.loose = append(p.unit.loose, p.item)
	}
	p.item.lines = append(p.item.lines, l)
	if err := p.parseSection(l.text); err != nil {
		return err
	}
	word, _ := cutMnemonic(l.text)
	if (word == ".previous" || word == ".popsection") && p.now.name == p.item.Section && len(p.pushed) == 0 {
		p.item = &Symbol{Section: p.now.name, Flags: p.now.flags}
	}
	return nil
}

var (
	constLabel = lazy.Regexp(`^\.LC[0-9]+:$`)
	hotLabel   = lazy.Regexp(`^\.L(COLD|HOT)E[0-9]+:$`)
	dataWord   = lazy.Regexp(`^\.(byte|value|short|word|hword|2byte|long|int|4byte|quad|8byte|octa|zero|skip|space|string(8|16|32|64)?|ascii|asciz|float|single|double|base64|uleb128|sleb128|fill)$`)
)

// isInSymbol reports whether a statement is part of the open symbol.
func (p *parser) isInSymbol(s string) bool {
	word, rest := cutMnemonic(s)
	name := p.item.Name
	if !p.item.Func {
		return dataWord().MatchString(word) || s == name+":" ||
			word == ".size" && firstArg(rest) == name
	}
	if !p.sized {
		p.sized = word == ".size" && firstArg(rest) == name
		return true
	}
	// The end of the cold part follows the end of the function.
	arg := firstArg(rest)
	return word == ".size" && arg == name+".cold" || hotLabel().MatchString(s) ||
		word == ".section" && (arg == ".text.unlikely."+name || arg == p.item.Section && strings.HasSuffix(arg, "."+name))
}

// parseSection processes directives that change the section.
func (p *parser) parseSection(s string) error {
	word, rest := cutMnemonic(s)
	switch word {
	case ".text", ".data", ".bss":
		p.last, p.now = p.now, place{name: word}
	case ".section":
		p.last, p.now = p.now, p.withKnownFlags(placeOf(rest))
	case ".pushsection":
		if len(p.pushed) > 64 {
			return fmt.Errorf("more than 64 sections are pushed")
		}
		p.pushed = append(p.pushed, [2]place{p.now, p.last})
		p.last, p.now = p.now, placeOf(rest)
	case ".popsection":
		if len(p.pushed) == 0 {
			return fmt.Errorf("a section is popped that was not pushed")
		}
		top := p.pushed[len(p.pushed)-1]
		p.pushed = p.pushed[:len(p.pushed)-1]
		p.now, p.last = top[0], top[1]
	case ".previous":
		p.now, p.last = p.last, p.now
	}
	return nil
}

// withKnownFlags adds the flags that an earlier directive gave to the section.
func (p *parser) withKnownFlags(at place) place {
	if p.flags == nil {
		p.flags = map[string]string{}
	}
	if at.flags == "" {
		at.flags = p.flags[at.name]
	} else {
		p.flags[at.name] = at.flags
	}
	return at
}

func placeOf(args string) place {
	name, flags, _ := strings.Cut(args, ",")
	return place{strings.Trim(strings.TrimSpace(name), `"`), strings.TrimSpace(flags)}
}

// parseTop processes a statement outside of symbols.
func (p *parser) parseTop(l line) error {
	word, rest := cutMnemonic(l.text)
	name := firstArg(rest)
	switch word {
	case ".type":
		return p.open(l, name, strings.HasSuffix(rest, "@function"))
	case ".globl", ".global":
		p.globals[name] = true
		return nil
	case ".weak":
		p.unit.weak[name] = true
		return nil
	case ".set":
		_, value, _ := strings.Cut(rest, ",")
		p.unit.aliases[name] = strings.TrimSpace(value)
		return nil
	case ".comm", ".lcomm":
		s := &Symbol{Name: name, Section: ".bss", lines: []line{l}}
		return p.add(s)
	case ".section", ".text", ".data", ".bss":
		if name == padding {
			p.padded = true
		}
		if p.padded {
			p.pending = append(p.pending, l)
		} else {
			p.pending = nil
		}
		return nil
	}
	if constLabel().MatchString(l.text) {
		p.item = &Symbol{Name: strings.TrimSuffix(l.text, ":"), Section: p.now.name, Flags: p.now.flags,
			lines: append(keepAlignment(p.pending), l)}
		p.pending = nil
		p.unit.consts[p.item.Name] = p.item
		return nil
	}
	p.pending = append(p.pending, l)
	if len(p.pending) > 1<<16 {
		p.pending = nil // notes and the like belong to no symbol
	}
	return nil
}

func (p *parser) open(l line, name string, isFunc bool) error {
	p.item = &Symbol{Name: name, Func: isFunc, Section: p.now.name, Flags: p.now.flags}
	if p.padded && isFunc {
		p.item.lines = append(p.pending, l)
	} else {
		p.item.lines = append(keepAlignment(p.pending), l)
	}
	p.sized, p.padded, p.pending = false, false, nil
	return p.add(p.item)
}

// keepAlignment returns the alignment directives of the statements before a symbol.
func keepAlignment(list []line) []line {
	var out []line
	for _, l := range list {
		if word, _ := cutMnemonic(l.text); word == ".align" || word == ".balign" || word == ".p2align" {
			out = append(out, l)
		}
	}
	return out
}

func (p *parser) add(s *Symbol) error {
	if s.Name == "" {
		return fmt.Errorf("a symbol has no name")
	}
	if p.unit.byName[s.Name] != nil {
		return fmt.Errorf("%s is listed twice", s.Name)
	}
	p.unit.byName[s.Name] = s
	p.unit.Symbols = append(p.unit.Symbols, s)
	return nil
}

// Symbol finds a function or variable by its name.
func (u *Unit) Symbol(name string) *Symbol {
	if s := u.byName[name]; s != nil {
		return s
	}
	return u.byName[u.aliases[name]]
}
