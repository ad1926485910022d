// SPDX-License-Identifier: MIT

// Package report finds kernel reports on the console of a machine: BUG, Oops, WARNING, stalls,
// and reports of lockdep, KASAN, kmemleak and UBSAN.
package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// A Kind is one kind of kernel report.
type Kind string

// Kinds of reports that a console scan finds.
const (
	Warning    Kind = "WARNING"
	Bug        Kind = "BUG"
	Oops       Kind = "Oops"
	Panic      Kind = "panic"
	Stall      Kind = "stall"      // rcu, soft and hard lockup, hung task
	Lockdep    Kind = "lockdep"    // any report of the lock validator
	KASAN      Kind = "KASAN"      // memory checker
	Leak       Kind = "kmemleak"   // unreferenced object
	UBSAN      Kind = "UBSAN"      // undefined behaviour
	Unexpected Kind = "unexpected" // a taint or trace of no known kind
)

// A Report is one kernel report on the console: its kind, the function that it names (empty if
// none) and, in an expectation, the number of such reports.
type Report struct {
	Kind     Kind
	Function string
	Count    int
	Line     string // as printed; not compared
}

// Limits of a scan, because a guest may print anything, without end.
const (
	maxReports = 1000 // different reports; more of them become one Unexpected
	lineText   = 240  // bytes of a line that a report keeps
	pieceBytes = 64 << 10
	// The kernel prints all lines of an event at once. A line belongs to an
	// event only within this distance from its first line.
	eventLines = 300
)

// Scan finds the kernel reports in a console log, in the order of their first lines, and counts
// equal ones. It keeps only one line of the log in memory. An event that the kernel prints as
// several lines (BUG, Oops, a trace, a panic that follows from it) is one report, of its most
// specific kind.
func Scan(r io.Reader) ([]Report, error) {
	s := scanner{index: map[string]int{}}
	in := bufio.NewReaderSize(r, pieceBytes)
	for {
		piece, _, err := in.ReadLine()
		if errors.Is(err, io.EOF) {
			s.endScan()
			return s.reports, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading a console log: %w", err)
		}
		s.scanRaw(string(piece))
	}
}

// A scanner is the state of a scan between two lines.
type scanner struct {
	reports []Report
	index   map[string]int // kind and function: place in reports
	stamped bool           // the kernel prints time stamps, so lines without are not the kernel's
	number  int            // of the line

	cur    *event // the event whose lines these are
	ends   int    // end marks that are still due, of events that overlap
	traces int    // traces that may still come from known events
	after  int    // number of the last line that belonged to an event

	hint    *event // a message before its WARNING or BUG line, which names the place
	cuts    int    // "cut here" lines without a header so far
	cut     string // the last of them
	cutFrom int
}

// An event is a report that is not complete yet.
type event struct {
	rule     rule
	kind     Kind
	function string // from the header
	rip      string
	plain    string // first meaningful function of the trace
	module   string // first function of the trace that is in a module
	line     string
	began    int
	inTrace  bool
}

var (
	stamp  = regexp.MustCompile(`\[ *\d{1,8}\.\d{6}\](?: ?\[ *[TC]\d+\])? ?`)
	level  = regexp.MustCompile(`^<\d{1,2}>`)
	colour = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)
	frame  = regexp.MustCompile(`^\s*(?:\[<[0-9a-fx]+>\] )?(\? )?([A-Za-z_][\w.$]*)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(\w+)[^\]]*\])?`)
	rip    = regexp.MustCompile(`RIP: 0010:([A-Za-z_][\w.$]*)\+0x`)
)

// scanRaw reads a line from the serial port: two records may share it, or a
// record may follow a program's text that has no newline.
func (s *scanner) scanRaw(text string) {
	if strings.IndexByte(text, '\x1b') >= 0 {
		text = colour.ReplaceAllString(text, "")
	}
	text = strings.TrimRight(text, "\r \t")
	from, stamped := 0, false
	for _, at := range stamp.FindAllStringIndex(text, -1) {
		if part := text[from:at[0]]; stamped || strings.TrimSpace(part) != "" {
			s.scanRecord(part, stamped)
		}
		from, stamped = at[1], true
		s.stamped = true
	}
	s.scanRecord(text[from:], stamped)
}

