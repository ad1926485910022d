// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// kindNothing is that of a file that Debian does not compile on amd64.
const kindNothing = "nothing"

// printDraw prints a list of cases that nobody's taste has touched.
func printDraw(ctx context.Context, seed, count, newer, done string) error {
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is no number of cases: give 1 or more", count)
	}
	text, err := os.ReadFile(done)
	if err != nil {
		return err
	}
	t, err := openTrees(ctx, newer)
	if err != nil {
		return err
	}
	all, err := listFixes(t.old.Dir, t.new.Dir, allFolders)
	if err != nil {
		return err
	}
	drawn, err := drawFixes(all, seed, n, pathsOf(string(text)), func(path string) (string, error) { return t.old.KindOf(ctx, path) })
	for i, d := range drawn {
		fmt.Println(i+1, d.hash, d.kind, strings.Join(d.files, " "))
	}
	return err
}

// pathsOf are the first paths of a list's cases.
func pathsOf(list string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) >= 4 && f[0] != "#" {
			out[f[3]] = true
		}
	}
	return out
}

// A drawn case has a kind: image, module, or nothing.
type drawn struct {
	fix
	kind string
}

// drawFixes returns cases in the order of sha256(seed + first path), up to the nth that
// is compiled. Cases whose first path is in done are left out.
func drawFixes(all []fix, seed string, n int, done map[string]bool, kindOf func(string) (string, error)) ([]drawn, error) {
	var list []fix
	for _, f := range all {
		if !done[f.files[0]] {
			sum := sha256.Sum256([]byte(seed + f.files[0]))
			list = append(list, fix{hex.EncodeToString(sum[:4]), f.files})
		}
	}
	slices.SortFunc(list, func(a, b fix) int { return strings.Compare(a.hash+a.files[0], b.hash+b.files[0]) })
	var out []drawn
	for _, f := range list {
		if n == 0 {
			break
		}
		kind, err := kindOf(f.files[0])
		if err != nil {
			return nil, err
		}
		if kind != kindNothing {
			n--
		}
		out = append(out, drawn{f, kind})
	}
	return out, nil
}
