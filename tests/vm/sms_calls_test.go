// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skep/lab"
)

// A call wakes the worker of its core and no other thread: of the proxy's
// threads one went to sleep hundreds of times for a thousand calls, and the
// others as it takes to look each second.
func (m *smsMachine) testWakeups(t *testing.T) {
	out := m.runShell(t, `mkfifo /run/in; $R ${T}calls /run/sms.image 1000 wait </run/in >/run/out & p=$!
		exec 3>/run/in; until grep -q read /run/out; do sleep .1; done
		grep -h ^voluntary /proc/$p/task/*/status; exec 3>&-; wait $p; rm /run/in`)
	var slept []int
	for line := range strings.Lines(out) {
		var n int
		if k, _ := fmt.Sscanf(line, "voluntary_ctxt_switches: %d", &n); k == 1 {
			slept = append(slept, n)
		}
	}
	slices.Sort(slept)
	if n := len(slept); n < 4 || slept[n-1] < 200 || slept[n-2] > slept[n-1]/4 {
		t.Errorf("the proxy's threads slept so often: %v: %q", slept, out)
	}
}

// One call of the proxy lists many names.
func (m *smsMachine) testListing(t *testing.T) {
	out := m.runShell(t, `mkdir /run/many; cd /run/many; seq 1000 | xargs touch; cd /
		$R ${T}calls list /run/many; ${T}calls list /run/many; rm -r /run/many`)
	lines := strings.Split(out, "\n")
	if len(lines) != 3 || lines[0] != lines[1] || !strings.HasPrefix(lines[0], "names 1002 ") {
		t.Errorf("it printed %q", out)
	}
	if l := m.readLedger(t); l["forwarded-file"] == 0 || l["forwarded-file"] > 40 {
		t.Errorf("the ledger says %v", l)
	}
}

