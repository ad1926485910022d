// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sgeVar names the folder with the unpacked packages of the distribution's SGE. Its programs look
// for each other below /usr, and must have a host name, so they run in namespaces, as root; what
// they leave ends with those. In there the test runs itself again.
const (
	sgeVar    = "SKEP_TEST_SGE"
	sgeInside = "inside"
)

// sgeSetup makes a cluster of one host; $1 is the folder of the packages, $2 that of the cluster.
const sgeSetup = `set -e
for d in lib share bin; do mount -t overlay overlay -o lowerdir=$1/usr/$d:/usr/$d /usr/$d; done
printf '10.77.0.1 node\n127.0.0.1 localhost\n' >$2/hosts; mount --bind $2/hosts /etc/hosts
hostname node; ip link set lo up; ip addr add 10.77.0.1/32 dev lo
export SGE_ROOT=$2 SGE_CELL=default SGE_QMASTER_PORT=17844 SGE_EXECD_PORT=17845 SGE_ND=1
mkdir -p $2/default/common $2/spooldb $2/qmaster/job_scripts $2/execd $2/tmp; ln -s /usr/share/gridengine/util $2/util; echo node >$2/default/common/act_qmaster
sge=/usr/lib/gridengine from=/usr/share/gridengine
sed "s,^admin_user.*,admin_user none,; s,^ignore_fqdn.*,ignore_fqdn true,; s,^binary_path.*,binary_path $sge,; s,/var/spool/gridengine,$2,g" $from/default-bootstrap >$2/default/common/bootstrap
sed "s,/var/spool/gridengine/execd,$2/execd,; s,^\(min_.id\).*,\1 0,; s,^load_report_time.*,load_report_time 00:00:01,; s,^mailer.*,mailer /bin/true," $from/default-configuration >$2/conf
$sge/spoolinit berkeleydb libspoolb $2/spooldb init
$sge/spooldefaults configuration $2/conf
$sge/spooldefaults complexes $from/util/resources/centry
$sge/spooldefaults usersets $from/util/resources/usersets
$sge/spooldefaults managers root
$sge/sge_qmaster >$2/log 2>&1 &
until qconf -sm >/dev/null 2>&1; do kill -0 $! || { cat $2/log; exit 1; }; done
qconf -as node
qconf -ssconf | sed 's/^schedule_interval.*/schedule_interval 0:0:1/; s/^\(flush_.*_sec\).*/\1 1/' >$2/sched; qconf -Msconf $2/sched
$sge/sge_execd >$2/log 2>&1 &
until qhost | grep -q '^node .*lx-'; do kill -0 $! || { cat $2/log; exit 1; }; done
{
	printf '%s\n' 'qname all.q' 'hostlist node' 'seq_no 0' 'nsuspend 1' 'priority 0' 'processors UNDEFINED' 'qtype BATCH' 'rerun FALSE' 'slots 4' "tmpdir $2/tmp" 'shell /bin/sh' 'shell_start_mode posix_compliant' 'notify 00:00:60' 'initial_state default'
	for n in suspend_interval min_cpu_interval; do echo $n 00:05:00; done
	for n in load_thresholds suspend_thresholds ckpt_list pe_list prolog epilog starter_method suspend_method resume_method terminate_method owner_list user_lists xuser_lists subordinate_list complex_values projects xprojects calendar; do echo $n NONE; done
	for n in rt cpu fsize data stack core rss vmem; do echo s_$n INFINITY; echo h_$n INFINITY; done
} >$2/queue; qconf -Aq $2/queue
shift 2; exec "$@"
`

