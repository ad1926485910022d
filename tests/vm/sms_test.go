// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"skep/internal/lab"
	"skep/internal/lab/vmtest"
)

// smsLongVar asks for every part on each kernel.
const smsLongVar = "SKEP_SMS_LONG"

// A machine with a partition of CPUs 2 and 3, as a user makes one.
type smsMachine struct {
	vm     *vmtest.VM
	bin    string
	counts string
}

// Programs run on a partition as they run on Linux, and nothing disturbs them.
func TestSms(t *testing.T) {
	vmtest.Each(t, func(t *testing.T, kernel string) {
		build, err := lab.BuildDir()
		if err != nil {
			t.Fatal(err)
		}
		vm := vmtest.Boot(t, lab.Machine{
			Kernel: kernel, CPUs: 4, Memory: 1024, Modules: []string{"shimos"}, Count: &lab.Count{},
		}, vmtest.Limit(6*time.Minute))
		m := &smsMachine{vm: vm, bin: filepath.Join(build, "bin"), counts: filepath.Join(vm.Guest().Dir(), "counts")}
		m.shell(t, `install -o 0 -g 0 -m 644 $B/sms.image /run/sms.image
			echo /run/sms.image >/sys/module/shimos/parameters/image
			$B/skep part create --cpus 2-3 --mem 160M --name p`)
		t.Run("hello", m.hello)
		t.Run("team", m.team)
		t.Run("threads", m.threads)
		t.Run("faults", m.faults)
		if kernel == "6.12" || os.Getenv(smsLongVar) != "" { // half a minute
			t.Run("files", m.files)
		}
		t.Run("refused", m.refused)
		t.Run("killed", m.killed)
		t.Run("noise", m.noise)
		t.Run("whole", func(t *testing.T) {
			out := m.shell(t, "$B/skep part release p; cat /sys/devices/system/cpu/online")
			if strings.TrimSpace(out) != "0-3" {
				t.Errorf("CPUs online: %s", out)
			}
		})
		t.Run("interrupts", m.interrupts)
	})
}

// shell runs a script with B and T as the folders of programs and of tests,
// R to run on the partition, and gives all that it prints.
func (m *smsMachine) shell(t *testing.T, script string) string {
	t.Helper()
	head := fmt.Sprintf("set -e; exec 2>&1; export HOME=/run; B=%s; T=%s/sms_; R=\"$B/skep part run --\"\n",
		m.bin, filepath.Dir(tool(t, "sms_hello")))
	return m.vm.Output(lab.Program{Args: []string{"/bin/sh", "-c", head + script}})
}

// ledger gives the figures of the last run, all cores together.
func (m *smsMachine) ledger(t *testing.T) map[string]uint64 {
	t.Helper()
	sum := map[string]uint64{}
	for _, line := range strings.Split(m.shell(t, "$B/skep part stats"), "\n") {
		w := strings.Fields(line)
		for i := 1; i < len(w); i++ {
			n, err := strconv.ParseUint(w[i], 10, 64)
			if err == nil {
				sum[w[0]] += n
			}
		}
	}
	return sum
}

func (m *smsMachine) hello(t *testing.T) {
	for _, program := range []string{"hello", "musl"} {
		out := m.shell(t, "s=0; $R ${T}"+program+" you 7 || s=$?; echo status $s")
		if !strings.HasPrefix(out, "hello you from sms on Linux") || !strings.HasSuffix(out, "status 7\n") {
			t.Errorf("%s printed %q", program, out)
		}
		l := m.ledger(t)
		if l["threads"] != 1 || l["calls"] == 0 || l["forwarded-write"] == 0 || l["forwarded-open"] != 1 {
			t.Errorf("%s: the ledger says %v", program, l)
		}
	}
}

