// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// A definition's first line: the type, the name, and, some lines below, the brace in column
// one that opens the body.
var (
	cDefined = regexp.MustCompile(`(?m)^([A-Za-z_][\w \t*]*[\s*])(\w+)\(([^;{}]*)\)\s*\n\{`)
	cMacroed = regexp.MustCompile(`^[A-Z0-9_]+$`)
	// An attribute may stand before or in what it returns, and has parentheses.
	cAttribute = regexp.MustCompile(`__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\) *`)
)

// A cFunction is a function that a file defines without a macro.
type cFunction struct {
	name, at string // at is FILE:LINE
	static   bool
}

// definedFunctions returns the functions that a C file defines.
func (t *tree) definedFunctions(file string) []cFunction {
	text := cAttribute.ReplaceAllStringFunc(blankComments(t.read(file)), func(s string) string {
		return strings.Repeat("\n", strings.Count(s, "\n"))
	})
	var list []cFunction
	for _, m := range cDefined.FindAllStringSubmatchIndex(text, -1) {
		name := text[m[4]:m[5]]
		if !cMacroed.MatchString(name) {
			at := fmt.Sprintf("%s:%d", file, strings.Count(text[:m[4]], "\n")+1)
			list = append(list, cFunction{name, at, strings.Contains(text[m[2]:m[3]], "static")})
		}
	}
	return list
}

// isBareWord reports that a name says either what is done or what to, but not both.
func (f cFunction) isBareWord() bool {
	return !strings.Contains(strings.Trim(f.name, "_"), "_")
}

// staticNames checks that static functions have names of at least two words, in tests too.
// Functions that replace those of the C library, and libFuzzer's, are not static.
func staticNames(t *tree) ([]string, error) {
	var bad []string
	for _, file := range t.filesWith(".c", ".h") {
		for _, f := range t.definedFunctions(file) {
			if f.static && f.isBareWord() {
				bad = append(bad, fmt.Sprintf("%s: %s() is one bare word: say verb_noun", f.at, f.name))
			}
		}
	}
	return bad, nil
}

// moduleCode returns the source files of kernel modules.
func (t *tree) moduleCode() ([]string, error) {
	list, err := t.readBorders()
	if err != nil {
		return nil, err
	}
	var files []string
	for _, name := range t.filesWith(".c", ".h") {
		if b := findBorder(list, name); b != nil && b.flags == "kernel" {
			files = append(files, name)
		}
	}
	return files, nil
}

// cContext matches the statement of the context in the first comment of a module's file.
var cContext = regexp.MustCompile(`Context: |(?i:process|softirq|atomic|any) context`)

// cWarns matches WARN and BUG. WARN panics a machine with panic_on_warn, BUG may panic any.
var cWarns = regexp.MustCompile(`\b(WARN|BUG)(_ON)?(_ONCE)?\(`)

// moduleAsserts checks that kernel modules state invariants by skep_assert, which only builds
// with a sanitizer evaluate.
func moduleAsserts(t *tree) ([]string, error) {
	files, err := t.moduleCode()
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, name := range files {
		text := blankComments(t.read(name))
		for _, at := range cWarns.FindAllStringIndex(text, -1) {
			if strings.Contains(name, "/kmod/") {
				line := strings.Count(text[:at[0]], "\n") + 1
				bad = append(bad, fmt.Sprintf("%s:%d: %s): say skep_assert()", name, line, text[at[0]:at[1]]))
			}
		}
	}
	return bad, nil
}

// moduleContext checks that the first comment of each file of a kernel module states the
// context of its functions, which decides whether they may sleep.
func moduleContext(t *tree) ([]string, error) {
	files, err := t.moduleCode()
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, name := range files {
		head, _, _ := strings.Cut(t.read(name), "*/\n#include")
		if strings.Contains(name, "/kmod/") && strings.HasSuffix(name, ".c") && !cContext.MatchString(head) {
			bad = append(bad, name+`: its first comment does not say "Context: ..." or "Process context"`)
		}
	}
	return bad, nil
}

// moduleNames checks that functions of kernel modules have names of at least two words, and
// that no name of a static function occurs twice in them: an oops, a stack trace or ftrace
// shows only the function's name.
func moduleNames(t *tree) ([]string, error) {
	files, err := t.moduleCode()
	if err != nil {
		return nil, err
	}
	var bad []string
	where := map[string]string{}
	for _, name := range files {
		for _, f := range t.definedFunctions(name) {
			switch {
			case f.isBareWord():
				bad = append(bad, fmt.Sprintf("%s: %s() is one bare word: say noun_verb", f.at, f.name))
			case f.static && where[f.name] != "" && !strings.HasSuffix(name, ".h"):
				bad = append(bad, fmt.Sprintf("%s: %s() is the name of another function too: %s", f.at, f.name, where[f.name]))
			}
			where[f.name] = f.at
		}
	}
	return bad, nil
}
