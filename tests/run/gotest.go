// SPDX-License-Identifier: MIT

package main

import (
	"encoding/json"
	"strings"

	"skep/tests/tap"
)

// A goParser reads `go test -json`. Names are "package Test/sub", the package
// without the module's name.
type goParser struct {
	suite  string
	tests  map[string]*goTest // by package and test
	order  []*goTest
	broken []result // packages that failed as a whole
	last   tap.Tail
	output map[string]*tap.Tail // of packages
}

type goTest struct {
	pkg, name string
	status    status
	output    tap.Tail
	parent    bool
}

type goEvent struct {
	Action, Package, ImportPath, Test, Output string
}

func newGoParser(suite string) *goParser {
	return &goParser{suite: suite, tests: map[string]*goTest{}, output: map[string]*tap.Tail{}}
}

func (p *goParser) noise(text string) { p.last.Add(text) }

func (p *goParser) line(text string) {
	var e goEvent
	if json.Unmarshal([]byte(text), &e) != nil {
		p.last.Add(text)
		return
	}
	pkg := e.Package
	if pkg == "" { // build events name what was built, and for whom
		pkg, _, _ = strings.Cut(e.ImportPath, " ")
	}
	if e.Test == "" {
		p.packageEvent(pkg, e)
		return
	}
	t := p.findTest(pkg, e.Test)
	switch e.Action {
	case "output":
		t.output.Add(strings.TrimRight(e.Output, "\n"))
	case "pass":
		t.status = passed
	case "fail":
		t.status = failed
	case "skip":
		t.status = skipped
	}
}

func (p *goParser) packageEvent(pkg string, e goEvent) {
	switch e.Action {
	case "output", "build-output":
		if p.output[pkg] == nil {
			p.output[pkg] = &tap.Tail{}
		}
		p.output[pkg].Add(strings.TrimRight(e.Output, "\n"))
	case "fail":
		if p.failedIn(pkg) == 0 {
			p.broken = append(p.broken, result{
				suite: p.suite, name: shortPackage(pkg), status: failed,
				reason: "the package failed, none of its tests did",
				detail: p.packageOutput(pkg), wide: true,
			})
		}
	}
}

func (p *goParser) packageOutput(pkg string) []string {
	if t := p.output[pkg]; t != nil {
		return t.Lines
	}
	return nil
}

// failedIn counts tests of pkg that failed or never ended.
func (p *goParser) failedIn(pkg string) int {
	n := 0
	for _, t := range p.order {
		if t.pkg == pkg && t.status != passed && t.status != skipped {
			n++
		}
	}
	return n
}

func (p *goParser) findTest(pkg, name string) *goTest {
	key := pkg + " " + name
	if t := p.tests[key]; t != nil {
		return t
	}
	t := &goTest{pkg: pkg, name: name}
	p.tests[key] = t
	p.order = append(p.order, t)
	return t
}

func (p *goParser) finish(exit string) []result {
	p.markParents()
	var list []result
	for _, t := range p.order {
		list = append(list, t.result(p.suite))
	}
	list = append(list, p.broken...)
	switch {
	case len(list) == 0:
		list = append(list, result{suite: p.suite, name: suiteItself, status: failed,
			reason: "no test ran" + tap.AppendCause(exit), detail: p.last.Lines})
	case exit != "" && countStatus(list, failed) == 0:
		list = append(list, result{suite: p.suite, name: suiteItself, status: failed,
			reason: exit + ", though no test failed", detail: p.last.Lines})
	}
	return list
}

// markParents marks tests that have subtests. A slash in a name is not sufficient, because a
// name may contain slashes.
func (p *goParser) markParents() {
	for _, t := range p.order {
		for i, c := range t.name {
			if parent := p.tests[t.pkg+" "+t.name[:i]]; c == '/' && parent != nil {
				parent.parent = true
			}
		}
	}
}

func (t *goTest) result(suite string) result {
	r := result{suite: suite, name: shortPackage(t.pkg) + " " + t.name, status: t.status}
	switch {
	case t.status == "":
		r.status, r.reason, r.detail = failed, "started but never ended", t.output.Lines
	case t.status == failed:
		r.detail = t.output.Lines
	case t.status == skipped:
		r.reason = t.skipReason()
		if r.reason == "" {
			r.status, r.reason = failed, "skipped without a reason"
		}
	case t.parent:
		r.status = grouped
	}
	return r
}

// skipReason returns the text of t.Skip, which is printed as "    file_test.go:12: text".
func (t *goTest) skipReason() string {
	for _, line := range t.output.Lines {
		if _, text, ok := strings.Cut(line, "_test.go:"); ok {
			_, text, _ = strings.Cut(text, ": ")
			return strings.TrimSpace(text)
		}
	}
	return ""
}

func shortPackage(pkg string) string {
	return strings.TrimPrefix(pkg, "skep/")
}
