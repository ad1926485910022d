// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// twoStepSuite returns a suite that runs first at its first run and second afterwards. A file
// in dir counts its runs.
func twoStepSuite(dir, name, kind, first, second string) string {
	mark := filepath.Join(dir, name)
	return fmt.Sprintf("%s\t%s\t5\techo x >>%s; if [ $(wc -l <%s) = 1 ]; then %s; else %s; fi",
		name, kind, mark, mark, first, second)
}

// countRuns counts how often such a suite ran.
func countRuns(t *testing.T, dir, name string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

const (
	tapGood = `printf 'ok 1 - a\nok 2 - b\n1..2\n'`
	tapBad  = `printf 'ok 1 - a\nwhy it failed\nnot ok 2 - b\n1..2\n'; exit 1`
	saved   = "  unsteady s: failed once, passed alone: "
)

func TestAgain(t *testing.T) {
	goLines := func(lines ...string) string {
		return "cat " + writeFile(t, strings.Join(lines, "\n")+"\n")
	}
	const broken = `{"Action":"fail","Package":"skep/p"}`
	event := func(action, test string) string {
		return fmt.Sprintf(`{"Action":%q,"Package":"skep/p","Test":%q}`, action, test)
	}
	tests := []struct {
		name, kind, first, second, closing string
		want                               string // "saved", or the reason why not
	}{
		{"passes then", "tap", tapBad, tapGood, "2 passed, 0 failed, 0 skipped", saved},
		{"fails twice", "tap", tapBad, tapBad, "1 passed, 1 failed, 0 skipped", "not ok: s: b"},
		{"fails otherwise", "tap", tapBad, "exit 3", "0 passed, 1 failed, 0 skipped", "no test and no plan"},
		{"died at first", "tap", "kill -9 $$", tapGood, "2 passed, 0 failed, 0 skipped", saved},
		{"is skipped then", "tap", tapBad, `printf 'ok 1 - a\nok 2 - b # SKIP no\n1..2\n'`,
			"1 passed, 1 failed, 1 skipped", `"b" failed, and did not pass when`},
		{"is gone then", "tap", tapBad, `printf 'ok 1 - a\n1..1\n'`,
			"1 passed, 1 failed, 0 skipped", `"b" failed, and did not pass when`},
		{"all skipped then", "tap", "exit 1", `echo '1..0 # SKIP no wine'`,
			"0 passed, 1 failed, 1 skipped", "0 passed when the suite was run again, 0 before"},
		{"Go tests below others", "go", goLines(event("fail", "T/x"), event("fail", "T")),
			goLines(event("pass", "T/x"), event("pass", "T")), "1 passed, 0 failed, 0 skipped", saved},
		{"Go package", "go", goLines(broken), goLines(event("pass", "T")), "1 passed, 0 failed, 0 skipped", saved},
		{"Go test gone", "go", goLines(event("pass", "S"), event("fail", "T")), goLines(event("pass", "S")),
			"1 passed, 1 failed, 0 skipped", `"p T" failed, and did not pass when`},
		{"program", "exit", "exit 1", "true", "1 passed, 0 failed, 0 skipped", saved},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			out, ok := runPlanted(t, options{again: 1}, twoStepSuite(dir, "s", tt.kind, tt.first, tt.second))
			checkClosing(t, out, tt.closing, ok)
			if !strings.Contains(out, tt.want) || strings.Contains(out, saved) != (tt.want == saved) {
				t.Errorf("want %q in\n%s", tt.want, out)
			}
			if n := countRuns(t, dir, "s"); n != 2 {
				t.Errorf("ran %d times", n)
			}
		})
	}
}

// A second run with fewer tests than the first is no success, even if none failed.
func TestAgain_fewerTests(t *testing.T) {
	three := `printf 'ok 1 - a\nok 2 - b\nok 3 - c\nBail out! disk full\n1..3\n'`
	out, ok := runPlanted(t, options{again: 1}, twoStepSuite(t.TempDir(), "s", "tap", three, tapGood))
	checkClosing(t, out, "2 passed, 1 failed, 0 skipped", ok)
	if !strings.Contains(out, "2 passed when the suite was run again, 3 before") {
		t.Errorf("no cause in\n%s", out)
	}
}

