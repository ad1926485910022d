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

// up is the start of a suite's command that passes.
const up = `printf 'ok 1 - a\n1..1\n'; `

// A suite that leaves a process or a file behind fails, and the report and the log name it.
// What ended before its suite, or ends soon after, was not left behind.
func TestLeftovers(t *testing.T) {
	// asleep waits until a process is what it is to be called.
	asleep := ` & until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done`
	for _, tt := range []struct{ name, command, left string }{
		{"a process", "(setsid sleep 300" + asleep + ")", " sleep 300"},
		{"an ended process", `setsid -f sh -c 'echo $$ >pid'; until [ -s pid ] && { ! [ -e /proc/$(cat pid) ] || grep -qs ') Z ' /proc/$(cat pid)/stat; }; do sleep 0.01; done`, ""},
		{"many ended processes, which are reaped meanwhile", `for i in $(seq 20); do setsid -f true; done; while grep -qs ") Z $PPID " /proc/[0-9]*/stat; do sleep 0.1; done`, ""},
		{"a process that ends soon", "(setsid sleep 0.2" + asleep + ")", ""},
		{"a file", `echo >"$TMPDIR"/mine`, "/mine"},
		{"a folder", `mkdir -p "$TMPDIR"/full/of`, "/full"},
		{"no file, where any user may make one", `stat -c %a "$TMPDIR" >mode; [ "$(cat mode)" = 1777 ] || echo >"$TMPDIR"/mine`, ""},
		{"no file", `mktemp >name; rm "$(cat name)"`, ""},
		{"Wine's folder", `mkdir -p "$TMPDIR"/wine-a1B2c3/server-1-2; echo >"$TMPDIR"/wine-a1B2c3/server-1-2/lock`, ""},
		{"Wine's socket", `mkdir -p "$TMPDIR"/wine-a1B2c3/server-1-2; echo >"$TMPDIR"/wine-a1B2c3/server-1-2/socket`, "/wine-a1B2c3"},
		{"more in Wine's folder", `mkdir -p "$TMPDIR"/wine-a1B2c3; echo >"$TMPDIR"/wine-a1B2c3/lock`, "/wine-a1B2c3"},
		{"nearly Wine's folder", `mkdir "$TMPDIR"/wine-a1B2c3d`, "/wine-a1B2c3d"},
		{"a file like Wine's folder", `echo >"$TMPDIR"/wine-a1B2c3`, "/wine-a1B2c3"},
		{"O2G's folder", `mkdir "$TMPDIR"/skep-o2g-0`, ""},
		{"a killed endpoint's page", `mkdir "$TMPDIR"/skep-o2g-0; echo >"$TMPDIR"/skep-o2g-0/7-0`, ""},
		{"another file of O2G", `mkdir "$TMPDIR"/skep-o2g-0; echo >"$TMPDIR"/skep-o2g-0/x-0`, "/skep-o2g-0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("TMPDIR", t.TempDir())
			closing := "1 passed, 0 failed, 0 skipped"
			if tt.left != "" {
				closing = "1 passed, 1 failed, 0 skipped"
			}
			out, ok := runPlanted(t, options{}, plantSuite("tap", "60", up+tt.command))
			checkClosing(t, out, closing, ok)
			if bad := strings.Contains(out, "left behind"); bad != (tt.left != "") || !strings.Contains(out, tt.left+"\n") {
				t.Errorf("want %q left in\n%s", tt.left, out)
			}
			if list := listDescendants(os.Getpid()); len(list) != 0 {
				t.Errorf("processes remain: %v", list)
			}
			if list := listFiles(os.Getenv("TMPDIR"), ""); len(list) != 0 {
				t.Errorf("files remain: %v", list)
			}
		})
	}
}

// The grace follows the load: a process that ends within it on an idle computer was not left
// behind by a suite of a busy one.
func TestLeftovers_busy(t *testing.T) {
	scale = func() float64 { return 1000 }
	defer func() { scale = load.Scale }()
	out, ok := runPlanted(t, options{}, plantSuite("tap", "60", up+"(setsid sleep 4 &)"))
	checkClosing(t, out, "1 passed, 0 failed, 0 skipped", ok)
}

