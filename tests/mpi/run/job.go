// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"skep/internal/load"
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

var overO2G = regexp.MustCompile(`(\d+) messages? over O2G(?: \((\w+) engine\))?`)

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
	ctx, stop := load.WithTimeout(context.Background(), j.deadline)
	defer stop()
	cmd := exec.CommandContext(ctx, filepath.Join(o.build, "bin", "skep"), append(args, j.program...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = append(mpiEnvironment(), j.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = graceTime
	began := time.Now()
	err := cmd.Run()
	if cmd.Process != nil {
		// Kill processes that a launcher left behind in its group.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	r := result{output: out.String(), err: err, took: time.Since(began)}
	r.hung = errors.Is(context.Cause(ctx), context.DeadlineExceeded)
	if m := overO2G.FindStringSubmatch(r.output); m != nil && (o.engine == "" || m[2] == o.engine) {
		r.messages, _ = strconv.ParseUint(m[1], 10, 64)
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
	return append(os.Environ(),
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1",
		"OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_mpi_yield_when_idle=1",
		"PYTHONDONTWRITEBYTECODE=1")
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
