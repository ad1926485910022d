// SPDX-License-Identifier: MIT

//go:build linux

package source

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"skep/dynamos/update/asm"
)

// A part is what a patch does to one file.
type part struct {
	path    string
	line    int    // of the patch, where it begins
	text    []byte // from its --- line on
	changed []int  // lines of the patched file
	added   bool   // the file is new
	removed bool   // the file goes
}

// maxPatch bounds a patch.
const maxPatch = 4 << 20

// parsePatch cuts a unified patch into its files. What stands between them, as
// git and mail write it, is dropped.
func parsePatch(text []byte) ([]part, error) {
	if len(text) > maxPatch {
		return nil, refusef("the patch has %d bytes; at most %d are possible", len(text), maxPatch)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	var out []part
	for i := 0; i < len(lines); {
		if !bytes.HasPrefix(lines[i], []byte("--- ")) || i+1 == len(lines) || !bytes.HasPrefix(lines[i+1], []byte("+++ ")) {
			i++
			continue
		}
		p, end, err := parsePart(lines, i)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(q part) bool { return q.path == p.path }) {
			return nil, refusef("line %d of the patch changes %s a second time: make one patch of its commits, as 'git diff FIRST^ LAST' does", p.line, p.path)
		}
		out = append(out, p)
		i = end
	}
	if len(out) == 0 {
		return nil, refusef("it is not a patch: there is no line that begins with \"--- \" before one with \"+++ \"")
	}
	return out, nil
}

func parsePart(lines [][]byte, begin int) (part, int, error) {
	from, err := patchPath(lines[begin][4:])
	if err != nil {
		return part{}, 0, refusef("line %d of the patch: %v", begin+1, err)
	}
	to, err := patchPath(lines[begin+1][4:])
	if err != nil {
		return part{}, 0, refusef("line %d of the patch: %v", begin+2, err)
	}
	p := part{path: to, line: begin + 1, added: from == "", removed: to == ""}
	if p.removed {
		p.path = from
	}
	if p.path == "" || from != "" && to != "" && from != to {
		return part{}, 0, refusef("line %d of the patch renames %q to %q: a running kernel has no file names", begin+1, from, to)
	}
	end := begin + 2
	for end < len(lines) && bytes.HasPrefix(lines[end], []byte("@@ ")) {
		n, changed, err := parseHunk(lines, end)
		if err != nil {
			return part{}, 0, err
		}
		p.changed = append(p.changed, changed...)
		end = n
	}
	if end == begin+2 {
		return part{}, 0, refusef("line %d of the patch changes nothing of %s", begin+1, p.path)
	}
	p.text = bytes.Join(lines[begin:end], nil)
	return p, end, nil
}

// patchPath reads a name such as a/mm/rmap.c; "" stands for /dev/null.
func patchPath(b []byte) (string, error) {
	name, _, _ := strings.Cut(strings.TrimRight(string(b), "\r\n"), "\t")
	name = strings.TrimSpace(name)
	if name == "/dev/null" {
		return "", nil
	}
	_, rest, ok := strings.Cut(name, "/")
	if !ok || rest == "" || path.Clean(rest) != rest || path.IsAbs(rest) || strings.HasPrefix(rest, "..") {
		return "", refusef("%.200q is not a path of the form a/DIR/FILE, as git diff writes them", name)
	}
	if strings.Trim(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+,@-") != "" {
		return "", refusef("%.200q is not the name of a kernel's file", rest)
	}
	return rest, nil
}

// parseHunk gives where a hunk ends, and which lines of the new file it
// touches.
func parseHunk(lines [][]byte, at int) (end int, changed []int, err error) {
	f := strings.Fields(string(lines[at]))
	bad := refusef("line %d of the patch is not the head of a hunk", at+1)
	if len(f) < 4 || f[3] != "@@" || f[1][0] != '-' || f[2][0] != '+' {
		return 0, nil, bad
	}
	_, old, ok1 := parseSpan(f[1][1:])
	number, new, ok2 := parseSpan(f[2][1:])
	if !ok1 || !ok2 {
		return 0, nil, bad
	}
	for end = at + 1; old > 0 || new > 0; end++ {
		if end == len(lines) || len(lines[end]) == 0 {
			return 0, nil, refusef("the patch ends inside of the hunk of line %d", at+1)
		}
		switch lines[end][0] {
		case ' ', '\n', '\r':
			old, new, number = old-1, new-1, number+1
		case '-':
			old--
			changed = append(changed, number)
		case '+':
			new--
			changed = append(changed, number)
			number++
		case '\\':
		default:
			return 0, nil, refusef("line %d of the patch is not a line of a hunk", end+1)
		}
		if old < 0 || new < 0 {
			return 0, nil, refusef("the hunk of line %d of the patch has more lines than it says", at+1)
		}
	}
	if end < len(lines) && bytes.HasPrefix(lines[end], []byte("\\")) {
		end++
	}
	return end, changed, nil
}

