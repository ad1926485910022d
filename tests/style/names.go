// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"regexp"
	"strings"
)

// A definition's first line: what it returns, its name, and the brace that
// opens its body in column one, some lines below.
var (
	cDefined = regexp.MustCompile(`(?m)^([A-Za-z_][\w \t*]*[\s*])(\w+)\(([^;{}]*)\)\s*\n\{`)
	cMacroed = regexp.MustCompile(`^[A-Z0-9_]+$`)
)

// moduleCode is what kernel modules are compiled from.
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

// How the first comment of a module's file says what may call it.
var cContext = regexp.MustCompile(`Context: |(?i:process|softirq|atomic|any) context`)

// A warning stops a machine with panic_on_warn, a BUG each machine.
var cWarns = regexp.MustCompile(`\b(WARN|BUG)(_ON)?(_ONCE)?\(`)

// moduleAsserts: what must hold in a kernel module is skep_assert, which only
// builds with a sanitizer check.
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

// moduleContext wants the head of each file of a kernel module to say in which
// context its functions run: whether they may sleep decides what they may call.
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

// moduleNames holds the functions of kernel modules to two words at least, and
// to one static function of a name in all of them: an oops, a stack or a list
// of ftrace names a function and nothing else.
func moduleNames(t *tree) ([]string, error) {
	files, err := t.moduleCode()
	if err != nil {
		return nil, err
	}
	var bad []string
	where := map[string]string{}
	for _, name := range files {
		text := blankComments(t.read(name))
		for _, m := range cDefined.FindAllStringSubmatchIndex(text, -1) {
			kind, function := text[m[2]:m[3]], text[m[4]:m[5]]
			at := fmt.Sprintf("%s:%d", name, strings.Count(text[:m[4]], "\n")+1)
			switch {
			case cMacroed.MatchString(function):
				continue
			case !strings.Contains(strings.Trim(function, "_"), "_"):
				bad = append(bad, fmt.Sprintf("%s: %s() is one bare word: say noun_verb", at, function))
			case strings.Contains(kind, "static") && where[function] != "" && !strings.HasSuffix(name, ".h"):
				bad = append(bad, fmt.Sprintf("%s: %s() is the name of another function too: %s", at, function, where[function]))
			}
			where[function] = at
		}
	}
	return bad, nil
}
