// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/internal/load"
)

// runPlanted runs one planted suite through the whole runner. It returns the printed report
// and whether the run succeeded.
func runPlanted(t *testing.T, o options, lines ...string) (string, bool) {
	t.Helper()
	dir := t.TempDir()
	o.suites = filepath.Join(dir, "suites")
	o.logs, o.tsv = filepath.Join(dir, "logs"), "results.tsv"
	text := strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(o.suites, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	ok, err := runAll(o, &reporter{out: &out})
	if err != nil {
		t.Fatalf("runAll: %v", err)
	}
	return out.String(), ok
}

func plantSuite(kind, seconds, command string) string {
	return "planted\t" + kind + "\t" + seconds + "\t" + command
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTap(t *testing.T) {
	tests := []struct {
		name, command, closing, want string
	}{
		{"good", `printf 'ok 1 - a\nok 2 - b\n1..2\n'`, "2 passed, 0 failed, 0 skipped", "ok   planted"},
		{"failing test", `printf 'before\nnot ok 1 - a b\n# after\n1..1\n'; exit 1`, "0 passed, 1 failed, 0 skipped", "not ok: planted: a b"},
		{"detail before", `printf 'before\nnot ok 1 - a\n1..1\n'`, "0 passed, 1 failed, 0 skipped", "| before"},
		{"detail after", `printf 'not ok 1 - a\n# after\n1..1\n'`, "0 passed, 1 failed, 0 skipped", "| # after"},
		{"missing plan", `printf 'ok 1 - a\n'`, "1 passed, 1 failed, 0 skipped", "no plan after 1 tests"},
		{"died early", `printf 'ok 1 - a\n'; kill -SEGV $$`, "1 passed, 1 failed, 0 skipped", "killed by signal: segmentation fault"},
		{"plan too long", `printf '1..2\nok 1 - a\n'`, "1 passed, 1 failed, 0 skipped", "2 tests planned, 1 reported"},
		{"plan too short", `printf '1..1\nok 1 - a\nok 2 - b\n'`, "2 passed, 1 failed, 0 skipped", "1 tests planned, 2 reported"},
		{"two plans", `printf '1..1\nok 1 - a\n1..1\n'`, "1 passed, 1 failed, 0 skipped", "more than one plan"},
		{"bad exit", `printf 'ok 1 - a\n1..1\n'; exit 3`, "1 passed, 1 failed, 0 skipped", "exit status 3, though no test failed"},
		{"nothing", `true`, "0 passed, 1 failed, 0 skipped", "no test and no plan"},
		{"zero planned", `echo 1..0`, "0 passed, 1 failed, 0 skipped", "no test ran"},
		{"no such program", `/nonexistent/x`, "0 passed, 1 failed, 0 skipped", "exit status 127"},
		{"number out of order", `printf 'ok 2 - a\n1..1\n'`, "1 passed, 1 failed, 0 skipped", "test number 2 where 1 comes next"},
		{"bail out", `printf 'ok 1 - a\n1..1\nBail out! disk full\n'`, "1 passed, 1 failed, 0 skipped", "bailed out: disk full"},
		{"skip", `printf 'ok 1 - a\nok 2 - b # SKIP no kvm\n1..2\n'`, "1 passed, 0 failed, 1 skipped", "skip planted: b: no kvm"},
		{"skip without a reason", `printf 'ok 1 - b # SKIP\n1..1\n'`, "0 passed, 1 failed, 0 skipped", "skipped without a reason"},
		{"whole suite skipped", `echo '1..0 # SKIP no wine here'`, "0 passed, 0 failed, 1 skipped", "no wine here"},
		{"todo is a failure", `printf 'not ok 1 - a # TODO later\n1..1\n'`, "0 passed, 1 failed, 0 skipped", "a # TODO later"},
		{"carriage returns", `printf 'ok 1 - a\r\n1..1\r\n'`, "1 passed, 0 failed, 0 skipped", "ok   planted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, ok := runPlanted(t, options{}, plantSuite("tap", "60", tt.command))
			checkClosing(t, out, tt.closing, ok)
			if !strings.Contains(out, tt.want) {
				t.Errorf("no %q in\n%s", tt.want, out)
			}
		})
	}
}

// checkClosing checks that the closing line occurs once, as the last line.
func checkClosing(t *testing.T, out, closing string, ok bool) {
	t.Helper()
	if !strings.HasSuffix(out, "\n"+closing+"\n") || strings.Count(out, " skipped\n") != 1 {
		t.Errorf("want %q as the one closing line of\n%s", closing, out)
	}
	if ok != strings.Contains(closing, " 0 failed") {
		t.Errorf("verdict %v for %q", ok, closing)
	}
}

func TestHang(t *testing.T) {
	began := time.Now()
	out, ok := runPlanted(t, options{}, plantSuite("tap", "1",
		`echo 'ok 1 - a'; (setsid sleep 300 &) ; sleep 300`))
	if ok || !strings.Contains(out, "not finished after its deadline of 1s") {
		t.Errorf("a hang passed:\n%s", out)
	}
	if took := time.Since(began); took > 250*time.Second {
		t.Errorf("took %v: the runner waited for a process left behind", took)
	}
}

// The deadline of a suite follows the load, so that a busy computer does not make it fail.
func TestBusy(t *testing.T) {
	scale = func() float64 { return 1000 }
	defer func() { scale = load.Scale }()
	out, ok := runPlanted(t, options{}, plantSuite("tap", "1", `sleep 3; printf 'ok 1 - a\n1..1\n'`))
	if !ok {
		t.Errorf("a suite that needs 3 ms of an idle computer missed its deadline of 1 s:\n%s", out)
	}
}

// The function `within` of tests/tap.sh does the same for scripts. Its inputs are fakes here.
func TestBusy_scripts(t *testing.T) {
	dir := t.TempDir()
	for name, body := range map[string]string{"nproc": "echo 2", "timeout": `echo "$3"`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		"0.50 9.00 9.00 1/200 77":     "60",
		"16.00 0.00 0.00 2/200 77":    "480",
		"0.50 0.00 0.00 30/200 77":    "900",
		"900.00 900.00 9.00 2/200 77": "2400",
	} {
		cmd := exec.Command("/bin/sh", "-c", ". ../tap.sh; within 60 true")
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "LOADAVG=" + writeFile(t, text+"\n")}
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != want+"\n" {
			t.Errorf("60 s at a load of %s: %q, %v; want %s s", text, out, err, want)
		}
	}
}

