// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"slices"
	"strings"
)

// ignored are sections that a module gets of its own or that nothing running
// reads.
var ignored = []string{".discard", ".modinfo", "__ksymtab", "___ksymtab", "___kcrctab", "__kstrtab", ".export_symbol",
	".comment", ".note", "__patchable_function_entries"}

// onlyAtBoot are sections whose text is gone once the kernel runs.
// (.ref.text and .meminit.text stay where memory can come later; the image
// tells.)
var onlyAtBoot = []string{".init", ".exit", ".head.text"}

// ownData are sections in which an update may have variables of its own.
var ownData = []string{".data", ".bss", ".rodata", "__dyndbg"}

// A differ compares two units.
type differ struct {
	c             *Change
	before, after *normalizer
	same          []string        // functions with equal text
	take          map[string]bool // whose patched text the update gets
	seen          map[string]bool // what follow has looked at
	stays         map[string]bool // the kernel has it, from another file
	view          View
}

// A View is what is known of a file's functions beside its assembly. What is
// nil holds for all.
type View struct {
	// Written tells whether the patch changes what a function does. Others that
	// are only compiled in another way stay the kernel's.
	Written func(name string) bool
	// Kept reports whether the patch leaves a function's source, and all that it
	// names, as it was. If only numbers differ in its assembly, these come from
	// __LINE__, and the kernel's function stays. With nil, none is kept.
	Kept func(name string) bool
	// Led reports whether calls of a function can be redirected to another version.
	Led func(name string) bool
}

// Compare finds what a patch does to one file. A change that cannot be carried
// gives a *Refusal.
func Compare(before, after *Unit) (*Change, error) {
	return View{}.Compare(before, after)
}

// Compare is Compare with what is known.
func (v View) Compare(before, after *Unit) (*Change, error) {
	d := &differ{
		view:   v,
		c:      &Change{Path: after.Path, Before: before, After: after, Locals: map[string]string{}, From: map[string]*Change{}},
		before: newNormalizer(before), after: newNormalizer(after),
		take: map[string]bool{}, seen: map[string]bool{}, stays: map[string]bool{},
	}
	d.c.from = d
	d.compareFunctions()
	d.addCallers()
	d.dropInitOnly()
	if err := d.compareLoose(); err != nil {
		return nil, err
	}
	if err := d.compareData(); err != nil {
		return nil, err
	}
	if err := d.matchLocals(); err != nil {
		return nil, err
	}
	if err := d.followNeeds(); err != nil {
		return nil, err
	}
	if err := d.sort(); err != nil {
		return nil, err
	}
	return d.c, nil
}

func (d *differ) refusef(symbol, format string, args ...any) error {
	return &Refusal{Path: d.c.Path, Symbol: symbol, Reason: fmt.Sprintf(format, args...)}
}

// compareFunctions finds those with another text.
func (d *differ) compareFunctions() {
	for _, s := range d.c.After.Symbols {
		if !s.Func {
			continue
		}
		old := d.c.Before.byName[s.Name]
		switch {
		case old == nil || !old.Func:
		case d.before.textOf(old) == d.after.textOf(s):
			d.same = append(d.same, s.Name)
		case atBoot(old) && atBoot(s):
			d.c.Idle = append(d.c.Idle, s.Name)
		case d.differsInLines(old, s):
			d.same = append(d.same, s.Name)
			d.notef("%s differs only in line numbers: the kernel's stays", s.Name)
		case !d.isChanged(s):
			d.notef("%s does what it did, and is only compiled in another way: the kernel's stays", s.Name)
		default:
			d.take[s.Name] = true
		}
	}
	for _, s := range d.c.Before.Symbols {
		if s.Func && d.c.After.byName[s.Name] == nil {
			d.c.Gone = append(d.c.Gone, s.Name)
		}
	}
}

