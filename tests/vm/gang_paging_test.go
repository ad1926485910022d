// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"testing"
	"time"

	"skep/lab"
	"skep/tests/vmtest"
)

// Two gangs, each with a working set of 12 MiB, in 16 MiB: together 1.5 times the memory. Each read
// and write of the swap device takes 1 ms.
const pagingShell = `J=$R/job
swap() {
	modprobe null_blk nr_devices=1 gb=1 memory_backed=1 irqmode=2 completion_nsec=1000000 &&
	mkswap /dev/nullb0 >/dev/null && swapon /dev/nullb0 && echo +memory >$R/cgroup.subtree_control
}
begin() {
	echo $1 >/sys/kernel/mm/lru_gen/enabled
	mkdir -p $J && echo 16M >$J/memory.max && echo +memory >$J/cgroup.subtree_control && rm -f out-a out-b log
	for g in a b; do
		mkdir $J/$g && sh -c "echo \$\$ >$J/$g/cgroup.procs; exec $WORK set out-$g 12 $2 $3" &
	done
	await grep -q . $J/a/cgroup.procs 2>/dev/null; await grep -q . $J/b/cgroup.procs 2>/dev/null
}
lines() { [ "$(cat out-$1 2>/dev/null | wc -l)" -ge 3 ]; }
measured() { for i in $(seq 2000); do lines a && lines b && return; sleep 0.05; done; echo "late: $(cat out-a out-b)"; }
end() {
	for g in a b; do echo 1 >$J/$g/cgroup.kill; await rmdir $J/$g 2>/dev/null; done; rmdir $J
	for g in a b; do sed -n 2,3p out-$g; done | awk '{ s += $1; j += $2; n += $3; t += $4 } END { printf "%d %d %d %d\n", s/NR, j/NR, n/NR, t/NR }'
}
gang() { $SKEP gang run --period ${P}s --paging $1 --log log --cgroup job/a --cgroup job/b >/dev/null & PID=$!; measured; kill -TERM $PID; wait $PID; }
script() {
	x=b y=a
	while [ -e scripted ]; do
		echo 1 >$J/$x/cgroup.freeze; await grep -q 'frozen 1' $J/$x/cgroup.events
		echo 12M >$J/$x/memory.reclaim
		$WORK willneed $(cat $J/$y/cgroup.procs)
		echo 0 >$J/$y/cgroup.freeze; sleep $P
		z=$x x=$y y=$z
	done 2>/dev/null
}
scripted() { touch scripted; script & measured; rm scripted; wait $!; }
`

// paged is what a gang costs from its start on until it has touched its whole set, on average.
type paged struct{ sleeps, major, minor, ms int }

// page measures one way to switch. cold is the size of further memory, in MiB, that the gangs
// used only at their beginning.
func (g *gangs) page(lru, how string, cold int) (p paged) {
	g.t.Helper()
	command := "gang " + how
	if how == "script" {
		command = "scripted"
	}
	text := g.shell(pagingShell + fmt.Sprintf("P=8; begin %s %d sweep; %s; end", lru, cold, command))
	if n, err := fmt.Sscanf(text, "%d %d %d %d\n", &p.sleeps, &p.major, &p.minor, &p.ms); n != 4 || err != nil {
		g.t.Fatalf("%s: %q", how, text)
	}
	g.t.Logf("MGLRU %s, %d MiB cold, %s: %+v", lru, cold, how, p)
	return p
}

// With all kinds of paging a gang waits for swap less than half as often as without, and less often
// than with a script, until it has touched its whole set again.
func TestPagingOfGangs(t *testing.T) {
	vmtest.EachLong(t, "6.1", func(t *testing.T, kernel string) {
		g := newGangs(t, vmtest.Boot(t, lab.Machine{Kernel: kernel, CPUs: 2, InTurns: true, Memory: 1024}, vmtest.Limit(20*time.Minute)))
		g.shell(pagingShell + "swap")
		all, stock, script := g.page("n", "all", 4), g.page("n", "none", 4), g.page("n", "script", 4)
		checkGuest(t, "half of stock", 2*all.sleeps < stock.sleeps, "stock %+v, all %+v", stock, all)
		checkGuest(t, "fewer than a script", all.sleeps < script.sleeps, "script %+v, all %+v", script, all)
		for _, how := range []string{"none", "script", "all"} {
			g.page("y", how, 4)
		}
		for _, how := range []string{"selective", "aggressive", "adaptive"} {
			g.page("n", how, 4)
		}
	})
}
