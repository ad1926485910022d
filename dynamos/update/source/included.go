// SPDX-License-Identifier: MIT

package source

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkIncluded gives a refusal unless the source contains each change of a patch, at one
// place each, in the function that the patch names there. patch -R alone is no proof: it
// also takes lines elsewhere in the file that are alike, and then a kernel that needs the
// update would go without it.
func (t *Tree) checkIncluded(parts []part) error {
	for _, p := range parts {
		if p.removed {
			continue // patch -R found no such file
		}
		text, err := os.ReadFile(filepath.Join(t.Dir, p.path))
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		for _, h := range p.hunks() {
			switch n := len(h.places(lines)); {
			case n == 0:
				return refusef("the patch does not fit the source of %s, which has lines as it makes them, but not in %q of %s: make it for this version", t.Kernel.Version, h.function, p.path)
			case n > 1:
				return refusef("%d places of %s in the source of %s are as the patch makes one, so whether this kernel contains the change is not certain: compare them, and make the patch for this version", n, p.path, t.Kernel.Version)
			}
		}
	}
	return nil
}

// A hunk is one place of a file as a patch makes it.
type hunk struct {
	function string // as git diff or diff -p name it, or empty
	lines    []string
}

func (p *part) hunks() (out []hunk) {
	for line := range bytes.Lines(p.text) {
		s := strings.TrimRight(string(line), "\n")
		if strings.HasPrefix(s, "@@ ") {
			_, rest, _ := strings.Cut(s[3:], "@@")
			out = append(out, hunk{function: strings.TrimSpace(rest)})
			continue
		}
		if len(out) == 0 || strings.HasPrefix(s, "-") || strings.HasPrefix(s, "\\") {
			continue
		}
		h := &out[len(out)-1]
		h.lines = append(h.lines, strings.TrimPrefix(strings.TrimPrefix(s, "+"), " "))
	}
	return out
}

// places lists the lines where a file contains the hunk, in its function.
func (h *hunk) places(lines []string) (at []int) {
	for i := range len(lines) - len(h.lines) + 1 {
		if slices.Equal(lines[i:i+len(h.lines)], h.lines) && h.isIn(lines[:i]) {
			at = append(at, i)
		}
	}
	return at
}

// isIn reports whether lines end in the hunk's function: the last one that begins with a
// letter, _ or $ is its first. To git a label is none; diff -p and git cut long lines off.
func (h *hunk) isIn(lines []string) bool {
	if h.function == "" {
		return true
	}
	for _, s := range slices.Backward(lines) {
		if s == "" || !strings.ContainsRune("_$", rune(s[0])) && (s[0]|0x20 < 'a' || s[0]|0x20 > 'z') {
			continue
		}
		if strings.HasPrefix(s, h.function) {
			return true
		}
		if !strings.HasSuffix(strings.TrimSpace(s), ":") {
			return false
		}
	}
	return false
}
