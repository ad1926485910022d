// SPDX-License-Identifier: MIT

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"skep/tests/tap"
)

// A reporter prints the report for people: a line per suite, the failures with the output
// around them, the skips with their reasons, and one closing line.
type reporter struct {
	out io.Writer
	tty bool
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (rep *reporter) start(s suite) {
	if rep.tty {
		fmt.Fprintf(rep.out, "  ...  %s", s.name)
	}
}

func (rep *reporter) reportSuite(s suite, o outcome) {
	if rep.tty {
		fmt.Fprint(rep.out, "\r\x1b[K")
	}
	mark := "ok  "
	bad := countStatus(o.results, failed)
	if bad > 0 {
		mark = "FAIL"
	}
	fmt.Fprintf(rep.out, "  %s %-20s %4d passed", mark, s.name, countStatus(o.results, passed))
	if bad > 0 {
		fmt.Fprintf(rep.out, ", %d failed", bad)
	}
	if n := countStatus(o.results, skipped); n > 0 {
		fmt.Fprintf(rep.out, ", %d skipped", n)
	}
	fmt.Fprintf(rep.out, "  %.1f s, %.1f s of processor\n", o.took.Seconds(), o.cpu.Seconds())
	rep.reportFailures(o.results)
}

// reportShared says why the runner cannot see all that suites leave.
func (rep *reporter) reportShared(why error) {
	fmt.Fprintf(rep.out, "  not seen: mounts and shared memory that suites leave, without root: %v\n", why)
}

func (rep *reporter) reportEmpty(list string) {
	fmt.Fprintf(rep.out, "  FAIL %s names no suite: no room defines one for this target\n", list)
}

func (rep *reporter) reportFailures(list []result) {
	for _, r := range list {
		if r.status != failed {
			continue
		}
		fmt.Fprintf(rep.out, "       not ok: %s: %s%s\n", r.suite, r.name, tap.AppendCause(r.reason))
		for _, line := range r.detail {
			fmt.Fprintf(rep.out, "         | %s\n", line)
		}
	}
}

func (rep *reporter) reportSpec(j judgement) {
	fmt.Fprintf(rep.out, "  SPEC: %d of %d promises held\n", j.held, len(j.promises))
	rep.reportFailures(j.broken)
	for _, u := range j.unshown {
		fmt.Fprintf(rep.out, "       not shown in this run: %s\n", u)
	}
}

// reportAgain prints whether failed suites run again.
func (rep *reporter) reportAgain(text string) {
	fmt.Fprintf(rep.out, "  %s\n", text)
}

// close prints skips, unsteady suites and, last, each failure once more, since of long logs
// some keep the end only. It returns the closing line.
func (rep *reporter) close(all []result, saved []retake) (string, bool) {
	for _, r := range all {
		if r.status == skipped {
			fmt.Fprintf(rep.out, "  skip %s: %s: %s\n", r.suite, r.name, r.reason)
		}
	}
	for _, r := range saved {
		fmt.Fprintf(rep.out, "  unsteady %s: failed once, passed alone: %s of the first failure kept\n", r.suite.name, r.log)
	}
	if len(saved) > 0 {
		fmt.Fprintf(rep.out, "  unsteady suites: %d, at most %d may be\n", len(saved), unsteadyMax)
	}
	bad := countStatus(all, failed)
	if bad > 0 {
		fmt.Fprintf(rep.out, "  what failed:\n")
		rep.reportFailures(all)
	}
	line := fmt.Sprintf("%d passed, %d failed, %d skipped\n",
		countStatus(all, passed), bad, countStatus(all, skipped))
	return line, bad == 0
}

// writeResults writes suite, test, status, reason, separated by tabs.
func writeResults(path string, all []result) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	clean := strings.NewReplacer("\t", " ", "\n", " ", "\r", " ")
	for _, r := range all {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", r.suite, clean.Replace(r.name), r.status, clean.Replace(r.reason))
	}
	if err := out.Flush(); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
