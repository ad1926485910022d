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

// escapeKernels are those that packages are built for, one of each series.
var escapeKernels = []string{walkKernel, "6.12"}

// What an update has given to others outlives its calls: after it was reverted
// and removed, nothing of the kernel leads into its memory.
func TestUpdateEscape(t *testing.T) {
	for _, kernel := range escapeKernels {
		t.Run(kernel, func(t *testing.T) {
			vm := vmtest.Boot(t, updated(kernel), vmtest.Limit(8*time.Minute))
			w := newWalker(t, vm, kernel)
			w.waitQueue()
			w.callbackOfRCU()
			w.delayedWork()
		})
	}
}

// waitQueue has a changed function put into a wait queue by another one, and
// called when the update's module is gone.
func (w *walker) waitQueue() {
	w.skep("apply "+w.file("epoll")+" --all --enter 1m --confirm 0", "on trial for all")
	w.vm.Output(shell(tool(w.t, "dynamos_wait") + ` /tmp/wait >/tmp/wait.log 2>&1 &
		until test -e /tmp/wait/ready; do :; done`))
	s := w.status("epoll")
	taken := false
	for _, f := range s.Functions {
		taken = taken || f.Symbol == "ep_ptable_queue_proc" && f.New.Calls > 0
	}
	claim(w.t, "a changed function is put into a wait queue by a changed one", taken, "%+v", s.Functions)
	w.skep("revert --wait 2m --remove epoll", "epoll: unloaded")
	text := w.vm.Output(shell(`touch /tmp/wait/go
		until test -e /tmp/wait/woken || ! pidof dynamos_wait >/dev/null; do :; done; ls /tmp/wait; cat /tmp/wait.log`))
	claim(w.t, "removing the update wakes the waiting processes", strings.Contains(text, "woken"), "%s", text)
}

const allots = 2000

// callbackOfRCU has callbacks of an update wait for RCU when it is removed.
func (w *walker) callbackOfRCU() {
	w.skep("apply "+w.file("after")+" --all --confirm 0", "on trial for all")
	w.vm.Output(shell(fmt.Sprintf("exec 3>/tmp/after; %s allot 3 0 4096 %d", w.hammer, allots)))
	s := w.status("after")
	claim(w.t, "calls leave callbacks to RCU", s.Functions[0].New.Calls >= allots && s.Held == "", "%+v", s)
	w.skep("revert --wait 1m --remove after", "after: unloaded")
	w.vm.Output(shell(fmt.Sprintf("exec 3>/tmp/after; %s allot 3 0 4096 %d", w.hammer, allots)))
}

// delayedWork is work that cannot be listed: its update stays.
func (w *walker) delayedWork() {
	const why = "allot_work: in vfs_fallocate its address is passed to queue_delayed_work_on"
	text := w.skep("inspect "+w.file("late"), why)
	claim(w.t, "inspect reports before an apply that an update is never removed", strings.Contains(text, "it can be reverted and never removed"), "%s", text)
	w.skep("apply "+w.file("late")+" --all --confirm 0", "on trial for all")
	w.vm.Output(shell(fmt.Sprintf("exec 3>/tmp/late; %s allot 3 0 4096 2", w.hammer)))
	w.skep("revert --wait 1m late", "late: left")
	w.refused("an update with pending work is reverted and not removed", "remove late", 4, why)
	text = w.vm.Output(shell("rmmod late 2>&1; echo $?"))
	claim(w.t, "the kernel refuses to unload its module", strings.Contains(text, "in use") && strings.HasSuffix(text, "1\n"), "%q", text)
	w.vm.Output(shell("until dmesg | grep -q 'allotted later'; do :; done"))
	w.skep("apply late --all --confirm 0", "on trial for all")
	w.refused("an update that has pending work is not removed later either", "revert --wait 1m --remove late", 4, "late is held, and stays loaded until the next boot: "+why)
	s := w.status("late")
	claim(w.t, "it can be reverted again", s.State == "loaded" && strings.Contains(s.Held, why) && !happened(&s, "warned"), "%+v", s)
}