// differsInLines reports whether two texts of a function differ only in numbers
// that come from __LINE__, as in ASSERT_RTNL().
func (d *differ) differsInLines(old, new *Symbol) bool {
	name, _, _ := strings.Cut(new.Name, ".")
	return d.view.Kept != nil && maskNumbers(d.before.textOf(old)) == maskNumbers(d.after.textOf(new)) && d.view.Kept(name)
}

// atBoot reports what is gone once the kernel runs.
func atBoot(s *Symbol) bool { return hasPrefix(s.Section, onlyAtBoot...) }

// dropInitOnly drops functions that only boot code calls: like it, they do not run again.
func (d *differ) dropInitOnly() {
	for again := true; again; {
		again = false
		for name := range d.take {
			if d.isInlinedOnly(name) && d.onlyBoot(name) {
				delete(d.take, name)
				d.c.Idle = append(d.c.Idle, name)
				again = true
			}
		}
	}
	slices.Sort(d.c.Idle)
}

// onlyBoot reports whether what names a function is of the start, or idle as well.
func (d *differ) onlyBoot(name string) bool {
	found := false
	for _, s := range d.c.After.Symbols {
		if s.Name == name || !slices.Contains(d.c.After.refsOf(s), name) {
			continue
		}
		if !atBoot(s) && !slices.Contains(d.c.Idle, s.Name) {
			return false
		}
		found = true
	}
	return found
}

// isChanged reports whether the patch changes what a function does.
func (d *differ) isChanged(s *Symbol) bool {
	name, _, _ := strings.Cut(s.Name, ".")
	return d.view.Written == nil || d.view.Written(name)
}

// isInlinedOnly reports whether calls of a function can't be redirected, but all its
// callers are in this file: what the compiler made up, what was declared
// inline, which the kernel does not trace, and became a function all the same,
// and what takes more arguments than a wrapper can pass on.
func (d *differ) isInlinedOnly(name string) bool {
	if isClone(name) {
		return true
	}
	s := d.c.Before.byName[name]
	return s != nil && s.Func && !s.Global && (!s.Traced || d.view.Led != nil && !d.view.Led(name)) &&
		!atBoot(s) && !hasPrefix(s.Section, ".noinstr", ".entry")
}

// addCallers adds the callers of changed functions that only they can reach.
func (d *differ) addCallers() {
	for again := true; again; {
		again = false
		for _, s := range d.c.After.Symbols {
			if !s.Func || d.take[s.Name] || atBoot(s) || d.c.Before.byName[s.Name] == nil {
				continue
			}
			for _, name := range d.c.After.refsOf(s) {
				if d.take[name] && d.isInlinedOnly(name) && d.isChanged(s) {
					d.take[s.Name], again = true, true
					d.notef("%s is carried because it calls %s, whose calls can't be redirected", s.Name, name)
					break
				}
			}
		}
	}
	d.same = slices.DeleteFunc(d.same, func(n string) bool { return d.take[n] })
}

func (d *differ) notef(format string, args ...any) {
	d.c.Notes = append(d.c.Notes, fmt.Sprintf(format, args...))
}

// refsOf are the unit's symbols and constants that a symbol's text names, each
// once, in order.
func (u *Unit) refsOf(s *Symbol) []string {
	var out []string
	seen := map[string]bool{s.Name: true}
	for _, l := range s.lines {
		if word, _ := cutMnemonic(l.text); word == ".section" || word == ".pushsection" {
			continue
		}
		for _, t := range listTokens(l.text) {
			hit := u.findSymbol(l.text[t.begin:t.end])
			if hit != nil && !seen[hit.Name] {
				seen[hit.Name] = true
				out = append(out, hit.Name)
			}
		}
	}
	return out
}

