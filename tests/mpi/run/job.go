// SPDX-License-Identifier: MIT

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"skep/tests/mpi/ranks"
	"skep/tests/watch"
)

// A job is one start of skep mpirun.
type job struct {
	prefix  string // of the MPI
	env     []string
	ranks   int
	tcp     bool
	program []string

	deadline time.Duration
}

// A result is the result of a job. hung: it exceeded its time limit.
type result struct {
	output   string
	hung     bool
	err      error
	messages uint64 // over O2G
	took     time.Duration
}

// graceTime is how long a job may take to end after SIGTERM.
const graceTime = 8 * time.Second

func (o *options) start(j job) result {
	args := []string{"mpirun", "--no-shm", "--mpi", j.prefix, "-n", strconv.Itoa(j.ranks)}
	if j.tcp {
		args = append(args, "--tcp")
	} else if o.engine != "" {
		args = append(args, "--engine", o.engine)
	}
	if o.launcher != "" {
		args = append(args, "--launcher", o.launcher, "--hosts", o.hostList(j.ranks))
	}
	cmd := exec.Command(filepath.Join(o.build, "bin", "skep"), append(args, j.program...)...)
	cmd.Env = append(mpiEnvironment(), j.env...)
	cmd.WaitDelay = graceTime
	began := time.Now()
	p, err := watch.Start(cmd)
	if err != nil {
		return result{err: err}
	}
	r := result{hung: !watch.Ends(p.Done, j.deadline)}
	(&watch.Actor{Process: p}).End(graceTime)
	// Kill processes that a launcher left behind in its group.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	r.output, r.took, r.err = p.String(), time.Since(began), p.Err
	if count, engine := ranks.CountMessages(r.output); o.engine == "" || engine == o.engine {
		r.messages = count
	}
	return r
}

// hostList returns a host for each rank.
func (o *options) hostList(ranks int) string {
	hosts := strings.Split(o.hosts, ",")
	return strings.Join(hosts[:min(ranks, len(hosts))], ",")
}

// mpiEnvironment permits Open MPI to run as root, and more ranks than cores.
func mpiEnvironment() []string {
	return ranks.Environment(os.Environ(), "OMPI_MCA_rmaps_base_oversubscribe=1", "PYTHONDONTWRITEBYTECODE=1")
}

// lastLines returns the last lines of a job's output.
func (r *result) lastLines(lines int) string {
	all := strings.Split(strings.TrimRight(r.output, "\n"), "\n")
	text := strings.Join(all[max(0, len(all)-lines):], "\n")
	switch {
	case r.hung:
		return text + "\nmissed its deadline"
	case r.err != nil:
		return text + "\n" + r.err.Error()
	}
	return text
}
