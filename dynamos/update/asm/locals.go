// SPDX-License-Identifier: MIT

package asm

import "slices"

// An evidence says which static variable of the original one of the patched
// file is. It is strong from functions with equal text, where the
// variables stand at the same places.
type evidence struct {
	to   map[string]string // patched to original
	from map[string]string
}

func (e *evidence) add(after, before string) bool {
	if e.to[after] == "" && e.from[before] == "" {
		e.to[after], e.from[before] = before, after
		return true
	}
	return e.to[after] == before
}

// matchLocals finds for each numbered variable of the patched file which one of the
// original it is. The numbers themselves say nothing: one more variable above
// shifts them.
func (d *differ) matchLocals() error {
	sure := &evidence{map[string]string{}, map[string]string{}}
	for _, name := range d.same {
		a, b := localUses(d.c.After, name), localUses(d.c.Before, name)
		for i := range a {
			if i >= len(b) || !sure.add(a[i], b[i]) {
				return d.refusef(a[i], "the unchanged function %s does not tell which variable of the kernel this is: give the variable another name", name)
			}
		}
	}
	var names []string
	for name := range d.take {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if d.c.Before.byName[name] == nil {
			continue
		}
		if err := d.match(sure, name); err != nil {
			return err
		}
	}
	for after, before := range sure.to {
		if d.before.textOf(d.c.Before.findSymbol(before)) != d.after.textOf(d.c.After.findSymbol(after)) && !isOnceData(d.c.After.findSymbol(after)) {
			return d.dataChanged(d.c.Before.findSymbol(before), d.c.After.findSymbol(after))
		}
		d.c.Locals[after] = before
	}
	return nil
}

// isOnceData reports whether a variable only keeps a message from being said twice, or
// describes one: its content has line numbers and does not matter.
func isOnceData(s *Symbol) bool { return hasPrefix(s.Section, ".data.once", "__dyndbg") }

// match pairs the variables of a changed function by their order, for each
// name apart; where their count differs nothing says which is which.
func (d *differ) match(sure *evidence, name string) error {
	after, before := byBase(localUses(d.c.After, name)), byBase(localUses(d.c.Before, name))
	for b, list := range after {
		left := slices.DeleteFunc(slices.Clone(list), func(s string) bool { return sure.to[s] != "" })
		old := slices.DeleteFunc(slices.Clone(before[b]), func(s string) bool { return sure.from[s] != "" })
		if len(left) == 0 || len(old) == 0 {
			continue // all known, or all new
		}
		if len(left) != len(old) {
			if isOnceData(d.c.After.findSymbol(left[0])) {
				continue // a message may come once more
			}
			return d.refusef(left[0], "%s has %d static variables of this name and had %d: it is not known which of them are the kernel's; give the new ones another name", name, len(list), len(before[b]))
		}
		for i := range left {
			sure.add(left[i], old[i])
		}
	}
	return nil
}

func localUses(u *Unit, name string) []string {
	var out []string
	for _, r := range u.refsOf(u.byName[name]) {
		if isLocal(u.findSymbol(r)) {
			out = append(out, r)
		}
	}
	return out
}

func byBase(names []string) map[string][]string {
	out := map[string][]string{}
	for _, n := range names {
		b, _ := baseName(n)
		out[b] = append(out[b], n)
	}
	return out
}
