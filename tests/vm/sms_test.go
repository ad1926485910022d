// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"skep/lab"
	"skep/tests/vmtest"
)

// A machine that lends processors, and the paths of what it needs.
type smsMachine struct {
	vm     *vmtest.VM
	bin    string
	counts string
}

// smsParts run in this order, all in one machine of each kernel. The short form, for one kernel,
// is what the module and the proxy ask of Linux: memory, signals, files and the end of a program.
var smsParts = []struct {
	name  string
	run   func(*smsMachine, *testing.T)
	short bool
}{
	{"hello", (*smsMachine).testHello, true},
	{"team", (*smsMachine).testTeam, true},
	{"threads", (*smsMachine).testThreads, true},
	{"clock", (*smsMachine).testClock, true},
	{"timers", (*smsMachine).testTimers, false},
	{"vdso", (*smsMachine).testVDSO, false},
	{"signals", (*smsMachine).testSignals, false},
	{"crowd", (*smsMachine).testTimeSlices, false},
	{"strays", (*smsMachine).testForeignNMI, true},
	{"helpers", (*smsMachine).testHelpers, false},
	{"go", (*smsMachine).testGo, false},
	{"programs", (*smsMachine).testPrograms, false},
	{"shared", (*smsMachine).testSharedFile, true},
	{"blocking", (*smsMachine).testBlocking, true},
	{"faults", (*smsMachine).testFaults, false},
	{"memory", (*smsMachine).testMemory, false},
	{"wakes", (*smsMachine).testWakeups, false},
	{"overcommit", (*smsMachine).testOvercommit, false},
	{"wild", (*smsMachine).testWildCalls, false},
	{"defects", (*smsMachine).testDefects, false},
	{"files", (*smsMachine).testFiles, false},
	{"listing", (*smsMachine).testListing, false},
	{"refused", (*smsMachine).testRefusals, false},
	{"killed", (*smsMachine).testKilled, true},
	{"secrets", (*smsMachine).testSecrets, false},
	{"whole", (*smsMachine).checkRestored, true},
	{"page", (*smsMachine).testPage, false},
}

// Programs run on a partition as they run on Linux, and nothing disturbs them.
// What is counted has a machine of its own: the counter makes all it sees slow.
func TestSms(t *testing.T) {
	vmtest.Each(t, func(t *testing.T, kernel string) {
		long := vmtest.IsLong(kernel, "6.12")
		m := bootSms(t, lab.Machine{Kernel: kernel})
		if !long { // the proxy has to find its place between programs at random addresses as well
			m.runShell(t, "echo 2 >/proc/sys/kernel/randomize_va_space")
		}
		for _, p := range smsParts {
			if long || p.short {
				t.Run(p.name, func(t *testing.T) { p.run(m, t) })
			}
		}
		m.vm.PowerOff()
		if !long {
			return
		}

		// The emulator's threads may run a processor that waits for SIPI, so this machine has one.
		m = bootSms(t, lab.Machine{Name: "sms-counted-" + kernel, Kernel: kernel, InTurns: true, Count: &lab.Count{}})
		t.Run("noise", m.testNoise)
		t.Run("forwarding", m.testForwarding)
		t.Run("native", m.testNativeProxy)
		m.checkRestored(t)
		t.Run("interrupts", m.testInterrupts)
		t.Run("idle", m.testIdle)
	})
}

// bootLending returns a machine that can lend its processors.
func bootLending(t *testing.T, machine lab.Machine) *smsMachine {
	t.Helper()
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	machine.CPUs, machine.Memory, machine.Modules = 4, 1024, []string{"shimos"}
	vm := vmtest.Boot(t, machine, vmtest.Limit(6*time.Minute))
	return &smsMachine{vm: vm, bin: filepath.Join(build, "bin"), counts: filepath.Join(vm.Guest().Dir(), "counts")}
}

// bootSms returns one with a partition of two of its four processors.
func bootSms(t *testing.T, machine lab.Machine) *smsMachine {
	t.Helper()
	m := bootLending(t, machine)
	m.runShell(t, `install -o 0 -g 0 -m 644 $B/sms.image /run/sms.image
		echo /run/sms.image >/sys/module/shimos/parameters/image
		$B/skep part create --cpus 2-3 --mem 128M --name p`)
	return m
}

func (m *smsMachine) testPage(t *testing.T) {
	if err := typePage(m.vm, "docs/walks/cores.md", m.bin, "modprobe shimos "); err != nil {
		t.Error(err)
	}
}

