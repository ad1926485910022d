// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/tests/vmtest"
)

// slurmVar asks for the test with the distribution's Slurm.
const slurmVar = "SKEP_TEST_SLURM"

// slurmSetup starts Slurm with its plugin for cgroups of version 2 and the examples' prolog and
// epilog. The machine has no systemd, for whose commands two programs stand; %[1]s is the
// folder of the examples, %[2]s that of skep.
const slurmSetup = `ip link set lo up; ip addr add 10.77.0.1/32 dev lo # Slurm looks names up for the kinds of addresses that are not 127.0.0.1
mkdir -p /tmp/slurm/state /tmp/slurm/spool /sys/fs/cgroup/system.slice && cd /tmp/slurm
host=$(hostname -s); grep -q " $host$" /etc/hosts || echo "10.77.0.1 $host" >>/etc/hosts
for c in cpuset cpu io memory pids; do echo +$c >/sys/fs/cgroup/cgroup.subtree_control; done 2>/dev/null
cat >slurm.conf <<END
ClusterName=t
SlurmctldHost=$host(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/tmp/slurm/munge.socket
StateSaveLocation=/tmp/slurm/state
SlurmdSpoolDir=/tmp/slurm/spool
SlurmctldPidFile=/tmp/slurm/slurmctld.pid
SlurmdPidFile=/tmp/slurm/slurmd.pid
SlurmctldLogFile=/tmp/slurm/slurmctld.log
SlurmdLogFile=/tmp/slurm/slurmd.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
Prolog=/tmp/slurm/prolog
Epilog=/tmp/slurm/epilog
NodeName=$host NodeAddr=10.77.0.1 CPUs=2 State=UNKNOWN
PartitionName=p Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
END
printf 'CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\nCgroupAutomount=yes\n' >cgroup.conf
for i in $(seq 80); do printf 'not a secret '; done >munge.key; chmod 600 munge.key
for s in prolog epilog; do printf '#!/bin/sh\nPATH=/tmp/slurm:%[2]s:$PATH exec sh %[1]s/%%s.sh\n' $s >$s; chmod 755 $s; done
cat >systemd-run <<'END'
#!/bin/sh
while [ "$1" != skep ]; do shift; done
setsid "$@" >/tmp/slurm/hold.$SLURM_JOB_ID 2>&1 &
until grep -q 'in force' /tmp/slurm/hold.$SLURM_JOB_ID; do kill -0 $! 2>/dev/null || exit 1; done
END
printf '#!/bin/sh\n' >systemctl; chmod 755 systemd-run systemctl
export SLURM_CONF=/tmp/slurm/slurm.conf
munged --force --key-file=$PWD/munge.key --socket=$PWD/munge.socket --pid-file=$PWD/munge.pid --log-file=$PWD/munge.log --seed-file=$PWD/munge.seed
slurmctld && slurmd || { cat slurmctld.log slurmd.log; exit 1; } >&2
until sinfo -h -o %%T | grep -q idle; do pgrep -x slurmd >/dev/null || { cat slurmd.log; exit 1; }; done`

