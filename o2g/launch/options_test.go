// SPDX-License-Identifier: MIT

package launch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ownOf returns the number of arguments of skep's own options -n N, --mpi PREFIX
// and --no-shm.
func ownOf(name string) int {
	values, known := map[string]int{"n": 1, "mpi": 1, "no-shm": 0}[name]
	if !known {
		return -1
	}
	return values
}

// own also has the typo --no-smh and --tcp.
var own = Own{Values: ownOf, Meant: func(name string) bool { return ownOf(name) >= 0 || name == "no-smh" || name == "tcp" }}

func TestSplitOptions(t *testing.T) {
	for _, c := range []struct{ line, rest, passed string }{
		{"-n 2 ./app -x 1", "-n 2 ./app -x 1", "[]"},
		{"-x A -n 2 --bind-to core ./app", "-n 2 ./app", "[[-x A] [--bind-to core]]"},
		{"--mca btl self -env A 1 --oversubscribe ./app", "./app", "[[--mca btl self] [-env A 1] [--oversubscribe]]"},
		{"--bind-to=core --mpi=/x ./app", "--mpi=/x ./app", "[[--bind-to=core]]"},
		{"--no-shm -l -- ./app -l", "--no-shm -- ./app -l", "[[-l]]"},
		{"--faster ./app", "--faster ./app", "[]"},
		{"--faster -- ./app", "-- ./app", "[[--faster]]"},
		{"--fast 3 4 -n 2 -fast=9 -- ./app -- x", "-n 2 -- ./app -- x", "[[--fast 3 4] [-fast=9]]"},
		{"--fast - -- ./app", "-- ./app", "[[--fast -]]"},
		{"-n 2 --fast 3 -ppn 1 -- ./app", "-n 2 -- ./app", "[[--fast 3] [-ppn 1]]"},
		{"--fast 3 ./app : -n 1 -- ./b", "--fast 3 ./app : -n 1 -- ./b", "[]"},
		{"--no-smh -- ./app", "--no-smh -- ./app", "[]"},
		{"-x", "-x", "[]"},
		{"--mca btl", "--mca btl", "[]"},
		{"-n", "-n", "[]"},
		{"", "", "[]"},
		{"- -x", "- -x", "[]"},
	} {
		rest, passed, err := SplitOptions(strings.Fields(c.line), own)
		if got := strings.Join(rest, " "); err != nil || got != c.rest || fmt.Sprint(passed) != c.passed {
			t.Errorf("%q: %q %v %v, want %q %s", c.line, got, passed, err, c.rest, c.passed)
		}
	}
	_, _, err := SplitOptions([]string{"-H", "a,b", "./app"}, own)
	if err == nil || err.Error() != "-H of the MPI's launcher is --hosts here" {
		t.Errorf("-H: %v", err)
	}
}

// TestWordsBehindOptions: each option takes the number of arguments that the
// launchers' manuals give; the next word is the program.
func TestWordsBehindOptions(t *testing.T) {
	for values, names := range []string{
		"envall envnone genvall genvnone l prepend-rank skip-launch-node disable-auto-cleanup " +
			"disable-hostname-propagation enable-x disable-x print-rank-map print-all-exitcodes v verbose " +
			"bynode byslot bind-to-core bind-to-none bind-to-socket oversubscribe nooversubscribe nolocal " +
			"use-hwthread-cpus report-bindings display-map display-allocation set-cwd-to-session-dir " +
			"preload-binary tag-output timestamp-output merge-stderr-to-stdout " +
			"report-state-on-timeout get-stack-traces enable-recovery disable-recovery allow-run-as-root",
		"ppn envlist genvlist bind-to map-by membind topolib wdir prepend-pattern outfile-pattern errfile-pattern " +
			"rmk order-nodes usize s x am tune rank-by N npernode npersocket cpus-per-proc cpus-per-rank cpu-set " +
			"cpu-list rankfile rf display wd path preload-files stdin output output-filename timeout max-restarts",
		"env genv mca gmca prtemca pmixmca",
	} {
		for _, name := range strings.Fields(names) {
			words := append([]string{"--" + name}, []string{"A", "B"}[:values]...)
			rest, passed, err := SplitOptions(append(slices.Clone(words), "./app", "a", "b"), own)
			if err != nil || fmt.Sprint(rest) != "[./app a b]" || fmt.Sprint(passed) != fmt.Sprint([][]string{words}) {
				t.Errorf("%s: %v %v %v", name, rest, passed, err)
			}
		}
	}
}

