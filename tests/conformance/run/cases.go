// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A testCase is one run of one program.
type testCase struct {
	name    string // "<libc> <program> [variant]"
	file    string
	args    []string
	stdin   string
	code    int    // expected native exit code; -1: any, both runs are only compared
	seconds int    // limit of the native run on an idle computer; 0 for 5
	fixture bool   // needs the tree of files
	proof   bool   // prints the nonce under bee
	missing string // why it cannot run on this machine
}

func (c testCase) timeLimit() time.Duration {
	if c.seconds > 0 {
		return time.Duration(c.seconds) * time.Second
	}
	return 5 * time.Second
}

// A variant is a run of a C or Go program with arguments or special settings.
type variant struct {
	name  string // appended to the program's name, may be empty
	args  []string
	stdin string
	code  int
}

var variants = map[string][]variant{
	"hello":   {{code: 7}},
	"cputime": {{}, {name: "kill", args: []string{"kill"}, code: 128 + 9}},
	"args":    {{args: []string{"one", "two words", "", "--help", "-x=\"q\"", "tab\there", "ä€\U0001F600", `back\slash\\`, `a\"b`, "*", "%PATH%"}}},
	"exits": {
		{name: "code 0", args: []string{"code", "0"}},
		{name: "code 255", args: []string{"code", "255"}, code: 255},
		{name: "code 77", args: []string{"quick", "77"}, code: 77},
		{name: "abort", args: []string{"abort"}, code: 128 + 6},
		{name: "sigkill", args: []string{"signal", "9"}, code: 128 + 9},
		{name: "sigterm", args: []string{"signal", "15"}, code: 128 + 15},
		{name: "sigusr1", args: []string{"signal", "10"}, code: 128 + 10},
		{name: "segv", args: []string{"segv"}, code: 128 + 11},
		{name: "trap", args: []string{"trap"}, code: 128 + 4},
		{name: "from a thread", args: []string{"thread", "9"}, code: 9},
		{name: "last thread", args: []string{"last"}},
	},
	"input": {
		{name: "empty"},
		{name: "lines", stdin: strings.Repeat("a line of input\n", 1000)},
		{name: "large", stdin: strings.Repeat("0123456789abcdef", 1<<16)},
		{name: "binary", stdin: "\x00\xff\r\n\x1a\x04 after end marks"},
	},
	"execute":  {{}, {name: "modes", args: []string{"modes"}}},
	"copying":  {{}, {name: "splice", args: []string{"splice"}}},
	"fortran":  {{code: 4}},
	"routines": {{code: 3}},
	"panics":   {{code: 2}},
	"signals":  {{code: 128 + 15}},
	"files":    {{stdin: "some input"}},
}

// seconds are the time limits of programs that need more than the usual time on a busy
// machine. Under Wine, each fault of one program causes about ten messages to Wine's server;
// the two others start about a hundred processes.
var seconds = map[string]int{"faults": 40, "processes": 30, "execute": 20}

// The folders of programs, in the order of the output.
var folders = []string{"glibc", "pie", "musl", "dynamic", "musl-dynamic", "go"}

func allCases(programs string) []testCase {
	var cases []testCase
	for _, folder := range folders {
		files, _ := filepath.Glob(filepath.Join(programs, folder, "*"))
		for _, file := range files {
			cases = append(cases, expandCases(folder, file)...)
		}
	}
	cases = append(cases, fortranCase(programs)...)
	return append(cases, debianCases()...)
}

func expandCases(folder, file string) []testCase {
	program := filepath.Base(file)
	list := variants[program]
	if list == nil {
		list = []variant{{}}
	}
	var cases []testCase
	for _, v := range list {
		c := testCase{name: strings.TrimSpace(fmt.Sprintf("%s %s %s", folder, program, v.name)),
			file: file, args: v.args, stdin: v.stdin, code: v.code,
			proof: program == "proof", seconds: seconds[program]}
		cases = append(cases, c)
	}
	return cases
}

// fortranCase returns the case also on machines without the compiler, where it is skipped.
func fortranCase(programs string) []testCase {
	if isReadable(filepath.Join(programs, "glibc", "fortran")) {
		return nil
	}
	return []testCase{{name: "glibc fortran", missing: "no gfortran on this machine"}}
}

func selectCases(cases []testCase, only *regexp.Regexp) []testCase {
	var out []testCase
	for _, c := range cases {
		if only.MatchString(c.name) {
			out = append(out, c)
		}
	}
	return out
}

// makeFixture creates the small tree of files for file tools, with fixed times.
func makeFixture(dir string, wanted bool) error {
	if !wanted {
		return nil
	}
	files := map[string]string{
		"words.txt":     "pear\napple\nfig\nbanana\napple\ncherry\n",
		"numbers.txt":   "10 3\n2 40\n33 5\n",
		"empty":         "",
		"sub/deep/leaf": "leaf\n",
		"sub/data.bin":  strings.Repeat("\x00\x01\xfe\xff", 5000),
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
		when := time.Unix(1_000_000_000, 0)
		if err := os.Chtimes(path, when, when); err != nil {
			return err
		}
	}
	return nil
}
