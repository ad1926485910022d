// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"skep/internal/lazy"
)

// linkage says who can call a function and nothing of what it does.
var linkage = lazy.Regexp(`(?m)^(?:(?:static|extern|inline) )+`)

// changedFunctions tells of a file's functions whether the patch changes what they do:
// their own text, or that of anything which it names, however far. Others may
// be compiled in another way, as where a function that they call is no longer
// static, and still do the same.
func (w *Work) changedFunctions(file string) func(name string) bool {
	all := func(string) bool { return true }
	r := newReach()
	r.strict = true
	var texts []string
	reached := newIncludes(w.tree.Dir).allIncludes(file)
	for f := range reached {
		text, err := os.ReadFile(filepath.Join(w.tree.Dir, f))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return all
		}
		texts = append(texts, string(text))
	}
	functions := map[string][]item{}
	for _, text := range append(texts, w.new[file]) {
		list, _ := splitItems(text)
		r.index(list)
		for _, it := range list {
			if it.kind == 'f' {
				for _, name := range it.names {
					functions[name] = append(functions[name], it)
				}
			}
		}
	}
	for _, f := range w.Files {
		if !reached[f] {
			continue
		}
		was, ok1 := splitItems(plainLinkage(w.old[f]))
		is, ok2 := splitItems(plainLinkage(w.new[f]))
		if !ok1 || !ok2 || meaningDirectives(w.old[f]) != meaningDirectives(w.new[f]) {
			return all
		}
		changed := slices.DeleteFunc(differingItems(was, is), func(it item) bool { return isNewDeclaration(it, was) })
		r.index(changed)
		for i := range changed {
			if names := changed[i].names; len(names) == 0 || strings.Contains(names[0], "asm") {
				return all
			}
			r.add(changed[i].names)
		}
	}
	r.followTypes()
	return func(name string) bool {
		list := functions[name]
		for _, it := range list {
			if r.mentions(it.text) {
				return true
			}
		}
		return len(list) == 0
	}
}

// onlyDeclares reports whether all that changes of a header are first declarations
// of functions: who includes it stays as it is.
func onlyDeclares(old, new string) bool {
	was, ok1 := splitItems(old)
	is, ok2 := splitItems(new)
	return ok1 && ok2 && meaningDirectives(old) == meaningDirectives(new) &&
		!slices.ContainsFunc(differingItems(was, is), func(it item) bool { return !isNewDeclaration(it, was) })
}

// isNewDeclaration tells of an item whether it only says that there is a function, and
// is the first to say so: that changes nothing of what the function does.
func isNewDeclaration(it item, was []item) bool {
	if it.kind != 'p' || len(it.names) != 1 {
		return false
	}
	text := it.text[strings.LastIndexByte(it.text, '\n')+1:] // without its conditions
	before, after, ok := strings.Cut(text, it.names[0])
	if !ok || strings.TrimSpace(before) == "" || !strings.HasPrefix(after, "(") || strings.Index(after, ")") != len(after)-len(");") ||
		strings.Contains(before, "typedef") || attribute().MatchString(before) {
		return false
	}
	return !slices.ContainsFunc(was, func(old item) bool { return slices.Equal(old.names, it.names) && old.kind == 'p' })
}

// attribute is what a declaration may say beyond types: it counts for callers.
var attribute = lazy.Regexp(`\b__|\bnoinline|\bnotrace`)

var directive = lazy.Regexp(`(?m)^[ \t]*#[ \t]*(include|undef|pragma|line)\b.*$`)

// meaningDirectives are those lines that may change the meaning of all below.
func meaningDirectives(text string) string {
	return strings.Join(directive().FindAllString(commentText().ReplaceAllString(text, " "), -1), "\n")
}

func plainLinkage(text string) string { return linkage().ReplaceAllString(text, "") }

// allIncludes are a file and what it includes.
func (n *includes) allIncludes(file string) map[string]bool {
	seen := map[string]bool{}
	for _, f := range append([]string{file}, always...) {
		n.addReachable(f, seen)
	}
	return seen
}
