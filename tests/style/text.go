// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	fileMax  = 800
	shellMax = 150
)

// listScripts lists the scripts for a POSIX shell.
func (t *tree) listScripts() []string {
	var list []string
	for _, name := range t.files {
		first, _, _ := strings.Cut(t.read(name), "\n")
		if strings.HasSuffix(name, ".sh") || (strings.HasPrefix(first, "#!") && strings.HasSuffix(first, "sh")) {
			list = append(list, name)
		}
	}
	return list
}

func checkShell(t *tree) ([]string, error) {
	files := t.listScripts()
	if len(files) == 0 {
		return nil, nil
	}
	return t.runTool(nil, "shellcheck", append([]string{"-f", "gcc"}, files...)...)
}

// fixedLimit matches a call of timeout(1) with a number.
var fixedLimit = regexp.MustCompile(`^[^#]*\btimeout( -\S+ \S+)* [0-9]`)

func shellShape(t *tree) ([]string, error) {
	var bad []string
	for _, name := range t.listScripts() {
		lines := t.lines(name)
		if lines[0] != "#!/bin/sh" {
			bad = append(bad, name+":1: want #!/bin/sh")
		}
		if !strings.Contains(t.read(name), "\nset -eu\n") {
			bad = append(bad, name+": no `set -eu`")
		}
		for i, line := range lines {
			if fixedLimit.MatchString(line) {
				bad = append(bad, fmt.Sprintf("%s:%d: a fixed time limit: use within or stretch of tests/tap.sh", name, i+1))
			}
		}
		if len(lines) > shellMax {
			bad = append(bad, fmt.Sprintf("%s: %d lines of shell, at most %d: write it in Go", name, len(lines), shellMax))
		}
	}
	return bad, nil
}

func fileSize(t *tree) ([]string, error) {
	var bad []string
	for _, name := range t.filesWith(".c", ".h", ".S", ".go", ".mk") {
		if n := len(t.lines(name)); n > fileMax {
			bad = append(bad, fmt.Sprintf("%s: %d lines, at most %d", name, n, fileMax))
		}
	}
	return bad, nil
}

const asmWidthMax = 80 // columns; clang-format lays out C only

func asmWidth(t *tree) ([]string, error) {
	var bad []string
	for _, name := range t.filesWith(".S") {
		for i, line := range t.lines(name) {
			width := 0
			for _, r := range line {
				if width++; r == '\t' {
					width = (width + 7) / 8 * 8
				}
			}
			if width > asmWidthMax {
				bad = append(bad, fmt.Sprintf("%s:%d: %d columns, at most %d", name, i+1, width, asmWidthMax))
			}
		}
	}
	return bad, nil
}

const contractLicence = "GPL-2.0-only WITH Linux-syscall-note OR MIT"

var (
	licenceLine = regexp.MustCompile(`SPDX-License-Identifier: (.*?)\s*(?:\*/|-->)?$`)
	// These files cannot contain a comment, or are the output of a program.
	unlicensed = regexp.MustCompile(`^LICENSES/|(^|/)go\.sum$|\.(expect|golden|json|mtx|bin|zip|ignore)$|/testdata/|/corpus/`)
)

func checkLicence(t *tree) ([]string, error) {
	known := map[string]bool{"MIT": true, "GPL-2.0-only": true, "BSD-2-Clause OR GPL-2.0-only": true, contractLicence: true}
	var bad []string
	for _, name := range t.files {
		if unlicensed.MatchString(name) || t.isBinary(name) {
			continue
		}
		found := t.licenceOf(name)
		switch {
		case found == "":
			bad = append(bad, name+": no SPDX-License-Identifier in its first lines")
		case !known[found]:
			bad = append(bad, fmt.Sprintf("%s: unknown licence %q", name, found))
		}
	}
	return bad, nil
}

// The words are split, so that this file does not contain them.
var forbidden = []struct {
	pattern *regexp.Regexp
	why     string
}{
	{regexp.MustCompile(`(^|[^\w.])/wo` + `rk/`), "a path of somebody's machine"},
	{regexp.MustCompile(`(^|[^\w.])/ho` + `me/[a-z]`), "a path of somebody's machine"},
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME)\b`), "work left for later: do it or write an issue"},
	{regexp.MustCompile(`(proxy|sum)\.gol` + `ang\.org|deb\.deb` + `ian\.org|pythonho` + `sted\.org|npm` + `js\.org`), "the name of a package registry"},
	{regexp.MustCompile(`<<<<<` + `<< |>>>>>` + `>> `), "a merge that was not finished"},
}

// The runner needs one of the words.
var mayUseWords = regexp.MustCompile(`^tests/run/|^LICENSES/|(^|/)go\.sum$`)

func checkWords(t *tree) ([]string, error) {
	var bad []string
	for _, name := range t.files {
		if mayUseWords.MatchString(name) || t.isBinary(name) {
			continue
		}
		for i, line := range t.lines(name) {
			for _, f := range forbidden {
				if f.pattern.MatchString(line) {
					bad = append(bad, fmt.Sprintf("%s:%d: %s", name, i+1, f.why))
				}
			}
		}
	}
	return bad, nil
}

func checkWhitespace(t *tree) ([]string, error) {
	var bad []string
	for _, name := range t.files {
		text := t.read(name)
		if unlicensed.MatchString(name) || t.isBinary(name) {
			continue
		}
		if text != "" && (!strings.HasSuffix(text, "\n") || strings.HasSuffix(text, "\n\n")) {
			bad = append(bad, name+": want exactly one newline at the end")
		}
		for i, line := range t.lines(name) {
			if line == " " && strings.HasSuffix(name, ".patch") {
				continue // an empty line of the file that is patched
			}
			if strings.TrimRight(line, " \t\r") != line {
				bad = append(bad, fmt.Sprintf("%s:%d: whitespace at the end of the line", name, i+1))
			}
		}
	}
	return bad, nil
}

func checkSpelling(t *tree) ([]string, error) {
	var files []string
	for _, name := range t.files {
		if !unlicensed.MatchString(name) && !t.isBinary(name) {
			files = append(files, name)
		}
	}
	args := []string{"-q", "3"}
	if t.exists("tests/style/words.ignore") {
		args = append(args, "-I", "tests/style/words.ignore")
	}
	return t.runTool(nil, "codespell", append(args, files...)...)
}

var markdownLink = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

func checkLinks(t *tree) ([]string, error) {
	var bad []string
	for _, name := range t.filesWith(".md") {
		for i, line := range t.lines(name) {
			for _, m := range markdownLink.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
					continue
				}
				if !t.exists(path.Join(path.Dir(name), m[1])) {
					bad = append(bad, fmt.Sprintf("%s:%d: link to %s, which is not there", name, i+1, m[1]))
				}
			}
		}
	}
	return bad, nil
}

// execBits checks that a file is executable if and only if it names its interpreter.
func execBits(t *tree) ([]string, error) {
	var bad []string
	for _, name := range t.files {
		info, err := os.Stat(filepath.Join(t.root, name))
		if err != nil {
			continue
		}
		script := strings.HasPrefix(t.read(name), "#!")
		if can := info.Mode()&0o111 != 0; can != script {
			bad = append(bad, fmt.Sprintf("%s: executable %v, but starts with #! %v", name, can, script))
		}
	}
	return bad, nil
}