// The same sum as natively, on one core for each thread; the CPUs are none of
// Linux's meanwhile.
func (m *smsMachine) team(t *testing.T) {
	out := m.shell(t, "$R ${T}team 20; ${T}team 20; cat /sys/devices/system/cpu/online")
	lines := strings.Split(out, "\n")
	if len(lines) < 3 || lines[0] != lines[1] || !strings.HasPrefix(lines[0], "threads 2 of 2") || lines[2] != "0-1" {
		t.Errorf("it printed %q", out)
	}
	if l := m.ledger(t); l["threads"] != 2 || l["nmi-start"] != 1 || l["nmi-foreign"] != 0 {
		t.Errorf("the ledger says %v", l)
	}
	if out := m.shell(t, "OMP_NUM_THREADS=1 $R ${T}team 1"); !strings.HasPrefix(out, "threads 1 of 2") {
		t.Errorf("alone it printed %q", out)
	}
}

// One after another on the second core, and one that only a signal ends.
func (m *smsMachine) threads(t *testing.T) {
	if out := m.shell(t, "$R ${T}wreck threads"); out != "threads 200\n" {
		t.Errorf("it printed %q", out)
	}
	if out := m.shell(t, "$R ${T}wreck kick"); out != "kicked\n" {
		t.Errorf("it printed %q", out)
	}
	if l := m.ledger(t); l["nmi-signal"] == 0 {
		t.Errorf("the ledger says %v", l)
	}
}

func (m *smsMachine) faults(t *testing.T) {
	for _, c := range []struct{ how, want, status string }{
		{"null", "killed by SIGSEGV", "139"},
		{"privileged", "killed by SIGSEGV", "139"},
		{"trap", "killed by SIGTRAP", "133"},
		{"wild", "killed by SIGSEGV", "139"},
		{"catch", "caught", "3"},
		{"protect", "caught", "3"},
		{"memory", "memory 1", "0"},
	} {
		out := m.shell(t, "s=0; $R ${T}wreck "+c.how+" || s=$?; echo status $s")
		if !strings.Contains(out, c.want) || !strings.HasSuffix(out, "status "+c.status+"\n") {
			t.Errorf("%s: %q", c.how, out)
		}
	}
}

func (m *smsMachine) files(t *testing.T) {
	out := m.shell(t, `head -c 1048576 /dev/urandom >/run/m
		i=100; while [ $i -lt 200 ]; do echo $i; cat /run/m; i=$((i+1)); done >/run/a
		$R ${T}copy /run/a /run/b; cmp /run/a /run/b && echo same; rm /run/[abm]`)
	if !strings.HasPrefix(out, "104858000 bytes") || !strings.HasSuffix(out, "\nsame\n") {
		t.Errorf("it printed %q", out)
	}
}

func (m *smsMachine) refused(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"$R /bin/sh", "refused to load"},
		{"$R /run/nothing", "no such program"},
		{"$R /run", "no file that may be run"},
		{"$B/skep part run --on q -- ${T}hello", "there is no partition"},
	} {
		out := m.shell(t, "s=0; "+c.script+" || s=$?; echo status $s")
		if !strings.Contains(out, c.want) || strings.HasSuffix(out, "status 0\n") {
			t.Errorf("%s: %q", c.script, out)
		}
	}
}

// A program that only spins ends with its proxy, and the partition is free.
func (m *smsMachine) killed(t *testing.T) {
	out := m.shell(t, `$R ${T}wreck spin & p=$!
		until $B/skep part list | grep -q running; do :; done
		kill -KILL $p; wait $p || echo status $?
		until $B/skep part list | grep -q idle; do :; done
		$R ${T}hello again`)
	if !strings.Contains(out, "status 137") || !strings.Contains(out, "hello again") {
		t.Errorf("it printed %q", out)
	}
}

// No instruction of a kernel and no entry, while Linux is as noisy as it can;
// the same counter counts calls to the last one, and Linux's own noise.
func (m *smsMachine) noise(t *testing.T) {
	out := m.shell(t, `touch /run/on; ${T}storm /run/on >/run/storms & p=$!
		$R ${T}quiet team; taskset 2 ${T}quiet
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
	if l := m.ledger(t); l["nmi-foreign"] != 0 {
		t.Errorf("the ledger says %v", l)
	}
}