// checkRestored shows that Linux has all its processors when the partition is gone.
func (m *smsMachine) checkRestored(t *testing.T) {
	out := m.runShell(t, "$B/skep part release p; cat /sys/devices/system/cpu/online")
	if strings.TrimSpace(out) != "0-3" {
		t.Errorf("CPUs online: %s", out)
	}
}

// runShell runs a script with B and T as the folders of programs and of tests,
// R to run on the partition by the proxy, which starts quicker than skep, and
// gives all that it prints.
func (m *smsMachine) runShell(t *testing.T, script string) string {
	t.Helper()
	return m.vm.Output(lab.Program{Args: []string{"/bin/sh", "-c", m.scriptHead(t) + script}})
}

func (m *smsMachine) scriptHead(t *testing.T) string {
	return fmt.Sprintf("set -e; exec 2>&1; export HOME=/run; B=%s; T=%s/sms_; H=%s; R=\"$B/sms-proxy --ledger /run/ledger 1\"\n",
		m.bin, filepath.Dir(toolPath(t, "sms_hello")), toolPath(t, "lend_hunt"))
}

// readLedger returns the figures of the last run of R, all cores together.
func (m *smsMachine) readLedger(t *testing.T) map[string]uint64 {
	t.Helper()
	return sumFigures(m.runShell(t, "cat /run/ledger"))
}

// sumFigures adds up the cores of a ledger, as the proxy writes it.
func sumFigures(text string) map[string]uint64 {
	sum := map[string]uint64{}
	for line := range strings.Lines(text) {
		var core int
		var name string
		var n uint64
		if k, _ := fmt.Sscanf(line, "core %d %s %d", &core, &name, &n); k == 3 {
			sum[name] += n
		}
	}
	return sum
}

// Once as a user types it, with the table that a user sees; then musl.
func (m *smsMachine) testHello(t *testing.T) {
	out := m.runShell(t, "s=0; $B/skep part run -- ${T}hello you 7 || s=$?; echo status $s; $B/skep part stats; $B/skep part list")
	if !strings.HasPrefix(out, "hello you from sms on Linux") || !strings.Contains(out, "status 7\n") ||
		!strings.Contains(out, "idle") || strings.Contains(out, "its proxy ended") {
		t.Errorf("it printed %q", out)
	}
	if !regexp.MustCompile(`(?m)^threads +1 +0$`).MatchString(out) || !regexp.MustCompile(`(?m)^forwarded-open +1 +0$`).MatchString(out) {
		t.Errorf("the table is %q", out)
	}
	out = m.runShell(t, "s=0; $R ${T}musl you 7 || s=$?; echo status $s; cat /run/ledger")
	if !strings.HasPrefix(out, "hello you from sms on Linux") || !strings.Contains(out, "status 7\n") {
		t.Errorf("musl printed %q", out)
	}
	if l := sumFigures(out); l["threads"] != 1 || l["calls"] == 0 || l["forwarded-write"] == 0 || l["forwarded-open"] != 1 {
		t.Errorf("the ledger says %v", l)
	}
}

// The same sum as natively, on one core for each thread; the CPUs are none of
// Linux's meanwhile.
func (m *smsMachine) testTeam(t *testing.T) {
	out := m.runShell(t, "$R ${T}team 20; ${T}team 20; cat /sys/devices/system/cpu/online")
	lines := strings.Split(out, "\n")
	if len(lines) < 3 || lines[0] != lines[1] || !strings.HasPrefix(lines[0], "threads 2 of 2") || lines[2] != "0-1" {
		t.Errorf("it printed %q", out)
	}
	if l := m.readLedger(t); l["threads"] != 2 || l["nmi-start"] != 1 || l["nmi-foreign"] != 0 {
		t.Errorf("the ledger says %v", l)
	}
	if out := m.runShell(t, "OMP_NUM_THREADS=1 $R ${T}team 1"); !strings.HasPrefix(out, "threads 1 of 2") {
		t.Errorf("alone it printed %q", out)
	}
	// A program that asks for more threads than cores gets as many as there are cores, unless the user said more.
	out = m.runShell(t, "$R ${T}team 1 5; OMP_THREAD_LIMIT=3 $R ${T}team 1 5; OMP_NUM_THREADS=2 $R ${T}team 1 5")
	lines = strings.Split(out, "\n")
	if len(lines) < 3 || !strings.HasPrefix(lines[0], "threads 2 of 2") || !strings.HasPrefix(lines[1], "threads 3 of 2") ||
		!strings.HasPrefix(lines[2], "threads 5 of 2") {
		t.Errorf("of 5 threads it printed %q", out)
	}
}

