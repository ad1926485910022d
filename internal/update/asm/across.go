// SPDX-License-Identifier: MIT

package asm

import (
	"bytes"
	"regexp"
	"slices"
)

// Needs are names of other files that the text taken from this one uses.
func (c *Change) Needs() []string {
	seen := map[string]bool{}
	var out []string
	for name := range c.from.seen {
		for _, l := range c.After.find(name).lines {
			for _, t := range tokens(l.text) {
				n := l.text[t.begin:t.end]
				if !seen[n] && c.After.find(n) == nil {
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
		if s.Func && s.Global && c.Before.byName[s.Name] == nil && !c.from.take[s.Name] {
			out = append(out, s.Name)
		}
	}
	return out
}

// Carry takes one of them, with what it needs.
func (c *Change) Carry(name string) error {
	s := c.After.byName[name]
	if hasPrefix(s.Section, onlyAtBoot...) {
		return c.from.refuse(name, "the new text calls this function, which is gone once the kernel is up (%s)", s.Section)
	}
	if err := c.from.carry([]string{name}); err != nil {
		return err
	}
	slices.Sort(c.New)
	slices.Sort(c.Data)
	return nil
}

// Moved tells of a function that other files can call, whether the patch takes
// it to this file from another, and changes it on the way.
func (c *Change) Moved(from *Change) (name string, moved bool) {
	for _, name := range c.Added() {
		if old := from.Before.byName[name]; old != nil && old.Func && old.Global && slices.Contains(from.Gone, name) &&
			from.from.before.of(old) != c.from.after.of(c.After.byName[name]) {
			return name, true
		}
	}
	return "", false
}

// Renamed finds functions that a patch only gave another name: the old one by
// the new one.
func Renamed(before, after *Unit) map[string]string {
	was := map[string][]string{}
	a, b := newNormalizer(before), newNormalizer(after)
	for _, s := range before.Symbols {
		if s.Func && !isClone(s.Name) && after.byName[s.Name] == nil {
			text := a.nameless(s)
			was[text] = append(was[text], s.Name)
		}
	}
	is := map[string][]string{}
	for _, s := range after.Symbols {
		if s.Func && !isClone(s.Name) && before.byName[s.Name] == nil && len(localUses(after, s.Name)) == 0 {
			text := b.nameless(s)
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

// nameless is a function's normal text without its own name.
func (n *normalizer) nameless(s *Symbol) string {
	return string(Rename([]byte(n.of(s)), map[string]string{s.Name: "itself"}))
}

// Rename gives assembly in which symbols have other names. Strings stay.
func Rename(text []byte, names map[string]string) []byte {
	for from, to := range names {
		if !bytes.Contains(text, []byte(from)) {
			continue
		}
		whole := regexp.MustCompile(`(^|[^A-Za-z0-9_])` + regexp.QuoteMeta(from) + `($|[^A-Za-z0-9_])`)
		lines := bytes.SplitAfter(text, []byte("\n"))
		for i, l := range lines {
			if !bytes.Contains(l, []byte(from)) || hasPrefix(string(bytes.TrimSpace(l)), ".string", ".asci") {
				continue
			}
			for range 2 { // two names may share what is between them
				l = whole.ReplaceAll(l, []byte("${1}"+to+"${2}"))
			}
			lines[i] = l
		}
		text = bytes.Join(lines, nil)
	}
	return text
}
