// SPDX-License-Identifier: MIT

package asm

import (
	"bytes"
	"regexp"
	"slices"
)

// Needed are names of other files that the text taken from this one uses.
func (c *Change) Needed() []string {
	seen := map[string]bool{}
	var out []string
	for name := range c.from.seen {
		for _, l := range c.After.findSymbol(name).lines {
			for _, t := range listTokens(l.text) {
				n := l.text[t.begin:t.end]
				if !seen[n] && c.After.findSymbol(n) == nil {
					seen[n] = true
					out = append(out, n)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// Added are the functions that the patched file alone has, that other files
// can call, and that are not taken yet.
func (c *Change) Added() []string {
	var out []string
	for _, s := range c.After.Symbols {
		if s.Func && s.Global && c.Before.byName[s.Name] == nil && !c.from.take[s.Name] && !c.from.stays[s.Name] {
			out = append(out, s.Name)
		}
	}
	return out
}

// Carry takes one of them, with what it needs.
func (c *Change) Carry(name string) error {
	s := c.After.byName[name]
	if atBoot(s) {
		return c.from.refusef(name, "the new text calls this function, which is freed after the kernel has booted (%s)", s.Section)
	}
	if err := c.from.carrySymbols([]string{name}); err != nil {
		return err
	}
	slices.Sort(c.New)
	slices.Sort(c.Data)
	return nil
}

// Adopt handles functions that the patch moves to this file from another. A
// global function that it changes on the way replaces the kernel's, wherever
// that stands; one that stays the same is the kernel's own.
func (c *Change) Adopt(from *Change) error {
	for _, name := range from.Gone {
		old, s := from.Before.byName[name], c.After.byName[name]
		if !old.Global || s == nil || !s.Func || !s.Global || c.Before.byName[name] != nil {
			continue
		}
		if c.From[name] != nil || c.from.stays[name] {
			return c.from.refusef(name, "the patch takes this function here from several files: it is not known which of them the kernel runs")
		}
		if c.sameAs(from, name, map[string]bool{}) {
			c.from.stays[name] = true
		} else if err := c.adoptSymbol(from, old, s); err != nil {
			return err
		}
		if err := c.from.recompute(); err != nil {
			return err
		}
	}
	return nil
}

// sameAs reports whether a function does what it did in another file, with all
// that came along with it.
func (c *Change) sameAs(from *Change, name string, seen map[string]bool) bool {
	old, s := from.Before.findSymbol(name), c.After.findSymbol(name)
	if old == nil || from.from.before.textOf(old) != c.from.after.textOf(s) {
		return false
	}
	seen[name] = true
	for _, ref := range c.After.refsOf(s) {
		hit := c.After.findSymbol(ref)
		if seen[ref] || isPrivate(hit) || c.Before.findSymbol(ref) != nil {
			continue
		}
		if isLocal(hit) || !c.sameAs(from, ref, seen) {
			return false
		}
	}
	return true
}

func (c *Change) adoptSymbol(from *Change, old, s *Symbol) error {
	switch {
	case atBoot(old) && atBoot(s):
		c.Idle = append(c.Idle, s.Name)
		c.from.stays[s.Name] = true
		return nil
	case atBoot(s):
		return c.from.refusef(s.Name, "the patch makes this a function that is freed after the kernel has booted (%s)", s.Section)
	}
	if err := c.from.checkReplaceable(old, s); err != nil {
		return err
	}
	c.from.take[s.Name] = true
	c.Changed = append(c.Changed, s.Name)
	c.From[s.Name] = from
	c.from.notef("%s takes the place of the kernel's of %s", s.Name, from.Path)
	return nil
}

// recompute finds anew what the changed functions need.
func (d *differ) recompute() error {
	for _, name := range d.c.New {
		delete(d.take, name)
	}
	d.c.New, d.c.Data, d.seen = nil, nil, map[string]bool{}
	err := d.followNeeds()
	slices.Sort(d.c.New)
	slices.Sort(d.c.Data)
	return err
}

// LostVariable is a variable that the update would get of its own and that another file
// had: the kernel's would be left behind.
func (c *Change) LostVariable(from *Change) error {
	for _, name := range c.Data {
		b, _ := baseName(name)
		for _, old := range from.Before.Symbols {
			if ob, _ := baseName(old.Name); old.Func || ob != b || isPrivate(old) || isOnceData(old) || from.After.byName[old.Name] != nil {
				continue
			}
			return c.from.refusef(name, "the patch takes this variable here from %s, and the kernel's own is in use there: leave it where it was", from.Path)
		}
	}
	return nil
}

// FindRenamed finds functions that a patch only gave another name: the old one by
// the new one.
func FindRenamed(before, after *Unit) map[string]string {
	was := map[string][]string{}
	a, b := newNormalizer(before), newNormalizer(after)
	for _, s := range before.Symbols {
		if s.Func && !isClone(s.Name) && after.byName[s.Name] == nil {
			text := a.textWithoutName(s)
			was[text] = append(was[text], s.Name)
		}
	}
	is := map[string][]string{}
	for _, s := range after.Symbols {
		if s.Func && !isClone(s.Name) && before.byName[s.Name] == nil && len(localUses(after, s.Name)) == 0 {
			text := b.textWithoutName(s)
			is[text] = append(is[text], s.Name)
		}
	}
	out := map[string]string{}
	for text, list := range is {
		if old := was[text]; len(old) == 1 && len(list) == 1 && before.byName[old[0]].Global == after.byName[list[0]].Global {
			out[list[0]] = old[0]
		}
	}
	return out
}

// textWithoutName is a function's normal text without its own name.
func (n *normalizer) textWithoutName(s *Symbol) string {
	return string(RenameSymbols([]byte(n.textOf(s)), map[string]string{s.Name: "itself"}))
}

// RenameSymbols returns assembly in which symbols have other names. Strings stay.
func RenameSymbols(text []byte, names map[string]string) []byte {
	for from, to := range names {
		if !bytes.Contains(text, []byte(from)) {
			continue
		}
		word := regexp.MustCompile(`(^|[^A-Za-z0-9_])` + regexp.QuoteMeta(from) + `($|[^A-Za-z0-9_])`)
		lines := bytes.SplitAfter(text, []byte("\n"))
		for i, l := range lines {
			if !bytes.Contains(l, []byte(from)) || hasPrefix(string(bytes.TrimSpace(l)), ".string", ".asci") {
				continue
			}
			for range 2 { // two names may share what is between them
				l = word.ReplaceAll(l, []byte("${1}"+to+"${2}"))
			}
			lines[i] = l
		}
		text = bytes.Join(lines, nil)
	}
	return text
}
