// SPDX-License-Identifier: MIT

package asm

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// An extractor writes a change's new text as one file of assembly.
type extractor struct {
	c      *Change
	prefix string // of the names of this file
	take   map[string]bool
	out    bytes.Buffer
	need   map[string]*Symbol // not carried: by the name that the text uses
	// own are the kernel's functions that the update changes and whose address
	// its text takes, by the name that the text uses.
	own     map[string]*Symbol
	pointed map[string]bool // functions and variables whose address is taken
	graphs  map[*Symbol]*graph
}

// Extract takes the new text out. Version names begin with prefix, which must
// differ for the files of an update.
func (c *Change) Extract(prefix string) *Extract {
	x := &extractor{c: c, prefix: prefix, take: map[string]bool{}, need: map[string]*Symbol{}, own: map[string]*Symbol{},
		pointed: map[string]bool{}, graphs: map[*Symbol]*graph{}}
	for _, list := range [][]string{c.Changed, c.New, c.Clones, c.Data} {
		for _, n := range list {
			x.take[n] = true
		}
	}
	x.constants()
	x.notePointers()
	e := &Extract{Path: c.Path, Data: c.Data, Escapes: x.findEscapes()}
	fmt.Fprintf(&x.out, "/* The changed functions of %s, as the compiler wrote them. */\n#undef linux\n#undef unix\n", c.Path)
	for _, s := range x.symbols() {
		f := Function{Name: s.Name}
		if slices.Contains(c.Changed, s.Name) {
			n := len(e.Functions)
			f.Version, f.End = fmt.Sprintf("%s_%d", prefix, n), fmt.Sprintf("%s_%d_end", prefix, n)
			e.Functions = append(e.Functions, f)
		}
		x.writeSymbol(s, f)
	}
	x.keepAliases()
	x.nameStaticCalls()
	e.Text = x.out.Bytes()
	for name, s := range x.need {
		if !s.Global {
			e.Locals = append(e.Locals, Local{Name: name, Is: s.Name, Func: s.Func})
		}
	}
	for name, s := range x.own {
		e.Locals = append(e.Locals, Local{Name: name, Is: s.Name, Func: s.Func, Kernel: true})
	}
	for name := range x.pointed {
		if !x.take[name] {
			e.Pointed = append(e.Pointed, x.original(x.c.After.findSymbol(name)).Name)
		}
	}
	slices.Sort(e.Pointed)
	slices.SortFunc(e.Locals, func(a, b Local) int { return strings.Compare(a.Name, b.Name) })
	return e
}

// constants adds those that the text names, and that these name.
func (x *extractor) constants() {
	var todo []string
	for n := range x.take {
		todo = append(todo, n)
	}
	for len(todo) > 0 {
		s := x.c.After.findSymbol(todo[0])
		todo = todo[1:]
		for _, r := range x.c.After.refsOf(s) {
			if isPrivate(x.c.After.findSymbol(r)) && !x.take[r] {
				x.take[r] = true
				todo = append(todo, r)
			}
		}
	}
}

// symbols are those taken, constants first, in the order of the file.
func (x *extractor) symbols() []*Symbol {
	var out []*Symbol
	for n, s := range x.c.After.consts {
		if x.take[n] {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *Symbol) int { return a.lines[0].number - b.lines[0].number })
	for _, s := range x.c.After.Symbols {
		if x.take[s.Name] {
			out = append(out, s)
		}
	}
	return out
}

func (x *extractor) writeSymbol(s *Symbol, f Function) {
	fmt.Fprintf(&x.out, "\n\t.section %s\n", x.placeOf(s, s.Section, s.Flags))
	if f.Version != "" {
		fmt.Fprintf(&x.out, "\t.globl %s\n\t.globl %s\n", f.Version, f.End)
	} else if s.Global {
		fmt.Fprintf(&x.out, "\t.globl %s\n", s.Name)
	}
	for i := 0; i < len(s.lines); i++ {
		l := s.lines[i]
		if n := x.writeKeyBranch(s, s.lines[i:]); n > 0 {
			i += n - 1
			continue
		}
		word, rest := cutMnemonic(l.text)
		if f.Version != "" && word == ".size" && firstArg(rest) == s.Name {
			fmt.Fprintf(&x.out, "%s:\n", f.End)
		}
		x.writeStatement(s, l.text)
		if f.Version != "" && l.text == s.Name+":" {
			fmt.Fprintf(&x.out, "\t.globl %s\n%s:\n", f.Version, f.Version)
		}
	}
}

