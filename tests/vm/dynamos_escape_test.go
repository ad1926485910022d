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
		m := updateMachine(kernel)
		m.Append = fmt.Sprintf("rcu_nocbs=%d", pendingCPU)
		vm := vmtest.Boot(t, m, vmtest.Limit(8*time.Minute))
		w := newWalker(t, vm, kernel)
		w.waitQueue()
		w.changedFunctions()
		w.callbackOfRCU()
		w.delayedWork()
		w.newFunctions()
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

// startKeeper starts dynamos_keep and waits until the kernel has its pointers.
func (w *walker) startKeeper(work string) {
	w.t.Helper()
	text := w.vm.Output(shellProgram(fmt.Sprintf(`%s %[2]s /tmp/%[2]s >/tmp/keeper.log 2>&1 & until test -e /tmp/%[2]s/ready || ! pidof dynamos_keep >/dev/null; do :; done
		ls /tmp/%[2]s; cat /tmp/keeper.log`, toolPath(w.t, "dynamos_keep"), work)))
	checkGuest(w.t, "the kernel has pointers to "+work+" functions", strings.Contains(text, "ready"), "%s", text)
}

// useKept has the kernel use the pointers.
func (w *walker) useKept(work string) {
	w.t.Helper()
	text := w.vm.Output(shellProgram(fmt.Sprintf(`touch /tmp/%[1]s/go; until test -e /tmp/%[1]s/used || ! pidof dynamos_keep >/dev/null; do :; done
		ls /tmp/%[1]s; cat /tmp/keeper.log`, work)))
	checkGuest(w.t, "the kernel uses its pointers to "+work+" functions", strings.Contains(text, "used"), "%s", text)
}

// changedFunctions has the kernel keep pointers to changed functions: of timers, work and a socket.
// It calls through them after the update's module was removed.
func (w *walker) changedFunctions() {
	w.runUpdate("apply "+w.filePath("keeps")+" --all --confirm 0", "on trial for all")
	w.startKeeper("changed")
	s := w.readStatus("keeps")
	for _, f := range s.Functions {
		if f.Symbol == "create_user_ns" || f.Symbol == "tcp_init_xmit_timers" || f.Symbol == "udp_init_sock" {
			checkGuest(w.t, f.Symbol+" has stored a pointer", f.New.Calls > 0, "%+v", f)
		}
	}
	w.runUpdate("revert --wait 1m --remove keeps", "keeps: unloaded")
	w.useKept("changed")
}

// given are the functions and operations that gives.patch has others keep, and what those say that say
// something.
var given = map[string]string{"give_timer": "timer", "give_hrtimer": "hrtimer", "give_work": "work", "give_task": "task", "give_irq_work": "irq_work",
	"give_tasklet": "tasklet", "give_woken": "woken", "give_srcu": "srcu", "give_thread": "thread", "give_ready": "ready", "give_fops": "read",
	"give_irq": "", "give_notice": ""}

// newFunctions gives away pointers to new functions, each in another way. Each is named before the
// update is applied, and each is called after it was reverted.
func (w *walker) newFunctions() {
	text := w.runUpdate("inspect "+w.filePath("gives"), "it can be reverted and never removed")
	for name := range given {
		checkGuest(w.t, "inspect names "+name, strings.Contains(text, name+": in give its address"), "%s", text)
	}
	w.runUpdate("apply "+w.filePath("gives")+" --all --confirm 0 --objects-exist 'each is used where it is made'", "on trial for all")
	w.startKeeper("new")
	w.checkRefused("an update that gave pointers away is not removed", "revert --wait 1m --remove gives --objects-exist 'each is used where it is made'", 4, "gives is held")
	w.useKept("new")
	var says strings.Builder
	for _, what := range given {
		if what != "" {
			fmt.Fprintf(&says, "until dmesg | grep -q 'given: %s$'; do :; done; ", what)
		}
	}
	text = w.vm.Output(shellProgram(says.String() + "grep given /proc/interrupts; dmesg | grep 'given: '"))
	checkGuest(w.t, "the interrupt has its handler's name", strings.Contains(text, "given\n"), "%s", text)
	s := w.readStatus("gives")
	checkGuest(w.t, "all of it was called in a module that stays", s.State == "loaded" && !hasEvent(&s, "warned"), "%+v", s)
}

const (
	allots     = 2000
	pendingCPU = 1
	pendFolder = "/sys/module/dynamos_pend/parameters"
)

// callbackOfRCU removes an update whose RCU callbacks are pending: another callback before them
// waits until the command waits too, or the module is gone. Grace periods that are expedited need
// no callback of their own, so all other waits of the removal end.
func (w *walker) callbackOfRCU() {
	w.vm.Output(shellProgram(fmt.Sprintf("echo 1 >/sys/kernel/rcu_expedited; insmod %s cpu=%d && until grep -q Y %s/held; do :; done",
		handModule(w.t, w.kernel, "dynamos_pend"), pendingCPU, pendFolder)))
	w.runUpdate("apply "+w.filePath("after")+" --all --confirm 0", "on trial for all")
	w.vm.Output(shellProgram(fmt.Sprintf("exec 3>/tmp/after; taskset -c %d %s allot 3 0 4096 %d", pendingCPU, w.hammer, allots)))
	s := w.readStatus("after")
	checkGuest(w.t, "calls leave callbacks to RCU", s.Functions[0].New.Calls >= allots && s.Held == "", "%+v", s)
	w.runUpdate("revert --wait 1m after", "after: left")
	text := w.vm.Output(shellProgram(fmt.Sprintf(`%s update remove after >/tmp/removed 2>&1 & pid=$!
		while grep -q '^after ' /proc/modules && ! grep -qs rcu_barrier /proc/$pid/task/*/stack; do :; done
		grep '^after ' /proc/modules; echo 1 >%s/go; wait $pid; cat /tmp/removed; rmmod dynamos_pend; echo 0 >/sys/kernel/rcu_expedited`, w.skepPath, pendFolder)))
	checkGuest(w.t, "an update with pending callbacks is removed after them", strings.HasPrefix(text, "after ") && strings.HasSuffix(text, "after: unloaded\n"), "%q", text)
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
