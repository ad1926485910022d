// SPDX-License-Identifier: MIT

package compat

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// qsubScript stands for the qsub of SGE and of PBS: it runs the script on its standard input for
// each task with the variables of -v alone, now or, if the queue is held, when the test says so.
const qsubScript = `q=$(dirname "$0")
echo "$*" >>$q/log
id=$(($(cat $q/last) + 1)) tasks=1 vars= sge=
while [ $# -gt 0 ]; do
	case $1 in
	-q) echo "there is no queue $2" >&2; exit 1 ;;
	-t) tasks=$2 sge=1 ;;
	-v) vars=$2 ;;
	esac
	shift
done
echo $id >$q/last
cat >$q/script.$id
{
	for task in $(seq "${tasks#*-}"); do
		echo "env -i PATH=$PATH TMPDIR=$TMPDIR $(echo ,$vars | sed 's/,PATH//; s/,/ /g') ${sge:+SGE_TASK_ID=$task} setsid sh $q/script.$id </dev/null >/dev/null 2>&1 &"
		echo "echo \$! >>$q/pids.$id"
	done
} >$q/start.$id
: >$q/job.$id
[ -e $q/held ] || sh $q/start.$id
[ "$sge" ] && echo "$id.$tasks:1" || echo "$id.server"
`

const qstatScript = `q=$(dirname "$0")
[ "$1" != -j ] || shift
for job; do
	id=${job%%.*}
	[ -e $q/job.$id ] || continue
	[ -e $q/held ] && [ ! -e $q/pids.$id ] && found=1 && echo $job
	for pid in $(cat $q/pids.$id 2>/dev/null); do kill -0 $pid 2>/dev/null && found=1 && echo $job; done
done
[ "$found" ]
`

const qdelScript = `q=$(dirname "$0")
echo "qdel $*" >>$q/log
for job; do
	id=${job%%.*}
	rm $q/job.$id
	for pid in $(cat $q/pids.$id 2>/dev/null); do kill -$(cat $q/signal) -$pid; done
done
`

// A batchRig is a batch system of this computer, in the folder q of dir.
type batchRig struct {
	t   *testing.T
	dir string
}

