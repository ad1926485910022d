// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"skep/internal/lazy"
)

// wide is from how many users on a header's change is followed by the names
// that it touches, and not by who includes it.
const wide = 64

var pointer = lazy.Regexp(`\b(struct|union) [A-Za-z0-9_]+ \*`)

// A reach says how far a changed header goes: to files that speak of a name
// whose meaning changed, or of a macro, inline function or structure of any
// header that does. A structure's members are reached by who names it, or what
// holds, gives or takes a pointer to it.
type reach struct {
	names   map[string]bool
	byName  map[string][]*item // items of headers with a body, by what they name
	about   map[string][]*item // items that say `struct NAME`
	structs map[string][]*item
	pending []string
	// holders are members that lead to a structure: their names are common,
	// and tell only with one of the structure's members beside them.
	holders map[string]map[string]bool
	strict  bool // declarations, and pointers, tell as well
}

func newReach() *reach {
	return &reach{names: map[string]bool{}, byName: map[string][]*item{}, about: map[string][]*item{},
		structs: map[string][]*item{}, holders: map[string]map[string]bool{}}
}

// narrowUsers keeps of the users those that can see the difference between two
// versions of a header.
func (t *Tree) narrowUsers(n *includes, users []string, old, new string) []string {
	before, ok1 := splitItems(old)
	after, ok2 := splitItems(new)
	if !ok1 || !ok2 {
		return users
	}
	return t.filterUsers(n, users, differingItems(before, after))
}

// filterUsers keeps of the users those that can see that items changed.
func (t *Tree) filterUsers(n *includes, users []string, changed []item) []string {
	r := newReach()
	for _, h := range n.headersOf(users) {
		if text, err := os.ReadFile(filepath.Join(t.Dir, h)); err == nil {
			list, _ := splitItems(string(text))
			r.index(list)
		}
	}
	r.index(changed)
	for i := range changed {
		r.add(changed[i].names)
	}
	r.followTypes()
	var out []string
	for _, u := range users {
		text, err := os.ReadFile(filepath.Join(t.Dir, u))
		if err != nil || r.fileMentions(n, t, u, string(text), map[string]bool{}) {
			out = append(out, u)
		}
	}
	return out
}

// headersOf are all files that sources reach, but the sources.
func (n *includes) headersOf(sources []string) []string {
	seen := map[string]bool{}
	for _, s := range append(slices.Clone(sources), always...) {
		n.addReachable(s, seen)
	}
	var out []string
	for f := range seen {
		if path.Ext(f) == ".h" {
			out = append(out, f)
		}
	}
	slices.Sort(out)
	return out
}

func (r *reach) index(list []item) {
	for i := range list {
		it := &list[i]
		r.addItem(it)
		if it.kind == 'p' && !r.strict {
			continue // says that something is there, and no code comes of it
		}
		text := it.text
		if it.kind == 's' && !r.strict { // a pointer to something is no part of it
			text = pointer().ReplaceAllString(text, "")
		}
		seen := map[string]bool{}
		eachWord(text, func(w string) bool {
			if !seen[w] {
				seen[w] = true
				r.byName[w] = append(r.byName[w], it)
			}
			return false
		})
	}
}

// addItem keeps which structures an item speaks of.
func (r *reach) addItem(it *item) {
	if it.tag != "" {
		r.structs[it.tag] = append(r.structs[it.tag], it)
	}
	if it.kind == 'm' {
		return // byName has it
	}
	last := ""
	eachWord(it.text, func(w string) bool {
		if last == "struct" || last == "union" {
			if list := r.about[w]; len(list) == 0 || list[len(list)-1] != it {
				r.about[w] = append(list, it)
			}
		}
		last = w
		return false
	})
}

// eachWord calls f for the names in a text until it says so.
func eachWord(text string, f func(string) bool) bool {
	for i := 0; i < len(text); {
		begin := i
		for i < len(text) && wordByte(text[i]) {
			i++
		}
		if i == begin {
			i++
		} else if c := text[begin]; (c < '0' || c > '9') && f(text[begin:i]) {
			return true
		}
	}
	return false
}

func wordByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func (r *reach) add(names []string) {
	for _, n := range names {
		if !r.names[n] {
			r.names[n] = true
			r.pending = append(r.pending, n)
		}
	}
}

func (r *reach) followTypes() {
	for len(r.pending) > 0 {
		name := r.pending[0]
		r.pending = r.pending[1:]
		for _, it := range r.byName[name] {
			r.add(it.names)
		}
		if len(r.structs[name]) > 0 {
			r.addPointers(name)
		}
	}
}

// addPointers finds what leads to a structure whose members moved.
func (r *reach) addPointers(tag string) {
	parts := map[string]bool{}
	for _, it := range r.structs[tag] {
		for _, p := range it.parts {
			parts[p] = true
		}
	}
	for _, it := range r.about[tag] {
		if it.tag == tag {
			continue
		}
		if it.kind != 's' {
			r.add(it.names)
			continue
		}
		for _, member := range strings.FieldsFunc(it.text, func(c rune) bool { return c == ';' || c == '{' || c == '}' }) {
			if hasWord(member, tag) {
				r.addHolders(declaredNames(member+";"), parts)
			}
		}
	}
}

func (r *reach) addHolders(names []string, parts map[string]bool) {
	for _, n := range names {
		if r.holders[n] == nil {
			r.holders[n] = map[string]bool{}
		}
		for p := range parts {
			r.holders[n][p] = true
		}
		for _, it := range r.byName[n] {
			if it.kind != 's' && eachWord(it.text, func(w string) bool { return w != n && parts[w] }) {
				r.add(it.names)
			}
		}
	}
}

// mentions reports whether a text speaks of what changed.
func (r *reach) mentions(text string) bool {
	words := map[string]bool{}
	var held []string
	if eachWord(text, func(w string) bool {
		if !words[w] && r.holders[w] != nil {
			held = append(held, w)
		}
		words[w] = true
		return r.names[w]
	}) {
		return true
	}
	for _, h := range held {
		for p := range r.holders[h] {
			if words[p] && p != h {
				return true
			}
		}
	}
	return false
}

// fileMentions looks through a source and what it includes that tells as much.
func (r *reach) fileMentions(n *includes, t *Tree, file, text string, seen map[string]bool) bool {
	seen[file] = true
	if r.mentions(text) {
		return true
	}
	for _, next := range n.directIncludes(file) {
		if seen[next] || path.Ext(next) == ".h" && !isLocalHeader(file, next) {
			continue
		}
		more, err := os.ReadFile(filepath.Join(t.Dir, next))
		if err != nil || r.fileMentions(n, t, next, string(more), seen) {
			return true
		}
	}
	return false
}

// isLocalHeader headers may hold whole functions, which tell as sources do.
func isLocalHeader(file, header string) bool {
	return path.Dir(file) == path.Dir(header) && path.Ext(file) == ".c"
}

// changedParams reports which functions a patch gives other parameters.
func changedParams(path, old, new string) []string {
	was, _ := splitItems(old)
	is, _ := splitItems(new)
	before := map[string][]item{} // SYSCALL_DEFINE3 names several
	for _, it := range was {
		if len(it.names) > 0 && it.kind == 'f' {
			before[it.names[0]] = append(before[it.names[0]], it)
		}
	}
	var why []string
	for _, it := range is {
		if len(it.names) == 0 || it.kind != 'f' {
			continue
		}
		was := before[it.names[0]]
		same := slices.ContainsFunc(was, func(was item) bool {
			return plainLinkage(was.head) == plainLinkage(it.head)
		})
		if len(was) > 0 && !same {
			why = append(why, fmt.Sprintf("%s: %s has other parameters or another result", path, it.names[0]))
		}
	}
	return why
}
