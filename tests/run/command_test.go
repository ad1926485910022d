// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The runner's exit status and output, which make and CI use.
func TestCommandLine(t *testing.T) {
	runner := buildRunner(t)
	good := "a\ttap\t60\tprintf 'ok 1 - a\\n1..1\\n'\n"
	bad := "a\ttap\t60\tprintf 'not ok 1 - a\\n1..1\\n'; exit 1\n"
	tests := []struct {
		name, suites string
		args         []string
		status       int
		out, err     string // printed, among others
	}{
		{"good", good, nil, 0, "\n1 passed, 0 failed, 0 skipped\n", ""},
		{"a failure", bad, nil, 1, "\n0 passed, 1 failed, 0 skipped\n", ""},
		{"no list", good, []string{"-suites", ""}, 2, "", "Usage"},
		{"an argument", good, []string{"more"}, 2, "", "Usage"},
		{"a negative number of second runs", good, []string{"-again", "-1"}, 2, "", "Usage"},
		{"a forecast without a floor", good, []string{"-forecast"}, 2, "", "Usage"},
		{"one second run", good, []string{"-again", "1"}, 0, "1 passed", ""},
		{"a list that is not there", good, []string{"-suites", "none"}, 2, "", "tests/run: open none: "},
		{"a floor without a key", good, []string{"-floor", "none"}, 2, "", "tests/run: -floor none: want FILE:KEY"},
		{"a floor that is not there", good, []string{"-floor", "none:x"}, 2, "", "tests/run: open none: "},
		{"promises that are not there", good, []string{"-spec", "none"}, 2, "", "tests/run: open none: "},
		{"logs in no folder", good, []string{"-logs", "suites/x"}, 2, "", "tests/run: mkdir "},
		{"results in no folder", good, []string{"-results", "no/x"}, 2, "", "tests/run: open logs/no/x: "},
		{"the closing line elsewhere", good, []string{"-closing", "closing"}, 0, "ok   a", ""},
		{"the closing line nowhere", good, []string{"-closing", "no/x"}, 2, "", "tests/run: open no/x: "},
		{"another lane", good, []string{"-lane", "-logs", "."}, 0, `{"Index":0,"Results":[{"Suite":"a","Name":"a","Status":"passed"`, ""},
		{"another lane with a shorter list", "\n", []string{"-lane", "-logs", "."}, 2, "", `tests/run: "0" is the index of no suite`},
		{"another lane without a list", good, []string{"-lane", "-suites", "none"}, 2, "", "tests/run: open none: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.Command(runner, append([]string{"-suites", "suites", "-logs", "logs"}, tt.args...)...)
			cmd.Dir = t.TempDir()
			if err := os.WriteFile(filepath.Join(cmd.Dir, "suites"), []byte(tt.suites), 0o644); err != nil {
				t.Fatal(err)
			}
			var out, said bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("0\n"), &out, &said
			err := cmd.Run()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if n := cmd.ProcessState.ExitCode(); n != tt.status {
				t.Errorf("status %d, not %d", n, tt.status)
			}
			if !strings.Contains(out.String(), tt.out) || !strings.Contains(said.String(), tt.err) || (tt.err == "" && said.Len() > 0) {
				t.Errorf("want %q and %q; printed\n%s\nand\n%s", tt.out, tt.err, out.String(), said.String())
			}
			if tt.name == "the closing line elsewhere" {
				text, err := os.ReadFile(filepath.Join(cmd.Dir, "closing"))
				if err != nil || string(text) != "1 passed, 0 failed, 0 skipped\n" || strings.Contains(out.String(), string(text)) {
					t.Errorf("%v; %q in the file; printed\n%s", err, text, out.String())
				}
			}
		})
	}
}

// A suite gets no descriptor that the runner inherited: bee saves no program that has one.
func TestSuitesInheritNoDescriptor(t *testing.T) {
	runner, dir := buildRunner(t), t.TempDir()
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	list := filepath.Join(dir, "suites")
	line := "a\ttap\t60\t[ -e /proc/self/fd/3 ] && printf 'not '; printf 'ok 1 - a\\n1..1\\n'\n"
	if err := os.WriteFile(list, []byte(line), 0o644); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(runner, "-suites", list, "-logs", dir)
	c.ExtraFiles = []*os.File{theirs}
	if out, err := c.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("1 passed, 0 failed")) {
		t.Errorf("%v:\n%s", err, out)
	}
}
