// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
)

const (
	functionMax  = 80 // of Go
	cFunctionMax = 60
)

// clangFormat requires version 14, because other versions format differently.
func clangFormat(t *tree) ([]string, error) {
	files := t.filesWith(".c", ".h")
	if len(files) == 0 {
		return nil, nil
	}
	version, err := exec.Command("clang-format", "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("clang-format: %w; run make setup", err)
	}
	if !strings.Contains(string(version), "version 14.") {
		return nil, fmt.Errorf("want clang-format 14, have %s", strings.TrimSpace(string(version)))
	}
	out, err := t.runTool(nil, "clang-format", append([]string{"--dry-run", "-Werror"}, files...)...)
	var bad []string
	seen := map[string]bool{}
	for _, line := range out {
		name, _, found := strings.Cut(line, ": error:")
		file, _, _ := strings.Cut(name, ":")
		if found && !seen[file] {
			seen[file] = true
			bad = append(bad, name+": not as clang-format lays it out: make format")
		}
	}
	return bad, err
}

// cFunctions counts the lines from the brace in column one to the closing brace.
func cFunctions(t *tree) ([]string, error) {
	var bad []string
	for _, name := range t.filesWith(".c", ".h") {
		start := 0
		for i, line := range t.lines(name) {
			switch {
			case line == "{":
				start = i + 1
			case line == "}" && start > 0:
				if n := i - start; n > cFunctionMax {
					bad = append(bad, fmt.Sprintf("%s:%d: function of %d lines, at most %d", name, start, n, cFunctionMax))
				}
				start = 0
			}
		}
	}
	return bad, nil
}

// A border is one row of borders.tbl.
type border struct {
	path, flags string
	includes    []string
}

var borderFlags = []string{"free", "host", "windows", "kernel"}

func (t *tree) readBorders() ([]border, error) {
	var list []border
	for i, line := range t.lines("tests/style/borders.tbl") {
		f := strings.Fields(line)
		if len(f) == 0 || f[0][0] == '#' {
			continue
		}
		if len(f) < 3 || !slices.Contains(borderFlags, f[1]) {
			return nil, fmt.Errorf("tests/style/borders.tbl:%d: want PATH FLAGS INCLUDES", i+1)
		}
		list = append(list, border{f[0], f[1], f[2:]})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("tests/style/borders.tbl is missing or empty")
	}
	return list, nil
}

func isUnder(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, dir+"/")
}

// findBorder returns the row with the longest path that covers a file.
func findBorder(list []border, name string) *border {
	var best *border
	for i := range list {
		if isUnder(name, list[i].path) && (best == nil || len(list[i].path) > len(best.path)) {
			best = &list[i]
		}
	}
	return best
}

var includeLine = regexp.MustCompile(`^\s*#\s*include\s*([<"])([^>"]+)[>"]`)

func cBorders(t *tree) ([]string, error) {
	list, err := t.readBorders()
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, name := range t.filesWith(".c", ".h", ".S", ".lds") {
		b := findBorder(list, name)
		if b == nil {
			bad = append(bad, name+": no row in tests/style/borders.tbl covers it")
			continue
		}
		for i, line := range t.lines(name) {
			m := includeLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			target := t.resolveInclude(name, m[1], m[2])
			if !b.allows(name, target) && !b.allows(name, m[2]) {
				bad = append(bad, fmt.Sprintf("%s:%d: includes %s (%s), which the row of %s does not allow", name, i+1, m[2], target, b.path))
			}
		}
	}
	return bad, nil
}

// resolveInclude returns the path of an included file below the root, "system", or "build" for
// a generated file.
func (t *tree) resolveInclude(from, quote, target string) string {
	if quote == `"` {
		if near := path.Join(path.Dir(from), target); t.exists(near) {
			return near
		}
	}
	if strings.HasPrefix(target, "build/") {
		return "build"
	}
	for _, dir := range []string{"include", "."} {
		if far := path.Join(dir, target); t.exists(far) {
			return far
		}
	}
	return "system"
}

func (b *border) allows(name, target string) bool {
	if target == "build" || (target != "system" && path.Dir(target) == path.Dir(name)) {
		return true
	}
	for _, ok := range b.includes {
		if isUnder(target, ok) {
			return true
		}
	}
	return false
}

var (
	cComment = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"`)
	cLong    = regexp.MustCompile(`\blong\b`)
	cTypedef = regexp.MustCompile(`\btypedef\s+(struct|union|enum)\b`)
)

// blankComments empties comments and strings, keeping the lines.
func blankComments(text string) string {
	return cComment.ReplaceAllStringFunc(text, func(s string) string {
		return strings.Repeat("\n", strings.Count(s, "\n")) + " "
	})
}

// grepCode returns "name:line: message" for lines of C that match outside comments.
func (t *tree) grepCode(name string, pattern *regexp.Regexp, message string) []string {
	var bad []string
	for i, line := range strings.Split(blankComments(t.read(name)), "\n") {
		if pattern.MatchString(line) {
			bad = append(bad, fmt.Sprintf("%s:%d: %s", name, i+1, message))
		}
	}
	return bad
}

func cNoLong(t *tree) ([]string, error) {
	list, err := t.readBorders()
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, name := range t.filesWith(".c", ".h") {
		b := findBorder(list, name)
		if b != nil && b.flags == "free" && name != "include/skep/types.h" {
			bad = append(bad, t.grepCode(name, cLong, "`long` in freestanding code: take a type of <skep/types.h>")...)
		}
	}
	return bad, nil
}

func cNoTypedef(t *tree) ([]string, error) {
	var bad []string
	for _, name := range t.filesWith(".c", ".h") {
		if name == "grid/include/OmniRpc.h" || name == "grid/include/grpc.h" {
			continue // they declare types of OmniRPC and GridRPC, which programs use
		}
		bad = append(bad, t.grepCode(name, cTypedef, "typedef of a struct, union or enum")...)
	}
	return bad, nil
}

var headerFlags = []string{"-std=gnu11", "-fsyntax-only", "-Wall", "-Wextra", "-Wundef",
	"-Werror", "-Iinclude", "-Igrid/include", "-I.", "-x", "c"}

func headersAlone(t *tree) ([]string, error) {
	list, err := t.readBorders()
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, name := range t.filesWith(".h") {
		b := findBorder(list, name)
		if b == nil {
			continue // "c borders" reports it
		}
		if b.flags == "kernel" {
			continue // make kmod compiles it
		}
		compiler, flags := "gcc", headerFlags
		switch b.flags {
		case "free":
			flags = append([]string{"-ffreestanding", "-nostdinc"}, flags...)
		case "windows":
			compiler = "x86_64-w64-mingw32-gcc"
		}
		out, err := t.runTool(nil, compiler, append(flags, name)...)
		if err != nil {
			return bad, err
		}
		if len(out) > 0 {
			bad = append(bad, name+": does not compile alone\n"+strings.Join(out[:min(len(out), 4)], "\n"))
		}
	}
	return bad, nil
}