// TestOwnOptionCounts: an option that skep and a launcher both have is skep's.
func TestOwnOptionCounts(t *testing.T) {
	values := func(name string) int {
		if values, ok := map[string]int{"bind-to": 0, "l": 1}[name]; ok {
			return values
		}
		return -1
	}
	rest, passed, err := SplitOptions([]string{"--bind-to", "-v", "-l", "-v", "./app"}, Own{Values: values, Meant: func(string) bool { return false }})
	if err != nil || fmt.Sprint(rest) != "[--bind-to -l -v ./app]" || fmt.Sprint(passed) != "[[-v]]" {
		t.Errorf("%v %v %v", rest, passed, err)
	}
}

// TestOptionValues: an option that two launchers have takes the same number of
// arguments in both. Otherwise skep could not tell the program from a value.
func TestOptionValues(t *testing.T) {
	for name, values := range launcherOptions[MPICH] {
		if other, both := launcherOptions[OpenMPI][name]; both && other != values {
			t.Errorf("%s is followed by %d words, and by %d", name, values, other)
		}
		if ownNames[name] != "" {
			t.Errorf("%s is passed on and refused", name)
		}
	}
}

func TestParseParts(t *testing.T) {
	parts, err := ParseParts(strings.Fields("-n 2 -wdir /x ./b 1 : -np 3 --fast 5 -- ./c -n"), own.Meant)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(parts); got != "[{2 [[-wdir /x]] [./b 1]} {3 [[--fast 5]] [./c -n]}]" {
		t.Error(got)
	}
	j := Job{Ranks: 1, Program: []string{"./a"}, Parts: parts, Options: []Option{{"-l"}}}
	if j.TotalRanks() != 6 {
		t.Errorf("%d ranks, want 6", j.TotalRanks())
	}
	m := &Install{Kind: MPICH, Launcher: "mpiexec", Version: "5"}
	if got, want := strings.Join(m.Command(&j, nil), " "), "mpiexec -n 1 -l ./a : -n 2 -wdir /x ./b 1 : -n 3 --fast 5 ./c -n"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	o := &Install{Kind: OpenMPI, Launcher: "mpirun", Version: "4"}
	j.Options = []Option{{"--nooversubscribe"}}
	if got, want := strings.Join(o.Command(&j, []Setting{{"A", "1"}}), " "), "mpirun -n 1 -x A --nooversubscribe ./a : -n 2 -x A -wdir /x ./b 1 : -n 3 -x A --fast 5 ./c -n"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	for line, want := range map[string]string{
		"":                     "a program is expected",
		"./b":                  "-n N is expected",
		"-n 2":                 "a program is expected",
		"-n 0 ./b":             "want a number of ranks",
		"-n 1 ./b : ":          "part 3",
		"-n 1 --tcp ./b":       "--tcp can't follow",
		"-n 1 --tcp -- ./b":    "--tcp can't follow",
		"-n 1 -hosts a ./b":    "-hosts can't follow",
		"-n 1 -host a ./b":     "-host of the MPI's launcher is --hosts here",
		"-n 1 ./b : -np x ./c": `part 3, "-np x ./c"`,
	} {
		if _, err := ParseParts(strings.Fields(line), own.Meant); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
}

// TestCheckJob: an option of one MPI means something else, or nothing, to the other.
func TestCheckJob(t *testing.T) {
	m := &Install{Kind: MPICH, Version: "5.0.2", Launcher: "mpiexec"}
	if err := m.CheckJob(&Job{Options: []Option{{"-ppn", "2"}, {"--bind-to=core"}, {"--of-nobody-here", "2"}}}); err != nil {
		t.Error(err)
	}
	err := m.CheckJob(&Job{Parts: []Part{{Options: []Option{{"--report-bindings"}}}}})
	if err == nil || err.Error() != "--report-bindings is an option of Open MPI, and this job runs on MPICH 5.0.2: see mpiexec --help" {
		t.Error(err)
	}
}
