// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"skep/dynamos/update/source"
)

// folders are where the first fixes were taken from.
var folders = []string{"mm", "fs", "net", "ipc", "security", "kernel"}

// allFolders are where a kernel has code that it compiles for amd64.
var allFolders = append([]string{"arch/x86", "block", "certs", "crypto", "drivers", "init", "io_uring", "lib", "sound", "virt"}, folders...)

// headersOf are the folders in which what the sources of folders need of headers
// may be declared.
func headersOf(folders []string) []string {
	return append([]string{"include", "arch/x86/include"}, folders...)
}

// A fix is one case: sources that changed, and the headers that connect them.
type fix struct {
	hash  string // of its first source's path: the order
	files []string
}

// listChanged lists the files below folders, with a suffix, that two trees both
// have and that differ.
func listChanged(old, new string, folders []string, suffix string) ([]string, error) {
	var out []string
	for _, f := range folders {
		err := filepath.WalkDir(filepath.Join(new, f), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) || strings.HasSuffix(path, ".mod.c") {
				return err
			}
			rel, err := filepath.Rel(new, path)
			if err != nil || strings.HasPrefix(rel, "include/generated/") || strings.HasPrefix(rel, "include/config/") || strings.Contains(rel, "/generated/") {
				return err
			}
			a, err := os.ReadFile(filepath.Join(old, rel))
			if os.IsNotExist(err) {
				return nil
			}
			b, err2 := os.ReadFile(path)
			if err == nil && err2 == nil && !bytes.Equal(a, b) {
				out = append(out, rel)
			}
			return err2
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]{3,}`)

var comment = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|"[^"\n]*"`)

// changedWords returns those of lines that only one of two versions has.
func changedWords(a, b string) map[string]bool { return wordsOf(word, a, b) }

func wordsOf(word *regexp.Regexp, a, b string) map[string]bool {
	count := map[string]int{}
	for _, l := range strings.Split(a, "\n") {
		count[l]--
	}
	for _, l := range strings.Split(b, "\n") {
		count[l]++
	}
	out := map[string]bool{}
	for l, n := range count {
		if n != 0 {
			for _, w := range word.FindAllString(l, -1) {
				out[w] = true
			}
		}
	}
	return out
}

// newWords returns the words that only the newer of two versions has.
func newWords(a, b string) map[string]bool {
	out := map[string]bool{}
	for _, w := range word.FindAllString(b, -1) {
		out[w] = true
	}
	for _, w := range word.FindAllString(a, -1) {
		delete(out, w)
	}
	return out
}

// redeclaredNames returns the functions and macros that a header declares in another way.
func redeclaredNames(a, b string) map[string]bool {
	out := map[string]bool{}
	for w := range changedWords(a, b) {
		if x, y := declarationOf(a, w), declarationOf(b, w); x != "" && y != "" && strings.Join(strings.Fields(x), " ") != strings.Join(strings.Fields(y), " ") {
			out[w] = true
		}
	}
	return out
}

// declarationOf returns a function's declaration in a header, up to its body.
func declarationOf(text, name string) string {
	i := strings.Index(text, name+"(")
	if i < 0 {
		return ""
	}
	end := strings.IndexAny(text[i:], ";{")
	if end < 0 {
		return text[i:]
	}
	return text[i : i+end]
}

// listFixes returns all cases in their order. A source takes along the headers whose
// new names it newly uses; sources that call what a header declares in another
// way belong together.
func listFixes(old, new string, folders []string) ([]fix, error) {
	sources, err := listChanged(old, new, folders, ".c")
	if err != nil {
		return nil, err
	}
	hs, err := listChanged(old, new, headersOf(folders), ".h")
	if err != nil {
		return nil, err
	}
	tree := source.Tree{Dir: new}
	included := tree.Includes(sources)
	g := groups{}
	uses, news := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, s := range sources {
		a, b := readPair(old, new, s)
		uses[s], news[s] = changedWords(a, b), newWords(a, b)
	}
	along := map[string][]string{}
	for _, h := range hs {
		a, b := readPair(old, new, h)
		shapes, names := redeclaredNames(a, b), newWords(a, b)
		for _, s := range sources {
			if setsMeet(shapes, uses[s]) && included[s][h] {
				g.join(h, s)
			} else if setsMeet(names, news[s]) && included[s][h] {
				along[s] = append(along[s], h)
			}
		}
	}
	sets := map[string]map[string]bool{}
	for _, f := range slices.Concat(sources, hs) {
		r := g.findRoot(f)
		if sets[r] == nil {
			sets[r] = map[string]bool{}
		}
		for _, x := range append(along[f], f) {
			sets[r][x] = true
		}
	}
	return sortFixes(sets), nil
}

// groups are disjoint sets of files; each has one as its root.
type groups map[string]string

func (g groups) findRoot(f string) string {
	for g[f] != "" {
		f = g[f]
	}
	return f
}

func (g groups) join(a, b string) {
	if a, b = g.findRoot(a), g.findRoot(b); a != b {
		g[b] = a
	}
}

func sortFixes(sets map[string]map[string]bool) []fix {
	var out []fix
	for _, set := range sets {
		var files []string
		for f := range set {
			files = append(files, f)
		}
		slices.SortFunc(files, func(a, b string) int { return strings.Compare(sortKey(a), sortKey(b)) })
		if strings.HasSuffix(files[0], ".c") {
			sum := sha256.Sum256([]byte(files[0]))
			out = append(out, fix{hex.EncodeToString(sum[:4]), files})
		}
	}
	slices.SortFunc(out, func(a, b fix) int { return strings.Compare(a.hash+a.files[0], b.hash+b.files[0]) })
	return out
}

// sortKey puts sources before headers.
func sortKey(f string) string {
	if strings.HasSuffix(f, ".c") {
		return "0" + f
	}
	return "1" + f
}

func setsMeet(a, b map[string]bool) bool {
	for k := range a {
		if b[k] {
			return true
		}
	}
	return false
}

func readPair(old, new, file string) (string, string) {
	a, _ := os.ReadFile(filepath.Join(old, file)) // changed has read both
	b, _ := os.ReadFile(filepath.Join(new, file))
	return comment.ReplaceAllString(string(a), " "), comment.ReplaceAllString(string(b), " ")
}
