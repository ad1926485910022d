// SPDX-License-Identifier: MIT

package main

import (
	"slices"
	"strings"
	"testing"
)

// sideOf returns a side made of the ranks' outputs.
func sideOf(ranks ...string) side {
	s := side{outcome: map[string]string{}, complete: true}
	for _, text := range ranks {
		s.add(strings.ReplaceAll(text, ",", "\n"))
	}
	return s
}

// TestJudge: no test may be worse on O2G than on TCP; a skip counts as worse.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name     string
		tcp, o2g []string
		broken   []string
		good     bool
	}{
		{"the same", []string{"ok a,skip b,bad c"}, []string{"ok a,skip b,bad c"}, nil, true},
		{"better", []string{"skip a,bad b,ok c"}, []string{"ok a,ok b,ok c"}, nil, true},
		{"skips", []string{"ok a,ok b"}, []string{"skip a,ok b"}, []string{"a"}, false},
		{"skips on one rank", []string{"ok a", "ok a"}, []string{"ok a", "skip a"}, []string{"a"}, false},
		{"fails", []string{"ok a,skip b"}, []string{"bad a,bad b"}, []string{"a", "b"}, false},
		{"hangs", []string{"ok a"}, []string{"start a"}, []string{"a"}, false},
		{"never runs", []string{"ok a"}, []string{""}, []string{"a"}, false},
		{"nothing to compare with", []string{"bad a"}, []string{"bad a"}, nil, false},
	} {
		r := row{tcp: sideOf(c.tcp...), o2g: sideOf(c.o2g...)}
		r.judge()
		if !slices.Equal(r.broken, c.broken) || r.isGood() != c.good {
			t.Errorf("%s: broken %v, good %v: %s", c.name, r.broken, r.isGood(), r.failureReason())
		}
	}
}

