// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// addUsers adds the sources that include what the patch changes: those of the image, or
// of the module that the patch is of.
func (w *Work) addUsers(ctx context.Context, image, included, own map[string]bool) error {
	n := newIncludes(w.tree.Dir)
	if w.Module == "" {
		w.addIncluders(n, image, included, own)
		return nil
	}
	var sources map[string]bool
	for _, p := range w.parts {
		if image[p.path] {
			return refuseAt(p, fmt.Sprintf("this file is part of the kernel's image, and another one of the patch of the module %s: make an update of each", w.Module))
		}
		if !included[p.path] {
			continue
		}
		var err error
		if sources == nil {
			if sources, err = w.tree.sourcesOf(ctx, w.Module); err != nil {
				return err
			}
		}
		if err := w.checkOthers(ctx, p, image, sources); err != nil {
			return err
		}
	}
	w.addIncluders(n, sources, included, own)
	return nil
}

// addIncluders adds those of the sources that include a changed file.
func (w *Work) addIncluders(n *includes, sources, included, own map[string]bool) {
	of := "image"
	if w.Module != "" {
		of = "module"
	}
	for file := range included {
		if onlyDeclares(w.old[file], w.new[file]) {
			w.Skips = append(w.Skips, Skip{file, "no code comes of what changes there"})
			continue
		}
		users := n.usersOf(sources, file)
		if len(users) > wide || w.Module != "" && meaningDirectives(w.old[file]) == meaningDirectives(w.new[file]) {
			users = w.tree.narrowUsers(n, users, w.old[file], w.new[file])
		}
		for _, u := range users {
			own[u] = true
		}
		if len(users) == 0 {
			w.Skips = append(w.Skips, Skip{file, "no file of the " + of + " sees a difference"})
		}
		if w.Module == "" {
			w.Skips = append(w.Skips, Skip{file, "modules that include it keep what they have"})
		}
	}
	slices.SortFunc(w.Skips, func(a, b Skip) int { return strings.Compare(a.Path+a.Why, b.Path+b.Why) })
}

// checkOthers refuses the change of a header that others than the module's sources
// see: an update of a module changes no other module and not the image, so both would
// go on with what they know. What is new in the header nobody else uses.
func (w *Work) checkOthers(ctx context.Context, p part, image, sources map[string]bool) error {
	was, ok1 := splitItems(w.old[p.path])
	is, ok2 := splitItems(w.new[p.path])
	changed := changedItems(was, is)
	if ok1 && ok2 && len(changed) == 0 {
		return nil
	}
	modules, err := w.tree.moduleSources(ctx)
	if err != nil {
		return err
	}
	others := maps.Clone(image)
	maps.Copy(others, modules)
	maps.DeleteFunc(others, func(s string, _ bool) bool { return sources[s] })
	n := newIncludes(w.tree.Dir)
	users := n.usersOf(others, p.path)
	if ok1 && ok2 {
		users = w.tree.filterUsers(n, users, changed)
	}
	if len(users) > 0 {
		return refuseAt(p, fmt.Sprintf("%s sees what changes in this header, and is no part of the module %s, so it would go on with what was there before: leave that out of the patch, or load new modules", users[0], w.Module))
	}
	return nil
}

// checkElsewhere refuses a source that is compiled from another folder than its own, as
// amdgpu does with those of its neighbours: make does not name its module. That make
// failed (nil if not) for a source that it compiles is no such case, but a fault of the tree.
func (w *Work) checkElsewhere(ctx context.Context, p part, failed *toolError) error {
	if path.Ext(p.path) != ".c" {
		return nil
	}
	modules, err := w.tree.moduleSources(ctx)
	switch {
	case err != nil || !modules[p.path]:
		return err
	case failed != nil:
		return fmt.Errorf("%s: the kernel's make fails where it is to say for which module it compiles this file: %w", p.path, failed)
	}
	return refuseAt(p, "this file is compiled for a module of another folder, and make does not say which: load new modules, or leave it out of the patch")
}

// changedItems are the items that differ but for those that are new: the old text of a
// file has another one of their names, or they have none.
func changedItems(was, is []item) []item {
	known := map[string]bool{}
	for i := range was {
		was[i].name(known)
	}
	return slices.DeleteFunc(differingItems(was, is), func(it item) bool {
		return len(it.names) > 0 && !slices.ContainsFunc(it.names, func(name string) bool { return known[name] })
	})
}

// sourcesOf returns the sources that make compiles for a module.
func (t *Tree) sourcesOf(ctx context.Context, module string) (map[string]bool, error) {
	object, err := t.Kernel.objectOf(module)
	if err != nil {
		return nil, err
	}
	out, err := t.wouldCompile(ctx, object)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	parts := strings.Split(out, "echo ")
	for _, text := range parts[1:] { // a file each, with the name of its module
		m := compiles().FindStringSubmatch("echo " + text)
		if name := namesModule().FindStringSubmatch(text); m != nil && name != nil && name[1] == module && m[1] == "[M]" {
			seen[path.Clean(m[2])+".c"] = true
		}
	}
	if len(seen) == 0 {
		return nil, fmt.Errorf("make would compile nothing for the module %s: the source is not whole", module)
	}
	return seen, nil
}

// objectOf names the object file that make links a module from.
func (k Kernel) objectOf(module string) (string, error) {
	text, err := os.ReadFile(k.Modules)
	if err != nil {
		return "", err
	}
	for _, file := range strings.Fields(string(text)) {
		name := strings.TrimSuffix(path.Base(file), ".ko")
		if strings.ReplaceAll(name, "-", "_") == module {
			return path.Join(path.Dir(strings.TrimPrefix(file, "kernel/")), name+".o"), nil
		}
	}
	return "", fmt.Errorf("%s does not list the module %s", k.Modules, module)
}
