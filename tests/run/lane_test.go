// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// buildRunner builds the runner, because a parallel lane is another process of it.
func buildRunner(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// killLane is a suite that kills the runner's process that runs it.
const killLane = "kill -9 $(cut -d' ' -f4 /proc/$$/stat)"

// hold is a suite that fails if another one like it runs.
const hold = "mkdir H && sleep 0.1 && rmdir H && printf 'ok 1 - h\\n1..1\\n'"

// Two suites that wait for each other pass only in parallel. Suites that run alone run before
// both. Each lane ends only the processes that its own suites left.
func TestLanes(t *testing.T) {
	runner := buildRunner(t)
	meet := func(mine, other string) string {
		return `touch ` + mine + `; n=0; while [ ! -e ` + other + ` ] && [ $n -lt 400 ]; do n=$((n+1)); sleep 0.05; done; ` +
			`[ -e ` + other + ` ] && printf 'ok 1 - met\n1..1\n'`
	}
	lessNice := func(file string) string { // than the suite that writes its niceness there
		return `n=0; while [ ! -s ` + file + ` ] && [ $n -lt 400 ]; do n=$((n+1)); sleep 0.05; done; [ "$(nice)" -lt "$(cat ` + file + `)" ] && `
	}
	tests := []struct {
		name    string
		suites  []string
		closing string
		wants   []string
	}{
		{"side by side", []string{
			"b\ttap,parallel\t60\t" + meet("B", "A"),
			"a\ttap,machines\t60\t" + meet("A", "B"),
			"c\ttap\t60\t[ ! -e A ] && [ ! -e B ] && printf 'ok 1 - first\\n1..1\\n'",
		}, "3 passed, 0 failed, 0 skipped", []string{"ok   a", "ok   b", "ok   c"}},
		{"fillers give way", []string{
			"c\ttap,parallel,r\t60\t" + lessNice("B") + `printf 'ok 1 - c\n1..1\n'`,
			"b\ttap,parallel\t60\tnice >B; printf 'ok 1 - b\\n1..1\\n'",
			"a\ttap,machines\t60\t" + lessNice("B") + `printf 'ok 1 - a\n1..1\n'`,
		}, "3 passed, 0 failed, 0 skipped", []string{"ok   a", "ok   b", "ok   c"}},
		{"machines come before what shares", []string{
			"c\ttap,parallel,r\t60\tnice >C; printf 'ok 1 - c\\n1..1\\n'",
			"a\ttap,machines\t60\t" + lessNice("C") + `printf 'ok 1 - a\n1..1\n'`,
		}, "2 passed, 0 failed, 0 skipped", []string{"ok   a", "ok   c"}},
		{"a failure in parallel", []string{
			"b\ttap,parallel\t60\tprintf 'not ok 1 - x y\\n1..1\\n'; exit 1",
			"a\ttap,machines\t60\tprintf 'ok 1 - a\\n1..1\\n'",
		}, "1 passed, 1 failed, 0 skipped", []string{"not ok: b: x y"}},
		{"leftovers in parallel", []string{
			"b\ttap,parallel\t60\t" + meet("B", "A") + "; (setsid sleep 300 &)",
			"a\ttap,machines\t60\t" + meet("A", "B"),
		}, "2 passed, 1 failed, 0 skipped", []string{"FAIL b ", "not ok: b: leaves nothing behind", " sleep 300\n", "ok   a "}},
		{"a lane dies", []string{
			"b\ttap,parallel\t60\t" + killLane,
			"d\ttap,parallel\t60\tprintf 'ok 1 - d\\n1..1\\n'",
			"a\ttap,machines\t60\tprintf 'ok 1 - a\\n1..1\\n'",
		}, "2 passed, 1 failed, 0 skipped", []string{"not ok: b", "parallel lane ended before it", "ok   d"}},
		{"all lanes die", []string{
			"b\ttap,parallel\t60\t" + killLane, "c\ttap,parallel\t60\t" + killLane,
			"d\ttap,parallel\t60\t" + killLane, "e\ttap,parallel\t60\t" + killLane,
			"f\ttap,parallel\t60\t" + killLane,
			"a\ttap,machines\t60\tprintf 'ok 1 - a\\n1..1\\n'",
		}, "1 passed, 5 failed, 0 skipped", []string{"not ok: b", "not ok: c", "not ok: f"}},
		{"one resource", []string{
			"b\ttap,parallel,r\t60\t" + hold, "c\ttap,parallel,r\t60\t" + hold, "d\ttap,parallel,r\t60\t" + hold,
			"e\ttap,parallel,r\t60\t" + killLane,
			"f\ttap,parallel,r\t60\t" + hold,
		}, "4 passed, 1 failed, 0 skipped", []string{"not ok: e", "ok   f"}},
		{"no machine", []string{
			"b\ttap,parallel\t60\t" + meet("B", "A"),
			"a\ttap,parallel\t60\t" + meet("A", "B"),
			"c\ttap\t60\t[ ! -e A ] && [ ! -e B ] && printf 'ok 1 - c\\n1..1\\n'",
		}, "3 passed, 0 failed, 0 skipped", []string{"ok   b"}},
		{"no such lane", []string{"b\ttap,fast\t60\ttrue"}, "", []string{`unknown lane "fast"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			list := writeFile(t, strings.Join(tt.suites, "\n")+"\n")
			cmd := exec.Command(runner, "-suites", list, "-logs", "logs")
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "TMPDIR="+dir) // a lane that dies leaves a folder
			out, err := cmd.CombinedOutput()
			good := strings.Contains(tt.closing, " 0 failed")
			if (err == nil) != good {
				t.Errorf("%v", err)
			}
			if tt.closing != "" && !strings.HasSuffix(string(out), "\n"+tt.closing+"\n") {
				t.Errorf("want %q at the end of\n%s", tt.closing, out)
			}
			for _, want := range tt.wants {
				if !strings.Contains(string(out), want) {
					t.Errorf("no %q in\n%s", want, out)
				}
			}
		})
	}
}

// A signal ends the running suites of all lanes.
func TestLanes_interrupt(t *testing.T) {
	dir := t.TempDir()
	list := writeFile(t, "b\ttap,parallel\t60\techo $$ >B; sleep 300\n"+
		"a\ttap,machines\t60\twhile [ ! -s B ]; do sleep 0.05; done; printf 'ok 1 - a\\n1..1\\n'\n")
	cmd := exec.Command(buildRunner(t), "-suites", list, "-logs", "logs")
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "logs", "a.log")
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for left := 3000; ; left-- {
		text, _ := os.ReadFile(log)
		if bytes.Contains(text, []byte("1..1")) {
			break
		}
		if left == 0 {
			cmd.Process.Kill()
			t.Fatal("the first lane did not end")
		}
		<-poll.C
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err == nil {
		t.Error("an interrupted run was good")
	}
	if !strings.Contains(out.String(), "interrupted") {
		t.Errorf("no word of it in\n%s", out.String())
	}
	pid, err := os.ReadFile(filepath.Join(dir, "B"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err == nil {
		t.Error("the parallel lane's suite runs on")
	}
}
