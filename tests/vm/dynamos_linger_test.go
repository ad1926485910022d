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

// shared is what dynamos_linger prints: processor time and times in microseconds.
type shared struct{ guest, host, passed, longest int64 }

func (w *walker) share(work, guest string, d time.Duration) (s shared) {
	w.t.Helper()
	text := w.vm.Output(lab.Program{Args: []string{toolPath(w.t, "dynamos_linger"), work, guest, fmt.Sprint(d.Milliseconds())}})
	if n, err := fmt.Sscan(text, &s.guest, &s.host, &s.passed, &s.longest); n != 4 || err != nil {
		w.t.Fatalf("%s %s: %v: %q", work, guest, err, text)
	}
	return s
}

// A guest gives way to each host task of its processor, and to none after the revert. The bounds
// are wide, since this computer may be busy: a stock kernel gives the guest in a group half of the
// processor.
func TestUpdateLinger(t *testing.T) {
	eachUpdateKernel(t, walkKernel, func(t *testing.T, kernel string) {
		vm := vmtest.Boot(t, updateMachine(kernel), vmtest.Limit(6*time.Minute))
		w := newWalker(t, vm, kernel)
		const reason = " --objects-exist 'a queue has all that the new code needs'"
		apply := "apply linger --all --confirm 0" + reason
		w.checkShare("without the update a guest in a group takes its share", 200, 1000)
		w.runUpdate("apply "+w.filePath("linger")+" --all --confirm 0"+reason, "on trial for all")
		w.checkShare("a guest gives way, in whatever group it is", 0, 30)
		s := w.share("share", "idle", 5*time.Second)
		checkGuest(t, "a guest does not starve", s.guest > 0 && s.guest < s.passed/20, "%+v", s)
		s = w.share("naps", "cgroup", time.Second)
		checkGuest(t, "a guest that wakes gives way too", s.guest < s.passed/20, "%+v", s)
		s = w.share("gaps", "nested", time.Second)
		checkGuest(t, "a guest gets the gaps", s.guest > (s.passed-s.host)*4/5, "%+v", s)
		s = w.share("lock", "idle", 2*time.Second)
		checkGuest(t, "a guest in the kernel gets turns", s.guest > s.passed/20, "%+v", s)
		for range 2 { // while guests and hosts of all kinds come and go
			vm.Output(shellProgram(fmt.Sprintf("%s storm all 3000 & %s update revert --wait 2m linger%s >&2 && %s update %s >&2; wait",
				toolPath(t, "dynamos_linger"), w.skepPath, reason, w.skepPath, apply)))
		}
		w.checkShare("a guest gives way after the storm", 0, 30)
		w.runUpdate("revert --wait 2m --remove linger"+reason, "unloaded")
		w.checkShare("after the revert a guest takes its share", 200, 1000)
		vm.Output(shellProgram("rmmod dynamos"))
	})
}

// checkShare has a guest and a host compute. The guest's share is in parts of 1,000.
func (w *walker) checkShare(name string, least, most int64) {
	w.t.Helper()
	s := w.share("share", "nested", time.Second)
	part := s.guest * 1000 / max(s.passed, 1)
	checkGuest(w.t, name, least <= part && part <= most, "%+v", s)
}
