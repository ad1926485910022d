// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// A promise is a paragraph of SPEC.md that begins with **id-N**. After "Held by:" it lists
// the tests that verify it, each as `suite: test name`. A name that ends in * stands for all
// tests that begin so; there must be at least one.
type promise struct {
	id    string
	tests [][2]string // suite, test
}

// A judgement is the result of a run for the promises.
type judgement struct {
	promises []promise
	held     int
	broken   []result
	unshown  []string // "id: why", when a test was skipped
}

const specSuite = "spec"

var (
	promiseHead = regexp.MustCompile(`^\*\*([a-z0-9]+(?:-[a-z0-9]+)*-[0-9]+)\*\*`)
	promiseTest = regexp.MustCompile("`([a-z0-9.-]+): ([^`]+)`")
)

func readSpec(path string) ([]promise, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []promise
	seen := map[string]bool{}
	for _, para := range strings.Split(string(text), "\n\n") {
		para = strings.TrimSpace(strings.Join(strings.Fields(para), " "))
		m := promiseHead.FindStringSubmatch(para)
		if m == nil {
			continue
		}
		p := promise{id: m[1]}
		if seen[p.id] {
			return nil, fmt.Errorf("%s: promise %s is declared twice", path, p.id)
		}
		seen[p.id] = true
		if _, names, ok := strings.Cut(para, "Held by:"); ok {
			for _, t := range promiseTest.FindAllStringSubmatch(names, -1) {
				if strings.Contains(strings.TrimSuffix(t[2], "*"), "*") {
					return nil, fmt.Errorf("%s: promise %s: %s: only the end of a name may be *", path, p.id, t[0])
				}
				p.tests = append(p.tests, [2]string{t[1], t[2]})
			}
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s holds no promise", path)
	}
	return list, nil
}

// judgeSpec compares every promise with the results, or with part only those whose suites
// were all run.
func judgeSpec(path string, suites []suite, all []result, part bool) (judgement, error) {
	var j judgement
	list, err := readSpec(path)
	if err != nil {
		return j, err
	}
	ran := map[string]bool{}
	for _, s := range suites {
		ran[s.name] = true
	}
	for _, p := range list {
		if part && !p.isComplete(ran) {
			continue
		}
		j.promises = append(j.promises, p)
		j.add(p, all)
	}
	return j, nil
}

func (p promise) isComplete(ran map[string]bool) bool {
	for _, t := range p.tests {
		if !ran[t[0]] {
			return false
		}
	}
	return true
}

func (j *judgement) add(p promise, all []result) {
	var bad, open []string
	if len(p.tests) == 0 {
		bad = append(bad, "names no test")
	}
	for _, t := range p.tests {
		what := fmt.Sprintf("`%s: %s`", t[0], t[1])
		switch worstStatus(t, all) {
		case passed:
		case skipped:
			open = append(open, what+" was skipped")
		case failed:
			bad = append(bad, what+" failed")
		default:
			bad = append(bad, what+" did not run")
		}
	}
	switch {
	case len(bad) > 0:
		j.broken = append(j.broken, result{suite: specSuite, name: "promise " + p.id,
			status: failed, reason: strings.Join(append(bad, open...), "; ")})
	case len(open) > 0:
		j.unshown = append(j.unshown, p.id+": "+strings.Join(open, "; "))
	default:
		j.held++
	}
}

// worstStatus returns the worst status of the tests that a name stands for, "" for none.
func worstStatus(name [2]string, all []result) status {
	var w status
	prefix, wild := strings.CutSuffix(name[1], "*")
	for _, r := range all {
		if r.suite != name[0] {
			continue
		}
		if r.name != name[1] && !(wild && strings.HasPrefix(r.name, prefix)) {
			continue
		}
		switch {
		case r.status == failed:
			return failed
		case r.status == skipped:
			w = skipped
		case w == "":
			w = passed
		}
	}
	return w
}

func (j judgement) results() []result { return j.broken }
