// SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"skep/tests/tap"
)

// excluded are mpi4py's modules about dynamic processes. They need a name service of the
// launcher, not messages. test_util_pool starts its workers dynamically.
var excluded = []string{"test_spawn", "test_dynproc", "test_util_pool"}

// A world is an MPI, and a Python whose mpi4py was built for that kind of MPI.
type world struct {
	prefix, python string
	env            []string
}

func (o *options) makeWorld(mpi string) world {
	own := filepath.Join(o.build, "mpi", mpi)
	if mpi != "debian" {
		return world{prefix: own, python: filepath.Join(own, "bin", "python")}
	}
	// Debian's Open MPI, with the mpi4py that fits any Open MPI.
	return world{"/usr", filepath.Join(o.build, "mpi", "openmpi", "bin", "python"),
		[]string{"MPI4PY_MPIABI=openmpi", "MPI4PY_LIBMPI=libmpi.so.40"}}
}

func (o *options) runMPI4Py(t *tap.Report, modules []string) error {
	if len(modules) == 0 {
		files, _ := filepath.Glob(filepath.Join(o.build, "mpi", "mpi4py", "test_*.py"))
		for _, f := range files {
			name := strings.TrimSuffix(filepath.Base(f), ".py")
			if !slices.Contains(excluded, name) {
				modules = append(modules, name)
			}
		}
	}
	if len(modules) == 0 {
		return fmt.Errorf("no tests of mpi4py in %s/mpi/mpi4py", o.build)
	}
	out, err := os.MkdirTemp(o.scratch, "mpi4py-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(out)
	var table []row
	for _, mpi := range o.mpis {
		for _, n := range o.ranks {
			if o.prove {
				proveLeftOuts(t, mpi, n, o.makeRunner(mpi, n, out))
			}
			var passed int
			var messages uint64
			jobs, err := o.groupModules(mpi, n, modules)
			if err != nil {
				return err
			}
			for _, m := range jobs {
				r := compare(mpi, m, n, o.makeRunner(mpi, n, out))
				table = append(table, r)
				t.Check(r.isGood(), r.failureReason(), "%s, %d ranks: %s", mpi, n, m)
				fmt.Println("# " + r.rowText())
				good, _, _ := r.o2g.countOutcomes()
				passed += good
				messages += r.o2g.job.messages
			}
			fmt.Printf("# %s, %d ranks: %d tests pass, with %d messages over O2G\n", mpi, n, passed, messages)
			if err := o.checkMessages(n, passed, messages); n > 1 || o.least > 0 {
				t.Check(err == nil, fmt.Sprint(err), "%s, %d ranks: enough tests pass, with messages over O2G", mpi, n)
			}
		}
	}
	if o.results != "" {
		if err := writeTable(o.results, table); err != nil {
			return err
		}
	}
	return nil
}

// checkMessages checks that n ranks sent messages over O2G. A single rank sends none.
func (o *options) checkMessages(n, passed int, messages uint64) error {
	if passed < o.least {
		return fmt.Errorf("%d tests pass, want %d", passed, o.least)
	}
	if n > 1 && messages == 0 {
		return errors.New("no message went over O2G")
	}
	return nil
}

// groupModules returns groups of modules for n ranks. Names of a group are joined by commas.
func (o *options) groupModules(mpi string, n int, modules []string) ([]string, error) {
	var fit, jobs []string
	for _, m := range modules {
		m, most, err := splitRankLimit(m)
		if err != nil {
			return nil, err
		}
		if n <= most && !isUnfit(mpi, n, m) {
			fit = append(fit, m)
		}
	}
	for some := range slices.Chunk(fit, max(1, o.together)) {
		jobs = append(jobs, strings.Join(some, ","))
	}
	return jobs, nil
}

// splitRankLimit splits MODULE@N: the module runs with at most N ranks, for
// modules that take minutes where ranks outnumber cores.
func splitRankLimit(module string) (string, int, error) {
	name, most, found := strings.Cut(module, "@")
	if !found {
		return module, math.MaxInt, nil
	}
	n, err := strconv.Atoi(most)
	return name, n, err
}

// A side is one module on one transport: each test's worst outcome among the
// ranks.
type side struct {
	outcome  map[string]string
	first    string // the first test that failed
	running  string // the running test, if the job ended before its tests
	job      result
	complete bool
}

// A row compares the two.
type row struct {
	mpi, module string
	ranks       int
	tcp, o2g    side
	broken      []string // worse on O2G than on TCP
	left        []string // excluded tests: leftOuts, and what failed on TCP each time
}

// Limits of the comparison.
const (
	leftMax = 6 // tests of one module that may be excused
	tcpRuns = 6 // in which TCP must fail a test each time to excuse it
)

// A runner runs a module or test on one transport, without the tests in left.
type runner func(module string, tcp bool, left []string) side

// compare runs a module on both transports, until O2G passes all tests that TCP may pass. A
// test that fails on O2G is excused if TCP fails it in each of tcpRuns runs of it alone; so
// is a test at which the job on TCP ends. The module is then run again without it.
func compare(mpi, module string, ranks int, run runner) row {
	r := row{mpi: mpi, module: module, ranks: ranks, left: excludedTests(mpi, ranks, module)}
	for known := len(r.left); ; {
		culprit := r.runTCP(run)
		if r.tcp.complete {
			r.o2g = run(module, false, r.left)
			r.judge()
			culprit = r.o2g.firstFailure()
			if culprit == "" || slices.Contains(r.broken, culprit) {
				return r
			}
			if len(r.left) == known+leftMax || !failsOnTCP(culprit, run) {
				r.broken = append(r.broken, culprit)
				return r
			}
		}
		if culprit == "" || len(r.left) == known+leftMax {
			return r
		}
		r.left = append(r.left, culprit)
	}
}

// runTCP runs the module on TCP, again if it does not end. If TCP fails the test at which it
// ended each time, it returns this test.
func (r *row) runTCP(run runner) string {
	for range tcpRuns {
		if r.tcp = run(r.module, true, r.left); r.tcp.complete {
			return ""
		}
		if culprit := r.tcp.firstFailure(); culprit != "" && failsOnTCP(culprit, run) {
			return culprit
		}
	}
	return ""
}

// judge finds the tests that are worse on O2G: a test that passes on TCP must pass. A test
// that skips itself only on O2G counts as broken.
func (r *row) judge() {
	r.broken = nil
	for name, outcome := range r.tcp.outcome {
		over, ran := r.o2g.outcome[name]
		if isPass(outcome) && (!ran || slices.Index(worse, over) > slices.Index(worse, outcome)) {
			r.broken = append(r.broken, name)
		}
	}
	slices.Sort(r.broken)
}

// failsOnTCP reports whether a test alone fails in each of tcpRuns runs on TCP. A run in
// which it did not begin says nothing about it, so it excuses nothing.
func failsOnTCP(test string, run runner) bool {
	for range tcpRuns {
		s := run(test, true, nil)
		if outcome, began := s.outcome[test]; !began || s.complete && isPass(outcome) {
			return false
		}
	}
	return true
}

// firstFailure returns the first test that failed or hung.
func (s *side) firstFailure() string {
	if s.first != "" {
		return s.first
	}
	return s.running
}

func isPass(outcome string) bool { return outcome == "ok" || outcome == "skip" }

// makeRunner returns a runner of jobs of an MPI with so many ranks, which write to out.
func (o *options) makeRunner(mpi string, ranks int, out string) runner {
	out = filepath.Join(out, "rank")
	w := o.makeWorld(mpi)
	return func(module string, tcp bool, left []string) side {
		for rank := range ranks {
			os.Remove(fmt.Sprintf("%s.%d", out, rank))
		}
		s := side{outcome: map[string]string{}, complete: true}
		program := []string{w.python, "tests/mpi/suite.py",
			filepath.Join(o.build, "mpi", "mpi4py"), out, module}
		s.job = o.start(job{prefix: w.prefix, env: w.env, ranks: ranks, tcp: tcp, deadline: o.deadline,
			program: append(program, left...)})
		for rank := range ranks {
			text, err := os.ReadFile(fmt.Sprintf("%s.%d", out, rank))
			s.add(string(text))
			s.complete = s.complete && err == nil
		}
		s.complete = s.complete && s.running == "" && !s.job.hung && s.job.err == nil
		return s
	}
}

// worse lists the outcomes from best to worst.
var worse = []string{"ok", "skip", "bad", "start"}

func (s *side) add(text string) {
	last := map[string]string{}
	for line := range strings.Lines(text) {
		what, name, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found || !slices.Contains(worse, what) {
			continue
		}
		if what == "bad" && s.first == "" {
			s.first = name
		}
		if last[name] != "bad" { // a subtest failed
			last[name] = what
		}
	}
	for name, what := range last {
		if what == "start" {
			s.running = name
		}
		if old, known := s.outcome[name]; !known || slices.Index(worse, what) > slices.Index(worse, old) {
			s.outcome[name] = what
		}
	}
}

func (s *side) countOutcomes() (ok, skip, bad int) {
	for _, what := range s.outcome {
		switch what {
		case "ok":
			ok++
		case "skip":
			skip++
		default:
			bad++
		}
	}
	return ok, skip, bad
}

// isGood reports whether both runs ended, a test passed, and O2G is not worse.
func (r *row) isGood() bool {
	ok, skip, _ := r.tcp.countOutcomes()
	return r.tcp.complete && r.o2g.complete && len(r.broken) == 0 && ok+skip > 0
}

func (r *row) failureReason() string {
	text := r.o2g.job.lastLines(12)
	if r.o2g.running != "" {
		text += "\nrunning: " + r.o2g.running
	}
	for _, name := range r.broken {
		text += fmt.Sprintf("\n%s on TCP, %s on O2G: %s", r.tcp.outcome[name], cmp.Or(r.o2g.outcome[name], "not run"), name)
	}
	if ok, skip, _ := r.tcp.countOutcomes(); !r.tcp.complete || ok+skip == 0 {
		text += "\nnothing to compare with, on TCP: " + r.tcp.job.lastLines(6)
	}
	return text
}

func (r *row) rowText() string {
	left := ""
	if len(r.left) > 0 {
		left = "; left out: " + strings.Join(r.left, " ")
	}
	tell := func(s *side) string {
		ok, skip, bad := s.countOutcomes()
		return fmt.Sprintf("%d ok %d skipped %d bad in %v", ok, skip, bad, s.job.took.Round(100*time.Millisecond))
	}
	return fmt.Sprintf("tcp %s; o2g %s, %d messages%s", tell(&r.tcp), tell(&r.o2g), r.o2g.job.messages, left)
}

// writeTable writes the rows as a table for docs/results.
func writeTable(path string, rows []row) error {
	var b strings.Builder
	b.WriteString("| MPI | ranks | module | tcp ok/skipped/bad | o2g ok/skipped/bad | worse on o2g | left out |\n|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		a, as, ab := r.tcp.countOutcomes()
		c, cs, cb := r.o2g.countOutcomes()
		fmt.Fprintf(&b, "| %s | %d | %s | %d/%d/%d | %d/%d/%d | %s | %s |\n", r.mpi, r.ranks, r.module,
			a, as, ab, c, cs, cb, strings.Join(r.broken, " "), strings.Join(r.left, " "))
	}
	b.WriteString("\nLeft out, with the cause:\n\n")
	for _, l := range leftOuts {
		if slices.ContainsFunc(rows, func(r row) bool { return l.covers(r.mpi, r.ranks) }) {
			b.WriteString("- " + l.text() + "\n")
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
