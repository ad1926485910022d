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