// One after another on the second core, and one that only a signal ends.
func (m *smsMachine) testThreads(t *testing.T) {
	if out := m.runShell(t, "$R ${T}wreck threads"); out != "threads 200\n" {
		t.Errorf("it printed %q", out)
	}
	if out := m.runShell(t, "$R ${T}wreck kick"); out != "kicked\n" {
		t.Errorf("it printed %q", out)
	}
	if l := m.readLedger(t); l["nmi-signal"] == 0 {
		t.Errorf("the ledger says %v", l)
	}
}

// The C library reads Linux's time without a call, also right after Linux's
// clock was set.
func (m *smsMachine) testClock(t *testing.T) {
	out := m.runShell(t, `mkfifo /run/in; $R ${T}events wall </run/in >/run/out & p=$!
		exec 3>/run/in; until grep -q same /run/out; do sleep .1; done
		echo -n x >&3; until grep -q now /run/out; do sleep .1; done; date +%s
		date -s @$(($(date +%s) + 100000)) >/dev/null
		echo -n x >&3; until [ $(grep -c now /run/out) = 2 ]; do sleep .1; done; date +%s
		date -s @$(($(date +%s) - 100000)) >/dev/null
		exec 3>&-; wait $p; cat /run/out; rm /run/in`)
	var linux, partition [2]int64
	var same int
	n, err := fmt.Sscanf(out, "%d\n%d\nsame %d\nnow %d %d\nnow %d", &linux[0], &linux[1], &same,
		&partition[0], new(int64), &partition[1])
	if n != 6 || same != 1 {
		t.Fatalf("it printed %q: %v", out, err)
	}
	for i := range linux {
		if linux[i] < partition[i] || linux[i]-partition[i] > 60 {
			t.Errorf("Linux had %v, the partition %v", linux, partition)
		}
	}
	if linux[1]-linux[0] < 100000 {
		t.Errorf("Linux's clock was not set: %v", linux)
	}
	// 2000 times one reading by a call, and what the program's life needs.
	if l := m.readLedger(t); l["calls"] < 2000 || l["calls"] > 2300 {
		t.Errorf("%d calls", l["calls"])
	}
}

// Each kind of timer ends a wait or interrupts a loop; what there is none of
// is ENOSYS, and the ledger names it.
func (m *smsMachine) testTimers(t *testing.T) {
	out := m.runShell(t, "$R ${T}events timers")
	if want := "alarm 1 1\ninterval 1\ntimer 1 77\nsleep 1 1\nprofile 1\n"; !strings.HasSuffix(out, want) {
		t.Errorf("it printed %q", out)
	}
	if l := m.readLedger(t); l["nmi-event"] < 8 || l["nmi-foreign"] != 0 || l["refused-setitimer"] != 1 {
		t.Errorf("the ledger says %v", l)
	}
}

// A handler may interrupt the C library as it reads the clock.
func (m *smsMachine) testVDSO(t *testing.T) {
	out := m.runShell(t, `$R ${T}events vdso >/run/out & p=$!
		until grep -q time /run/out || ! kill -0 $p; do sleep .1; done
		while kill -TERM $p; do sleep .1; done 2>/dev/null
		s=0; wait $p || s=$?; cat /run/out; echo status $s`)
	if out != "reads the time\nstatus 5\n" {
		t.Errorf("it printed %q", out)
	}
}

