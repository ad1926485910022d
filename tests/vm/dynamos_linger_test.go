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

// shared is what dynamos_linger prints: processor time and times in microseconds, how often the
// guest got the processor, what was done, and the parts of the longest wait for a lock.
type shared struct{ guest, host, passed, longest, turns, done, wait, runs, waits, after int64 }

func (w *walker) share(work, guest string, d time.Duration) (s shared) {
	w.t.Helper()
	text := w.vm.Output(lab.Program{Args: []string{toolPath(w.t, "dynamos_linger"), work, guest, fmt.Sprint(d.Milliseconds())}})
	if n, err := fmt.Sscan(text, &s.guest, &s.host, &s.passed, &s.longest, &s.turns, &s.done, &s.wait, &s.runs, &s.waits, &s.after); n != 10 || err != nil {
		w.t.Fatalf("%s %s: %v: %q", work, guest, err, text)
	}
	return s
}

// floors returns how often the guest may get a processor that the host wants all the time.
func (s *shared) floors() int64 { return 1 + s.passed/4_000_000 }

// A guest gives way to each host task of its processor, and to none after the revert. What the
// scheduler decided is counted, since this computer may be busy while one of them has the processor.
func TestUpdateLinger(t *testing.T) {
	eachUpdateKernel(t, walkKernel, func(t *testing.T, kernel string) {
		vm := vmtest.Boot(t, updateMachine(kernel), vmtest.Limit(6*time.Minute))
		w := newWalker(t, vm, kernel)
		const reason = " --objects-exist 'a queue has all that the new code needs'"
		apply := "apply linger --all --confirm 0" + reason
		s := w.share("share", "nested", time.Second)
		checkGuest(t, "without the update a guest in a group takes its share", s.turns > 8, "%+v", s)
		w.runUpdate("apply "+w.filePath("linger")+" --all --confirm 0"+reason, "on trial for all")
		s = w.share("share", "nested", time.Second)
		checkGuest(t, "a guest gives way, in whatever group it is", s.turns <= s.floors(), "%+v", s)
		s = w.share("share", "idle", 5*time.Second)
		checkGuest(t, "a guest does not starve", 0 < s.turns && s.turns <= s.floors(), "%+v", s)
		w.lingerMachine()
		for range 3 { // a timer of the emulator that comes late lets a guest compute
			if s = w.share("wakes", "cgroup", 500*time.Millisecond); s.done < 7 {
				break
			}
		}
		checkGuest(t, "guests that wake give way too", s.done < 7, "%+v", s)
		s = w.share("gaps", "nested", time.Second)
		checkGuest(t, "a guest gets the gaps", s.guest > (s.passed-s.host)*4/5, "%+v", s)
		s = w.share("lock", "idle", 2*time.Second)
		checkGuest(t, "a guest in the kernel gets turns", s.done > 4, "%+v", s)
		t.Logf("the longest wait for a lock, with a guest %+v, and with a task like the host %+v", s, w.share("lock", "none", time.Second))
		for range 2 { // while guests and hosts of all kinds come and go
			vm.Output(shellProgram(fmt.Sprintf("%s storm all 3000 & %s update revert --wait 2m linger%s >&2 && %s update %s >&2; wait",
				toolPath(t, "dynamos_linger"), w.skepPath, reason, w.skepPath, apply)))
		}
		s = w.share("share", "nested", time.Second)
		checkGuest(t, "a guest gives way after the storm", s.turns <= s.floors(), "%+v", s)
		w.runUpdate("revert --wait 2m --remove linger"+reason, "unloaded")
		s = w.share("share", "nested", time.Second)
		checkGuest(t, "after the revert a guest takes its share", s.turns > 8, "%+v", s)
		vm.Output(shellProgram("rmmod dynamos"))
	})
}

// lingerMachine has a virtual machine for a guest: its thread is preempted in the kernel, on its way
// into the machine, and holds nothing there. The emulator's processor can run one; others tell.
func (w *walker) lingerMachine() {
	if text := w.vm.Output(shellProgram("grep -cw -m1 'svm\\|vmx' /proc/cpuinfo; true")); text != "1\n" {
		w.t.Logf("the processor runs no virtual machines: %q", text)
		return
	}
	w.vm.Output(shellProgram("modprobe kvm-amd || modprobe kvm-intel"))
	s := w.share("machine", "idle", time.Second)
	checkGuest(w.t, "a virtual machine gives way", s.turns <= s.floors(), "%+v", s)
	s = w.share("machine", "nested", time.Second)
	checkGuest(w.t, "a virtual machine in a group gives way", s.turns <= s.floors(), "%+v", s)
}
