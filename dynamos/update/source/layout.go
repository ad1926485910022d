// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Layout is a structure that the patch lays out in another way.
type Layout struct {
	Name string // as programs call it: struct kprobe, union or a typedef's name
	File string // of the patched source
	Line int
	What string // that is different
	Was  int64  // bytes
	Is   int64
	tag  string
	list []string // its members
}

// typeFlags have the compiler tell of types, used or not.
const typeFlags = "KCFLAGS=-gdwarf-5 -fno-eliminate-unused-debug-types -fno-var-tracking"

// Layouts compares how the compiler lays structures out before and after the
// patch, where its text can make a difference. It takes a file for each that
// the patch changes, compiled twice once more.
func (w *Work) Layouts(ctx context.Context, says io.Writer) ([]Layout, error) {
	units, err := w.pickShapeUnits()
	if err != nil || len(units) == 0 {
		return nil, err
	}
	fmt.Fprintf(says, "comparing how data is laid out: %s\n", strings.Join(units, " "))
	alone := *w
	alone.Units, alone.Dir = units, ""
	defer alone.Close()
	t, err := alone.copy(ctx)
	if err != nil {
		return nil, err
	}
	before, err := alone.compileShapes(ctx, t, "before")
	if err != nil {
		return nil, fmt.Errorf("the unpatched source does not compile: %w", err)
	}
	if err := alone.applyPatch(ctx, t.Dir); err != nil {
		return nil, err
	}
	after, err := alone.compileShapes(ctx, t, "after")
	if err != nil {
		return nil, &CompileError{err}
	}
	for i := range units {
		w.compareShapes(before[i], after[i])
	}
	slices.SortFunc(w.moved, w.compareLayouts)
	return w.moved, nil
}

func (w *Work) compareShapes(before, after map[string]*shape) {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		is, was := after[name], before[name]
		known := slices.ContainsFunc(w.moved, func(l Layout) bool { return l.Name == name && l.File == is.file })
		if was == nil || known {
			continue
		}
		if what := is.difference(was); what != "" {
			l := Layout{Name: name, File: is.file, Line: is.line, What: what, Was: was.size, Is: is.size}
			l.tag = name[strings.IndexByte(name, ' ')+1:]
			for _, f := range append(slices.Clone(was.fields), is.fields...) {
				l.list = append(l.list, f.name)
			}
			w.moved = append(w.moved, l)
		}
	}
}

// compareLayouts puts those first that the patch itself changes: others hold them.
func (w *Work) compareLayouts(a, b Layout) int {
	rank := func(l Layout) int {
		if slices.Contains(w.Files, l.File) {
			return 0
		}
		return 1
	}
	if d := rank(a) - rank(b); d != 0 {
		return d
	}
	return strings.Compare(fmt.Sprintf("%s %9d", a.File, a.Line), fmt.Sprintf("%s %9d", b.File, b.Line))
}

// compileShapes compiles the units with what the compiler tells of types.
func (w *Work) compileShapes(ctx context.Context, t *Tree, name string) ([]map[string]*shape, error) {
	if err := w.compile(ctx, t, name, typeFlags, "-o", "prepare"); err != nil {
		return nil, err
	}
	var out []map[string]*shape
	for _, u := range w.Units {
		object, err := t.assembleUnit(ctx, w.Dir, name, u)
		if err != nil {
			return nil, err
		}
		shapes, err := readShapes(object)
		if err != nil {
			return nil, fmt.Errorf("%s: its types: %w", u, err)
		}
		out = append(out, shapes)
	}
	return out, nil
}