// A signal to the runner ends the running suite and all its descendants.
func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	o := options{suites: writeFile(t, plantSuite("tap", "60", "(setsid sleep 300 &); sleep 300")+"\n"),
		logs: dir, tsv: "results.tsv"}
	go func() {
		for len(listDescendants(os.Getpid())) < 2 {
			runtime.Gosched()
		}
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
	}()
	_, err := runAll(o, &reporter{out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "interrupted in suite planted") {
		t.Errorf("got %v", err)
	}
	if n := len(listDescendants(os.Getpid())); n != 0 {
		t.Errorf("%d processes remain", n)
	}
}

func TestNoSuite(t *testing.T) {
	out, ok := runPlanted(t, options{}, "")
	checkClosing(t, out, "0 passed, 1 failed, 0 skipped", ok)
}

func TestExitKind(t *testing.T) {
	out, ok := runPlanted(t, options{}, plantSuite("exit", "60", "true"))
	checkClosing(t, out, "1 passed, 0 failed, 0 skipped", ok)
	out, ok = runPlanted(t, options{}, plantSuite("exit", "60", "echo why; false"))
	checkClosing(t, out, "0 passed, 1 failed, 0 skipped", ok)
	if !strings.Contains(out, "| why") {
		t.Errorf("no detail in\n%s", out)
	}
}