// A second run counts for a suite that only left something behind. The suite is unsteady.
func TestLeftovers_again(t *testing.T) {
	t.Chdir(t.TempDir())
	out, ok := runPlanted(t, options{again: 1}, plantSuite("tap", "60", up+`mkdir once && echo >"$TMPDIR"/mine || true`))
	checkClosing(t, out, "1 passed, 0 failed, 0 skipped", ok)
	if !strings.Contains(out, "unsteady planted: ") {
		t.Errorf("not unsteady:\n%s", out)
	}
}

// As root, the runner sees mounts, named network namespaces and shared memory too, those of
// its own suites alone. It removes them.
func TestLeftovers_namespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	runner := buildRunner(t)
	for _, tt := range []struct{ name, command, left string }{
		{"a mount in TMPDIR", `mkdir "$TMPDIR"/m && mount --bind kept "$TMPDIR"/m`, "mount "},
		{"a mount elsewhere", "mkdir 'a b' && mount -t tmpfs none 'a b'", "/a b"},
		{"mounts over another", "mkdir m && mount -t tmpfs none m && mkdir m/n && mount -t tmpfs none m/n", "/m/n"},
		{"a mount that ended", "mkdir m && mount -t tmpfs none m && umount m", ""},
		{"a network namespace", "ip netns add skep-left-$$", "/run/netns/skep-left-"},
		{"a shared memory file", "echo >/dev/shm/mine", "shared memory /dev/shm/mine"},
		{"a shared memory segment", "ipcmk -M 64 >made", "shared memory segment "},
		{"a semaphore set", "ipcmk -S 1 >made", "semaphore set "},
		{"a message queue", "ipcmk -Q >made", "message queue "},
		{"nothing", "ls /dev/shm >list && [ ! -s list ]", ""},
	} {
		for _, lane := range []string{"", ",parallel"} {
			t.Run(tt.name+lane, func(t *testing.T) {
				cmd := exec.Command(runner, "-suites", "suites", "-logs", "logs")
				cmd.Dir = t.TempDir()
				kept := filepath.Join(cmd.Dir, "kept", "file")
				if err := os.Mkdir(filepath.Dir(kept), 0o755); err != nil {
					t.Fatal(err)
				}
				for path, text := range map[string]string{kept: "", filepath.Join(cmd.Dir, "suites"): "a\ttap" + lane +
					"\t60\t" + up + tt.command + "\nb\ttap" + lane + "\t60\t" + up + "\n"} {
					if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				out, err := cmd.CombinedOutput()
				closing := "2 passed, 0 failed, 0 skipped"
				if tt.left != "" {
					closing = "2 passed, 1 failed, 0 skipped"
				}
				checkClosing(t, string(out), closing, err == nil)
				if bad := strings.Contains(string(out), "not ok: a: leaves nothing behind"); bad != (tt.left != "") || !strings.Contains(string(out), tt.left) {
					t.Errorf("want %q left in\n%s", tt.left, out)
				}
				if strings.Contains(string(out), "cannot be removed") {
					t.Errorf("it stays:\n%s", out)
				}
				if _, err := os.Stat(kept); err != nil {
					t.Errorf("a file below a mount in TMPDIR: %v", err)
				}
			})
		}
	}
}

// Where the runner cannot have namespaces of its own, its report says what is not seen.
func TestLeftovers_unseen(t *testing.T) {
	dir := t.TempDir()
	refusing := filepath.Join(dir, "unshare")
	if err := os.WriteFile(refusing, []byte("#!/bin/sh\necho not here >&2; exit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(buildRunner(t), "-suites", writeFile(t, plantSuite("tap", "60", up)+"\n"), "-logs", dir)
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "not seen: mounts and shared memory that suites leave, without root: exit status 1: not here\n") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// A process that ignores SIGTERM is killed, and the log names it.
func TestLeftovers_stubborn(t *testing.T) {
	scale = func() float64 { return 0.1 } // 10 times as fast as an idle computer
	defer func() { scale = load.Scale }()
	dir := t.TempDir()
	o := options{suites: writeFile(t, plantSuite("tap", "6000", up+
		`(trap "" TERM; echo >`+dir+`/up; setsid sleep 300) & until [ -e `+dir+`/up ]; do sleep 0.01; done`)+"\n"),
		logs: dir, tsv: "results.tsv"}
	var out strings.Builder
	if ok, err := runAll(o, &reporter{out: &out}); ok || err != nil {
		t.Errorf("%v, %v:\n%s", ok, err, out.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, "planted.log"))
	if err != nil || !strings.Contains(string(text), "left behind: process ") {
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
