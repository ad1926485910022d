// SPDX-License-Identifier: MIT

package main

import (
	"strings"
	"syscall"
	"testing"

	"skep/internal/cli"
	"skep/o2g/launch"
)

// TestClosing: the last line claims only what was reported.
func TestClosing(t *testing.T) {
	install := &launch.Install{Kind: launch.MPICH, Version: "5.0.2"}
	busy := launch.Record{Sent: 10, SentBytes: 1000, Expected: 5, Self: 2}
	for _, c := range []struct {
		name    string
		job     launch.Job
		status  int
		records []launch.Record
		want    string
	}{
		{"two of two", launch.Job{Ranks: 2}, 0, []launch.Record{busy, busy}, "2 of 2 ranks reported; 16 messages over O2G (user engine), 2.0 kB; 4 more from ranks to themselves; 50% met a posted receive"},
		{"beyond credit", launch.Job{Ranks: 1}, 0, []launch.Record{{Sent: 1, Requested: 1}}, "1 of 1 ranks reported; 1 message over O2G (user engine), 0 B; 1 beyond credit"},
		{"stalls", launch.Job{Ranks: 1}, 0, []launch.Record{{Sent: 1, Waited: 2, Resent: 3}}, "1 of 1 ranks reported; 1 message over O2G (user engine), 0 B; 2 waited for credit; TCP segments sent again: 3"},
		{"ranks unknown", launch.Job{}, 0, []launch.Record{busy}, "1 ranks reported; 8 messages over O2G (user engine), 1.0 kB; 2 more from ranks to themselves; 50% met a posted receive"},
		{"shared memory", launch.Job{Ranks: 2}, 0, []launch.Record{{}, {}}, "2 of 2 ranks reported; no message went over O2G (ranks of one host use the MPI's shared memory; --no-shm changes that)"},
		{"no shared memory", launch.Job{Ranks: 2, NoShm: true}, 0, []launch.Record{{}, {}}, "2 of 2 ranks reported; no message went over O2G"},
		{"alone", launch.Job{Ranks: 1}, 0, []launch.Record{{}}, "1 of 1 ranks reported; no message went over O2G: there is one rank"},
		{"spawned", launch.Job{Ranks: 1}, 0, []launch.Record{busy, busy, {}}, "3 processes reported, of 1 ranks and what they spawned; 16 messages over O2G (user engine), 2.0 kB; 4 more from ranks to themselves; 50% met a posted receive"},
		{"two endpoints in each", launch.Job{Ranks: 2}, 0, []launch.Record{{PID: 7, Sent: 3}, {PID: 7}, {PID: 8, Sent: 4}, {PID: 8}}, "2 of 2 ranks reported; 7 messages over O2G (user engine), 0 B"},
		{"no endpoint", launch.Job{Ranks: 2}, 0, nil, "no rank reported an O2G endpoint, so no message went over O2G"},
		{"all killed", launch.Job{Ranks: 2}, 137, nil, "0 of 2 ranks reported; what they sent is not counted: " + uncounted},
		{"one killed", launch.Job{Ranks: 2}, 137, []launch.Record{{Sent: 3, Engine: 1}}, "1 of 2 ranks reported; 3 messages over O2G (kernel engine), 0 B; what the others sent is not counted: " + uncounted},
		{"one silent", launch.Job{Ranks: 2}, 0, []launch.Record{{}}, "1 of 2 ranks reported; they sent nothing over O2G; what the others sent is not counted: " + uncounted},
		{"tcp", launch.Job{Ranks: 2, TCP: true}, 0, nil, "on its own TCP; no message went over O2G, as --tcp asks"},
	} {
		m := mpirun{job: c.job}
		got := m.closingLine(install, launch.Result{Status: c.status, Records: reportsOf(c.records)})
		want := "MPICH 5.0.2: " + c.want
		if c.job.TCP {
			want = "MPICH 5.0.2 " + c.want
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, want)
		}
	}
}