// The distribution's SGE runs the nodes of a run, and has no job of it afterwards.
func TestSGE(t *testing.T) {
	packages := os.Getenv(sgeVar)
	switch {
	case packages == sgeInside:
		t.Skip("TestSGEInside runs here")
	case packages == "":
		t.Skip("set " + sgeVar + " to run SGE, as 'make test-full T=sge' does")
	case os.Geteuid() != 0:
		t.Skip("this is not root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "unshare", "--mount", "--uts", "--net", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", "-c", sgeSetup, "sh", packages, t.TempDir(), self, "-test.run", "^TestSGEInside$", "-test.v")
	c.Env = append(os.Environ(), sgeVar+"="+sgeInside)
	out, err := c.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: TestSGEInside") {
		t.Error(err)
	}
}

// leftBySGE says what is left of the jobs of a run.
func leftBySGE(t *testing.T, dir string) string {
	t.Helper()
	left, _ := exec.CommandContext(t.Context(), "qstat").CombinedOutput()
	for _, pattern := range []string{dir + "/home/.*", dir + "/home/*", os.Getenv("SGE_ROOT") + "/tmp/*"} {
		list, _ := filepath.Glob(pattern)
		left = append(left, strings.Join(list, " ")...)
	}
	agents, _ := exec.CommandContext(t.Context(), "pgrep", "-f", "until-lost").Output()
	return string(append(left, agents...))
}

func TestSGEInside(t *testing.T) {
	if os.Getenv(sgeVar) != sgeInside {
		t.Skip("TestSGE runs it")
	}
	dir := t.TempDir()
	r := &slurmRig{t, dir}
	r.run("mkdir", dir+"/home", dir+"/tmp")
	t.Setenv("HOME", dir+"/home")
	gone := func(what string) {
		t.Helper()
		poll := time.NewTicker(100 * time.Millisecond)
		defer poll.Stop()
		for end := time.After(2 * lostLimit); leftBySGE(t, dir) != ""; {
			select {
			case <-poll.C:
			case <-end:
				t.Fatalf("of %s is left: %s", what, leftBySGE(t, dir))
			}
		}
	}
	host := `<Host name="localhost"><Agent invoker="ssh" path="` + r.agentPath() + `"/><JobScheduler type="sge" maxjob="3"/></Host>`
	const up = `until [ $(SKEP nodes | grep -c "^localhost-[0-2] .* up ") = 3 ]; do sleep 0.1; done; `
	text := r.hostsOf(host, up+`SKEP exec --on node=localhost-2 -- SKEP version; qstat -j "skep-*"; ls -R $SGE_ROOT/execd/node; cat $SGE_ROOT/execd/node/job_scripts/* $SGE_ROOT/execd/node/active_jobs/*/*; echo; echo token $(head -n 1 ~/.skep-job-*/run)`, false)
	_, token, _ := strings.Cut(text, "\ntoken ")
	token = strings.TrimSpace(token)
	if !strings.HasPrefix(token, "skep1.") || strings.Count(text, token) != 1 || !strings.Contains(text, "\nenv_list: ") {
		t.Errorf("the token is %q in\n%s", token, text)
	}
	gone("the job")
	r.hostsOf(host, up+"kill -9 $PPID", true)
	gone("the job of a killed run")
	began := time.Now()
	r.hostsOf(host, up+"kill -9 $(pgrep -f '[s]kep-job') $PPID", true)
	if leftBySGE(t, dir) == "" {
		t.Error("the agents whose shell was killed too did not wait for the hub")
	}
	gone("the job of a killed run and shell")
	t.Logf("the nodes ended after %v", time.Since(began))
	// In the queue, and refused by SGE.
	r.run("qmod", "-d", "all.q")
	for options, want := range map[string]string{"": "it has not joined in time: submitted job ", "qsub -q none": `the job has ended: Unable to run job: Job was rejected because job requests unknown queue `} {
		t.Setenv("SKEP_QSUB", options)
		if text := r.hostsOf(host+`<TimeOut second="3"/>`, "true", true); !strings.Contains(text, want) {
			t.Errorf("%q: %s", options, text)
		}
		gone(fmt.Sprintf("the waiting job of %q", options))
	}
}
