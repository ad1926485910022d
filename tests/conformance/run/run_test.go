// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/internal/load"
	"skep/tests/watch"
)

// The fakes replace bee. Each starts the program natively.
const head = `#!/bin/sh
while [ $# -gt 0 ]; do case $1 in
--report) report=$2; shift 2;; --nonce) nonce=$2; shift 2;;
--env) shift 2;; --*) shift;; *) break;; esac; done
`

const plain = head + `exec "$@"
`

const forged = head + `sum=$(sha256sum "$1"); sum=${sum%% *}
printf 'nonce %s\nstatus 0\ncalls 9\nsites_syscall 3 3\nsha256_file %s\n' "$nonce" "$sum" >"$report"
exec "$@"
`

func makeFakeBee(t *testing.T, text string) (options, *substrate) {
	t.Helper()
	dir := t.TempDir()
	programs, err := filepath.Abs("../../../build/conformance")
	if err != nil {
		t.Fatal(err)
	}
	bee := filepath.Join(dir, "bee")
	if err := os.WriteFile(bee, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return options{programs: programs, scratch: filepath.Join(dir, "scratch")},
		&substrate{name: "fake", words: []string{bee}}
}

func findCase(t *testing.T, o options, name string) testCase {
	t.Helper()
	for _, c := range allCases(o.programs) {
		if c.name == name {
			return c
		}
	}
	t.Fatalf("no case %q; build it first: make check T=conformance-cheats", name)
	return testCase{}
}

func checkRefused(t *testing.T, text, name, reason string) {
	t.Helper()
	o, sub := makeFakeBee(t, text)
	r := judgeCase(o, sub, findCase(t, o, name), "")
	if all := strings.Join(r.why, "\n"); !strings.Contains(all, reason) {
		t.Errorf("a cheat passes %q: want a failure with %q, got %q", name, reason, all)
	}
}

// A loader that starts the program natively is detected by its missing report.
func TestCheat_nativeStartIsRefused(t *testing.T) {
	checkRefused(t, plain, "glibc hello", "bee wrote no report")
}

// A loader that forges the whole report cannot answer call 0xBEE.
func TestCheat_forgedReportIsRefused(t *testing.T) {
	checkRefused(t, forged, "glibc proof", "stdout differs")
}

func TestCheat_forgedReportIsComplete(t *testing.T) {
	o, sub := makeFakeBee(t, forged)
	if r := judgeCase(o, sub, findCase(t, o, "glibc hello"), ""); len(r.why) > 0 {
		t.Errorf("the forged report has a fault of its own: %q", r.why)
	}
}

func TestCheat_wrongOutputIsRefused(t *testing.T) {
	checkRefused(t, forged+"# not reached\n", "glibc proof", "natively")
	checkRefused(t, strings.Replace(forged, `exec "$@"`, `"$@"; echo more; exit 7`, 1), "glibc hello", "stdout differs")
	checkRefused(t, strings.Replace(forged, `exec "$@"`, `"$@"; exit 0`, 1), "glibc hello", "exit code 0, natively 7")
}

func TestCheat_lateProgramIsRefused(t *testing.T) {
	o, sub := makeFakeBee(t, head+"exec sleep 600\n")
	c := findCase(t, o, "glibc hello")
	c.seconds = 1
	if r := judgeCase(o, sub, c, ""); len(r.why) == 0 || !strings.Contains(r.why[0], "within its time") {
		t.Errorf("a program that hangs: %q", r.why)
	}
}

// A program that is slow because the computer is busy does not fail. Here 2 s count as 2 ms
// of an idle computer, and the limit is a second.
func TestCheat_slowComputerIsNotBlamed(t *testing.T) {
	watch.Scale = func() float64 { return 1000 }
	defer func() { watch.Scale = load.Scale }()
	out, err := runGroup([]string{"/bin/sh", "-c", "sleep 2; echo done"}, nil, t.TempDir(), "", time.Second)
	if err != nil || out.late || out.stdout != "done\n" {
		t.Errorf("a slow program: %v %+v", err, out)
	}
}

// Each field of the report is checked.
func TestReport_eachFieldMatters(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	const sum = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
	good := "nonce 00000000000000ff\ncalls 3\nsites_syscall 2 2\nsites_fs_stub 5 5\nsha256_file " + sum + "\n"
	if why := checkReport(good, 0xff, file); len(why) > 0 {
		t.Fatalf("a good report is refused: %q", why)
	}
	for from, to := range map[string]string{
		"ff":                  "fe",
		"nonce 0":             "once 0",
		"calls 3":             "calls 0",
		"sites_syscall 2 2":   "sites_syscall 0 0",
		"sites_syscall 2 ":    "sites_syscall 3 ",
		"sites_fs_stub 5 5":   "sites_fs_stub 5 4",
		"sites_fs_stub 5 5\n": "sites_fs_stub 5\n",
		sum:                   sum[1:],
	} {
		if why := checkReport(strings.Replace(good, from, to, 1), 0xff, file); len(why) == 0 {
			t.Errorf("a report with %q for %q passes", to, from)
		}
	}
}

// A case that the table lists is skipped only if it fails; if it passes, the row is an
// error.
func TestTable_listedProgramMustFail(t *testing.T) {
	o, sub := makeFakeBee(t, plain)
	c := findCase(t, o, "glibc hello")
	if r := judgeCase(o, sub, c, "a reason"); r.skip != "a reason" {
		t.Errorf("a listed failure is not a skip: %+v", r)
	}
	o, sub = makeFakeBee(t, forged)
	if r := judgeCase(o, sub, c, "a reason"); len(r.why) == 0 {
		t.Errorf("a listed case that works is not a failure")
	}
}

func TestTable_linesWithoutReasonAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table")
	for text, good := range map[string]bool{
		"wine: musl x: a long reason": true,
		"wine: musl x: no":            false,
		"wine: musl x":                false,
	} {
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readTable(path, "wine"); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestScratchOfEachSubstrate(t *testing.T) {
	base := options{scratch: t.TempDir()}
	native, linux, again := base, base, base
	first, err := lockScratch(&native, "native")
	if err != nil {
		t.Fatal(err)
	}
	second, err := lockScratch(&linux, "linux")
	if err != nil {
		t.Fatal("two substrates share a directory: ", err)
	}
	defer second.Close()
	if native.scratch == linux.scratch {
		t.Fatal("two substrates share ", native.scratch)
	}
	if _, err := lockScratch(&again, "native"); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Fatal("a second run of a substrate got the directory of the first: ", err)
	}
	first.Close()
	again = base
	third, err := lockScratch(&again, "native")
	if err != nil {
		t.Fatal("the directory stays locked after its run: ", err)
	}
	third.Close()
}