// pickShapeUnits picks units that together see all structures whose layout the patch
// may change: those of its text, and those made with a macro, constant or type
// of its text. What holds such a structure elsewhere is not followed: the
// structure itself is told.
func (w *Work) pickShapeUnits() ([]string, error) {
	n := newIncludes(w.tree.Dir)
	files, names := map[string]bool{}, map[string]bool{}
	for _, file := range w.Files {
		was, ok1 := splitItems(w.old[file])
		is, ok2 := splitItems(w.new[file])
		if !ok1 || !ok2 {
			files[file] = true
		}
		for _, it := range differingItems(was, is) {
			if it.isStruct() {
				files[file] = true
			} else if it.makesStructs() {
				it.name(names)
			}
		}
	}
	if len(names) > 0 {
		if err := w.madeWith(n, names, files); err != nil {
			return nil, err
		}
	}
	units := map[string]bool{}
	for file := range files {
		if slices.Contains(w.Units, file) {
			units[file] = true
		} else if u := w.pickUser(n, file); u != "" { // else nobody of the image sees it
			units[u] = true
		}
	}
	return slices.Sorted(maps.Keys(units)), nil
}

// pickUser is a unit that includes a header, one of the patch's own if there is.
func (w *Work) pickUser(n *includes, header string) string {
	sources := map[string]bool{}
	for _, u := range w.Units {
		sources[u] = true
	}
	users := n.usersOf(sources, header)
	for _, u := range users {
		if slices.Contains(w.Files, u) {
			return u
		}
	}
	if len(users) == 0 {
		return ""
	}
	return users[0]
}

// madeWith adds the files with structures that are made with one of some names,
// however far.
func (w *Work) madeWith(n *includes, names, files map[string]bool) error {
	type made struct {
		item
		file string
	}
	var list []made
	for _, f := range append(n.headersOf(w.Units), w.Units...) {
		text, patched := w.new[f]
		if !patched {
			b, err := os.ReadFile(filepath.Join(w.tree.Dir, f))
			if os.IsNotExist(err) {
				continue
			}
			if err != nil {
				return err
			}
			text = string(b)
		}
		more, _ := splitItems(text)
		for _, it := range more {
			if it.isStruct() || it.makesStructs() {
				it.text = pointer().ReplaceAllString(it.text, "") // one to something is no part of it
				list = append(list, made{it, f})
			}
		}
	}
	for again := true; again; {
		again = false
		list = slices.DeleteFunc(list, func(m made) bool {
			if !eachWord(m.text, func(w string) bool { return names[w] }) {
				return false
			}
			if m.isStruct() {
				files[m.file] = true
			} else {
				m.name(names)
				again = true
			}
			return true
		})
	}
	return nil
}

// name adds what a text calls an item by that is made with it.
func (it *item) name(names map[string]bool) {
	for _, name := range it.names {
		names[name] = true
	}
}

// isStruct reports whether an item is a structure.
func (it *item) isStruct() bool { return it.kind == 's' && !it.isEnum() }

// makesStructs reports whether an item is none itself, but structures are made with it.
func (it *item) makesStructs() bool {
	return it.kind == 'm' || it.isEnum() || it.kind == 'p' && strings.Contains(it.text, "typedef ")
}

// isEnum tells constants from structures.
func (it *item) isEnum() bool { return it.kind == 's' && it.tag == "" && it.parts == nil }

// OfModules returns a source that is compiled for a module and that uses a
// structure, or "": modules keep what they know of it.
func (w *Work) OfModules(ctx context.Context, l Layout) (string, error) {
	if path.Ext(l.File) != ".h" {
		return "", nil
	}
	modules, err := w.tree.moduleSources(ctx)
	if err != nil {
		return "", err
	}
	n := newIncludes(w.tree.Dir)
	users := n.usersOf(modules, l.File)
	for _, s := range users { // most name it themselves, which is soon seen
		text, err := os.ReadFile(filepath.Join(w.tree.Dir, s))
		if err == nil && hasWord(string(text), l.tag) {
			return s, nil
		}
	}
	it := item{kind: 's', names: []string{l.tag}, tag: l.tag, parts: l.list, text: l.Name + " { }"}
	if users = w.tree.filterUsers(n, users, []item{it}); len(users) > 0 {
		return users[0], nil
	}
	return "", nil
}
