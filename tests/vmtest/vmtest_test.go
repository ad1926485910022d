// SPDX-License-Identifier: MIT

//go:build linux

package vmtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/tests/tap"
)

// The tests here need no machine. tests/vm gives each guard a test that it must fail.
func TestUntil(t *testing.T) {
	now := time.Unix(1000, 0)
	tests := []struct {
		name  string
		limit time.Duration
		scale float64
		end   time.Duration // 0: go test has no deadline
		want  time.Duration
	}{
		{"the machine's own", time.Minute, 1, time.Hour, time.Minute},
		{"longer on a loaded computer", time.Minute, 2.5, time.Hour, 150 * time.Second},
		{"before go test's", time.Minute, 8, 2 * time.Minute, 2*time.Minute - margin},
		{"none of go test's", time.Minute, 8, 0, 8 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := deadlineOf(now, tt.limit, tt.scale, now.Add(tt.end), tt.end > 0)
			if got.Sub(now) != tt.want {
				t.Errorf("%v, want %v", got.Sub(now), tt.want)
			}
		})
	}
}

func TestNameOf(t *testing.T) {
	long := strings.Repeat("x", 100)
	for name, want := range map[string]string{
		"TestLabPair":        "labpair",
		"TestLab/6.1":        "lab-6.1",
		"TestA/b_c d\x00/..": "a-b-c-d",
		"Test" + long:        long[:60],
		"Test":               "vm",
	} {
		if got := nameOf(name); got != want {
			t.Errorf("%q gives %q, want %q", name, got, want)
		}
	}
}

// The results of a program come in pieces of any size and kind.
func TestResults(t *testing.T) {
	text := "old\n1..2\r\nok 1 - a\n" + strings.Repeat("\x00\xffgarbage ", 100000) + "\nok 2 - b"
	for _, step := range []int{1, 7, 4096, len(text)} {
		r := &results{}
		for at := 0; at < len(text); at += step {
			r.splitLines([]byte(text[at:min(len(text), at+step)]))
			if len(r.part) > lineMax {
				t.Fatalf("%d bytes of a line are kept", len(r.part))
			}
		}
		r.flush()
		list := r.tap.Finish("")
		if len(list) != 2 || tap.CountStatus(list, tap.Passed) != 2 || r.line != "ok 2 - b" {
			t.Errorf("in pieces of %d: %+v, last line %q", step, list, r.line)
		}
	}
}

func TestFirstLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "first-tap.tsv")
	run := func(chosen string, number int64, took time.Duration) string {
		t.Helper()
		began := time.Unix(1_700_000_000, number)
		r := &firstRun{chosen: chosen, began: began, started: began.Add(time.Second), up: began.Add(took - time.Second/2), line: began.Add(took)}
		text, err := r.appendFigures(path)
		if err != nil {
			t.Error(err)
		}
		return text
	}
	for i, want := range []string{
		"first TAP line after 7.0 s (make and go test 1.0, machine 5.5, program 0.5); median of the last 1 runs of T=lab 7.0 s",
		"first TAP line after 9.0 s (make and go test 1.0, machine 7.5, program 0.5); median of the last 2 runs of T=lab 8.0 s",
		"first TAP line after 20.0 s (make and go test 1.0, machine 18.5, program 0.5); median of the last 3 runs of T=lab 9.0 s",
	} {
		if got := run("lab", int64(i), []time.Duration{7, 9, 20}[i]*time.Second); got != want {
			t.Errorf("run %d: %q", i, got)
		}
	}
	for i := range 20 {
		run("o2g", 100+int64(i), time.Minute)
	}
	for i := range 20 {
		run("lab", 200+int64(i), 2*time.Second)
	}
	if got := run("lab", 300, 3*time.Second); !strings.HasSuffix(got, "median of the last 9 runs of T=lab 2.0 s") {
		t.Errorf("%q", got)
	}
}

func TestFirstLine_built(t *testing.T) {
	build := t.TempDir()
	module := filepath.Join(build, "kmod", "6.1", "a", "a.ko")
	for _, dir := range []string{filepath.Dir(module), filepath.Join(build, "lab")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(module, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if name, built := (&firstRun{began: time.Now().Add(-time.Minute)}).builtModule(build); name != "a.ko" || !built {
		t.Errorf("built a moment ago: %q, %v", name, built)
	}
	if name, built := (&firstRun{began: time.Now().Add(time.Minute)}).builtModule(build); built {
		t.Errorf("built before: %q", name)
	}
	// Only the first suite of a run prints it.
	for range 2 {
		if err := (&firstRun{chosen: "lab", began: time.Now().Add(-time.Minute), line: time.Now()}).writeNote(build); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(module); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(build, "lab", ".first-tap")); err != nil || !strings.Contains(string(text), "a.ko was built") {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(build, "lab", ".first-tap.tsv")); err == nil {
		t.Error("a run that built a module counts")
	}
}

func TestLastLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console.log")
	for text, want := range map[string]string{
		"":               "(none)",
		"one\ntwo\r\n\n": "two",
		strings.Repeat("x\n", 9000) + "\x1b[0mend": "?[0mend",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := orNone(lastLine(path)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestConsoleReachesPowerDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "console.log")
	for text, want := range map[string]bool{
		"":                                 false,
		"[    9.1] reboot: Power down\r\n": true,
		"[    9.1] reboot: Restarting system\r\n":                                        false,
		"[    9.1] reboot: Power down\r\n" + strings.Repeat("of the next boot\r\n", 999): false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := toTheEnd(path); got != want {
			t.Errorf("%.40q: %v", text, got)
		}
	}
	if toTheEnd(path + ".absent") {
		t.Error("a console that is not there is whole")
	}
}

// A second test of this process waits for the first one's machines.
func TestLock(t *testing.T) {
	t.Setenv("SKEP_BUILD", t.TempDir())
	hold := func(owner, want string) {
		t.Helper()
		if got, err := tryLock(owner); err != nil || !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Fatalf("%s got %q, %v; want %q", owner, got, err, want)
		}
	}
	hold("TestA", "")
	hold("TestA", "")
	hold("TestB", "TestA")
	unlockMachine()
	hold("TestB", "TestA")
	unlockMachine()
	hold("TestB", "")
	// Another process reads the name from the file.
	file := holding.file
	holding.file, holding.count = nil, 0
	hold("TestC", "TestB, process ")
	file.Close()
	hold("TestC", "")
	unlockMachine()
}