// scanRecord reads one record's text.
func (s *scanner) scanRecord(text string, stamped bool) {
	s.number++
	s.expireEvents()
	text = strings.TrimLeft(level.ReplaceAllString(strings.TrimLeft(text, "\r"), ""), "\x00")
	switch {
	case strings.HasPrefix(text, "---[ end trace"):
		s.close()
		return
	case strings.HasPrefix(text, "---[ end Kernel panic"):
		return
	case strings.Contains(text, "---[ cut here ]---"):
		s.cut, s.cutFrom = text, s.number
		s.cuts++
		return
	}
	// If the kernel stamps its lines, a line without a stamp is a program's. Then
	// only phrases of the kernel count, not every line with "WARNING: ".
	if h := findRule(text, stamped || !s.stamped); h != nil {
		s.scanHeader(*h, text)
		return
	}
	s.scanDetail(text)
}

// scanHeader opens an event, or adds to the open one.
func (s *scanner) scanHeader(r rule, text string) {
	if s.cuts > 0 {
		s.cuts--
	}
	switch {
	case r.role == oops && s.cur.goesOn():
		return
	case r.role == consequence && s.after > 0:
		s.traces++
		return
	case r.role == hint && s.cur != nil && s.cur.rule.role == warn && s.number-s.cur.began < 4:
		s.cur.kind = s.cur.rule.refinedKind(r)
		return
	}
	e := &event{rule: r, kind: r.kind, line: text, began: s.number, function: r.function(text)}
	if r.role == hint {
		s.flushHint()
		s.hint = e
		return
	}
	if s.hint != nil && (r.role == warn || r.role == bug) {
		e.kind = r.refinedKind(s.hint.rule)
		s.hint = nil
	}
	s.open(e)
}

// goesOn reports whether an oops line continues this event.
func (e *event) goesOn() bool {
	if e == nil || e.inTrace {
		return false
	}
	role := e.rule.role
	return role == bug || role == fault || role == oops && e.rip == ""
}

func (s *scanner) open(e *event) {
	s.flushHint()
	if s.cur != nil {
		s.add(s.cur)
	}
	s.cur = e
	s.after = s.number
	if e.rule.hasEndMark() {
		s.ends++
	}
	s.traces++
	if e.kind == Stall || e.kind == Panic {
		s.traces += 64 // a trace for each processor, and of helpers
	}
}

// close processes an end mark. Events of two processors may overlap.
func (s *scanner) close() {
	if s.ends > 0 {
		s.ends--
	}
	if s.ends > 0 || s.cur == nil {
		return
	}
	s.add(s.cur)
	s.cur, s.traces = nil, 0
	s.after = s.number
}

// scanDetail reads a line that begins no event.
func (s *scanner) scanDetail(text string) {
	trace := strings.HasPrefix(text, "Call Trace:")
	context := strings.HasPrefix(text, "CPU: ") && strings.Contains(text, " Comm: ")
	if (trace && s.traces == 0) || (context && s.cur == nil && s.traces == 0) {
		s.cuts = 0
		s.open(&event{rule: stray, kind: Unexpected, line: text, began: s.number})
	}
	if trace && s.traces > 0 {
		s.traces--
	}
	e := s.cur
	if e == nil {
		return
	}
	switch {
	case trace || e.kind == Leak && strings.HasPrefix(strings.TrimSpace(text), "backtrace"):
		e.inTrace = true
	case strings.Contains(text, "</TASK>"):
		e.inTrace = false
	case e.inTrace:
		e.addFrame(text)
	case e.rip == "":
		if m := rip.FindStringSubmatch(text); m != nil {
			e.rip = bareSymbol(m[1])
		}
	}
}