// Signals to the proxy are the program's, wherever its threads are.
func (m *smsMachine) testSignals(t *testing.T) {
	out := m.runShell(t, `w() { until grep -q "$1" /run/out; do sleep .1; done; }
		mkfifo /run/in; $R ${T}events signals </run/in >/run/out & p=$!
		exec 3>/run/in
		w loops; kill -USR1 $p
		w reads; until grep -q waits /run/out; do kill -INT $p; done
		kill -STOP $p; until grep -q '^State:.T' /proc/$p/status; do sleep .1; done; kill -CONT $p
		w sleeps; kill -TERM $p; s=0; wait $p || s=$?; cat /run/out; echo status $s
		exec 3>&-; rm /run/in
		for how in joins leaves; do
			$R ${T}events $how >/run/out & p=$!
			w computes; kill -USR1 $p; s=0; wait $p || s=$?; cat /run/out; echo status $s
		done`)
	want := "loops\nreads\nwaits for the end of a stop\nsleeps\nterm\nstatus 5\n" +
		strings.Repeat("computes\nalone and signalled\nstatus 6\n", 2)
	if out != want {
		t.Errorf("it printed %q", out)
	}
	out = m.runShell(t, `for sig in TERM INT KILL; do
			$R ${T}events joins >/run/out & p=$!
			until grep -q computes /run/out; do sleep .1; done; kill -$sig $p; s=0; wait $p || s=$?; echo status $s
		done`)
	for _, status := range []string{"status 143", "status 130", "status 137"} {
		if !strings.Contains(out, status+"\n") {
			t.Errorf("no %s in %q", status, out)
		}
	}
}

// More threads than cores take turns; a core with two that run is sliced, and
// the ledger counts that. None is, for a team on all cores.
func (m *smsMachine) testTimeSlices(t *testing.T) {
	for _, c := range []struct{ how, want string }{
		{"pair", "handed over 40\n"}, {"compute", "area 3.141593\n"},
		{"many 40", "threads 40 Success\n"}, {"yield", "came 5\n"}, {"bursts", "came 2400\n"},
	} {
		if out := m.runShell(t, "$R ${T}crowd "+c.how); out != c.want {
			t.Errorf("%s printed %q", c.how, out)
		}
		// Threads that only wait leave their core before the next one is created, or do not.
		needed := c.how != "many 40"
		if l := m.readLedger(t); needed && l["switches"] == 0 || l["threads-refused"] != 0 || l["nmi-foreign"] != 0 ||
			c.how == "pair" && l["nmi-slice"] < 30 {
			t.Errorf("%s: the ledger says %v", c.how, l)
		}
	}
	out := m.runShell(t, "OMP_NUM_THREADS=3 $R ${T}team 20; $R ${T}team 20")
	lines := strings.Split(out, "\n")
	if len(lines) < 2 || !strings.HasPrefix(lines[0], "threads 3 of 2") || lines[1] != strings.Replace(lines[0], "3", "2", 1) {
		t.Errorf("libgomp printed %q", out)
	}
	if out := m.runShell(t, "OMP_PLACES=cores $R ${T}crowd places"); out != "places 2 of 1\n" {
		t.Errorf("of places it printed %q", out)
	}
	m.runShell(t, "OMP_PLACES=cores OMP_PROC_BIND=true $R ${T}team 20")
	if l := m.readLedger(t); l["nmi-slice"] != 0 || l["switches"] != 0 {
		t.Errorf("a team on all cores: the ledger says %v", l)
	}
}

// A foreign NMI, the only one that this run has no reason for.
func (m *smsMachine) testForeignNMI(t *testing.T) {
	m.runShell(t, "$B/skep part create --cpus 1 --mem 64M --name other")
	out := m.runShell(t, `mkfifo /run/in; $R ${T}crowd wait </run/in >/run/out & p=$!
		exec 3>/run/in; until grep -q processor /run/out; do sleep .1; done
		`+toolPath(t, "lend_stray")+` other `+toolPath(t, "image")+` $(sed -n 's/processor //p' /run/out)
		exec 3>&-; wait $p; rm /run/in; cat /run/out`)
	if !strings.HasSuffix(out, "\nread 0\n") {
		t.Errorf("it printed %q", out)
	}
	if l := m.readLedger(t); l["nmi-foreign"] != 1 {
		t.Errorf("the ledger says %v", l)
	}
	m.runShell(t, "$B/skep part release other")
}

// Helpers that wait for input and for time do not hold up a team, and are not
// held up; a signal is heard where every core spins.
func (m *smsMachine) testHelpers(t *testing.T) {
	out := m.runShell(t, `w() { until grep -q "$1" /run/out; do sleep .1; done; }
		mkfifo /run/in; $R ${T}crowd helpers </run/in >/run/out & p=$!
		exec 3>/run/in; echo a >&3; w team; echo b >&3; w 'read b'
		exec 3>&-; wait $p; sort /run/out; rm /run/in
		$R ${T}crowd deaf >/run/out & p=$!
		w spins; kill -USR1 $p; wait $p; cat /run/out`)
	if out != "read a\nread b\nteam 2999997 1\nspins\nheard\n" {
		t.Errorf("it printed %q", out)
	}
}