func (x *extractor) writeStatement(s *Symbol, text string) {
	word, rest := cutMnemonic(text)
	if word == ".section" || word == ".pushsection" {
		p := placeOf(rest)
		fmt.Fprintf(&x.out, "\t%s %s\n", word, x.placeOf(s, p.name, p.flags))
		return
	}
	if takesAddress(s, text) {
		text = replaceTokens(text, x.addressName)
	} else {
		text = replaceTokens(text, x.name)
	}
	if strings.HasSuffix(text, ":") {
		fmt.Fprintf(&x.out, "%s\n", text)
		return
	}
	fmt.Fprintf(&x.out, "\t%s\n", text)
}

// placeOf names a section as a module has it: without the symbol's own name.
func (x *extractor) placeOf(s *Symbol, name, flags string) string {
	if name == s.Section {
		name = sectionOf(s)
	}
	short := func(n string) string {
		if cut, ok := strings.CutSuffix(n, "."+s.Name); ok && hasPrefix(n, ".text.", ".data.", ".bss.", ".rodata.") {
			return cut
		}
		return n
	}
	if flags == "" {
		return quoteName(short(name))
	}
	args := strings.Split(flags, ",")
	if name == padding { // gcc may name another function, which is not here
		args[len(args)-1] = s.Name
	}
	for i := range args {
		args[i] = short(args[i])
	}
	return quoteName(short(name)) + "," + strings.Join(args, ",")
}

func quoteName(name string) string {
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._") == "" {
		return name
	}
	return `"` + name + `"`
}

// name is what a token of the patched file's text is called in the module.
func (x *extractor) name(t string) string {
	hit := x.c.After.findSymbol(t)
	if hit == nil && x.c.Late {
		return x.lateName(t)
	}
	if hit == nil || x.take[hit.Name] {
		return t
	}
	if hit = x.original(hit); hasPrefix(hit.Section, ".discard") {
		return t
	}
	if x.c.After.aliases[t] == "" {
		t = x.nameInModule(hit)
	}
	x.need[t] = hit
	return t
}

// original is what the old text calls a symbol that stays the kernel's.
func (x *extractor) original(s *Symbol) *Symbol {
	if was := x.c.Locals[s.Name]; was != "" {
		return x.c.Before.byName[was]
	}
	if old := x.c.Before.byName[s.Name]; old != nil {
		return old
	}
	return s
}

// nameInModule is what the module calls a symbol of the kernel. Static ones of other
// files may have the same name. objtool finds the key of a static call by its name.
func (x *extractor) nameInModule(s *Symbol) string {
	if s.Global || strings.HasPrefix(s.Name, "__SC") {
		return s.Name
	}
	return s.Name + "." + x.prefix
}

// keepAliases keeps further names of what is taken.
func (x *extractor) keepAliases() {
	var names []string
	for n, target := range x.c.After.aliases {
		if x.take[target] {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		fmt.Fprintf(&x.out, "\t.set %s, %s\n", n, x.c.After.aliases[n])
	}
}

// nameStaticCalls names the key of each static call, so that objtool finds it: without
// it, the module's loader looks for the trampoline among those exported.
func (x *extractor) nameStaticCalls() {
	seen := map[string]bool{}
	for _, s := range x.symbols() {
		for _, l := range s.lines {
			for _, t := range listTokens(l.text) {
				if name, ok := strings.CutPrefix(l.text[t.begin:t.end], "__SCT__"); ok && !seen[name] && !x.c.Late {
					seen[name] = true
					fmt.Fprintf(&x.out, "\t.section .discard.dynamos,\"a\",@progbits\n\t.quad __SCK__%s\n", name)
				}
			}
		}
	}
}