// addFrame reads a line of a trace; "?" marks a frame of which the kernel is not sure.
func (e *event) addFrame(text string) {
	m := frame.FindStringSubmatch(text)
	if m == nil || m[1] != "" {
		return
	}
	name := bareSymbol(m[2])
	if m[3] != "" && e.module == "" {
		e.module = name
	}
	if e.plain == "" && !isPlumbing(name) {
		e.plain = name
	}
}

// functionName returns the function of an event: the one that its header names, the one that
// ran, or the first function of the trace that is not part of the reporting.
func (e *event) functionName() string {
	order := []string{e.function, e.rip, e.module, e.plain}
	if e.kind == Lockdep {
		order = []string{e.module, e.plain, e.function, e.rip}
	}
	for _, f := range order {
		if f != "" {
			return f
		}
	}
	return ""
}

// bareSymbol returns a symbol without the suffixes that the compiler appended.
func bareSymbol(symbol string) string {
	name, _, _ := strings.Cut(symbol, ".")
	return name
}

// expireEvents ends events whose next line should have come by now.
func (s *scanner) expireEvents() {
	if s.hint != nil && s.number-s.hint.began > 8 {
		s.cuts = 0
		s.flushHint()
	}
	if s.cuts > 0 && s.number-s.cutFrom > 40 {
		s.flushCut()
	}
	if s.cur != nil && s.number-s.cur.began > eventLines {
		s.add(s.cur)
		s.cur, s.ends, s.traces = nil, 0, 0
	}
	if s.cur == nil && s.after > 0 && s.number-s.after > eventLines {
		s.after, s.traces = 0, 0
	}
}

func (s *scanner) flushHint() {
	if e := s.hint; e != nil {
		s.hint = nil
		s.add(e)
	}
}

// flushCut reports a "cut here" line that no known report follows.
func (s *scanner) flushCut() {
	if s.cuts > 0 && s.hint == nil {
		s.add(&event{kind: Unexpected, line: s.cut})
	}
	s.cuts = 0
}

func (s *scanner) endScan() {
	s.flushCut()
	s.flushHint()
	if s.cur != nil {
		s.add(s.cur)
	}
}

func (s *scanner) add(e *event) {
	r := Report{Kind: e.kind, Function: e.functionName(), Count: 1, Line: printableText(e.line)}
	key := string(r.Kind) + " " + r.Function
	at, known := s.index[key]
	if !known && len(s.reports) >= maxReports {
		key = "the rest"
		r = Report{Kind: Unexpected, Count: 1, Line: fmt.Sprintf("more than %d different reports", maxReports)}
		at, known = s.index[key]
	}
	if known {
		s.reports[at].Count++
		return
	}
	s.index[key] = len(s.reports)
	s.reports = append(s.reports, r)
}

// printableText removes unprintable characters from a line of the console.
func printableText(text string) string {
	if len(text) > lineText {
		text = text[:lineText] + "..."
	}
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == 0xfffd {
			return '?'
		}
		return c
	}, text))
}

// String describes a report for a message.
func (r Report) String() string {
	text := string(r.Kind)
	if r.Function != "" {
		text += " in " + r.Function
	}
	if r.Count > 1 {
		text += fmt.Sprintf(", %d times", r.Count)
	}
	return text
}

// Compare returns the expected reports that were not seen and the seen ones that were not
// expected, with their numbers. A count of 0 means 1. An expected report without a function
// matches one of its kind in any function.
func Compare(expected, seen []Report) (missing, extra []Report) {
	open := make([]Report, len(seen))
	copy(open, seen)
	for i := range open {
		open[i].Count = max(open[i].Count, 1)
	}
	for _, any := range []bool{false, true} {
		for _, want := range expected {
			if any != (want.Function == "") {
				continue
			}
			left := max(want.Count, 1)
			for i := range open {
				if open[i].Kind == want.Kind && (any || open[i].Function == want.Function) {
					n := min(left, open[i].Count)
					left -= n
					open[i].Count -= n
				}
			}
			if left > 0 {
				want.Count = left
				missing = append(missing, want)
			}
		}
	}
	for _, r := range open {
		if r.Count > 0 {
			extra = append(extra, r)
		}
	}
	return missing, extra
}
