// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// unsteadyMax is how many suites of a whole run may fail at first and then pass. Each of them
// has a fault, or tests code that has one.
const unsteadyMax = 1

// A retake is the second run of a suite that failed.
type retake struct {
	suite suite
	log   string // of the first run, kept
}

// runAgain runs failed suites a second time when all others are done; then the second run
// counts. It does not do so if more than o.again suites failed, or if a fuzzer failed: a fault
// found by chance is a fault.
func runAgain(o options, suites []suite, outs []outcome, rep *reporter, stop <-chan os.Signal) ([]retake, error) {
	bad := indexFailed(outs)
	if len(bad) == 0 || o.again == 0 {
		return nil, nil
	}
	if why := finalReason(o, suites, bad); why != "" {
		rep.reportAgain("no suite is run again: " + why)
		return nil, nil
	}
	rep.reportAgain("failed suites, run again alone:")
	var saved []retake
	for _, i := range bad {
		log := o.log(suites[i])
		if err := os.Rename(log, o.firstLog(suites[i])); err != nil {
			return nil, err
		}
		first := outs[i]
		second, err := runOne(o, suites[i], rep, stop, first.results)
		if err != nil {
			return nil, err
		}
		outs[i] = second
		if countStatus(second.results, failed) == 0 {
			saved = append(saved, retake{suites[i], o.firstLog(suites[i])})
		}
	}
	return saved, nil
}

func indexFailed(outs []outcome) []int {
	var bad []int
	for i, out := range outs {
		if countStatus(out.results, failed) > 0 {
			bad = append(bad, i)
		}
	}
	return bad
}

// finalReason returns why failed suites are not run again, or an empty string.
func finalReason(o options, suites []suite, bad []int) string {
	if len(bad) > o.again {
		return fmt.Sprintf("%d failed, more than %d", len(bad), o.again)
	}
	for _, i := range bad {
		if suites[i].kind == "fuzz" {
			return suites[i].name + " found something"
		}
	}
	return ""
}

// lostTests returns the tests because of which a second run without failures does not count:
// a test that failed must have passed now, and none may be missing.
func lostTests(first, second []result) []result {
	if countStatus(second, failed) > 0 {
		return nil
	}
	good := map[string]bool{}
	for _, r := range second {
		good[r.name] = good[r.name] || r.status == passed || r.status == grouped
	}
	for _, r := range first {
		if r.status == failed && !r.wide && r.name != suiteItself && !good[r.name] {
			return []result{{suite: r.suite, name: suiteItself, status: failed,
				reason: fmt.Sprintf("%q failed, and did not pass when the suite was run again", r.name)}}
		}
	}
	before, now := countStatus(first, passed), countStatus(second, passed)
	if now == 0 || now < before {
		return []result{{suite: first[0].suite, name: suiteItself, status: failed,
			reason: fmt.Sprintf("%d passed when the suite was run again, %d before", now, before)}}
	}
	return nil
}

func (r retake) result() result {
	return result{suite: r.suite.name, name: suiteItself, status: unsteady, reason: "failed once: " + r.log}
}

// judgeUnsteady fails a run in which more than unsteadyMax suites needed a second run.
func judgeUnsteady(saved []retake) []result {
	if len(saved) <= unsteadyMax {
		return nil
	}
	return []result{{suite: suiteItself, name: "number of unsteady suites", status: failed,
		reason: fmt.Sprintf("%d failed once and passed alone, at most %d may", len(saved), unsteadyMax)}}
}

func (o options) log(s suite) string {
	return filepath.Join(o.logs, s.name+".log")
}

// firstLog returns the path at which a failed run's log is kept when the suite runs again.
func (o options) firstLog(s suite) string {
	return filepath.Join(o.logs, s.name+".first.log")
}
