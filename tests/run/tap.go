// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A tapParser reads the Test Anything Protocol, strictly: one plan, numbers in
// order, a reason for each skip. TODO is not honoured: a test holds or fails.
type tapParser struct {
	suite   string
	results []result
	planned int  // -1 would be a plan of a skipped suite
	plans   int  // plan lines seen
	empty   bool // plan 1..0 with a reason
	faults  []string
	recent  tail // lines since the last test line
	last    tail // lines at the end, whatever they are
}

var (
	tapTest = regexp.MustCompile(`^(not )?ok\b(?: +(\d+))?(?: +-)? *(.*)$`)
	tapPlan = regexp.MustCompile(`^1\.\.(\d+)\s*(?:#\s*(?i:skip)\S*\s*(.*))?$`)
	tapSkip = regexp.MustCompile(`(?i)\s*#\s*skip\S*\s*(.*)$`)
)

func (p *tapParser) noise(text string) {
	p.recent.add(text)
	p.last.add(text)
}

func (p *tapParser) line(text string) {
	p.last.add(text)
	text = strings.TrimSuffix(text, "\r")
	if m := tapPlan.FindStringSubmatch(text); m != nil {
		p.plan(m[1], m[2])
		return
	}
	if m := tapTest.FindStringSubmatch(text); m != nil {
		p.test(m[1] == "", m[2], m[3])
		return
	}
	if rest, ok := strings.CutPrefix(text, "Bail out!"); ok {
		p.faults = append(p.faults, "bailed out:"+rest)
		return
	}
	if n := len(p.results); n > 0 && p.results[n-1].status == failed && strings.HasPrefix(text, "#") {
		if r := &p.results[n-1]; len(r.detail) < 2*tailMax {
			r.detail = append(r.detail, text)
		}
		return
	}
	p.recent.add(text)
}

func (p *tapParser) plan(count, reason string) {
	p.plans++
	p.planned, _ = strconv.Atoi(count)
	if p.planned == 0 && reason != "" {
		p.empty = true
		p.results = append(p.results, result{suite: p.suite, name: whole, status: skipped, reason: reason})
	}
}

func (p *tapParser) test(ok bool, number, rest string) {
	r := result{suite: p.suite, status: passed}
	if n, err := strconv.Atoi(number); err == nil && n != len(p.results)+1 {
		p.faults = append(p.faults, fmt.Sprintf("test number %d where %d comes next", n, len(p.results)+1))
	}
	if m := tapSkip.FindStringSubmatchIndex(rest); m != nil {
		r.status, r.reason = skipped, strings.TrimSpace(rest[m[2]:m[3]])
		rest = rest[:m[0]]
		if r.reason == "" {
			r.status, r.reason = failed, "skipped without a reason"
		}
	}
	r.name = strings.TrimSpace(rest)
	if r.name == "" {
		r.name = fmt.Sprintf("test %d", len(p.results)+1)
	}
	before := p.recent.take()
	if !ok {
		r.status, r.detail = failed, before
	}
	p.results = append(p.results, r)
}

func (p *tapParser) finish(exit string) []result {
	for _, cause := range p.causes(exit) {
		p.results = append(p.results, result{
			suite: p.suite, name: whole, status: failed,
			reason: cause, detail: p.last.lines,
		})
		p.last.lines = nil // once is enough
	}
	return p.results
}

// causes lists what is wrong with the report as a whole.
func (p *tapParser) causes(exit string) []string {
	causes := p.faults
	count := len(p.results)
	if p.empty {
		count--
	}
	switch {
	case p.plans == 0 && count == 0:
		causes = append(causes, "no test and no plan"+because(exit))
	case p.plans == 0:
		causes = append(causes, fmt.Sprintf("no plan after %d tests%s", count, because(exit)))
	case p.plans > 1:
		causes = append(causes, "more than one plan")
	case count != p.planned:
		causes = append(causes, fmt.Sprintf("%d tests planned, %d reported%s", p.planned, count, because(exit)))
	case count == 0 && !p.empty:
		causes = append(causes, "no test ran")
	case exit != "" && countStatus(p.results, failed) == 0:
		causes = append(causes, exit+", though no test failed")
	}
	return causes
}

func because(exit string) string {
	if exit == "" {
		return ""
	}
	return ": " + exit
}

func countStatus(list []result, s status) int {
	n := 0
	for _, r := range list {
		if r.status == s {
			n++
		}
	}
	return n
}
