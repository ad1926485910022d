// SPDX-License-Identifier: MIT

// Package tap reads and writes the Test Anything Protocol, strictly: one plan, test numbers
// in order, a reason for each skip. A failure that is marked as expected is still a failure. The
// input may come from a guest, so the length of a report is limited.
package tap

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Status is the result of a test.
type Status string

// The results of a test.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"
	Skipped Status = "skipped"
)

// Itself is the name of a result of the whole report.
const Itself = "(the suite)"

// maxTests limits a report. Only a broken program reports more tests.
const maxTests = 100000

// A Test is one test line and the output around it.
type Test struct {
	Name   string
	Status Status
	Reason string   // why it was skipped, or the cause of a failure
	Detail []string // lines printed around a failure
}

// A Reader takes a report line by line. Its zero value is ready.
type Reader struct {
	tests   []Test
	planned int
	plans   int  // plan lines seen
	empty   bool // plan 1..0 with a reason
	more    bool // more than maxTests
	faults  []string
	recent  Tail // lines since the last test line
	last    Tail // the last lines of any kind
}

var (
	testLine = regexp.MustCompile(`^(not )?ok\b(?: +(\d+))?(?: +-)? *(.*)$`)
	planLine = regexp.MustCompile(`^1\.\.(\d+)\s*(?:#\s*(?i:skip)\S*\s*(.*))?$`)
	skipMark = regexp.MustCompile(`(?i)\s*#\s*skip\S*\s*(.*)$`)
)

// AddNoise keeps a line that is not part of the report. It becomes a detail of failures.
func (r *Reader) AddNoise(text string) {
	r.recent.Add(text)
	r.last.Add(text)
}

// AddLine parses the report's next line, without its newline.
func (r *Reader) AddLine(text string) {
	r.last.Add(text)
	text = strings.TrimSuffix(text, "\r")
	if m := planLine.FindStringSubmatch(text); m != nil {
		r.readPlan(m[1], m[2])
		return
	}
	if m := testLine.FindStringSubmatch(text); m != nil {
		r.addTest(m[1] == "", m[2], m[3])
		return
	}
	if rest, ok := strings.CutPrefix(text, "Bail out!"); ok {
		r.addFault("bailed out:" + rest)
		return
	}
	if n := len(r.tests); n > 0 && r.tests[n-1].Status == Failed && strings.HasPrefix(text, "#") {
		if t := &r.tests[n-1]; len(t.Detail) < 2*tailMax {
			t.Detail = append(t.Detail, text)
		}
		return
	}
	r.recent.Add(text)
}

func (r *Reader) readPlan(count, reason string) {
	r.plans++
	r.planned, _ = strconv.Atoi(count)
	if r.planned == 0 && reason != "" {
		r.empty = true
		r.tests = append(r.tests, Test{Name: Itself, Status: Skipped, Reason: reason})
	}
}

func (r *Reader) addTest(ok bool, number, rest string) {
	if len(r.tests) >= maxTests {
		r.more = true
		return
	}
	t := Test{Status: Passed}
	if n, err := strconv.Atoi(number); err == nil && n != len(r.tests)+1 {
		r.addFault(fmt.Sprintf("test number %d where %d comes next", n, len(r.tests)+1))
	}
	if m := skipMark.FindStringSubmatchIndex(rest); m != nil {
		t.Status, t.Reason = Skipped, strings.TrimSpace(rest[m[2]:m[3]])
		rest = rest[:m[0]]
		if t.Reason == "" {
			t.Status, t.Reason = Failed, "skipped without a reason"
		}
	}
	t.Name = strings.TrimSpace(rest)
	if t.Name == "" {
		t.Name = fmt.Sprintf("test %d", len(r.tests)+1)
	}
	before := r.recent.TakeLines()
	if !ok {
		t.Status, t.Detail = Failed, before
	}
	r.tests = append(r.tests, t)
}

// addFault records a fault of the report. It keeps only the first faults.
func (r *Reader) addFault(text string) {
	if len(r.faults) < tailMax {
		r.faults = append(r.faults, text)
	}
}

// Complete reports whether the plan and all its tests have been read, so that nothing may
// follow.
func (r *Reader) Complete() bool {
	return r.plans > 0 && len(r.tests) >= r.planned
}

// Count returns how many tests were reported so far.
func (r *Reader) Count() int { return len(r.tests) }

// Finish returns the tests, and a failed Itself for each fault of the report. exit describes
// how the program ended; it is empty for status 0.
func (r *Reader) Finish(exit string) []Test {
	for _, cause := range r.findCauses(exit) {
		r.tests = append(r.tests, Test{
			Name: Itself, Status: Failed, Reason: cause, Detail: r.last.Lines,
		})
		r.last.Lines = nil // show them only once
	}
	return r.tests
}

// findCauses lists the faults of the whole report.
func (r *Reader) findCauses(exit string) []string {
	causes := r.faults
	count := len(r.tests)
	if r.empty {
		count--
	}
	switch {
	case r.more:
		causes = append(causes, fmt.Sprintf("more than %d tests reported", maxTests))
	case r.plans == 0 && count == 0:
		causes = append(causes, "no test and no plan"+AppendCause(exit))
	case r.plans == 0:
		causes = append(causes, fmt.Sprintf("no plan after %d tests%s", count, AppendCause(exit)))
	case r.plans > 1:
		causes = append(causes, "more than one plan")
	case count != r.planned:
		causes = append(causes, fmt.Sprintf("%d tests planned, %d reported%s", r.planned, count, AppendCause(exit)))
	case count == 0 && !r.empty:
		causes = append(causes, "no test ran")
	case exit != "" && CountStatus(r.tests, Failed) == 0:
		causes = append(causes, exit+", though no test failed")
	}
	return causes
}

// AppendCause returns the end of a sentence: ": " and the cause, if there is one.
func AppendCause(cause string) string {
	if cause == "" {
		return ""
	}
	return ": " + cause
}

// CountStatus counts the tests with this status.
func CountStatus(list []Test, s Status) int {
	n := 0
	for _, t := range list {
		if t.Status == s {
			n++
		}
	}
	return n
}