func openBatch(t *testing.T, signal string) *batchRig {
	t.Helper()
	r := &batchRig{t, openTools(t)}
	if err := os.Mkdir(r.path("q"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"qsub": qsubScript, "qstat": qstatScript, "qdel": qdelScript} {
		writeProgram(t, r.path("q/"+name), text)
	}
	writeText(t, r.path("q/last"), "0\n")
	writeText(t, r.path("q/signal"), signal+"\n")
	return r
}

func (r *batchRig) path(name string) string { return filepath.Join(r.dir, name) }

func (r *batchRig) read(name string) string {
	text, _ := os.ReadFile(r.path(name))
	return string(text)
}

func (r *batchRig) run(command, want string, code int) {
	r.t.Helper()
	if out := mustRun(r.t, r.dir, "export PATH="+r.path("q")+":$PATH; "+command, code); !strings.Contains(out, want) {
		r.t.Errorf("%s printed\n%s\nwithout %q", command, out, want)
	}
}

// leftovers lists what a run can leave: folders of tokens and of nodes, jobs, processes.
func (r *batchRig) leftovers() string {
	left, _ := filepath.Glob(r.path(".skep-job-*"))
	tmp, _ := filepath.Glob(r.path("tmp/skep-join-*"))
	jobs, _ := filepath.Glob(r.path("q/job.*"))
	left = append(append(left, tmp...), jobs...)
	pids, _ := filepath.Glob(r.path("q/pids.*"))
	for _, list := range pids {
		text, _ := os.ReadFile(list)
		for _, pid := range strings.Fields(string(text)) {
			if _, err := os.Stat("/proc/" + pid); err == nil {
				left = append(left, "process "+pid)
			}
		}
	}
	return strings.Join(left, " ")
}

// mustLeaveNothing waits until nothing of the jobs is there.
func (r *batchRig) mustLeaveNothing() {
	r.t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for end := time.After(time.Minute); r.leftovers() != ""; {
		select {
		case <-poll.C:
		case <-end:
			r.t.Fatalf("it left %s", r.leftovers())
		}
	}
}

// Hosts with SGE and PBS run workers in jobs. The jobs end with the run, however that ends, and
// nobody can read the run's token in them.
func TestBatch(t *testing.T) {
	const await = `until [ $(skep nodes | grep -c "^localhost-[01] .* up ") = 2 ]; do sleep 0.1; done; `
	sge := regexp.MustCompile(`^-terse -w e -notify -j y -t 1-2 -N skep-\d+ -S /bin/sh -o /dev/null -v PATH,folder=\S+/\.skep-job-\w+,task=0\nqdel 1\n$`)
	line := `-j oe -N skep-\d+ -S /bin/sh -o /dev/null -v PATH,folder=\S+/\.skep-job-\w+,task=`
	pbs := regexp.MustCompile(`^` + line + `0\n` + line + `1\nqdel 1\.server 2\.server\n$`)
	for kind, log := range map[string]*regexp.Regexp{"sge": sge, "pbs": pbs} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel() // they wait
			r := openBatch(t, map[string]string{"sge": "USR2", "pbs": "TERM"}[kind])
			host := func(path, inside string) {
				hostFile(t, r.dir, fmt.Sprintf(`<Host name="localhost"><Agent invoker="ssh" path="%s"/><JobScheduler type="%s" maxjob="2"/></Host>%s`, path, kind, inside))
			}
			build := filepath.Dir(filepath.Dir(skepPath(t)))
			host(build, "")
			r.run("omrpc-cc p/calls/calls.idl && omrpc-cc -o master p/calls/all.c && skep run --hostfile hosts.xml -- sh -c '"+await+"./master; cat .skep-job-*/run >token'", "right", 0)
			r.mustLeaveNothing()
			token, _, _ := strings.Cut(r.read("token"), "\n")
			if !strings.HasPrefix(token, "skep1.") {
				t.Fatalf("the token is %q", token)
			}
			for _, name := range []string{"q/log", "q/script.1"} {
				if strings.Contains(r.read(name), token) {
					t.Errorf("%s has the token", name)
				}
			}
			if !log.MatchString(r.read("q/log")) {
				t.Errorf("the commands were\n%s", r.read("q/log"))
			}
			r.run("skep run --hostfile hosts.xml -- sh -c '"+await+"stat -c %a .skep-job-*; kill -9 $PPID'", "700\n", 137)
			r.mustLeaveNothing()
			host("/nowhere", "")
			r.run("skep run --hostfile hosts.xml -- true 2>&1 | sed 's/[^ ]*script.[0-9]*: [0-9]*: /:/g; s/submitted job [0-9].*:.nowhere/NOWHERE/'", "hosts.xml:2:1: the host localhost: the job has ended: NOWHERE/bin/skep: not found", 0)
			r.run("SKEP_QSUB='qsub -q none' skep run --hostfile hosts.xml -- true", "the job has ended: there is no queue none", 3)
			r.mustLeaveNothing()
			// Jobs that wait in the queue.
			writeText(t, r.path("q/held"), "")
			host(build, `<TimeOut second="1"/>`)
			r.run("skep run --hostfile hosts.xml -- true", "the host localhost: it has not joined in time: submitted job ", 3)
			r.mustLeaveNothing()
			// Nobody is left who could delete them: they end when their turn comes.
			host(build, "")
			r.run("skep run --hostfile hosts.xml -- true & run=$!; until [ -e q/job.$(cat q/last) ] && pgrep -P $run >children; do sleep 0.1; done; kill -9 $run $(cat children); wait $run", "", 137)
			if r.leftovers() == "" {
				t.Error("nothing is in the queue")
			}
			r.run("rm q/held; for job in q/job.*; do sh q/start.${job##*.}; rm $job; done", "", 0)
			r.mustLeaveNothing()
		})
	}
}