// TestEnoughMessages: several ranks that sent no message over O2G are a failure.
func TestEnoughMessages(t *testing.T) {
	for _, c := range []struct {
		least, ranks, passed int
		messages             uint64
		want                 string
	}{
		{0, 1, 5, 0, ""},
		{0, 2, 5, 1, ""},
		{0, 2, 5, 0, "no message"},
		{1100, 1, 1100, 0, ""},
		{1100, 1, 1099, 0, "want 1100"},
		{1100, 3, 1099, 9, "want 1100"},
		{1100, 3, 1100, 0, "no message"},
	} {
		o := options{least: c.least}
		err := o.checkMessages(c.ranks, c.passed, c.messages)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A script is what each run of a module or test says, in order; the last one repeats.
type script map[string][]string

// runner returns a runner of the script, whose keys are a transport and a name. A run
// without one of these tests is "NAME-TEST". "!" at the end is a job that failed.
func (c script) runner(t *testing.T) runner {
	runs := map[string]int{}
	return func(name string, tcp bool, left []string) side {
		key := "o2g " + name
		if tcp {
			key = "tcp " + name
		}
		for _, test := range left {
			key += "-" + test
		}
		texts := c[key]
		if len(texts) == 0 {
			t.Fatalf("unexpected run of %s", key)
		}
		text := texts[min(runs[key], len(texts)-1)]
		runs[key]++
		s := sideOf(strings.TrimSuffix(text, "!"))
		s.complete = s.running == "" && !strings.HasSuffix(text, "!")
		return s
	}
}

// TestExcuses: only what TCP fails six times of six is excused.
func TestExcuses(t *testing.T) {
	const fails = "bad a"
	for _, c := range []struct {
		name         string
		runs         script
		good         bool
		broken, left string
	}{
		{"passes on both", script{"tcp m": {"ok a,ok b"}, "o2g m": {"ok a,ok b"}}, true, "", ""},
		{"TCP passes it at first", script{"tcp m": {"ok a,ok b"}, "o2g m": {"bad a,ok b"}}, false, "a", ""},
		{"TCP fails it once", script{"tcp m": {"bad a,ok b"}, "o2g m": {"bad a,ok b"},
			"tcp a": {fails, "ok a"}}, false, "a", ""},
		{"TCP fails it five times", script{"tcp m": {"bad a,ok b"}, "o2g m": {"bad a,ok b"},
			"tcp a": {fails, fails, fails, fails, fails, "ok a"}}, false, "a", ""},
		{"TCP fails it six times", script{"tcp m": {"bad a,ok b"}, "o2g m": {"start a"}, "tcp a": {fails},
			"tcp m-a": {"ok b"}, "o2g m-a": {"ok b"}}, true, "", "a"},
		{"another one is behind it", script{"tcp m": {"bad a,ok b"}, "o2g m": {"start a"}, "tcp a": {fails},
			"tcp m-a": {"ok b"}, "o2g m-a": {"bad b"}}, false, "b", "a"},
		{"it never begins alone", script{"tcp m": {"bad a,ok b"}, "o2g m": {"bad a,ok b"},
			"tcp a": {"bad c"}}, false, "a", ""},
		{"TCP hangs once", script{"tcp m": {"start a", "ok a,ok b"}, "tcp a": {"ok a"},
			"o2g m": {"bad a,ok b"}}, false, "a", ""},
		{"TCP ends there each time", script{"tcp m": {"start a!"}, "tcp a": {"start a!"},
			"tcp m-a": {"ok b"}, "o2g m-a": {"ok b"}}, true, "", "a"},
		{"TCP's job fails after it", script{"tcp m": {"bad a,ok b"}, "o2g m": {"bad a,ok b"}, "tcp a": {"ok a!"},
			"tcp m-a": {"ok b"}, "o2g m-a": {"ok b"}}, true, "", "a"},
		{"TCP never ends", script{"tcp m": {"ok a!"}}, false, "", ""},
		{"O2G's job fails", script{"tcp m": {"ok a"}, "o2g m": {"ok a!"}}, false, "", ""},
	} {
		r := compare("none", "m", 2, c.runs.runner(t))
		if got := strings.Join(r.broken, " "); r.isGood() != c.good || !strings.Contains(got, c.broken) ||
			c.broken == "" && got != "" || strings.Join(r.left, " ") != c.left {
			t.Errorf("%s: good %v, broken %q, left out %q", c.name, r.isGood(), got, r.left)
		}
	}
}

// TestExcusesFew: no more than six tests of a module are excused.
func TestExcusesFew(t *testing.T) {
	failsAll := func(name string, tcp bool, left []string) side {
		if name != "m" {
			return sideOf("bad " + name)
		}
		return sideOf("ok z,bad t" + strings.Repeat("x", len(left)))
	}
	if r := compare("none", "m", 2, failsAll); r.isGood() || len(r.left) != 6 || len(r.broken) != 1 {
		t.Errorf("good %v, broken %q, left out %q", r.isGood(), r.broken, r.left)
	}
}

// TestLeftOuts: the tests that are left out are those of that MPI and number of ranks.
func TestLeftOuts(t *testing.T) {
	for _, c := range []struct {
		mpi, module string
		ranks, want int
		unfit       bool
	}{
		{"mpich", "test_comm_topo", 2, 2, false},
		{"mpich", "test_comm_topo", 3, 0, false},
		{"openmpi", "test_comm_topo", 2, 0, false},
		{"openmpi", "test_p2p_buf,test_ulfm", 1, 3, false},
		{"debian", "test_p2p_obj", 3, 0, true},
		{"mpich", "test_p2p_obj", 3, 0, false},
	} {
		if got := excludedTests(c.mpi, c.ranks, c.module); len(got) != c.want ||
			isUnfit(c.mpi, c.ranks, c.module) != c.unfit {
			t.Errorf("%+v: %q", c, got)
		}
	}
	for _, l := range leftOuts {
		if l.cause == "" || !strings.Contains(l.text(), l.cause) || !strings.Contains(l.text(), l.module) {
			t.Errorf("%+v: its line in the table is %q", l, l.text())
		}
	}
}
