// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
)

// Where the compiler looks for <headers>, in its order, and what it includes
// before anything else.
var (
	searched = []string{"arch/x86/include", "arch/x86/include/generated", "include", "arch/x86/include/uapi",
		"arch/x86/include/generated/uapi", "include/uapi", "include/generated/uapi"}
	always = []string{"include/linux/compiler-version.h", "include/linux/kconfig.h", "include/linux/compiler_types.h"}
)

var includeLine = regexp.MustCompile(`(?m)^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]`)

// An includes knows what each file of a tree includes. Conditions are not
// looked at: a file counts as included where it may be.
type includes struct {
	dir  string
	memo map[string][]string
}

func newIncludes(dir string) *includes {
	return &includes{dir, map[string][]string{}}
}

// direct lists the files that one names.
func (n *includes) direct(file string) []string {
	if list, ok := n.memo[file]; ok {
		return list
	}
	n.memo[file] = nil
	text, err := os.ReadFile(filepath.Join(n.dir, file))
	if err != nil {
		return nil
	}
	var out []string
	for _, m := range includeLine.FindAllSubmatch(text, -1) {
		dirs := searched
		if m[1][0] == '"' {
			dirs = append([]string{path.Dir(file)}, searched...)
		}
		for _, d := range dirs {
			if name := path.Join(d, string(m[2])); n.there(name) {
				out = append(out, name)
				break
			}
		}
	}
	n.memo[file] = out
	return out
}

func (n *includes) there(name string) bool {
	_, known := n.memo[name]
	return known || exists(filepath.Join(n.dir, name))
}

// users are those of the sources that may include one of the files.
func (n *includes) users(sources map[string]bool, files map[string]bool) []string {
	known := map[string]bool{}
	for _, a := range always {
		known[a] = n.reach(a, files, map[string]bool{})
	}
	var out []string
	for src := range sources {
		hit := n.reach(src, files, map[string]bool{})
		for _, a := range always {
			hit = hit || known[a]
		}
		if hit {
			out = append(out, src)
		}
	}
	slices.Sort(out)
	return out
}

// reach tells whether a file includes one of the wanted, or is one.
func (n *includes) reach(file string, wanted, seen map[string]bool) bool {
	if wanted[file] {
		return true
	}
	seen[file] = true
	for _, next := range n.direct(file) {
		if !seen[next] && n.reach(next, wanted, seen) {
			return true
		}
	}
	return false
}

// Includes gives what each of the sources may include, directly or not.
func (t *Tree) Includes(sources []string) map[string]map[string]bool {
	n := newIncludes(t.Dir)
	out := map[string]map[string]bool{}
	for _, s := range sources {
		seen := map[string]bool{}
		n.reach(s, nil, seen)
		out[s] = seen
	}
	return out
}