func TestGoKind(t *testing.T) {
	pass := `{"Action":"run","Package":"skep/p","Test":"TestA"}
{"Action":"run","Package":"skep/p","Test":"TestA/x/y"}
{"Action":"pass","Package":"skep/p","Test":"TestA/x/y"}
{"Action":"pass","Package":"skep/p","Test":"TestA"}
{"Action":"pass","Package":"skep/p"}
`
	tests := []struct{ name, text, closing, want string }{
		{"good", pass, "1 passed, 0 failed, 0 skipped", "ok   planted"},
		{"fail", pass + `{"Action":"output","Package":"skep/p","Test":"TestB","Output":"    b_test.go:3: seven\n"}
{"Action":"fail","Package":"skep/p","Test":"TestB"}
`, "1 passed, 1 failed, 0 skipped", "| "},
		{"skip", pass + `{"Action":"output","Package":"skep/p","Test":"TestB","Output":"    b_test.go:3: no kvm\n"}
{"Action":"skip","Package":"skep/p","Test":"TestB"}
`, "1 passed, 0 failed, 1 skipped", "skip planted: p TestB: no kvm"},
		{"skip without a reason", pass + `{"Action":"skip","Package":"skep/p","Test":"TestB"}
`, "1 passed, 1 failed, 0 skipped", "skipped without a reason"},
		{"unfinished", pass + `{"Action":"run","Package":"skep/p","Test":"TestB"}
`, "1 passed, 1 failed, 0 skipped", "started but never ended"},
		{"package broken", `{"ImportPath":"skep/p [skep/p.test]","Action":"build-output","Output":"x.go:1: bad\n"}
{"Action":"fail","Package":"skep/p","FailedBuild":"skep/p [skep/p.test]"}
`, "0 passed, 1 failed, 0 skipped", "| x.go:1: bad"},
		{"nothing", "", "0 passed, 1 failed, 0 skipped", "no test ran"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := writeFile(t, tt.text)
			out, ok := runPlanted(t, options{}, plantSuite("go", "60", "cat "+file))
			checkClosing(t, out, tt.closing, ok)
			if !strings.Contains(out, tt.want) {
				t.Errorf("no %q in\n%s", tt.want, out)
			}
		})
	}
}

func TestFloor(t *testing.T) {
	suite := plantSuite("tap", "60", `printf 'ok 1 - a\nok 2 - b\n1..2\n'`)
	file := writeFile(t, "# words\ncheck 2\ntest 3\n")
	out, ok := runPlanted(t, options{floor: file + ":check"}, suite)
	checkClosing(t, out, "2 passed, 0 failed, 0 skipped", ok)
	out, ok = runPlanted(t, options{floor: file + ":test"}, suite)
	checkClosing(t, out, "2 passed, 1 failed, 0 skipped", ok)
	many := plantSuite("tap", "60", "seq -f 'ok %g - a' 1300; echo 1..1300")
	low := writeFile(t, "check 1200\ntest 1280\n")
	out, ok = runPlanted(t, options{floor: low + ":check"}, many)
	checkClosing(t, out, "1300 passed, 1 failed, 0 skipped", ok)
	if !strings.Contains(out, "asks for 1200: raise it to 1287") {
		t.Errorf("a floor far below what passes is not named:\n%s", out)
	}
	out, ok = runPlanted(t, options{floor: low + ":test"}, many)
	checkClosing(t, out, "1300 passed, 0 failed, 0 skipped", ok)
	if _, err := readFloor(file + ":other"); err == nil {
		t.Error("a missing floor was accepted")
	}
}

func TestSpec(t *testing.T) {
	suite := plantSuite("tap", "60",
		`printf 'ok 1 - good one\nnot ok 2 - bad\nok 3 - dry # SKIP no rain\n1..3\n'`)
	tests := []struct{ name, text, want string }{
		{"held", "**a-1** It\nworks. Held by: `planted:\ngood one`.", "1 of 1 promises held"},
		{"held by all of a kind", "**a-1** x Held by: `planted: good*`", "1 of 1 promises held"},
		{"broken", "**a-1** x Held by: `planted: good one`, `planted: bad`", "promise a-1: `planted: bad` failed"},
		{"skipped", "**a-1** x Held by: `planted: dry`", "not shown in this run: a-1"},
		{"did not run", "**a-1** x Held by: `planted: gone`", "`planted: gone` did not run"},
		{"empty kind", "**a-1** x Held by: `planted: gone*`", "did not run"},
		{"names no test", "**a-1** x", "promise a-1: names no test"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, _ := runPlanted(t, options{spec: writeFile(t, "# S\n\n"+tt.text+"\n")}, suite)
			if !strings.Contains(out, tt.want) {
				t.Errorf("no %q in\n%s", tt.want, out)
			}
			bad := strings.Contains(out, "promise a-1")
			if bad != strings.Contains(out, ", 2 failed,") {
				t.Errorf("a broken promise must count as a failure:\n%s", out)
			}
		})
	}
	part := writeFile(t, "**a-1** x Held by: `other: y`\n\n**a-2** x Held by: `planted: good one`\n")
	out, _ := runPlanted(t, options{spec: part, part: true}, suite)
	if !strings.Contains(out, "1 of 1 promises held") {
		t.Errorf("a promise of a suite that was not asked for was judged:\n%s", out)
	}
}