// A program on a partition starts programs of Linux, and sees of them what it sees on Linux. They
// have what the program has, and nothing of the proxy's.
func (m *smsMachine) testPrograms(t *testing.T) {
	for _, c := range []struct{ how, want string }{
		{"streams", "system sh\nsystem: status 3\nWRITTEN BY POPEN\npclose: status 0\nread by popen\n"},
		{"inherited", "/usr/bin\nkept\n0027\n77\n99\n0 1 2 3 4 5 \nits child\ninherited: status 0\nmasks: status 0\n2\n"},
		{"waits", "stopped 1 19\nstill there 0\nwaitid 1 1 9\nwait4 1\ncontinued: status 9\nkilled: signal 9\ntrapped: status 8\n"},
		{"changes", "skep\nits group\nchanged: status 0\nits session\nhere -1 -1\n"},
		{"threads", strings.Repeat("thread: status 6\n", 5)},
		{"signals", "wait: -1 Interrupted system call\nalarms 1\ninterrupted: signal 2\nignored: -1 No child processes\n"},
	} {
		out := m.runShell(t, "rm -f /run/ready; ${T}helpers "+c.how+"; echo = ; rm -f /run/ready; timeout -s KILL 60 $R ${T}helpers "+c.how+" || echo status $?")
		linux, lent, _ := strings.Cut(out, "=\n")
		if linux != lent || !strings.HasPrefix(lent, c.want) {
			t.Errorf("%s: on Linux %q, on a partition %q", c.how, linux, lent)
		}
		if l := m.readLedger(t); l["forwarded-family"] == 0 || l["nmi-foreign"] != 0 {
			t.Errorf("%s: the ledger says %v", c.how, l)
		}
	}
	out := m.runShell(t, "$R ${T}helpers forks")
	for _, want := range []string{"fork: -1 Function not implemented\n", "fork refused (ENOSYS)", "execve: -1 Function not implemented\n",
		"execve refused (ENOSYS)", "process 1: -1 No such process\n", "system: status 2\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
}

// Calls that may rightly end a program by SIGKILL: they send it, or set a limit
// of CPU time.
var killingCalls = []string{"kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "setrlimit", "prlimit64"}

// A hostile program makes each call that sms serves with wild arguments. Some
// calls end it, and it goes on with the next one in a new run; sms never has a
// defect, no call lasts for ever, and the partition runs the next program.
func (m *smsMachine) testWildCalls(t *testing.T) {
	table, err := filepath.Abs("../../abi/syscalls.tbl")
	if err != nil {
		t.Fatal(err)
	}
	out := m.runShell(t, `mkdir -p /run/wild/in; cd /run/wild/in; ulimit -f 4096; : >log; : >err; i=0; runs=0
		until grep -q '^all ' log || [ $runs = 60 ]; do
			rm -rf f d; s=0; runs=$((runs + 1))
			timeout -s KILL 60 $R ${T}wild `+table+` $PWD/log $i 20 <log >out 2>>err || s=$?
			i=$(($(sed -n 's/^begin \([0-9]*\) .*/\1/p' log | tail -1) + 1))
			echo run $s $(sed -n 's/^begin [0-9]* //p' log | tail -1)
		done
		cat log; grep -a -e defect -e 'partition was stopped' err || :
		$R ${T}hello again; cat /sys/devices/system/cpu/online; cd /; rm -r /run/wild`)
	calls := map[string]bool{}
	for line := range strings.Lines(out) {
		var status, number int
		var name string
		if n, _ := fmt.Sscanf(line, "run %d %s", &status, &name); n == 2 {
			if status == 126 || status == 137 && !slices.Contains(killingCalls, name) {
				t.Errorf("%s ended the run with status %d", name, status)
			}
		} else if n, _ := fmt.Sscanf(line, "begin %d %s", &number, &name); n == 2 {
			calls[name] = true
		}
	}
	served := servedCalls(t, table)
	missing := slices.DeleteFunc(slices.Clone(served), func(name string) bool { return calls[name] })
	if len(served) < 60 || len(missing) != 0 || len(calls) != len(served) {
		t.Errorf("%d of %d calls were made; missing: %v", len(calls), len(served), missing)
	}
	if strings.Contains(out, "stuck ") || strings.Contains(out, "defect") || strings.Contains(out, "partition was stopped") ||
		!strings.Contains(out, "\nhello again from sms") || !strings.HasSuffix(out, "\n0-1\n") {
		t.Errorf("it printed %q", out)
	}
}

// servedCalls returns the names of the system calls that abi serves.
func servedCalls(t *testing.T, table string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 5 && f[0] != "#" && (f[3] == "core" || f[3] == "host") {
			names = append(names, f[2])
		}
	}
	return names
}

// The most instructions of a forwarded call on the core that makes it.
const callerMax = 3000

// What a forwarded call of one byte costs, in instructions: on the core that
// calls, and on Linux's processors, where two runs of different length differ
// by the calls and by its clock's ticks meanwhile: more on a busy computer, so
// that figure is not a bound.
func (m *smsMachine) testForwarding(t *testing.T) {
	const few, many = 200, 1200
	before := m.countOf(t, 2, 6)
	var ledger [2]map[string]uint64
	for i, n := range []int{few, many} {
		how := []string{"short", "long"}[i]
		out := m.runShell(t, fmt.Sprintf(`mkfifo /run/b0 /run/b1
			for c in 0 1; do taskset -c $c ${T}calls bracket %s </run/b$c >/run/o$c & done
			exec 3>/run/b0 4>/run/b1; until grep -q begun /run/o0 && grep -q begun /run/o1; do sleep .1; done
			$R ${T}calls /run/sms.image %d; exec 3>&- 4>&-; wait; rm /run/b0 /run/b1`, how, n))
		if out != "read 0\n" {
			t.Fatalf("it printed %q", out)
		}
		ledger[i] = m.readLedger(t)
	}
	caller := (m.countOf(t, 2, 6).Kernel - before.Kernel) / (few + many)
	var linux [2]int64
	for i, number := range []int{7, 10} {
		for _, cpu := range []int{0, 1} {
			f := m.countOf(t, cpu, number)
			linux[i] += int64(f.User + f.Kernel)
		}
	}
	proxy := (linux[1] - linux[0]) / (many - few)
	if caller == 0 || caller > callerMax {
		t.Errorf("a call takes %d instructions on the core, at most %d are allowed", caller, callerMax)
	}
	t.Logf("a call: %d instructions on the core, %d on Linux; %d and %d NMIs for answers", caller, proxy,
		ledger[0]["nmi-answer"], ledger[1]["nmi-answer"])
	for _, l := range ledger {
		if l["nmi-foreign"] != 0 {
			t.Errorf("the ledger says %v", l)
		}
	}
}

// countOf returns an interval on a processor, empty before there is any.
func (m *smsMachine) countOf(t *testing.T, cpu, number int) lab.Figures {
	t.Helper()
	counts, err := lab.ReadCounts(m.counts)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if f := counts.Figures[lab.Interval{CPU: cpu, Number: number}]; f != nil {
		return *f
	}
	return lab.Figures{}
}
