// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/lab"
	"skep/tests/vmtest"
)

// gangShell begins scripts: what is left of gangs, and waits for that to become nothing.
const gangShell = `cd /tmp; R=/sys/fs/cgroup
left() { { ls $R | grep skep-gang; cat $R/*/cgroup.events | grep 'frozen 1'; } 2>/dev/null; }
clean() { for i in $(seq 3000); do [ -z "$(left)" ] && return; sleep 0.01; done; echo "left: $(left)"; }
group() { mkdir -p $R/$1; sh -c "echo \$\$ >$R/$1/cgroup.procs; exec sleep 1000" & }
await() { for i in $(seq 3000); do "$@" && return; sleep 0.01; done; echo "late: $*"; }
`

// gangs types commands of skep gang into a machine.
type gangs struct {
	t    *testing.T
	vm   *vmtest.VM
	skep string
	work string
}

func newGangs(t *testing.T, vm *vmtest.VM) *gangs {
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	return &gangs{t, vm, filepath.Join(build, "bin", "skep"), toolPath(t, "gang_work")}
}

func (g *gangs) shell(script string) string {
	g.t.Helper()
	return g.vm.Output(shellProgram(gangShell + fmt.Sprintf("SKEP=%s WORK=%s\n", g.skep, g.work) + script))
}

func (g *gangs) expect(name, script, want string) {
	g.t.Helper()
	text := g.shell(script)
	checkGuest(g.t, name, text == want, "it says %q, want %q", text, want)
}

// Programs and control groups take turns, one at a time, and nothing stays stopped or behind,
// whoever is killed. The short form is in TestAgentLimits, whose machine has room for it.
func TestGang(t *testing.T) {
	vmtest.EachLong(t, vmtest.Full, func(t *testing.T, kernel string) {
		g := newGangs(t, vmtest.Boot(t, lab.Machine{Kernel: kernel, CPUs: 2, InTurns: true, Memory: 1024}, vmtest.Limit(5*time.Minute)))
		g.turns()
		g.ends()
		g.kills()
		g.groups()
	})
}

// turns counts how often another program runs than before. Programs that run at the same time
// change places at once, and need no turns.
func (g *gangs) turns() {
	g.t.Helper()
	text := g.shell(`$SKEP gang run --period 200ms --log log -- $WORK turns f 1 4 : $WORK turns f 2 4; echo code $?; wc -l <log; clean`)
	var turns int
	_, err := fmt.Sscanf(text, "code 0\n%d\n", &turns)
	checkGuest(g.t, "one gang runs at a time", err == nil && turns >= 4 && strings.Count(text, "\n") == 2, "%v: %q", err, text)
}

// ends are those that skep makes itself.
func (g *gangs) ends() {
	g.t.Helper()
	g.expect("exit codes", `for i in 0 3; do $SKEP gang run --period 100ms -- true : sh -c "sleep 0.3; exit $i"; echo $?; done
$SKEP gang run --period 100ms -- sh -c 'kill -9 $$' : true; echo $?; clean`, "0\n3\n137\n")
	g.expect("standard input is the first program's", `echo in | $SKEP gang run --period 100ms -- cat : cat; clean`, "in\n")
	g.expect("SIGTERM ends the programs", `$SKEP gang run --period 200ms -- sh -c 'trap "echo told; exit" TERM; while :; do sleep 0.05; done' : sleep 1000 & P=$!
sleep 0.7; kill -TERM $P; wait $P; echo $?; clean; pgrep -x sleep || true`, "told\n130\n")
	g.expect("children of a program that has ended", `$SKEP gang run --period 100ms -- sh -c 'sleep 0.5 & mkdir $R/$(cut -d/ -f2 /proc/self/cgroup)/low' : true; echo $?; clean; pgrep -x sleep || true`, "0\n")
}

// kills ends skep or its guard at moments all over a turn.
func (g *gangs) kills() {
	g.t.Helper()
	g.expect("skep is killed", `for i in 1 2 3 4 5 6 7 8; do
	$SKEP gang run --period 100ms -- sleep 1000 : sleep 1000 & P=$!
	sleep 0.$i; sleep 0.0$i; kill -KILL $P; wait $P; clean
done; await sh -c '! pgrep -x sleep'`, "")
	g.expect("the guard is killed", `$SKEP gang run --period 100ms -- sleep 1000 : sleep 1000 2>said & P=$!
await pgrep -f '[g]ang guard' >/dev/null; sleep 0.5; kill -KILL $(pgrep -f '[g]ang guard'); wait $P; echo $?; cat said; clean; pgrep -x sleep || true`,
		"1\nskep: the guard of the gangs was ended\n")
}

// groups are there before skep, and stay.
func (g *gangs) groups() {
	g.t.Helper()
	g.expect("groups take turns", `group a; group b
await grep -q . $R/a/cgroup.procs; await grep -q . $R/b/cgroup.procs
$SKEP gang run --period 100ms --cgroup a --cgroup $R/b & P=$!
frozen() { grep -q 'frozen 1' $R/$1/cgroup.events; }
for i in 1 2 3; do await frozen a; await frozen b; done
$SKEP gang run --cgroup a --cgroup b 2>&1; echo $?
kill -TERM $P; wait $P; echo $?; clean`, "2 gangs take turns of 100ms\n"+
		"skep: another skep switches the control group /sys/fs/cgroup/a\n4\n130\n")
	moments := "3"
	if vmtest.Both {
		moments = "1 2 3 4 5 6 7 8"
	}
	g.expect("skep is killed while groups are stopped", "for i in "+moments+`; do
	$SKEP gang run --period 100ms --cgroup a --cgroup b >/dev/null & P=$!
	sleep 0.$i; sleep 0.0$i; kill -KILL $P; wait $P; clean
done; cat $R/a/cgroup.events`, "populated 1\nfrozen 0\n")
	g.expect("a group ends, and is removed", `$SKEP gang run --period 100ms --cgroup a --cgroup b >/dev/null & P=$!
sleep 0.5; kill -KILL $(cat $R/a/cgroup.procs); await rmdir $R/a 2>/dev/null; sleep 0.5
kill -KILL $(cat $R/b/cgroup.procs); wait $P; echo $?; rmdir $R/b; clean`, "0\n")
}
