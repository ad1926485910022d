// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"

	"skep/dynamos/update/source"
	"skep/lab"
)

// trees are the sources of two versions, of which the older is prepared.
type trees struct{ old, new *source.Tree }

func openTrees(ctx context.Context, newer string) (*trees, error) {
	old, err := prepareTree(ctx, baseName())
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(newer); err == nil && info.IsDir() {
		return &trees{old, &source.Tree{Dir: newer}}, nil
	}
	cache, err := lab.CacheDir()
	if err != nil {
		return nil, err
	}
	new, err := source.FetchSource(ctx, cache, newer, os.Stderr)
	return &trees{old, new}, err
}

func prepareTree(ctx context.Context, version string) (*source.Tree, error) {
	cache, err := lab.CacheDir()
	if err != nil {
		return nil, err
	}
	build, err := lab.BuildDir()
	if err != nil {
		return nil, err
	}
	k, err := lab.FetchKernel(ctx, build, version, os.Stderr)
	if err != nil {
		return nil, err
	}
	return source.PrepareTree(ctx, cache, source.Kernel{Version: version, Config: k.Config(),
		Symvers: filepath.Join(k.Headers(), "Module.symvers")}, os.Stderr)
}

var (
	// mistake is where the compiler could not go on, and the line of source
	// that it shows.
	mistake = regexp.MustCompile(`(?m)^(?:\./)?([a-zA-Z0-9_./+-]+\.[ch]):\d+(?::\d+)?: error: (.*)\n(?: *\d+ \|(.*)\n)?`)
	quoted  = regexp.MustCompile(`['\x60]([^']*)'`)
)

// lacking is the builder's message for a function that does not exist.
var lacking = regexp.MustCompile(`the new text uses ([A-Za-z0-9_]+), which the kernel does not have`)

// findMissing lists the files that a refused case lacks.
func (t *trees) findMissing(files []string, refusal error) ([]string, error) {
	var broken *source.CompileError
	if errors.As(refusal, &broken) {
		return t.findHeaders(files, broken.FullText()), nil
	}
	if refusal == nil {
		return nil, nil
	}
	m := lacking.FindStringSubmatch(refusal.Error())
	if m == nil {
		return nil, nil
	}
	return t.findDefiners(files, m[1])
}

// findDefiners finds the sources that define a function again.
func (t *trees) findDefiners(files []string, name string) ([]string, error) {
	sources, err := listChanged(t.old.Dir, t.new.Dir, allFolders, ".c")
	if err != nil {
		return nil, err
	}
	head := regexp.MustCompile(`(?m)^[a-zA-Z][^;\n]*\b` + name + `\(`)
	var out []string
	for _, s := range sources {
		a, b := readPair(t.old.Dir, t.new.Dir, s)
		if !slices.Contains(files, s) && head.MatchString(b) && !head.MatchString(a) {
			out = append(out, s)
		}
	}
	return out, nil
}

// findHeaders finds what a case does not compile without: the file that the compiler
// could not read, if it changed as well; else the header with most of the names
// that the compiler complains of, one of them in what changed.
func (t *trees) findHeaders(files []string, says string) []string {
	var out []string
	for _, m := range mistake.FindAllStringSubmatch(says, -1) {
		if t.fileDiffers(m[1]) && !slices.Contains(files, m[1]) {
			out = append(out, m[1])
			continue
		}
		names := map[string]bool{}
		for _, q := range quoted.FindAllStringSubmatch(m[2], -1) {
			addWords(names, q[1])
		}
		if len(names) == 0 {
			addWords(names, m[3])
		}
		out = append(out, t.bestHeaders(append(slices.Clone(files), m[1]), names)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func addWords(names map[string]bool, text string) {
	for _, w := range anyWord.FindAllString(text, -1) {
		if !plain[w] {
			names[w] = true
		}
	}
}

var anyWord = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// plain are words that say nothing.
var plain = map[string]bool{"struct": true, "union": true, "enum": true, "int": true, "long": true, "unsigned": true, "char": true,
	"void": true, "const": true, "static": true, "inline": true, "extern": true, "if": true, "return": true, "for": true}

func (t *trees) fileDiffers(file string) bool {
	a, b := readPair(t.old.Dir, t.new.Dir, file)
	return a != b
}

// bestHeaders returns the included headers outside the list that declare most of the names.
func (t *trees) bestHeaders(files []string, names map[string]bool) []string {
	var best []string
	most := 0
	for _, seen := range t.new.Includes(files) {
		for h := range seen {
			if path.Ext(h) != ".h" || slices.Contains(files, h) || slices.Contains(best, h) {
				continue
			}
			a, b := readPair(t.old.Dir, t.new.Dir, h)
			if !setsMeet(wordsOf(anyWord, a, b), names) {
				continue
			}
			n := 0
			for w := range newWords("", b) {
				if names[w] {
					n++
				}
			}
			if n > most {
				best, most = nil, n
			}
			if n == most {
				best = append(best, h)
			}
		}
	}
	return best
}
