// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"slices"

	"skep/internal/lazy"
)

// Where the compiler looks for <headers>, in its order, and what it includes
// before anything else.
var (
	searched = []string{"arch/x86/include", "arch/x86/include/generated", "include", "arch/x86/include/uapi",
		"arch/x86/include/generated/uapi", "include/uapi", "include/generated/uapi"}
	always = []string{"include/linux/compiler-version.h", "include/linux/kconfig.h", "include/linux/compiler_types.h"}
)

var includeLine = lazy.Regexp(`^#[ \t]*include[ \t]*(["<])([^">\n]+)[">]`)

// An includes knows what each file of a tree includes. Conditions are not
// looked at: a file counts as included where it may be.
type includes struct {
	dir  string
	memo map[string][]string
	back map[string][]string // who includes a file
}

func newIncludes(dir string) *includes {
	return &includes{dir: dir, memo: map[string][]string{}}
}

// includedNames returns the names that a file includes, in the submatches of
// includeLine, which alone would take long for a whole kernel.
func includedNames(text []byte) [][][]byte {
	var out [][][]byte
	for len(text) > 0 {
		line, rest, _ := bytes.Cut(text, []byte("\n"))
		text = rest
		if line = bytes.TrimLeft(line, " \t"); len(line) > 0 && line[0] == '#' {
			if m := includeLine().FindSubmatch(line); m != nil {
				out = append(out, m)
			}
		}
	}
	return out
}

// directIncludes lists the files that one names.
func (n *includes) directIncludes(file string) []string {
	if list, ok := n.memo[file]; ok {
		return list
	}
	n.memo[file] = nil
	text, err := os.ReadFile(filepath.Join(n.dir, file))
	if err != nil {
		return nil
	}
	var out []string
	for _, m := range includedNames(text) {
		dirs := searched
		if m[1][0] == '"' {
			dirs = append([]string{path.Dir(file)}, searched...)
		}
		for _, d := range dirs {
			if name := path.Join(d, string(m[2])); n.exists(name) {
				out = append(out, name)
				break
			}
		}
	}
	n.memo[file] = out
	return out
}

func (n *includes) exists(name string) bool {
	_, known := n.memo[name]
	return known || exists(filepath.Join(n.dir, name))
}

// usersOf are those of the sources that may include a file.
func (n *includes) usersOf(sources map[string]bool, file string) []string {
	if n.back == nil {
		n.invert(sources)
	}
	seen := map[string]bool{file: true}
	for todo := []string{file}; len(todo) > 0; todo = todo[1:] {
		for _, up := range n.back[todo[0]] {
			if !seen[up] {
				seen[up] = true
				todo = append(todo, up)
			}
		}
	}
	everybody := slices.ContainsFunc(always, func(a string) bool { return seen[a] })
	var out []string
	for src := range sources {
		if everybody || seen[src] {
			out = append(out, src)
		}
	}
	slices.Sort(out)
	return out
}

// invert notes by whom each file is included, as far as the sources reach.
func (n *includes) invert(sources map[string]bool) {
	n.back = map[string][]string{}
	known := map[string]bool{}
	todo := slices.Clone(always)
	for src := range sources {
		todo = append(todo, src)
	}
	for ; len(todo) > 0; todo = todo[1:] {
		if known[todo[0]] {
			continue
		}
		known[todo[0]] = true
		for _, next := range n.directIncludes(todo[0]) {
			n.back[next] = append(n.back[next], todo[0])
			todo = append(todo, next)
		}
	}
}

// addReachable adds a file and all that it includes to what was seen.
func (n *includes) addReachable(file string, seen map[string]bool) {
	seen[file] = true
	for _, next := range n.directIncludes(file) {
		if !seen[next] {
			n.addReachable(next, seen)
		}
	}
}

// Includes returns what each of the sources may include, directly or not.
func (t *Tree) Includes(sources []string) map[string]map[string]bool {
	n := newIncludes(t.Dir)
	out := map[string]map[string]bool{}
	for _, s := range sources {
		seen := map[string]bool{}
		n.addReachable(s, seen)
		out[s] = seen
	}
	return out
}
