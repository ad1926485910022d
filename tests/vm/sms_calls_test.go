// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"errors"
	"fmt"
	"io/fs"
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
