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

	"skep/lab"
	"skep/tests/vmtest"
)

// slurmVar asks for the test with the distribution's Slurm.
const slurmVar = "SKEP_TEST_SLURM"

// slurmSetup starts systemd in namespaces of the machine, and below it Slurm and munge by the
// distribution's own units. The service of kernel updates runs outside, and starts before,
// since /dev/dynamos accepts no process of a container. %[1]s is the tree, %[2]s the program skep.
const slurmSetup = `ip link set lo up; ip addr add 10.77.0.1/32 dev lo # Slurm looks names up for the kinds of addresses that are not 127.0.0.1
host=$(hostname -s); grep -q " $host$" /etc/hosts || echo "10.77.0.1 $host" >>/etc/hosts
mkdir -p /tmp/slurm /var/lib/slurm/state /var/spool/slurmd /var/log/slurm
ln -sf %[2]s /usr/bin/skep
for s in prolog epilog; do install -m 755 %[1]s/examples/slurm/$s.sh /etc/slurm/skep-$s.sh; done
cat >/etc/slurm/slurm.conf <<END
ClusterName=t
SlurmctldHost=$host(10.77.0.1)
SlurmUser=root
StateSaveLocation=/var/lib/slurm/state
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
Prolog=/etc/slurm/skep-prolog.sh
Epilog=/etc/slurm/skep-epilog.sh
NodeName=$host NodeAddr=10.77.0.1 CPUs=2 State=UNKNOWN
PartitionName=p Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
END
echo CgroupPlugin=cgroup/v2 >/etc/slurm/cgroup.conf
for i in $(seq 80); do printf 'not a secret '; done >/etc/munge/munge.key; chown -R munge: /etc/munge; chmod 600 /etc/munge/munge.key
for unit in systemd-tmpfiles-setup systemd-tmpfiles-setup-dev systemd-udevd systemd-udev-trigger; do ln -sf /dev/null /etc/systemd/system/$unit.service; done # the machine has its devices and folders
printf '[Unit]\nRequires=dbus.service munge.service slurmctld.service slurmd.service\n' >/etc/systemd/system/site.target
echo 0 >/sys/fs/cgroup/cgroup.procs # systemd begins at the root of the control groups, as on a computer
container=lab setsid unshare --pid --fork --mount-proc --kill-child /lib/systemd/systemd --unit=site.target </dev/null >/tmp/systemd.log 2>&1 &
until pgrep -P $! >/tmp/systemd.pid; do kill -0 $!; done`

// inSystemd returns a program that runs a script where systemd and its services are.
func inSystemd(script string) lab.Program {
	return lab.Program{Args: []string{"/bin/sh", "-c", `exec nsenter -t "$(cat /tmp/systemd.pid)" -m -p -- /bin/sh -euc "$0"`, script}}
}

// slurmUp waits until Slurm's node is in order, and says why not.
const slurmUp = `until sinfo -h -o %T 2>/dev/null | grep -qxE 'idle|mixed|allocated'; do
	! systemctl is-failed --quiet slurmd slurmctld munge dbus || { systemctl --no-pager status slurmd slurmctld munge dbus; cat /var/log/slurm/*; exit 1; } >&2
done`

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
	tree, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	w.startService()
	w.vm.Output(shellProgram(fmt.Sprintf(slurmSetup, tree, w.skepPath)))
	w.start()
	w.runUpdate("keys trust "+filepath.Join(s.path, "keys"), "1 of 1 keys must sign")
	w.runUpdate("apply "+filepath.Join(s.path, "arp.skepup")+" --uid 4711", "on trial")
	w.runUpdate("policy arp --nobody", "for nobody")
	w.runUpdate("commit arp", "committed")
	w.vm.Output(inSystemd(slurmUp))
	w.runJobs()
	w.vm.Output(shellProgram("kill -KILL $(cat /tmp/systemd.pid)"))
	w.stopService()
	w.hammerTo("end")
	w.runUpdate("revert arp --remove", "unloaded")
	w.vm.Output(shellProgram("rm -r " + serviceStore + "; until rmmod dynamos 2>/dev/null; do :; done"))
}

// submit submits a job that says which versions answered it. Then it waits, and says it again
// when it is asked, if hold is set.
func (w *walker) submit(name, options string, hold bool) {
	w.t.Helper()
	then := ""
	if hold {
		then = "; until [ -e again." + name + " ]; do sleep 1; done; call; sleep 1000"
	}
	w.vm.Output(inSystemd(fmt.Sprintf(`cd /tmp/slurm; sbatch --parsable -s -J %[1]s -o log.%[1]s %[2]s --wrap 'call() { { %[3]s start h.%[1]s 1 >/dev/null; %[3]s look h.%[1]s %[4]d; %[3]s end h.%[1]s; cat /proc/self/cgroup; echo done; } >out.%[1]s; }; call%[5]s' >job.%[1]s
		until grep -q ^done out.%[1]s 2>/dev/null; do squeue -h -j $(cat job.%[1]s) | grep -q . || { cat /var/log/slurm/*.log log.%[1]s; exit 1; } >&2; done`, name, options, w.hammer, callsEnough, then)))
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

// callAgain has a job that waits call again.
func (w *walker) callAgain(name string) {
	w.t.Helper()
	w.vm.Output(inSystemd(fmt.Sprintf("cd /tmp/slurm; rm out.%[1]s; touch again.%[1]s; until grep -q ^done out.%[1]s 2>/dev/null; do squeue -h -j $(cat job.%[1]s) | grep -q .; done", name)))
}

func (w *walker) runJobs() {
	w.t.Helper()
	const update = "--comment=skep-update=arp"
	w.submit("with", update, true)
	w.submit("without", "", true)
	w.checkJob("with", true)
	w.checkJob("without", false)
	w.checkAnswers("no other process takes it", "arp", "kkkk")
	w.vm.Output(inSystemd("systemctl daemon-reload; systemctl restart slurmd; " + slurmUp))
	w.callAgain("with")
	w.callAgain("without")
	w.checkJob("with", true)
	w.checkJob("without", false)
	w.vm.Output(inSystemd("cd /tmp/slurm; scancel $(cat job.with job.without); while squeue -h | grep -q .; do :; done"))
	w.submit("killed", update, true)
	w.checkJob("killed", true)
	w.vm.Output(inSystemd("scancel -s KILL $(cat /tmp/slurm/job.killed); while squeue -h | grep -q .; do :; done"))
	status := w.readStatus("arp")
	for end := time.Now().Add(time.Minute); strings.Contains(status.Policy, "job_") && time.Now().Before(end); status = w.readStatus("arp") {
	}
	checkGuest(w.t, "the update ends with the jobs", !strings.Contains(status.Policy, "job_"), "%+v", status)
	left := w.vm.Output(inSystemd("systemctl list-units --no-legend --all 'skep-update-*'; find /sys/fs/cgroup/system.slice -name 'job_*'"))
	checkGuest(w.t, "no unit and no cgroup of a job is left", left == "", "%s", left)
}