// The tree's SPEC.md can be parsed, so that a mistake in it is found before a whole run.
func TestSpec_ofThisTree(t *testing.T) {
	if list, err := readSpec(filepath.Join("..", "..", "SPEC.md")); err != nil || len(list) == 0 {
		t.Errorf("%d promises: %v", len(list), err)
	}
}

func TestSpec_malformed(t *testing.T) {
	for _, text := range []string{"no promise", "**a-1** x\n\n**a-1** y"} {
		if _, err := readSpec(writeFile(t, text)); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	ran := filepath.Join(t.TempDir(), "ran")
	o := options{spec: writeFile(t, "**a-1** x\n\n**a-1** y"), logs: t.TempDir(),
		suites: writeFile(t, plantSuite("exit", "60", "touch "+ran)+"\n")}
	if _, err := runAll(o, &reporter{out: io.Discard}); err == nil {
		t.Error("a run with promises that can't be read was judged")
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the suites ran before the promises were read")
	}
}

func TestResults(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "results.tsv")
	err := writeResults(path, []result{{suite: "s", name: "a\tb", status: skipped, reason: "x\ny"}})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(path)
	if string(text) != "s\ta b\tskipped\tx y\n" {
		t.Errorf("got %q", text)
	}
}

func TestParseSuite_bad(t *testing.T) {
	for _, line := range []string{"x", "a\ttap\t1\t", "a\tdance\t1\tx", "a\ttap\tsoon\tx", "a/b\ttap\t1\tx", "a\ttap\t0\tx"} {
		if _, err := parseSuite(line); err == nil {
			t.Errorf("%q was accepted", line)
		}
	}
}

// A make that a suite starts gets neither job slots nor options of the outer make.
func TestOuterMake(t *testing.T) {
	t.Setenv("MAKEFLAGS", " -j9 --jobserver-auth=9,9 -- BUILT=yes")
	t.Setenv("MAKELEVEL", "2")
	out, ok := runPlanted(t, options{}, plantSuite("exit", "60", `[ -z "$MAKEFLAGS$MAKELEVEL" ]`))
	if !ok {
		t.Errorf("a suite was told of another make:\n%s", out)
	}
}

// The processor time of a suite's processes is reported, whichever process waited for them.
func TestProcessorTime(t *testing.T) {
	s := suite{name: "planted", kind: "tap", deadline: time.Minute,
		command: `(ulimit -t 1; while :; do :; done); printf 'ok 1 - a\n1..1\n'`}
	becomeReaper()
	out := s.run(filepath.Join(t.TempDir(), "log"), nil)
	if out.cpu < time.Second/2 || countStatus(out.results, passed) != 1 {
		t.Errorf("%v of processor time for a loop that is ended after about 1 s; %v", out.cpu, out.results)
	}
	s.command = `printf 'ok 1 - a\n1..1\n'`
	if idle := s.run(filepath.Join(t.TempDir(), "log"), nil); idle.cpu > time.Second/2 {
		t.Errorf("%v of processor time for a suite that does nothing: what came before is counted", idle.cpu)
	}
	var text bytes.Buffer
	(&reporter{out: &text}).reportSuite(s, newLap(0, outcome{cpu: 1540 * time.Millisecond}).outcome())
	if !strings.Contains(text.String(), " 0.0 s, 1.5 s of processor\n") {
		t.Errorf("got %q", text.String())
	}
}