// A Go program, whose run-time has threads beside those that compute.
func (m *smsMachine) testGo(t *testing.T) {
	if out := m.runShell(t, "$R ${T}go; GOMAXPROCS=5 $R ${T}go"); out != "procs 2 sum 499999500000\nprocs 5 sum 499999500000\n" {
		t.Errorf("it printed %q", out)
	}
	if l := m.readLedger(t); l["threads"] < 5 || l["threads-refused"] != 0 {
		t.Errorf("the ledger says %v", l)
	}
}

// All who share a redirected file lose no line: the program, Linux, and what
// sms itself says.
func (m *smsMachine) testSharedFile(t *testing.T) {
	out := m.runShell(t, `w() { until [ $(grep -c "$1" /run/log) = $2 ]; do sleep .1; done; }
		mkfifo /run/in; exec 4>/run/log; $R ${T}events wall </run/in >&4 2>&4 & p=$!
		exec 3>/run/in; w same 1; for i in 1 2 3; do
			echo Linux $i >&4; echo -n x >&3; w now $i
		done
		echo Linux 4 >&4; kill -TERM $p; s=0; wait $p || s=$?; echo status $s >&4
		exec 3>&- 4>&-; cat /run/log; rm /run/in`)
	want := `^(Terminated\n)?same 1\nLinux 1\nnow .*\nLinux 2\nnow .*\nLinux 3\nnow .*\nLinux 4\nsms: killed by SIGTERM.*\nstatus 143\n$`
	if !regexp.MustCompile(want).MatchString(out) {
		t.Errorf("it printed %q", out)
	}
}

// A thread that waits for input does not hold up one that prints.
func (m *smsMachine) testBlocking(t *testing.T) {
	out := m.runShell(t, `mkfifo /run/in; $R ${T}events both </run/in >/run/out & p=$!
		exec 3>/run/in; until grep -q 'step 2' /run/out; do sleep .1; done
		cat /run/out; echo -n y >&3; wait $p; cat /run/out; rm /run/in`)
	steps := "step 0\nstep 1\nstep 2\n"
	if out != steps+steps+"got y\n" {
		t.Errorf("it printed %q", out)
	}
}

// What a user's program leaves, wherever it can, and however it ends, no other
// program finds: neither in what a proxy maps nor, by an image, in the rest.
// The user finds it: what is looked for is there until then.
func (m *smsMachine) testSecrets(t *testing.T) {
	const text = "SECRETS!SECRETS!SECRETS!SECRETS!"
	m.runShell(t, "$B/skep part allow --group 1000 --cpus 1 --mem 64M")
	m.runShellAsUser(t, "$B/skep part create --cpus 1 --mem 64M --name mine")
	for _, how := range []string{
		"$B/sms-proxy $id ${T}secret end $S",
		"$B/sms-proxy $id ${T}secret wait $S >out & p=$!; until grep -q planted out || ! kill -0 $p; do sleep .1; done; kill -9 $p; wait $p || :; cat out",
	} {
		out := m.runShellAsUser(t, `id=$($B/skep part list --json | sed -n 's/.*"id": *\([0-9]*\).*/\1/p' | tail -1); export S=`+text+"; "+how+"; ${H} mine")
		var mail, pool, words int
		if n, err := fmt.Sscanf(out[max(0, strings.Index(out, "planted")):], "planted\nmail %d\npool %d", &mail, &pool); n != 2 || mail != 0 || pool < 1e5 {
			t.Errorf("its user: %q: %v", out, err)
		}
		out = m.runShell(t, "${H} mine "+toolPath(t, "image"))
		if n, err := fmt.Sscanf(out, "mail %d\npool %d\nwords %d", &mail, &pool, &words); n != 3 || mail != 0 || pool != 0 || words != 0 {
			t.Errorf("root: %q: %v", out, err)
		}
	}
	m.runShellAsUser(t, "$B/skep part release mine")
}

// runShellAsUser runs a script as shell does, but as an ordinary user in a folder of his own.
func (m *smsMachine) runShellAsUser(t *testing.T, script string) string {
	t.Helper()
	return m.vm.Output(lab.Program{User: true, Args: []string{"/bin/sh", "-c", m.scriptHead(t) + "mkdir -p /tmp/own; cd /tmp/own; export HOME=/tmp/own\n" + script}})
}

