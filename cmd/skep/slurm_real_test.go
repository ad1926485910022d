// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// slurmVar asks for the test with the distribution's Slurm, which needs root.
const slurmVar = "SKEP_TEST_SLURM"

// A slurmRig is a cluster of this machine alone, whose prolog and epilog are the examples.
// Programs stand for those of systemd.
type slurmRig struct {
	t   *testing.T
	dir string
}

const slurmConf = `ClusterName=t
SlurmctldHost=%[1]s(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%[2]s/munge.socket
StateSaveLocation=%[2]s/state
SlurmdSpoolDir=%[2]s/spool
SlurmctldPort=17817
SlurmdPort=17818
SlurmctldPidFile=%[2]s/slurmctld.pid
SlurmdPidFile=%[2]s/slurmd.pid
SlurmctldLogFile=%[2]s/slurmctld.log
SlurmdLogFile=%[2]s/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
Prolog=%[2]s/prolog
Epilog=%[2]s/epilog
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=%[3]d State=UNKNOWN
PartitionName=p Nodes=%[1]s Default=YES MaxTime=INFINITE State=UP
`

func startSlurm(t *testing.T) *slurmRig {
	t.Helper()
	dir, err := os.MkdirTemp("", "slurm") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &slurmRig{t, dir}
	examples, err := filepath.Abs("../../examples/slurm")
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(r.run("hostname", "-s"), "\n")
	r.write("slurm.conf", fmt.Sprintf(slurmConf, host, dir, runtime.NumCPU()), 0o644)
	r.write("munge.key", strings.Repeat("not a secret ", 80), 0o600)
	for _, name := range []string{"prolog", "epilog"} {
		r.write(name, fmt.Sprintf("#!/bin/sh\nPATH=%[1]s:$PATH SKEP_SLURM_SLICE=%[1]s exec sh %[2]s/%[3]s.sh\n", dir, examples, name), 0o755)
	}
	r.write("systemd-run", fmt.Sprintf("#!/bin/sh\necho begin $SLURM_JOB_ID >>%s/log\ncase \"$*\" in *bad) exit 1;; esac\n", dir), 0o755)
	r.write("systemctl", fmt.Sprintf("#!/bin/sh\necho end $SLURM_JOB_ID >>%s/log\n", dir), 0o755)
	r.run("mkdir", filepath.Join(dir, "state"), filepath.Join(dir, "spool"), filepath.Join(dir, "slurmstepd.scope"))
	r.daemon("munged", "-F", "--force", "--key-file="+dir+"/munge.key", "--socket="+dir+"/munge.socket",
		"--pid-file="+dir+"/munge.pid", "--log-file="+dir+"/munge.log", "--seed-file="+dir+"/munge.seed")
	r.daemon("slurmctld", "-D")
	r.daemon("slurmd", "-D")
	r.await("the node", func() bool { return strings.Contains(r.tell("sinfo", "-h", "-o", "%T"), "idle") })
	return r
}

func (r *slurmRig) write(name, text string, mode os.FileMode) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), mode); err != nil {
		r.t.Fatal(err)
	}
}

func (r *slurmRig) command(name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(r.t.Context(), name, args...)
	c.Env = append(os.Environ(), "SLURM_CONF="+r.dir+"/slurm.conf")
	return c
}

func (r *slurmRig) daemon(name string, args ...string) {
	r.t.Helper()
	c := r.command(name, args...)
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Process.Kill(); c.Wait() })
}

// tell returns what a command prints, whether it fails or not.
func (r *slurmRig) tell(name string, args ...string) string {
	text, _ := r.command(name, args...).CombinedOutput()
	return string(text)
}

func (r *slurmRig) run(name string, args ...string) string {
	r.t.Helper()
	text, err := r.command(name, args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s %q: %v: %s", name, args, err, text)
	}
	return string(text)
}

func (r *slurmRig) await(what string, is func() bool) {
	r.t.Helper()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for end := time.After(time.Minute); !is(); {
		select {
		case <-poll.C:
		case <-end:
			log, _ := os.ReadFile(r.dir + "/slurmd.log")
			r.t.Fatalf("%s never came: %s%s", what, r.tell("squeue"), log)
		}
	}
}

func (r *slurmRig) logged(line string) func() bool {
	return func() bool {
		text, _ := os.ReadFile(filepath.Join(r.dir, "log"))
		return strings.Contains("\n"+string(text), "\n"+line+"\n")
	}
}

// submit submits a batch job that leaves a file when it runs, and returns its number.
func (r *slurmRig) submit(update, then string) string {
	r.t.Helper()
	return strings.TrimSpace(r.run("sbatch", "--parsable", "-o", "/dev/null", "--comment=skep-update="+update, "--wrap", "touch "+r.dir+"/ran."+update+"; "+then))
}

func (r *slurmRig) ran(update string) bool {
	_, err := os.Stat(r.dir + "/ran." + update)
	return err == nil
}

// openSlurm starts Slurm if the test is asked for, and skips it otherwise.
func openSlurm(t *testing.T) *slurmRig {
	t.Helper()
	if os.Getenv(slurmVar) == "" {
		t.Skip("set " + slurmVar + "=1 to run Slurm, as 'make test-full T=slurm' does")
	}
	for _, name := range []string{"slurmctld", "slurmd", "munged"} {
		if _, err := exec.LookPath(name); err != nil || os.Geteuid() != 0 {
			t.Skipf("%s is not installed (make setup NEED=full), or this is not root", name)
		}
	}
	return startSlurm(t)
}

// Slurm itself runs the examples: for a job that ends, is cancelled or killed. A job whose update
// cannot be in force never runs, and its node stays in service.
func TestSlurmItself(t *testing.T) {
	r := openSlurm(t)
	for what, end := range map[string]func(job string){
		"ends":         func(string) {},
		"is_cancelled": func(job string) { r.run("scancel", job) },
		"is_killed":    func(job string) { r.run("scancel", "-s", "KILL", job) },
	} {
		then := "sleep 100"
		if what == "ends" {
			then = ""
		}
		job := r.submit(what, then)
		r.await(what+": its program", func() bool { return r.ran(what) })
		if !r.logged("begin " + job)() {
			t.Errorf("a job that %s ran before its update was in force", what)
		}
		end(job)
		r.await(what+": the epilog", r.logged("end "+job))
	}
	job := r.submit("bad", "")
	r.await("a held job", func() bool { return strings.Contains(r.tell("squeue", "-h", "-j", job, "-o", "%T %r"), "held state") })
	r.run("scancel", job)
	text := r.tell("timeout", "15", "srun", "--comment=skep-update=bad", "touch", r.dir+"/ran.bad")
	r.await("the node", func() bool { return strings.Contains(r.tell("sinfo", "-h", "-o", "%T"), "idle") })
	if why := r.tell("sinfo", "-h", "-R"); why != "" || r.ran("bad") {
		t.Errorf("it ran: %v; drained: %q; srun said %s", r.ran("bad"), why, text)
	}
}
