// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"skep/dynamos/update/asm"
	"skep/internal/lazy"
)

// Changes compares all units. A change is nil where the update takes nothing of
// a file. Functions that one file has anew are taken where another's new text
// calls them.
func (w *Work) Changes(units []Unit, says io.Writer) ([]*asm.Change, error) {
	if err := w.restoreNames(units, says); err != nil {
		return nil, err
	}
	list := make([]*asm.Change, len(units))
	for i, u := range units {
		var err error // also where no function changes: a variable may be gone
		if list[i], err = w.Change(u); err != nil {
			return nil, err
		}
	}
	if err := eachPair(list, (*asm.Change).Adopt); err != nil {
		return nil, w.addLine(err)
	}
	for again := true; again; {
		again = false
		for i := range list {
			more, err := supplyNeeds(list, i)
			if err != nil {
				return nil, w.addLine(err)
			}
			again = again || more
		}
	}
	if err := eachPair(list, (*asm.Change).LostVariable); err != nil {
		return nil, w.addLine(err)
	}
	for i, c := range list {
		for _, name := range c.Idle {
			w.Idle = append(w.Idle, fmt.Sprintf("%s of %s", name, c.Path))
		}
		if c.IsEmpty() {
			list[i] = nil
		}
	}
	return list, nil
}

// eachPair calls f for every two of the changes.
func eachPair(list []*asm.Change, f func(to, from *asm.Change) error) error {
	for _, to := range list {
		for _, from := range list {
			if to == from {
				continue
			}
			if err := f(to, from); err != nil {
				return err
			}
		}
	}
	return nil
}

// supplyNeeds takes from the other files what the i-th one needs and they add.
func supplyNeeds(list []*asm.Change, i int) (more bool, err error) {
	if list[i].IsEmpty() {
		return false, nil
	}
	needs := list[i].Needed()
	for k, other := range list {
		if k == i {
			continue
		}
		for _, name := range other.Added() {
			if _, found := slices.BinarySearch(needs, name); found {
				if err := other.Carry(name); err != nil {
					return more, err
				}
				more = true
			}
		}
	}
	return more, nil
}

// restoreNames gives back their names to functions to which the patch only gave
// others: the tables of a running kernel that hold them need no change then.
func (w *Work) restoreNames(units []Unit, says io.Writer) error {
	names := map[string]string{}
	for _, u := range units {
		if !slices.Contains(w.Files, u.Path) {
			continue
		}
		more, err := u.findRenamed()
		if err != nil {
			return err
		}
		maps.Copy(names, more)
	}
	if len(names) == 0 {
		return nil
	}
	for _, is := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(says, "%s is the kernel's %s under another name\n", is, names[is])
	}
	for _, u := range units {
		text, err := os.ReadFile(u.After)
		if err == nil {
			err = os.WriteFile(u.After, asm.RenameSymbols(text, names), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

var functionType = lazy.Regexp(`(?m)^\t\.type\t([A-Za-z0-9_]+), @function$`)

// findRenamed looks for such functions where some come and some go.
func (u Unit) findRenamed() (map[string]string, error) {
	var names [2]map[string]bool
	for i, file := range []string{u.Before, u.After} {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		names[i] = map[string]bool{}
		for _, m := range functionType().FindAllSubmatch(text, -1) {
			names[i][string(m[1])] = true
		}
	}
	if !isMissingAny(names[0], names[1]) || !isMissingAny(names[1], names[0]) {
		return nil, nil
	}
	before, after, err := u.parse()
	if err != nil {
		return nil, err
	}
	return asm.FindRenamed(before, after), nil
}

// isMissingAny reports whether the second set does not have all of the first.
func isMissingAny(a, b map[string]bool) bool {
	for name := range a {
		if !b[name] {
			return true
		}
	}
	return false
}
