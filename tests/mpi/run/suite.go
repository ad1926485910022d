// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// excluded are mpi4py's modules about processes that start processes: they
// need a launcher's name service, not messages.
var excluded = []string{"test_spawn", "test_dynproc"}

func (o *options) mpi4py(modules []string) (int, error) {
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
		return 0, fmt.Errorf("no tests of mpi4py in %s/mpi/mpi4py", o.build)
	}
	out, err := os.MkdirTemp(filepath.Join(o.build, "test"), "mpi4py-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(out)
	var t tap
	var table []row
	for _, mpi := range o.mpis {
		for _, n := range o.ranks {
			for _, m := range modules {
				r := o.compare(mpi, m, n, out)
				table = append(table, r)
				t.ok(r.good(), r.why(), "%s, %d ranks: %s", mpi, n, m)
				fmt.Println("# " + r.text())
			}
		}
	}
	if o.results != "" {
		if err := writeTable(o.results, table); err != nil {
			return 0, err
		}
	}
	return t.done(), nil
}

// A side is one module on one transport: each test's worst outcome among the
// ranks.
type side struct {
	outcome  map[string]string
	running  string // when the job ended before its tests
	job      result
	complete bool
}

// A row compares the two.
type row struct {
	mpi, module string
	ranks       int
	tcp, o2g    side
	broken      []string // pass on TCP, not on O2G
}

func (o *options) compare(mpi, module string, ranks int, out string) row {
	r := row{mpi: mpi, module: module, ranks: ranks}
	r.tcp = o.module(mpi, module, ranks, true, filepath.Join(out, "tcp"))
	r.o2g = o.module(mpi, module, ranks, false, filepath.Join(out, "o2g"))
	for name, outcome := range r.tcp.outcome {
		if passed(outcome) && !passed(r.o2g.outcome[name]) {
			r.broken = append(r.broken, name)
		}
	}
	slices.Sort(r.broken)
	return r
}

func passed(outcome string) bool { return outcome == "ok" || outcome == "skip" }

func (o *options) module(mpi, module string, ranks int, tcp bool, out string) side {
	prefix := filepath.Join(o.build, "mpi", mpi)
	for rank := range ranks {
		os.Remove(fmt.Sprintf("%s.%d", out, rank))
	}
	s := side{outcome: map[string]string{}, complete: true}
	s.job = o.start(job{prefix: prefix, ranks: ranks, tcp: tcp, program: []string{
		filepath.Join(prefix, "bin", "python"), "tests/mpi/suite.py",
		filepath.Join(o.build, "mpi", "mpi4py"), out, module}})
	for rank := range ranks {
		text, err := os.ReadFile(fmt.Sprintf("%s.%d", out, rank))
		s.add(string(text))
		s.complete = s.complete && err == nil
	}
	s.complete = s.complete && s.running == "" && !s.job.hung && s.job.err == nil
	return s
}

// worse orders outcomes.
var worse = []string{"ok", "skip", "bad", "start"}

func (s *side) add(text string) {
	last := map[string]string{}
	for line := range strings.Lines(text) {
		what, name, found := strings.Cut(strings.TrimSpace(line), " ")
		if !found || !slices.Contains(worse, what) {
			continue
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

func (s *side) count() (ok, skip, bad int) {
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

// good: TCP showed something, and O2G is not worse. A job that ends badly after
// its tests is worse too.
func (r *row) good() bool {
	return len(r.tcp.outcome) > 0 && len(r.broken) == 0 && (r.o2g.complete || !r.tcp.complete)
}

func (r *row) why() string {
	text := r.o2g.job.tail(12)
	if r.o2g.running != "" {
		text += "\nrunning: " + r.o2g.running
	}
	for _, name := range r.broken {
		text += "\npasses on TCP, not on O2G: " + name
	}
	if len(r.tcp.outcome) == 0 {
		text += "\non TCP no test ran: " + r.tcp.job.tail(6)
	}
	return text
}

func (r *row) text() string {
	tell := func(s *side) string {
		ok, skip, bad := s.count()
		return fmt.Sprintf("%d ok %d skipped %d bad in %v", ok, skip, bad, s.job.took.Round(100*time.Millisecond))
	}
	return fmt.Sprintf("tcp %s; o2g %s, %d messages", tell(&r.tcp), tell(&r.o2g), r.o2g.job.messages)
}

// writeTable writes the rows as a page of docs/results would show them.
func writeTable(path string, rows []row) error {
	var b strings.Builder
	b.WriteString("| MPI | ranks | module | tcp ok/skipped/bad | o2g ok/skipped/bad | worse on o2g |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		a, as, ab := r.tcp.count()
		c, cs, cb := r.o2g.count()
		fmt.Fprintf(&b, "| %s | %d | %s | %d/%d/%d | %d/%d/%d | %s |\n", r.mpi, r.ranks, r.module,
			a, as, ab, c, cs, cb, strings.Join(r.broken, " "))
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
