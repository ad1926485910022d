// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/internal/load"
)

// A command may contain spaces and parentheses. An invalid line of stat gives no process.
func TestParseStat(t *testing.T) {
	for text, want := range map[string][2]int{
		"77 (sleep) S 12 77 77 0 -1": {77, 12},
		"8 (a) b) (c) R 3 8":         {8, 3},
		"8 () R 3":                   {8, 3},
		"9 (x) Z":                    {-1, -1},
		"9 no name S 3":              {-1, -1},
		"(x)":                        {-1, -1},
		"":                           {-1, -1},
	} {
		if pid, parent := parseStat([]byte(text)); pid != want[0] || parent != want[1] {
			t.Errorf("%q: %d below %d, not %v", text, pid, parent, want)
		}
	}
}

// The description of a process contains no control characters and is not long.
func TestDescribe(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want string // text after the number
	}{
		{"words", []string{"sleep", "300"}, "sleep 300"},
		{"control characters", []string{"sleep", "300", "a\x1b[2Jb\x7fc"}, "sleep 300 a?[2Jb?c"},
		{"long", []string{"sleep", strings.Repeat("9", 200)}, "sleep " + strings.Repeat("9", nameMax-6)},
		{"exactly as long as may be", []string{"sleep", strings.Repeat("9", nameMax-6)}, "sleep " + strings.Repeat("9", nameMax-6)},
	} {
		cmd := exec.Command("/bin/sh", append([]string{"-c", "echo up; read x"}, tt.args...)...)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		prefix := fmt.Sprintf("%d /bin/sh -c echo up; read x ", cmd.Process.Pid)
		want := prefix + tt.want
		room := len(fmt.Sprintf("%d ", cmd.Process.Pid)) + nameMax
		if got := describeProcess(cmd.Process.Pid); got != want[:min(len(want), room)] {
			t.Errorf("%s: %q, not %q", tt.name, got, want[:min(len(want), room)])
		}
		in.Close()
		_ = cmd.Wait()
	}
}

// A zombie has a name and no command line.
func TestDescribe_ended(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "exit 0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	stat := fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid)
	waitFor(t, "its end", func() bool {
		text, _ := os.ReadFile(stat)
		return strings.Contains(string(text), ") Z ")
	})
	if got, want := describeProcess(cmd.Process.Pid), fmt.Sprintf("%d (sh)", cmd.Process.Pid); got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// waitFor polls until so returns true, for at most 20 s.
func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for left := 4000; !so(); left-- {
		if left == 0 {
			t.Fatalf("waited in vain for %s", what)
		}
		<-poll.C
	}
}

// listDescendants lists children and their descendants, but not the spared process and its
// descendants.
func TestDescendants(t *testing.T) {
	dir := t.TempDir()
	start := func(name string) (*exec.Cmd, int) {
		file := filepath.Join(dir, name)
		cmd := exec.Command("/bin/sh", "-c", "sleep 300 & echo $! >"+file+"; wait") // no third process
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var child int
		waitFor(t, "a child", func() bool {
			text, _ := os.ReadFile(file)
			n, _ := fmt.Sscanf(string(text), "%d\n", &child)
			return n == 1
		})
		return cmd, child
	}
	becomeReaper()
	endLeftovers() // those of other tests
	one, below := start("one")
	other, spare := start("other")
	spared.Store(other.Process.Pid, true)
	list := listDescendants(os.Getpid())
	spared.Delete(other.Process.Pid)
	want := []int{one.Process.Pid, below}
	slices.Sort(list)
	slices.Sort(want)
	if !slices.Equal(list, want) {
		t.Errorf("got %v, want %v; spared %d with %d", list, want, other.Process.Pid, spare)
	}
	endLeftovers()
	if list := listDescendants(os.Getpid()); len(list) != 0 {
		t.Errorf("%v remain", list)
	}
}

// A process that ended before its suite was not left behind.
func TestLeftovers_ended(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	out, ok := runPlanted(t, options{}, plantSuite("tap", "60", `printf 'ok 1 - a\n1..1\n'; `+
		`setsid -f sh -c 'echo $$ >`+file+`'; until [ -s `+file+` ] && grep -q ') Z ' /proc/$(cat `+file+`)/stat; do sleep 0.01; done`))
	if !ok || strings.Contains(out, "left behind") {
		t.Errorf("a process that ended by itself:\n%s", out)
	}
}

// A process that ignores SIGTERM is killed, and the log names it.
func TestLeftovers_stubborn(t *testing.T) {
	scale = func() float64 { return 0.1 } // 10 times as fast as an idle computer
	defer func() { scale = load.Scale }()
	dir := t.TempDir()
	o := options{suites: writeFile(t, plantSuite("tap", "6000", `printf 'ok 1 - a\n1..1\n'; `+
		`(trap "" TERM; echo >`+dir+`/up; setsid sleep 300) & until [ -e `+dir+`/up ]; do sleep 0.01; done`)+"\n"),
		logs: dir, tsv: "results.tsv"}
	var out strings.Builder
	if ok, err := runAll(o, &reporter{out: &out}); !ok || err != nil {
		t.Errorf("%v, %v:\n%s", ok, err, out.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, "planted.log"))
	if err != nil || !strings.Contains(string(text), "the runner ended a process left behind: ") {
		t.Errorf("%v, the log says\n%s", err, text)
	}
	if list := listDescendants(os.Getpid()); len(list) != 0 {
		t.Errorf("%v remain", list)
	}
}

// A process that the runner cannot end, and that keeps the output open, does not block the
// run.
func TestLeftovers_foreign(t *testing.T) {
	drainMax = 100 * time.Millisecond
	defer func() { drainMax = 10 * time.Second }()
	dir := t.TempDir()
	becomeReaper()
	s := suite{name: "s", kind: "tap", deadline: time.Minute, command: `setsid sleep 60 & echo $! >` + dir + `/pid; ` +
		`until [ -e ` + dir + `/go ]; do sleep 0.01; done; printf 'ok 1 - a\n1..1\n'`}
	began, ended := time.Now(), make(chan outcome, 1)
	go func() { ended <- s.run(filepath.Join(dir, "log"), nil) }()
	var pid int
	waitFor(t, "a process", func() bool {
		text, _ := os.ReadFile(dir + "/pid")
		n, _ := fmt.Sscanf(string(text), "%d\n", &pid)
		return n == 1
	})
	spared.Store(pid, true)
	if err := os.WriteFile(dir+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	out := <-ended
	spared.Delete(pid)
	if time.Since(began) > 50*time.Second || countStatus(out.results, passed) != 1 || len(out.left) != 0 {
		t.Errorf("after %v: %+v, left %v", time.Since(began), out.results, out.left)
	}
	endLeftovers()
}
