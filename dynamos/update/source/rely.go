// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"skep/dynamos/update/asm"
	"skep/dynamos/update/rely"
)

// moveDumps moves what the compiler wrote of the units' functions beside their assembly.
func (w *Work) moveDumps(t *Tree, name string) error {
	for _, u := range w.Units {
		list, err := filepath.Glob(filepath.Join(t.Dir, u+".*"+rely.Suffix))
		if err != nil {
			return err
		}
		switch len(list) {
		case 0: // it has no functions; Hazards refuses if one changes
			err = os.WriteFile(w.dumpOf(name, u), nil, 0o644)
		case 1:
			err = os.Rename(list[0], w.dumpOf(name, u))
		default:
			err = fmt.Errorf("%s: the compiler wrote %d files about its functions (%s), not one", u, len(list), rely.Flag)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *Work) dumpOf(name, unit string) string {
	return filepath.Join(w.Dir, name, unit+rely.Suffix)
}

// Hazards are what functions of the patch rely on and only others of it set up.
func (w *Work) Hazards(units []Unit, changes []*asm.Change) ([]rely.Hazard, error) {
	var read []Unit // that differ, or that the patch names
	var changed []string
	paths := map[string]string{}
	for i, u := range units {
		if changes[i] != nil || slices.Contains(w.Files, u.Path) {
			read = append(read, u)
		}
		if changes[i] != nil {
			changed = append(changed, changes[i].Changed...)
			for _, name := range changes[i].Changed {
				paths[name] = u.Path
			}
		}
	}
	before, err := w.side("before", w.old, read)
	if err != nil {
		return nil, err
	}
	after, err := w.side("after", w.new, read)
	if err != nil {
		return nil, err
	}
	list, missing := rely.Compare(before, after, changed)
	if len(missing) > 0 {
		path := paths[missing[0]]
		return nil, &asm.Refusal{Path: path, Symbol: missing[0], Line: w.Line(path, missing[0]),
			Reason: "the compiler does not tell what this function does, so what it relies on is not known: patch a function that it calls"}
	}
	return list, nil
}

// side reads one of the two versions of the units.
func (w *Work) side(name string, text map[string]string, units []Unit) (rely.Side, error) {
	s := rely.Side{Text: text, Global: map[string]bool{}}
	for _, u := range units {
		dump, err := os.ReadFile(w.dumpOf(name, u.Path))
		if err != nil {
			return s, err
		}
		s.Dumps = append(s.Dumps, string(dump))
		before, after, err := u.parse()
		if err != nil {
			return s, err
		}
		for _, symbol := range append(before.Symbols, after.Symbols...) {
			if symbol.Func && symbol.Global {
				s.Global[symbol.Name] = true
			}
		}
	}
	return s, nil
}
