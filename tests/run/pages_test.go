// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	// make GOAL T=... in a page; '## ... T=...' is a line of `make help`.
	pageMake = regexp.MustCompile(`make (test-full|test|check|vm|wine|bench|fuzz|soak|mutants) (?:T|ROOM)=('[^']+'|"[^"]+"|[\w*./-]+)`)
	helpMake = regexp.MustCompile(`^([a-z-]+):.* ## .*[( ](?:T|ROOM)=([\w*/-]+)`)
	anyName  = regexp.MustCompile(`^([A-Z]+|\.+|\$.*)$`) // NAME, SUITE, ..., $(T)
)

// The pages contain no make command with a suite that does not exist.
func TestPages(t *testing.T) {
	lists := makeLists(t)
	out, err := exec.Command("git", "-C", "../..", "ls-files", "*.md", "mk/*.mk", ":!docs/results/").Output()
	if err != nil || len(out) == 0 { // a copy of the tree inside a clone has no files in git
		t.Skip("no git here, or not a clone")
	}
	commands := 0
	for _, name := range strings.Fields(string(out)) {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			continue // deleted, not yet committed
		}
		for i, line := range strings.Split(string(text), "\n") {
			for _, m := range append(pageMake.FindAllStringSubmatch(line, -1), helpMake.FindAllStringSubmatch(line, -1)...) {
				commands++
				if gone := missingNames(lists[m[1]], m[2]); gone != "" {
					t.Errorf("%s:%d: %q names nothing that make %s has: %s", name, i+1, m[0], m[1], gone)
				}
			}
		}
	}
	if commands < 20 {
		t.Errorf("found %d commands: the pattern fits no more", commands)
	}
}

// missingNames returns the first of these names, which may contain stars, that matches
// nothing in the list.
func missingNames(list []string, names string) string {
	for _, want := range strings.Fields(strings.Trim(names, `'"`)) {
		found := anyName.MatchString(want)
		for _, have := range list {
			ok, _ := path.Match(strings.ReplaceAll(want, "/", "|"), strings.ReplaceAll(have, "/", "|"))
			found = found || ok
		}
		if !found {
			return want
		}
	}
	return ""
}

// makeLists gets the valid values of T and ROOM from make, for each goal.
func makeLists(t *testing.T) map[string][]string {
	t.Helper()
	variables := map[string]string{"test": "ALL_SUITES", "check": "ALL_SUITES", "wine": "wine_suites", "bench": "BENCHES",
		"fuzz": "FUZZERS) $(GO_FUZZERS", "soak": "SOAKS", "mutants": "MUTANTS", "test-full": "FULL_SUITES", "vm": "VM_SUITES:vm-%=%"}
	rule := "lists: ; @:"
	for goal, variable := range variables {
		rule += "$(info " + goal + ": $(" + variable + "))"
	}
	out, err := makeIn("../..", "--eval", rule, "lists")
	if err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	lists := map[string][]string{}
	for _, line := range strings.Split(out, "\n") {
		if goal, names, ok := strings.Cut(line, ": "); ok && variables[goal] != "" {
			lists[goal] = strings.Fields(names)
		}
	}
	if len(lists) != len(variables) {
		t.Fatalf("make has %d lists, not %d:\n%s", len(lists), len(variables), out)
	}
	return lists
}

// What no test runs has rules for all that it needs.
func TestGoalsHaveRules(t *testing.T) {
	goals := [][]string{{"bench"}, {"test-full-build"}}
	for _, name := range makeLists(t)["soak"] {
		goals = append(goals, []string{"soak", "ROOM=" + name})
	}
	for _, goal := range goals {
		if out, err := makeIn("../..", append([]string{"-n"}, goal...)...); err != nil {
			lines := strings.Split(strings.TrimSpace(out), "\n")
			t.Errorf("make %s: %v: %s", strings.Join(goal, " "), err, lines[len(lines)-1])
		}
	}
}

func TestMissingNames(t *testing.T) {
	list := []string{"abi-elf", "abi-mem", "grid/sched"}
	for names, want := range map[string]string{"abi-elf": "", "'abi-* grid/sched'": "", "NAME": "", "abi": "abi",
		`"abi-elf gone"`: "gone", "bee-*": "bee-*", "grid": "grid"} {
		if got := missingNames(list, names); got != want {
			t.Errorf("%s: %q, not %q", names, got, want)
		}
	}
}
