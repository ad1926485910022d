// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// On a terminal the running suite is named, and the name is erased afterwards.
func TestTerminal(t *testing.T) {
	s := suite{name: "planted"}
	for tty, want := range map[bool]string{
		true:  "  ...  planted\r\x1b[K  ok   planted                 0 passed  0.0 s, 0.0 s of processor\n",
		false: "  ok   planted                 0 passed  0.0 s, 0.0 s of processor\n",
	} {
		var out strings.Builder
		rep := &reporter{out: &out, tty: tty}
		rep.start(s)
		rep.reportSuite(s, outcome{})
		if out.String() != want {
			t.Errorf("terminal %v: %q, not %q", tty, out.String(), want)
		}
	}
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	file, err := os.Open(writeFile(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !isTerminal(null) || isTerminal(file) {
		t.Error("a device is where somebody looks on; a file is not")
	}
}

// A suite's line has the numbers of passed, failed and skipped tests.
func TestSuiteLine(t *testing.T) {
	all := []result{{suite: "s", name: "a", status: passed}, {suite: "s", name: "b", status: failed, reason: "why", detail: []string{"around"}},
		{suite: "s", name: "c", status: skipped, reason: "no"}}
	var out strings.Builder
	(&reporter{out: &out}).reportSuite(suite{name: "s"}, outcome{results: all, took: 1240 * time.Millisecond})
	want := "  FAIL s                       1 passed, 1 failed, 1 skipped  1.2 s, 0.0 s of processor\n" +
		"       not ok: s: b: why\n         | around\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// The end of a whole run: skips, then all failures with the output around them, the sum.
func TestClosing(t *testing.T) {
	s := suite{name: "s"}
	all := []result{{suite: "s", name: "a", status: passed}, {suite: "s", name: "b", status: failed, detail: []string{"around"}},
		{suite: "s", name: "c", status: skipped, reason: "no rain"}, {suite: floorSuite, name: "number", status: failed, reason: "few"},
		{suite: suiteItself, name: "lists", status: failed, reason: "none"}, {suite: "s", name: "g", status: grouped}}
	var out strings.Builder
	rep := &reporter{out: &out}
	line, ok := rep.close(all, nil)
	if ok || line != "1 passed, 3 failed, 1 skipped\n" {
		t.Errorf("%v %q", ok, line)
	}
	want := "  skip s: c: no rain\n  what failed:\n       not ok: s: b\n         | around\n" +
		"       not ok: floor: number: few\n       not ok: (the suite): lists: none\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	if line, ok = rep.close(all[:1], []retake{{s, "s.first.log"}}); !ok || line != "1 passed, 0 failed, 0 skipped\n" {
		t.Errorf("%v %q", ok, line)
	}
	want = "  unsteady s: failed once, passed alone: s.first.log of the first failure kept\n  unsteady suites: 1, at most 1 may be\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// The floor must be raised when it is exceeded by more than ten tests and more than 2 %.
func TestFloor_edges(t *testing.T) {
	many := func(n int, more ...result) []result {
		var list []result
		for range n {
			list = append(list, result{status: passed})
		}
		return append(list, more...)
	}
	for _, tt := range []struct {
		least int
		all   []result
		want  string
	}{
		{3, many(3), ""},
		{3, many(2), "2 passed, f asks for 3"},
		{0, many(10), ""},
		{0, many(11), "11 passed, f asks for 0: raise it to 11 or so"},
		{1000, many(1030), ""},
		{1000, many(1031), "1031 passed, f asks for 1000: raise it to 1021 or so"},
		{1000, many(1031, result{status: failed}), ""},
	} {
		got := ""
		for _, r := range judgeFloor(tt.least, "f", tt.all) {
			if r.status != failed || r.suite != floorSuite || r.name != "number of passed tests" {
				t.Errorf("%+v", r)
			}
			got += r.reason
		}
		if got != tt.want {
			t.Errorf("%d of %d: %q, not %q", len(tt.all), tt.least, got, tt.want)
		}
	}
}

func TestReadFloor(t *testing.T) {
	file := writeFile(t, "# check 1\ncheck 12 # so many\ntest 3\ntest 4\nlow x\n")
	for key, want := range map[string]int{"test": 3} {
		if n, err := readFloor(file + ":" + key); err != nil || n != want {
			t.Errorf("%s: %d, %v; want %d", key, n, err, want)
		}
	}
	for _, bad := range []string{file + ":check", file + ":low", file + ":none", file, "none:test"} {
		if n, err := readFloor(bad); err == nil {
			t.Errorf("%s: %d", bad, n)
		}
	}
}

// Lists of suites: the fields of a line, and errors.
func TestReadSuites(t *testing.T) {
	list, err := readSuites(writeFile(t, "a\ttap\t5\tcat x\ty\n\n  \n  b\tgo,parallel\t 7 \t go test \nc\ttap,parallel,wine\t1\tx\n"))
	want := []suite{{name: "a", kind: "tap", deadline: 5 * time.Second, command: "cat x\ty"},
		{name: "b", kind: "go", lane: parallel, deadline: 7 * time.Second, command: "go test"},
		{name: "c", kind: "tap", lane: parallel, resource: "wine", deadline: time.Second, command: "x"}}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("%v\n%+v\n%+v", err, list, want)
	}
	for text, want := range map[string]string{
		"a\ttap\t5\tx\na\ttap\t5\tx\n": ":2: suite a is listed twice",
		"a\ttap\t5\tx\n\nb\ttap\t5\n":  `:3: want name, kind, deadline, command; got "b\ttap\t5"`,
		"\ttap\t5\tx\n":                `:1: bad suite name ""`,
		"a b\ttap\t5\tx\n":             `:1: bad suite name "a b"`,
		"a:b\ttap\t5\tx\n":             `:1: bad suite name "a:b"`,
		"a\tdance\t5\tx\n":             `:1: suite a: unknown kind "dance"`,
		"a\ttap,slow\t5\tx\n":          `:1: suite a: unknown lane "slow"`,
		"a\ttap\t0\tx\n":               `:1: suite a: bad deadline "0"`,
		"a\ttap\t-1\tx\n":              `:1: suite a: bad deadline "-1"`,
		"a\ttap\tsoon\tx\n":            `:1: suite a: bad deadline "soon"`,
		"a\ttap\t1\t \n":               ":1: suite a has no command: define suite_a",
	} {
		if list, err := readSuites(writeFile(t, text)); err == nil || !strings.HasSuffix(err.Error(), want) || list != nil {
			t.Errorf("%q: %v, %v; want %s", text, list, err, want)
		}
	}
	if _, err := parseSuite("a\ttap\t1\tx"); err != nil {
		t.Errorf("one second is a deadline: %v", err)
	}
}

// Lanes are used only if two suites may run at once. Those with long deadlines come first.
func TestSplit(t *testing.T) {
	for lanes, want := range map[string]string{
		"":                           "[] [] []",
		"-":                          "[0] [] []",
		"- machines -":               "[0 1 2] [] []",
		"machines machines":          "[0 1] [] []",
		"- parallel -":               "[0 1 2] [] []",
		"- parallel parallel":        "[0] [] [1 2]",
		"parallel - machines - m":    "[1 3 4] [2] [0]",
		"machines parallel machines": "[] [0 2] [1]",
		"parallel parallel,7 parallel,9 parallel,7": "[] [] [2 1 3 0]",
	} {
		var suites []suite
		for _, text := range strings.Fields(lanes) {
			lane, seconds, _ := strings.Cut(text, ",")
			n, _ := strconv.Atoi(seconds)
			suites = append(suites, suite{lane: strings.Trim(lane, "-"), deadline: time.Duration(n) * time.Second})
		}
		single, first, second := splitLanes(suites)
		if got := fmt.Sprint(single, first, second); got != want {
			t.Errorf("%s: %s, not %s", lanes, got, want)
		}
	}
}

// A lane gets a suite after the other. It is ended at the first answer that is not the lap of its
// suite; one that has done all stays, since its processor time would count for another suite.
func TestLaps(t *testing.T) {
	out := outcome{took: 2, cpu: 1, interrupted: true,
		results: []result{{"s", "a", failed, "why", []string{"around"}, true}}}
	if got, want := fmt.Sprintf("%+v", newLap(0, out).outcome()), fmt.Sprintf("%+v", out); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	for _, tt := range []struct{ text, asked, laps string }{
		{"{\"Index\":4}\n{\"Index\":5}\n{\"Index\":7}\n", "4 5 7 ", "[4 5 7]"},
		{"{\"Index\":4}\n{\"Index\":7}\n", "4 5 ", "[4]"},
		{"noise\n{\"Index\":4}\n", "4 ", "[]"},
		{"{\"Index\":4}\n{\"Index\":5}", "4 5 ", "[4]"}, // cut
		{"", "4 ", "[]"},
	} {
		p := newParallelLanes(make([]suite, 8), []int{4, 5, 7})
		var asked askedSuites
		p.drive(&asked, strings.NewReader(tt.text))
		close(p.laps)
		got := []int{}
		for next := range p.laps {
			got = append(got, next.Index)
		}
		if fmt.Sprint(got) != tt.laps || strings.ReplaceAll(asked.String(), "\n", " ") != tt.asked || asked.closed != (tt.asked != "4 5 7 ") {
			t.Errorf("%q: laps %v of %q, closed %v", tt.text, got, asked.String(), asked.closed)
		}
	}
}

type askedSuites struct {
	strings.Builder
	closed bool
}

func (a *askedSuites) Close() error { a.closed = true; return nil }

// A suite is passed over while another one has its resource, and waited for at the end.
func TestLanes_take(t *testing.T) {
	suites := []suite{{resource: "r"}, {resource: "r"}, {}, {resource: "s"}}
	p := newParallelLanes(suites, []int{0, 1, 2, 3})
	var taken []int
	for range 3 {
		i, _ := p.take()
		taken = append(taken, i)
	}
	if fmt.Sprint(taken) != "[0 2 3]" {
		t.Errorf("took %v", taken)
	}
	last := make(chan int)
	go func() {
		i, _ := p.take()
		last <- i
	}()
	p.release(2) // another one than what is waited for
	p.release(0)
	if i := <-last; i != 1 {
		t.Errorf("took %d last", i)
	}
	if i, more := p.take(); more {
		t.Errorf("took %d of an empty queue", i)
	}
}

// Laps are reported when they arrive.
func TestLanes_poll(t *testing.T) {
	suites := []suite{{name: "a"}, {name: "b"}, {name: "c"}}
	p := newParallelLanes(suites, []int{1, 2})
	outs := make([]outcome, 3)
	var text strings.Builder
	rep := &reporter{out: &text}
	p.poll(outs, rep)
	if text.Len() > 0 {
		t.Errorf("nothing had come:\n%s", text.String())
	}
	p.laps <- newLap(2, outcome{results: []result{{suite: "c", status: passed}}})
	p.laps <- newLap(1, outcome{results: []result{{suite: "b", status: failed}}})
	p.poll(outs, rep)
	if !strings.Contains(text.String(), "ok   c") || !strings.Contains(text.String(), "FAIL b") {
		t.Errorf("printed\n%s", text.String())
	}
	if len(outs[0].results) != 0 || len(outs[1].results) != 1 || outs[2].results[0].suite != "c" {
		t.Errorf("%+v", outs)
	}
	close(p.laps)
	p.poll(outs, rep)
	if err := p.wait(outs, rep, nil); err != nil || strings.Contains(text.String(), "ended before") {
		t.Errorf("%v: %s", err, text.String())
	}
}

// A lane writes each outcome when its suite has ended, and stops at a signal.
func TestRunLane(t *testing.T) {
	dir := t.TempDir()
	o := options{logs: dir, suites: writeFile(t, plantSuite("tap", "60", "printf 'ok 1 - a\\n1..1\\n'")+"\nb\texit\t60\tfalse\n")}
	old := o.firstLog(suite{name: "planted"})
	if err := os.WriteFile(old, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := runLane(o, strings.NewReader("1\n0\n1\n"), &out, nil); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 3 || !strings.Contains(out.String(), `{"Index":1,"Results":[{"Suite":"b","Name":"exits with 0","Status":"failed","Reason":"exit status 1"`) {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
	if _, err := os.Stat(old); !os.IsNotExist(err) {
		t.Errorf("the log of another day's failure is still there: %v", err)
	}
	stop := make(chan os.Signal, 1)
	stop <- os.Interrupt
	o.suites = writeFile(t, "s\texit\t60\tsleep 300\nb\texit\t60\ttouch "+dir+"/ran\n")
	if err := runLane(o, strings.NewReader("0\n1\n"), io.Discard, stop); err == nil || err.Error() != "interrupted in suite s" {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir + "/ran"); err == nil {
		t.Error("it went on after the signal")
	}
	o.suites = writeFile(t, "s\texit\t60\ttrue\n")
	if err := runLane(o, strings.NewReader("0\n"), brokenWriter{}, nil); err == nil {
		t.Error("nobody reads the lane, and it does not mind")
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// The log holds both streams, and a suite cannot exhaust the runner by one line.
func TestLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	s := suite{name: "s", kind: "tap", deadline: time.Minute,
		command: `echo aside >&2; head -c 3000000 /dev/zero | tr '\0' x; echo; printf 'not ok 1 - a\n# why\n1..1\n'`}
	out := s.run(log, nil)
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), "aside\n") || !strings.Contains(string(text), "# why\n") {
		t.Errorf("%v: the log lacks a stream", err)
	}
	if n := strings.Count(string(text), "x"); n != 3000000 {
		t.Errorf("%d of a long line arrived", n)
	}
	if len(out.results) != 1 || out.results[0].name != "a" || out.interrupted || len(out.left) != 0 {
		t.Errorf("%d results, interrupted %v, left %v", len(out.results), out.interrupted, out.left)
	}
	if out = s.run("none/log", nil); len(out.results) != 1 || !strings.Contains(out.results[0].reason, "open none/log") {
		t.Errorf("without a log: %+v", out.results)
	}
}

// Go's events: output of packages and tests, and tests that never ended.
func TestGoEvents(t *testing.T) {
	read := func(exit string, lines ...string) string {
		p := newParser(suite{name: "s", kind: "go"})
		for _, line := range lines {
			p.line(line)
		}
		p.noise("aside")
		text := ""
		for _, r := range p.finish(exit) {
			text += fmt.Sprintf("%s %s %q %q\n", r.status, r.name, r.reason, r.detail)
		}
		return text
	}
	event := func(action, pkg, test, output string) string {
		return fmt.Sprintf(`{"Action":%q,"Package":%q,"Test":%q,"Output":%q}`, action, pkg, test, output)
	}
	for _, tt := range []struct {
		name, exit string
		lines      []string
		want       string
	}{
		{"names", "", []string{event("pass", "skep/p", "T", ""), event("pass", "other/p", "T/x", "")},
			"passed p T \"\" []\npassed other/p T/x \"\" []\n"},
		{"group", "", []string{event("pass", "skep/p", "T/x", ""), event("pass", "skep/p", "T", "")},
			"passed p T/x \"\" []\ngroup p T \"\" []\n"},
		{"a failing group", "", []string{event("fail", "skep/p", "T/x", ""), event("fail", "skep/p", "T", "")},
			"failed p T/x \"\" []\nfailed p T \"\" []\n"},
		{"detail", "", []string{event("output", "skep/p", "T", "    why\n"), event("fail", "skep/p", "T", "")},
			"failed p T \"\" [\"    why\"]\n"},
		{"never ended", "", []string{event("output", "skep/p", "T", "last words\n")},
			"failed p T \"started but never ended\" [\"last words\"]\n"},
		{"a skip's reason", "", []string{event("output", "skep/p", "T", "=== RUN T\n"), event("output", "skep/p", "T", "    x_test.go:7: no kvm: none \n"),
			event("skip", "skep/p", "T", "")}, "skipped p T \"no kvm: none\" []\n"},
		{"a failed package whose test failed", "", []string{event("fail", "skep/p", "T", ""), event("fail", "skep/p", "", "")},
			"failed p T \"\" []\n"},
		{"a failed package whose test was skipped", "", []string{event("output", "skep/p", "T", "x_test.go:7: no\n"), event("skip", "skep/p", "T", ""),
			event("output", "skep/p", "", "oh\n"), event("fail", "skep/p", "", "")},
			"skipped p T \"no\" []\nfailed p \"the package failed, none of its tests did\" [\"oh\"]\n"},
		{"a failed package beside another's test", "", []string{event("fail", "skep/q", "T", ""), event("fail", "skep/p", "", "")},
			"failed q T \"\" []\nfailed p \"the package failed, none of its tests did\" []\n"},
		{"a package that does not build", "", []string{`{"Action":"build-output","ImportPath":"skep/p [skep/p.test]","Output":"x.go:1: bad\n"}`,
			event("fail", "skep/p", "", "")}, "failed p \"the package failed, none of its tests did\" [\"x.go:1: bad\"]\n"},
		{"no event", "exit status 1", []string{"go: no such module"},
			"failed (the suite) \"no test ran: exit status 1\" [\"go: no such module\" \"aside\"]\n"},
		{"an exit without a failure", "exit status 1", []string{event("pass", "skep/p", "T", "")},
			"passed p T \"\" []\nfailed (the suite) \"exit status 1, though no test failed\" [\"aside\"]\n"},
		{"an exit with one", "exit status 1", []string{event("fail", "skep/p", "T", "")}, "failed p T \"\" []\n"},
	} {
		if got := read(tt.exit, tt.lines...); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", tt.name, got, tt.want)
		}
	}
}
