// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hostsOf runs a shell command by skep run with the hosts of a file, and returns what it prints.
func (r *slurmRig) hostsOf(inside, command string, mayFail bool) string {
	r.t.Helper()
	r.write("hosts.xml", "<OmniRpcConfig>\n"+inside+"\n</OmniRpcConfig>\n", 0o600)
	skep, err := filepath.Abs("../../build/bin/skep")
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	c := r.command(skep, "run", "--hostfile", filepath.Join(r.dir, "hosts.xml"), "--", "sh", "-c", strings.ReplaceAll(command, "SKEP", skep))
	c.Env = append(c.Env, "TMPDIR="+r.dir+"/tmp", "OMRPC_RSH="+r.dir+"/rsh")
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = time.Minute
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Signal(os.Interrupt) })
	defer stop()
	text, err := c.CombinedOutput()
	if err != nil && !mayFail {
		r.t.Fatalf("%s: %v: %s", command, err, text)
	}
	return string(text)
}

// The hosts of a file may be tasks of a job of Slurm, submitted here or on another host. Nothing
// of the job is left after the run.
func TestSlurmHosts(t *testing.T) {
	r := openSlurm(t)
	for _, name := range []string{"tmp", "far"} {
		r.run("mkdir", filepath.Join(r.dir, name))
	}
	r.write("rsh", "#!/bin/sh\nshift\nSSH_CONNECTION='127.0.0.1 1 127.0.0.1 22' exec sh -c \"$*\"\n", 0o755)
	path := `<Agent invoker="ssh" path="` + r.agentPath() + `"/>`
	gone := func() bool { return r.tell("squeue", "-h") == "" }
	for name, host := range map[string]string{"localhost": "localhost", "far": "far"} {
		text := r.hostsOf(`<Host name="`+host+`">`+path+`<JobScheduler type="slurm" maxjob="2"/></Host>`,
			`until [ $(SKEP nodes | grep -c "^`+host+`-[01] .* up ") = 2 ]; do sleep 0.2; done; SKEP exec --on node=`+host+`-1 -- SKEP version; squeue -h -o %j`, false)
		if !strings.Contains(text, "\nskep-") {
			t.Errorf("%s: %s", name, text)
		}
		r.await("the end of the job", gone)
		if list, err := os.ReadDir(r.dir + "/tmp"); err != nil || len(list) > 0 {
			t.Errorf("%v: it left %v", err, list)
		}
	}
	// A run that is stopped while its job waits in the queue takes the job with it.
	r.run("scontrol", "update", "partitionname=p", "state=down")
	text := r.hostsOf(`<Host name="localhost">`+path+`<JobScheduler type="slurm"/></Host><TimeOut second="10"/>`, "true", true)
	if !strings.Contains(text, "waiting for the job of localhost: srun: ") || !strings.Contains(text, "the host localhost: it has not joined in time: srun: ") {
		t.Errorf("in the queue: %s", text)
	}
	r.await("the end of the waiting job", gone)
}

func (r *slurmRig) agentPath() string {
	path, err := filepath.Abs("../../build")
	if err != nil {
		r.t.Fatal(err)
	}
	return path
}

// The tasks of a step are the ranks of one job over O2G: of MPICH with Slurm's PMI-2, and of Open
// MPI with PMIx.
func TestSlurmMPI(t *testing.T) {
	r := openSlurm(t)
	skep := filepath.Join(r.agentPath(), "bin/skep")
	for _, m := range [][]string{{"pmi2", "app-wheel", "--mpi", r.agentPath() + "/mpi/mpich"}, {"pmix", "app-openmpi"}} {
		app := filepath.Join(r.agentPath(), "test/o2g", m[1])
		if _, err := os.Stat(app); err != nil {
			t.Fatal(err)
		}
		// Without the variable MPICH's ranks on one host would use shared memory.
		words := append([]string{"120", "srun", "--mpi=" + m[0], "-n", "2", "--overcommit", skep, "mpirun"}, m[2:]...)
		words = append(words, "--", "env", "SKEP_O2G_LOG=2", "MPIR_CVAR_NOLOCAL=1", app, "talk")
		text := r.tell("timeout", words...)
		for _, want := range []string{"rank 0 pid ", "rank 1 pid ", " closed: sent "} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", m[0], want, text)
			}
		}
		if strings.Contains(text, " closed: sent 0 ") {
			t.Errorf("%s: no messages went over O2G:\n%s", m[0], text)
		}
	}
}
