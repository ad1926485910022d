// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skep/tests/vmtest"
)

// eachUpdateKernel runs f for the kernel of the long form, or for each kernel for which packages
// are built, one of each series.
func eachUpdateKernel(t *testing.T, on string, f func(t *testing.T, kernel string)) {
	t.Helper()
	for _, kernel := range []string{walkKernel, "6.12"} {
		if vmtest.IsLong(kernel, on) {
			t.Run(kernel, func(t *testing.T) { f(t, kernel) })
		}
	}
}

// An update may pass pointers to other code that outlive its calls. After the update was reverted
// and removed, no pointer of the kernel leads into its memory.
func TestUpdateEscape(t *testing.T) {
	eachUpdateKernel(t, "6.12", func(t *testing.T, kernel string) {
		vm := vmtest.Boot(t, updateMachine(kernel), vmtest.Limit(8*time.Minute))
		w := newWalker(t, vm, kernel)
		w.waitQueue()
		w.callbackOfRCU()
		w.delayedWork()
	})
}

// waitQueue puts a changed function into a wait queue, by another changed function, and lets the
// kernel call it after the update's module was removed.
func (w *walker) waitQueue() {
	w.runUpdate("apply "+w.filePath("epoll")+" --all --enter 1m --confirm 0", "on trial for all")
	w.vm.Output(shellProgram(toolPath(w.t, "dynamos_wait") + ` /tmp/wait >/tmp/wait.log 2>&1 &
		until test -e /tmp/wait/ready; do :; done`))
	s := w.readStatus("epoll")
	taken := false
	for _, f := range s.Functions {
		taken = taken || f.Symbol == "ep_ptable_queue_proc" && f.New.Calls > 0
	}
	checkGuest(w.t, "a changed function is put into a wait queue by a changed one", taken, "%+v", s.Functions)
	w.runUpdate("revert --wait 2m --remove epoll", "epoll: unloaded")
	text := w.vm.Output(shellProgram(`touch /tmp/wait/go
		until test -e /tmp/wait/woken || ! pidof dynamos_wait >/dev/null; do :; done; ls /tmp/wait; cat /tmp/wait.log`))
	checkGuest(w.t, "removing the update wakes the waiting processes", strings.Contains(text, "woken"), "%s", text)
}

const allots = 2000

// callbackOfRCU removes an update while its RCU callbacks are pending.
func (w *walker) callbackOfRCU() {
	w.runUpdate("apply "+w.filePath("after")+" --all --confirm 0", "on trial for all")
	w.vm.Output(shellProgram(fmt.Sprintf("exec 3>/tmp/after; %s allot 3 0 4096 %d", w.hammer, allots)))
	s := w.readStatus("after")
	checkGuest(w.t, "calls leave callbacks to RCU", s.Functions[0].New.Calls >= allots && s.Held == "", "%+v", s)
	w.runUpdate("revert --wait 1m --remove after", "after: unloaded")
	w.vm.Output(shellProgram(fmt.Sprintf("exec 3>/tmp/after; %s allot 3 0 4096 %d", w.hammer, allots)))
}

// delayedWork queues delayed work, which cannot be listed, so its update is held.
func (w *walker) delayedWork() {
	const why = "allot_work: in vfs_fallocate its address is passed to queue_delayed_work_on"
	text := w.runUpdate("inspect "+w.filePath("late"), why)
	checkGuest(w.t, "inspect reports before an apply that an update is never removed", strings.Contains(text, "it can be reverted and never removed"), "%s", text)
	w.runUpdate("apply "+w.filePath("late")+" --all --confirm 0", "on trial for all")
	w.vm.Output(shellProgram(fmt.Sprintf("exec 3>/tmp/late; %s allot 3 0 4096 2", w.hammer)))
	w.runUpdate("revert --wait 1m late", "late: left")
	w.checkRefused("an update with pending work is reverted and not removed", "remove late", 4, why)
	text = w.vm.Output(shellProgram("rmmod late 2>&1; echo $?"))
	checkGuest(w.t, "the kernel refuses to unload its module", strings.Contains(text, "in use") && strings.HasSuffix(text, "1\n"), "%q", text)
	w.vm.Output(shellProgram("until dmesg | grep -q 'allotted later'; do :; done"))
	w.runUpdate("apply late --all --confirm 0", "on trial for all")
	w.checkRefused("an update that has pending work is not removed later either", "revert --wait 1m --remove late", 4, "late is held, and stays loaded until the next boot: "+why)
	s := w.readStatus("late")
	checkGuest(w.t, "it can be reverted again", s.State == "loaded" && strings.Contains(s.Held, why) && !hasEvent(&s, "warned"), "%+v", s)
}