// TestClosingIntel: Intel MPI has shared memory beside O2G, as MPICH has.
func TestClosingIntel(t *testing.T) {
	for kind, want := range map[launch.Kind]bool{launch.IntelMPI: true, launch.MPICH: true, launch.OpenMPI: false} {
		m := mpirun{job: launch.Job{Ranks: 2}}
		install := &launch.Install{Kind: kind, Version: "1"}
		got := m.closingLine(install, launch.Result{Records: reportsOf([]launch.Record{{}, {}})})
		if strings.Contains(got, "--no-shm changes that") != want {
			t.Errorf("%s: %s", kind, got)
		}
	}
}

// reportsOf gives each record without a process one of its own.
func reportsOf(list []launch.Record) (reports []launch.Report) {
	for i, r := range list {
		if r.PID == 0 {
			r.PID = uint32(i + 1)
		}
		reports = append(reports, launch.Report{Record: r})
	}
	return reports
}

// TestClosingBrokenPipe: a status of 141 alone may be a rank's.
func TestClosingBrokenPipe(t *testing.T) {
	m := mpirun{job: launch.Job{Ranks: 2}}
	for _, signal := range []syscall.Signal{0, syscall.SIGKILL, syscall.SIGPIPE} {
		got := m.closingLine(&launch.Install{Kind: launch.MPICH, Version: "5"}, launch.Result{Status: 141, Signal: signal})
		if strings.HasSuffix(got, "; "+brokenPipe) != (signal == syscall.SIGPIPE) {
			t.Errorf("signal %d: %s", signal, got)
		}
	}
}

// TestClosingOpenMPI: Open MPI uses no shared memory besides O2G, so the line recommends no
// option.
func TestClosingOpenMPI(t *testing.T) {
	m := mpirun{job: launch.Job{Ranks: 2}}
	got := m.closingLine(&launch.Install{Kind: launch.OpenMPI, Version: "5.0.11"}, launch.Result{Records: reportsOf([]launch.Record{{}, {}})})
	if want := "Open MPI 5.0.11: 2 of 2 ranks reported; no message went over O2G"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestMpirunCheck: invalid options are refused before an MPI is searched for.
func TestMpirunCheck(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", "a program is expected"},
		{"-n 0 -- x", "want a number of ranks"},
		{"-n -3 -- x", "want a number of ranks"},
		{"--hosts a --hostfile b -- x", "exclude each other"},
		{"--hosts a,,b -- x", "a name is missing"},
		{"--tcp --summary -- x", "nothing for --summary to count"},
		{"--hostfile /nonexistent -- x", "can't be read"},
		{"--hostfile / -- x", "can't be read: it is a directory"},
		{"--launcher ssh -- x", "give --hosts or --hostfile"},
		{"--hosts a --launcher /nonexistent -- x", "can't be run"},
		{"--engine warp -- x", "there is: auto, kernel, user"},
		{"--tcp --ports 1-2 -- x", "--tcp does not use O2G"},
		{"--tcp --encrypt -- x", "only O2G encrypts: omit --tcp or --encrypt"},
		{"--hosts= -- x", "a name is missing"},
		{"--ports 7700- -- x", "want FIRST-LAST"},
		{"--ports 0-9 -- x", "want FIRST-LAST"},
		{"--ports 9-8 -- x", "want FIRST-LAST"},
		{"--ports 1-65536 -- x", "want FIRST-LAST"},
		{"--ports= -- x", "want FIRST-LAST"},
		{"--nonsense x", "nonsense"},
	} {
		code, text := cli.ExitCode(dispatch(t.Context(), append([]string{"mpirun"}, strings.Fields(c.line)...)))
		if code != cli.Usage || !strings.Contains(text, c.want) || strings.Contains(text, "\n") {
			t.Errorf("%s: %d %q, want %q", c.line, code, text, c.want)
		}
	}
}