// compareLoose compares assembly outside of functions: exports, initcalls.
func (d *differ) compareLoose() error {
	had := map[string]int{}
	for _, s := range d.c.Before.loose {
		had[d.before.textOf(s)]++
	}
	for _, s := range d.c.After.loose {
		if t := d.after.textOf(s); had[t] > 0 {
			had[t]--
			continue
		}
		if s.isExport() {
			d.notef("an added export is left aside: a running kernel's exports stay as they are")
			continue
		}
		return d.refusef("", "the patch changes assembly that stands outside of functions (%q): only functions can be replaced", s.lines[0].text)
	}
	for t, n := range had {
		if n > 0 && !strings.Contains(t, "ksymtab") && !strings.Contains(t, ".export_symbol") {
			return d.refusef("", "the patch removes assembly that stands outside of functions: only functions can be replaced")
		}
	}
	return nil
}

func (s *Symbol) isExport() bool {
	for _, l := range s.lines {
		if strings.Contains(l.text, "ksymtab") || strings.Contains(l.text, ".export_symbol") {
			return true
		}
	}
	return false
}

// compareData refuses where a variable of the running kernel would have to change.
func (d *differ) compareData() error {
	for _, s := range d.c.After.Symbols {
		if s.Func || isPrivate(s) || hasPrefix(s.Section, ignored...) {
			continue
		}
		if isLocal(s) {
			continue // matchLocals() finds whose it is first
		}
		old := d.c.Before.byName[s.Name]
		if old == nil {
			continue // followNeeds() looks whether it is needed
		}
		switch {
		case d.before.textOf(old) == d.after.textOf(s):
		case atBoot(old) && atBoot(s):
			d.c.Idle = append(d.c.Idle, s.Name)
		default:
			return d.dataChanged(old, s)
		}
	}
	return nil
}

func (d *differ) dataChanged(old, s *Symbol) error {
	a, b := old.length(), s.length()
	if a != b {
		return d.refusef(s.Name, "the patch changes the size of this variable from %s to %s bytes, and the kernel's is in use: keep it, and put what is new in a variable of its own", a, b)
	}
	return d.refusef(s.Name, "the patch changes what this variable holds at the start, and the kernel's variable already has a value: change the functions that use it, or have a function set it")
}

// length is a variable's size as its .size says.
func (s *Symbol) length() string {
	for _, l := range s.lines {
		if word, rest := cutMnemonic(l.text); word == ".size" {
			_, n, _ := strings.Cut(rest, ",")
			return strings.TrimSpace(n)
		}
	}
	return "?"
}

// followNeeds adds what the changed functions need and only the patched file has.
func (d *differ) followNeeds() error {
	var todo []string
	for name := range d.take {
		todo = append(todo, name)
	}
	slices.Sort(todo)
	return d.carrySymbols(todo)
}

// carrySymbols takes symbols and what they need.
func (d *differ) carrySymbols(todo []string) error {
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if d.seen[name] {
			continue
		}
		d.seen[name] = true
		s := d.c.After.findSymbol(name)
		for _, ref := range d.c.After.refsOf(s) {
			hit := d.c.After.findSymbol(ref)
			if slices.Contains(d.c.Idle, ref) {
				return d.refusef(ref, "the new text of %s uses this, which the patch changes, and which is freed after the kernel has booted (%s)", name, hit.Section)
			}
			carried, err := d.isCarried(hit)
			if err != nil {
				return err
			}
			if carried {
				todo = append(todo, ref)
			}
		}
		if s.Func {
			if !d.take[name] {
				d.take[name] = true
				d.c.New = append(d.c.New, name)
			}
		} else if !isPrivate(s) {
			d.c.Data = append(d.c.Data, name)
		}
	}
	return nil
}