// In one run, distinguished by their status.
func (m *smsMachine) testFaults(t *testing.T) {
	var all string
	var want []string
	for _, c := range []struct {
		how, status string
		says        []string
	}{
		{"null", "139", []string{"killed by SIGSEGV", "address 0x8\n", "  rip 0", "the instruction is in 00", "r-x\n", "the address is not mapped"}},
		{"privileged", "139", []string{"killed by SIGSEGV"}},
		{"trap", "133", []string{"killed by SIGTRAP"}},
		{"wild", "139", []string{"killed by SIGSEGV"}},
		{"catch", "3", []string{"caught"}},
		{"protect", "3", []string{"caught"}},
		{"hostile", "0", []string{"kept 27 of 27, refused 27 of 27\n"}},
	} {
		all += "s=0; $R ${T}wreck " + c.how + " || s=$?; echo status $s\n"
		want = append(append(want, c.says...), "status "+c.status+"\n")
	}
	out := m.runShell(t, all)
	for _, w := range want {
		_, rest, found := strings.Cut(out, w)
		if !found {
			t.Fatalf("no %q in %q", w, out)
		}
		out = rest
	}
}

// Memory that is used up, for data or for page tables, ends a call or the
// program; the next one finds all of it.
func (m *smsMachine) testMemory(t *testing.T) {
	out := m.runShell(t, `for how in "wreck memory" "events sparse" "hello again"; do
			s=0; $R ${T}$how || s=$?; echo status $s
		done`)
	for _, want := range []string{"memory 1\nstatus 0\n", "out of memory: no space is left for page tables",
		"killed by SIGBUS", "the address is in ", "status 135\n", "hello again from sms", "status 0\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
}

// More is mapped than there is, and what is touched has memory: with the touch,
// which the ledger counts, or before where the program asks for that. When there
// is no more the message says of what.
func (m *smsMachine) testOvercommit(t *testing.T) {
	if out := m.runShell(t, "$R ${T}big look"); out != "bss 1\n8 GiB 1\n2 TiB 1\n" {
		t.Errorf("it printed %q", out)
	}
	out := m.runShell(t, "s=0; $R ${T}big fill || s=$?; echo status $s")
	if !regexp.MustCompile(`out of memory: the program uses all 1\d\d MiB that the partition has`).MatchString(out) || !strings.HasSuffix(out, "status 135\n") {
		t.Errorf("it printed %q", out)
	}
	faults := map[string]uint64{}
	for _, how := range []string{"touch", "populate", "lock", "advise"} {
		if out := m.runShell(t, "$R ${T}big "+how); out != "used 0\n" {
			t.Errorf("%s: it printed %q", how, out)
		}
		faults[how] = m.readLedger(t)["faults"]
		if how != "touch" && faults[how]+15 > faults["touch"] {
			t.Errorf("%s: %d faults, %d without", how, faults[how], faults["touch"])
		}
	}
	t.Logf("faults: %v", faults)
}

// The image as it is but for the first instructions of the function that tells
// the time: a fault of sms itself ends the run, and nothing else.
func (m *smsMachine) testDefects(t *testing.T) {
	build := filepath.Dir(m.bin)
	image, err := os.ReadFile(filepath.Join(m.bin, "sms.image"))
	if err != nil {
		t.Fatal(err)
	}
	elf := filepath.Join(build, "lib", "sms.elf")
	at := symbolOffset(t, elf, "sms_time_clock") - 0xffffffff80000000
	for _, c := range []struct{ name, code, says string }{
		{"ud2", "\x0f\x0b", "sms itself got a trap at"},
		{"load", "\x31\xc0\x8b\x00", "sms itself failed at"},
		{"stack", "\x31\xe4\x50", "sms itself got a trap at"}, // a double fault
		// Without the protection each of these goes on, and the program ends as it should:
		// a store to its own text,
		{"store", "\x48\x8d\x05\xf9\xff\xff\xff\xc6\x00\x90\x31\xc0\xc3", "sms itself failed at"},
		// pop %rax and ret, executed on the stack,
		{"run-stack", "\x68\x58\xc3\x90\x90\xff\xe4", "sms itself failed at"},
		// and ret, executed in data.
		{"run-data", "\x48\xc7\xc0" + addressOf(t, elf, "random_block") + "\xc6\x00\xc3\x31\xd2\x48\x87\xd0\xff\xe2", "sms itself failed at"},
	} {
		broken := filepath.Join(build, "test", "vm", "sms_broken_"+c.name)
		bad := bytes.Clone(image)
		copy(bad[at:], c.code)
		if err := os.WriteFile(broken, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		out := m.runShell(t, `install -o 0 -g 0 -m 644 ${T}broken_`+c.name+` /run/broken
			echo /run/broken >/sys/module/shimos/parameters/image
			s=0; $R ${T}events wall </dev/null || s=$?; echo status $s; $B/skep part list`)
		if !strings.Contains(out, "defect: "+c.says) || !strings.Contains(out, "status 126\n") || !strings.Contains(out, "idle") {
			t.Errorf("%s: %q", c.name, out)
		}
	}
	out := m.runShell(t, `echo /run/sms.image >/sys/module/shimos/parameters/image; $R ${T}hello again
		cat /sys/devices/system/cpu/online`)
	if !strings.HasPrefix(out, "hello again from sms") || !strings.HasSuffix(out, "\n0-1\n") {
		t.Errorf("afterwards: %q", out)
	}
}

// addressOf returns an address of sms as an instruction has it, in four bytes.
func addressOf(t *testing.T, path, name string) string {
	t.Helper()
	return string(binary.LittleEndian.AppendUint32(nil, uint32(symbolOffset(t, path, name))))
}

func symbolOffset(t *testing.T, path, name string) uint64 {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := f.Symbols()
	for _, s := range list {
		if s.Name == name {
			return s.Value
		}
	}
	t.Fatalf("%s has no %s: %v", path, name, err)
	return 0
}

// checkLentRun reports why a run was not on lent cores: a ledger, what Linux says of its
// CPUs, and the instructions of the program that the emulator saw there.
func (m *smsMachine) checkLentRun(t *testing.T, proxy string) error {
	t.Helper()
	const loop = 5 // of events count
	before := m.userOn(t, loop)
	out := m.runShell(t, "rm -f /run/ran; "+proxy+" --ledger /run/ran 1 ${T}events count; cat /run/ran /sys/devices/system/cpu/online")
	after := m.userOn(t, loop)
	switch l := sumFigures(out); {
	case !strings.HasPrefix(out, "counted\n"):
		t.Fatalf("it printed %q", out)
	case l["threads"] != 1 || l["forwarded-write"] == 0:
		return fmt.Errorf("the ledger is %v", l)
	case !strings.HasSuffix(out, "\n0-1\n"):
		return errors.New("the CPUs were Linux's")
	case after-before < 1e6:
		return errNotThere
	}
	return nil
}

var errNotThere = errors.New("its instructions were on other cores")

// userOn returns the program's instructions in an interval on the lent cores.
// The emulator writes the file when the first interval ends.
func (m *smsMachine) userOn(t *testing.T, interval int) (n uint64) {
	t.Helper()
	counts, err := lab.ReadCounts(m.counts)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, cpu := range []int{2, 3} {
		if f := counts.Figures[lab.Interval{CPU: cpu, Number: interval}]; f != nil {
			n += f.User
		}
	}
	return n
}

// A proxy that runs the program on Linux, with a ledger as good as any, does
// not pass for one.
func (m *smsMachine) testNativeProxy(t *testing.T) {
	if err := m.checkLentRun(t, "$B/sms-proxy"); err != nil {
		t.Error(err)
	}
	m.runShell(t, `cp /run/ran /run/good
		printf '#!/bin/sh\ncp /run/good $2; shift 3; exec taskset 1 "$@"\n' >/run/native; chmod 755 /run/native`)
	if err := m.checkLentRun(t, "/run/native"); err != errNotThere {
		t.Errorf("a proxy that runs it natively: %v", err)
	}
}

func (m *smsMachine) testFiles(t *testing.T) {
	parts := 12
	if vmtest.Both {
		parts = 100
	}
	out := m.runShell(t, fmt.Sprintf(`head -c 1048576 /dev/urandom >/run/m
		i=0; while [ $i -lt %d ]; do printf '%%03d\n' $i; cat /run/m; i=$((i+1)); done >/run/a
		$R ${T}copy /run/a /run/b; cmp /run/a /run/b && echo same; rm /run/[abm]`, parts))
	if !strings.HasPrefix(out, fmt.Sprintf("%d bytes", parts*(1<<20+4))) || !strings.HasSuffix(out, "\nsame\n") {
		t.Errorf("it printed %q", out)
	}
}

func (m *smsMachine) testRefusals(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"$R /bin/sh", "refused to load"},
		{"$R /run/nothing", "no such program"},
		{"$R ''", "no such program"},
		{"$R /run", "not an executable file"},
		{"$B/skep part run --on q -- ${T}hello", "there is no partition"},
	} {
		out := m.runShell(t, "s=0; "+c.script+" || s=$?; echo status $s")
		if !strings.Contains(out, c.want) || strings.HasSuffix(out, "status 0\n") {
			t.Errorf("%s: %q", c.script, out)
		}
	}
}