// The distribution's Slurm puts an update in force for a job's cgroup, which its own plugin
// made, and for nothing else. It ends with the job, however that ends.
func TestSlurmUpdate(t *testing.T) {
	if os.Getenv(slurmVar) == "" {
		t.Skip("set " + slurmVar + "=1 to run Slurm, as 'make test-full T=slurm' does")
	}
	kernel := cmp.Or(os.Getenv(walkVar), walkKernel)
	w := newWalker(t, vmtest.Boot(t, updateMachine(kernel), vmtest.Limit(8*time.Minute)), kernel)
	s := &signer{t, w.skepPath, filepath.Join(w.packages, "slurm")}
	os.RemoveAll(s.path)
	if err := os.Mkdir(s.path, 0o755); err != nil {
		t.Fatal(err)
	}
	w.signRolled(s)
	w.start()
	w.runUpdate("keys trust "+filepath.Join(s.path, "keys"), "1 of 1 keys must sign")
	w.runUpdate("apply "+filepath.Join(s.path, "arp.skepup")+" --uid 4711", "on trial")
	w.runUpdate("policy arp --nobody", "for nobody")
	w.runUpdate("commit arp", "committed")
	w.vm.Output(shellProgram(fmt.Sprintf(`mkdir -m 700 /var/lib/skep-kernel; %s service restore --rolls --settle 1s >/tmp/service.log 2>&1 & echo $! >/tmp/service.pid
		until [ -S /run/skep-updates.sock ]; do kill -0 $(cat /tmp/service.pid) || { cat /tmp/service.log; exit 1; }; done`, w.skepPath)))
	examples, err := filepath.Abs("../../examples/slurm")
	if err != nil {
		t.Fatal(err)
	}
	w.vm.Output(shellProgram(fmt.Sprintf(slurmSetup, examples, filepath.Dir(w.skepPath))))
	w.runJobs()
	w.vm.Output(shellProgram("kill $(cat /tmp/service.pid /tmp/slurm/slurmd.pid /tmp/slurm/slurmctld.pid /tmp/slurm/munge.pid); while kill -0 $(cat /tmp/service.pid) 2>/dev/null; do :; done"))
	w.hammerTo("end")
	w.runUpdate("revert arp --remove", "unloaded")
	w.vm.Output(shellProgram("rm -r /var/lib/skep-kernel; until rmmod dynamos 2>/dev/null; do :; done"))
}

// submit submits a job that says which versions answered it, and then waits if hold is set.
func (w *walker) submit(name, options string, hold bool) {
	w.t.Helper()
	then := ""
	if hold {
		then = "; sleep 1000"
	}
	w.vm.Output(shellProgram(fmt.Sprintf(`cd /tmp/slurm; export SLURM_CONF=$PWD/slurm.conf; sbatch --parsable -s -J %[1]s -o out.%[1]s %[2]s --wrap 'h=%[3]s; $h start h.%[1]s 1 >/dev/null; $h look h.%[1]s %[4]d; $h end h.%[1]s; cat /proc/self/cgroup; echo done%[5]s' >job.%[1]s
		until grep -q ^done out.%[1]s 2>/dev/null; do squeue -h -j $(cat job.%[1]s) | grep -q . || { cat slurmd.log hold.*; exit 1; }; done`, name, options, w.hammer, callsEnough, then)))
}

// checkJob checks that only one version answered a job.
func (w *walker) checkJob(name string, updated bool) {
	w.t.Helper()
	out := w.vm.Output(shellProgram("cat /tmp/slurm/out." + name))
	var pid int
	var a answers
	n, err := fmt.Sscan(out, &pid, &a.calls, &a.kernel, &a.fix, &a.strict, &a.other)
	got := a.kernel
	if updated {
		got = a.fix
	}
	checkGuest(w.t, name+" is answered by one version", n == 6 && a.calls >= callsEnough && got == a.calls, "%v: %s", err, out)
	checkGuest(w.t, name+" is in a cgroup of Slurm's plugin", strings.Contains(out, "slurmstepd.scope/job_"), "%s", out)
}

func (w *walker) runJobs() {
	w.t.Helper()
	const update = "--comment=skep-update=arp"
	w.submit("with", update, true)
	w.submit("without", "", true)
	w.checkJob("with", true)
	w.checkJob("without", false)
	w.checkAnswers("no other process takes it", "arp", "kkkk")
	w.vm.Output(shellProgram("export SLURM_CONF=/tmp/slurm/slurm.conf; scancel $(cat /tmp/slurm/job.with /tmp/slurm/job.without); while squeue -h | grep -q .; do :; done"))
	w.submit("killed", update, true)
	w.checkJob("killed", true)
	w.vm.Output(shellProgram("export SLURM_CONF=/tmp/slurm/slurm.conf; scancel -s KILL $(cat /tmp/slurm/job.killed); while squeue -h | grep -q .; do :; done"))
	status := w.readStatus("arp")
	for end := time.Now().Add(time.Minute); strings.Contains(status.Policy, "job_") && time.Now().Before(end); status = w.readStatus("arp") {
	}
	checkGuest(w.t, "the update ends with the jobs", !strings.Contains(status.Policy, "job_"), "%+v", status)
}