// isCarried reports whether the update gets a copy of a symbol, or uses the
// kernel's.
func (d *differ) isCarried(s *Symbol) (bool, error) {
	switch {
	case isPrivate(s):
		return true, nil
	case d.take[s.Name]:
		return true, nil
	case hasPrefix(s.Section, ".discard"):
		return false, nil
	case s.Func:
		return d.c.Before.byName[s.Name] == nil && !d.stays[s.Name], nil
	case isLocal(s) && d.c.Locals[s.Name] != "":
		return false, nil
	case !isLocal(s) && d.c.Before.byName[s.Name] != nil:
		return false, nil
	case isLocal(s) && !isOnceData(s) && d.lostVariable(s) != "":
		return false, d.refusef(s.Name, "whether this is the kernel's variable %s, or a new one, cannot be told: give it another name, or leave it in its function", d.lostVariable(s))
	case !hasPrefix(s.Section, ownData...) || hasPrefix(s.Section, ".data..ro_after_init", ".data..percpu"):
		return false, d.refusef(s.Name, "the patch adds this variable in section %s, which only a kernel's start sets up: use an ordinary variable", s.Section)
	}
	return true, nil
}

// lostVariable is a variable of the original with this one's name before the number
// that no variable of the patched file was found to be.
func (d *differ) lostVariable(s *Symbol) string {
	b, _ := baseName(s.Name)
	for _, old := range d.c.Before.Symbols {
		if ob, _ := baseName(old.Name); ob != b || !isLocal(old) {
			continue
		}
		known := false
		for _, before := range d.c.Locals {
			known = known || before == old.Name
		}
		if !known {
			return old.Name
		}
	}
	return ""
}

// sort puts the functions into the lists of the change, and refuses those that
// cannot be replaced.
func (d *differ) sort() error {
	isNew := map[string]bool{}
	for _, n := range d.c.New {
		isNew[n] = true
	}
	for _, s := range d.c.After.Symbols {
		if !d.take[s.Name] {
			continue
		}
		if atBoot(s) {
			return d.refusef(s.Name, "the patch changes a function that runs only while the kernel or its module starts (%s): it needs a reboot", s.Section)
		}
		switch {
		case isNew[s.Name]:
		case d.isInlinedOnly(s.Name):
			d.c.Clones = append(d.c.Clones, s.Name)
		default:
			if err := d.checkReplaceable(d.c.Before.byName[s.Name], s); err != nil {
				return err
			}
			d.c.Changed = append(d.c.Changed, s.Name)
		}
	}
	slices.Sort(d.c.New)
	slices.Sort(d.c.Data)
	return d.checkReached()
}

func (d *differ) checkReplaceable(old, s *Symbol) error {
	switch {
	case !old.Traced:
		return d.refusef(s.Name, "the kernel has no place where calls of this function can be redirected (notrace or noinstr): change a function that calls it")
	case !old.returns() || !s.returns():
		return d.refusef(s.Name, "this function does not return, and its callers are compiled for that")
	}
	return nil
}

// returns reports whether a function's text can go back to a caller: by ret, by
// the thunk that stands for it, or by a jump to another function.
func (s *Symbol) returns() bool {
	for _, l := range s.lines {
		word, rest := cutMnemonic(l.text)
		if word == "ret" || word == "retq" || word == "jmp" && !hasPrefix(rest, ".L") && !numRef().MatchString(rest) {
			return true
		}
	}
	return false
}

// checkReached makes sure that each such function has somebody changed who calls it,
// and that nobody else can: no variable may hold its address.
func (d *differ) checkReached() error {
	for _, name := range d.c.Clones {
		found := false
		for _, s := range d.c.After.Symbols {
			if s.Name == name || !slices.Contains(d.c.After.refsOf(s), name) {
				continue
			}
			if !s.Func && !hasPrefix(s.Section, ignored...) {
				return d.refusef(name, "the kernel has no place where calls of this function can be redirected (it is not traced, or takes too many arguments), and %s holds its address", s.Name)
			}
			found = found || s.Func && d.take[s.Name]
		}
		if !found {
			return d.refusef(name, "the kernel has no place where calls of this function can be redirected (it is not traced, or takes too many arguments), and nothing that can be replaced calls it")
		}
	}
	return nil
}