// A program that only spins ends with its proxy, and the partition is free.
func (m *smsMachine) testKilled(t *testing.T) {
	out := m.runShell(t, `$R ${T}wreck spin & p=$!
		until $B/skep part list | grep -q running; do sleep .1; done
		kill -KILL $p; wait $p || echo status $?
		until $B/skep part list | grep -q idle; do sleep .1; done
		$B/skep part list; $R ${T}hello again`)
	if !strings.Contains(out, "status 137") || !strings.Contains(out, "its proxy ended while it ran") || !strings.Contains(out, "hello again") {
		t.Errorf("it printed %q", out)
	}
}

// No instruction of a kernel and no entry, while Linux is as noisy as it can;
// the same counter counts calls to the last one, and Linux's own noise.
func (m *smsMachine) testNoise(t *testing.T) {
	out := m.runShell(t, `touch /run/on; ${T}storm /run/on >/run/storms & p=$!
		mkfifo /run/in; $R ${T}quiet <>/run/in; rm /run/in; taskset 2 ${T}quiet linux
		rm /run/on; wait $p; cat /run/storms`)
	var storms int
	if _, err := fmt.Sscanf(out[strings.LastIndex(out, "storms"):], "storms %d", &storms); err != nil || storms == 0 {
		t.Fatalf("no storm: %q, %v", out, err)
	}
	counts, err := lab.ReadCounts(m.counts)
	if err != nil {
		t.Fatal(err)
	}
	of := func(cpu, interval int) lab.Figures {
		f := counts.Figures[lab.Interval{CPU: cpu, Number: interval}]
		if f == nil || f.Times != 1 || f.Open || counts.Lost[cpu] != 0 {
			t.Fatalf("interval %d on CPU %d was not counted: %v", interval, cpu, f)
		}
		return *f
	}
	if f := of(2, 0); f.User < 1e7 || f.Kernel != 0 || f.Entries != 0 {
		t.Errorf("a loop of %d instructions met %d of the kernel and %d entries", f.User, f.Kernel, f.Entries)
	}
	if f := of(2, 1); f.Entries != 1000 {
		t.Errorf("1000 calls were %d entries", f.Entries)
	}
	if f := of(2, 4); f.Entries != 0 || f.User < 20000 {
		t.Errorf("2000 readings of clocks were %d instructions and %d entries", f.User, f.Entries)
	}
	// libgomp's last thread at a barrier always wakes the others, who spin.
	if a, b := of(2, 2), of(3, 2); a.Entries+b.Entries != 200 || len(a.Entry) > 1 || len(b.Entry) > 1 {
		t.Errorf("200 barriers of libgomp entered %d and %d times: %v, %v", a.Entries, b.Entries, a.Entry, b.Entry)
	}
	for _, cpu := range []int{2, 3} {
		if f := of(cpu, 3); f.Kernel != 0 || f.Entries != 0 || f.User < 2000 {
			t.Errorf("barriers on CPU %d: %d instructions, %d of the kernel, %d entries", cpu, f.User, f.Kernel, f.Entries)
		}
	}
	if f := of(1, 0); f.Kernel == 0 || f.Entries == 0 {
		t.Errorf("Linux did the same loop with %d instructions of the kernel and %d entries", f.Kernel, f.Entries)
	}
	t.Logf("%d storms; Linux: %d entries, %d instructions", storms, of(1, 0).Entries, of(1, 0).Kernel)
	// The thread that waits for input left its core to the team's second one.
	// Where it was slow to wait, that one got its turn by a slice before the
	// intervals began; none of them has an entry.
	if l := m.readLedger(t); l["nmi-foreign"] != 0 || l["threads"] != 3 || l["switches"] == 0 {
		t.Errorf("the ledger says %v", l)
	}
}