func parseSpan(s string) (first, count int, ok bool) {
	a, b, two := strings.Cut(s, ",")
	first, err := strconv.Atoi(a)
	if err != nil || first < 0 {
		return 0, 0, false
	}
	if !two {
		return first, 1, true
	}
	count, err = strconv.Atoi(b)
	return first, count, err == nil && count >= 0 && count < maxPatch
}

// refusef returns the refusal of a whole patch.
func refusef(format string, args ...any) error {
	return &asm.Refusal{Reason: fmt.Sprintf(format, args...)}
}

// addPrefixes returns the files of a patch that was made with --no-prefix the prefixes
// that git gives them.
func (t *Tree) addPrefixes(text []byte) []byte {
	lines := bytes.SplitAfter(text, []byte("\n"))
	for i := range len(lines) - 1 {
		from, ok1 := bytes.CutPrefix(lines[i], []byte("--- "))
		to, ok2 := bytes.CutPrefix(lines[i+1], []byte("+++ "))
		if !ok1 || !ok2 || !t.hasFile(from) && !t.hasFile(to) {
			continue
		}
		if !bytes.HasPrefix(from, []byte("/dev/null")) {
			lines[i] = append([]byte("--- a/"), from...)
		}
		if !bytes.HasPrefix(to, []byte("/dev/null")) {
			lines[i+1] = append([]byte("+++ b/"), to...)
		}
	}
	return bytes.Join(lines, nil)
}

// hasFile reports whether the tree has a file of just the name in a patch.
func (t *Tree) hasFile(line []byte) bool {
	name, _, _ := strings.Cut(strings.TrimSpace(string(line)), "\t")
	if !filepath.IsLocal(name) {
		return false
	}
	info, err := os.Stat(filepath.Join(t.Dir, name))
	return err == nil && info.Mode().IsRegular()
}

// sortParts tells files that are compiled from those that do not matter, and
// refuses those that no update can carry.
func sortParts(parts []part) (code []part, skips []Skip, err error) {
	for _, p := range parts {
		if why := ignoreReason(p); why != "" {
			skips = append(skips, Skip{p.path, why})
			continue
		}
		refuse := func(format string, args ...any) error {
			return &asm.Refusal{Path: p.path, Line: firstLine(p), Reason: fmt.Sprintf(format, args...)}
		}
		switch ext := path.Ext(p.path); {
		case ext != ".c" && ext != ".h":
			return nil, nil, refuse("only .c and .h files can be changed in a running kernel, and this one decides how others are built")
		case p.removed:
			return nil, nil, refuse("the patch removes this file; what is compiled in cannot go: leave the file out of the patch")
		case p.added && ext == ".c":
			return nil, nil, refuse("the patch adds this file to what is built: put its functions into a file that is there")
		}
		code = append(code, p)
	}
	return code, skips, nil
}

func firstLine(p part) int {
	if len(p.changed) == 0 {
		return 0
	}
	return p.changed[0]
}

// ignoreReason reports why a file does not matter for a running kernel, or "".
func ignoreReason(p part) string {
	name := p.path
	first, rest, _ := strings.Cut(name, "/")
	second, _, _ := strings.Cut(rest, "/")
	switch {
	case first == "Documentation" || path.Ext(name) == ".rst" || first == "MAINTAINERS" || first == "CREDITS" || first == "LICENSES":
		return "documentation"
	case first == "tools" || first == "samples" || first == "scripts" || first == "debian":
		return "not part of the kernel"
	case first == "arch" && second != "x86":
		return "another architecture"
	case name == "Makefile" && onlyVersion(p.text):
		return "the version's number"
	case path.Base(name) == "Kconfig":
		return "options; the image's are taken"
	}
	return ""
}

// onlyVersion reports whether a change of the Makefile only counts versions.
func onlyVersion(text []byte) bool {
	for _, line := range strings.Split(string(text), "\n")[2:] {
		if line == "" || line[0] != '+' && line[0] != '-' {
			continue
		}
		name, _, _ := strings.Cut(line[1:], " =")
		if !slices.Contains([]string{"VERSION", "PATCHLEVEL", "SUBLEVEL", "EXTRAVERSION", "NAME"}, name) {
			return false
		}
	}
	return true
}