// A suite is run again when all others are done. The log of the first failure is kept.
func TestAgain_comesLast(t *testing.T) {
	dir := t.TempDir()
	after := fmt.Sprintf("test -e %s/later && %s", dir, tapGood)
	out, ok := runPlanted(t, options{again: 3},
		twoStepSuite(dir, "s", "tap", tapBad, after), twoStepSuite(dir, "later", "tap", tapGood, "false"))
	checkClosing(t, out, "4 passed, 0 failed, 0 skipped", ok)
	_, path, _ := strings.Cut(out, saved)
	path, _, _ = strings.Cut(path, " ")
	for _, want := range []string{"not ok: s: b", "| why it failed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	logs := filepath.Dir(path)
	for file, want := range map[string]string{
		path:                               "not ok 2 - b\n",
		filepath.Join(logs, "s.log"):       "\nok 2 - b\n",
		filepath.Join(logs, "results.tsv"): "\ns\t(the suite)\tunsteady\tfailed once: " + path + "\n",
	} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, no %q in\n%s", file, err, want, text)
		}
	}
}

func TestAgain_onlySoMany(t *testing.T) {
	for _, tt := range []struct {
		name          string
		again, suites int
		saved, ok     bool
		want          string
	}{
		{"one of three", 3, 1, true, true, "unsteady suites: 1, at most 1 may be"},
		{"two of three", 3, 2, true, false, "number of unsteady suites: 2 failed once and passed alone, at most 1 may"},
		{"three of three", 3, 3, true, false, "unsteady s2: "},
		{"four of three", 3, 4, false, false, "no suite is run again: 4 failed, more than 3"},
		{"strict", 0, 1, false, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			var lines []string
			for i := range tt.suites {
				lines = append(lines, twoStepSuite(dir, fmt.Sprint("s", i), "tap", tapBad, tapGood))
			}
			out, ok := runPlanted(t, options{again: tt.again}, lines...)
			if ok != tt.ok || strings.Contains(out, "  unsteady ") != tt.saved || !strings.Contains(out, tt.want) {
				t.Errorf("verdict %v, want %q in\n%s", ok, tt.want, out)
			}
			runs := 1
			if tt.saved {
				runs = 2
			}
			for i := range tt.suites {
				if n := countRuns(t, dir, fmt.Sprint("s", i)); n != runs {
					t.Errorf("suite %d ran %d times, not %d", i, n, runs)
				}
			}
		})
	}
}

// A fuzzer that failed is not run again: a fault found by chance is a fault.
func TestAgain_notFuzzers(t *testing.T) {
	dir := t.TempDir()
	out, ok := runPlanted(t, options{again: 3},
		twoStepSuite(dir, "f", "fuzz", "false", "true"), twoStepSuite(dir, "s", "tap", tapBad, tapGood))
	checkClosing(t, out, "1 passed, 2 failed, 0 skipped", ok)
	if countRuns(t, dir, "f") != 1 || countRuns(t, dir, "s") != 1 || !strings.Contains(out, "no suite is run again: f found something") {
		t.Errorf("a fuzzer's find has a second chance:\n%s", out)
	}
}

// Promises and the floor use the results of the second run.
func TestAgain_promises(t *testing.T) {
	spec := writeFile(t, "**a-1** x Held by: `s: b`\n")
	floor := writeFile(t, "test 2\n") + ":test"
	for second, want := range map[string]string{
		tapGood: "SPEC: 1 of 1 promises held",
		tapBad:  "promise a-1: `s: b` failed",
	} {
		out, ok := runPlanted(t, options{again: 3, spec: spec, floor: floor}, twoStepSuite(t.TempDir(), "s", "tap", tapBad, second))
		if ok != (second == tapGood) || !strings.Contains(out, want) {
			t.Errorf("verdict %v, want %q in\n%s", ok, want, out)
		}
	}
}

// The log of a first failure is removed when the suite passes at once.
func TestAgain_oldLog(t *testing.T) {
	dir := t.TempDir()
	o := options{logs: dir, tsv: "results.tsv", suites: writeFile(t, "s\ttap\t5\t"+tapGood+"\n")}
	old := o.firstLog(suite{name: "s"})
	if err := os.WriteFile(old, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if ok, err := runAll(o, &reporter{out: &strings.Builder{}}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", old, err)
	}
}
