// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"strings"
	"time"
)

// serviceStore is where the service of kernel updates keeps packages and what it did.
const serviceStore = "/var/lib/skep-kernel"

// startService starts the service of kernel updates, and waits until it accepts orders.
func (w *walker) startService() {
	w.t.Helper()
	w.vm.Output(shellProgram(fmt.Sprintf(`mkdir -p -m 700 %[2]s; %[1]s service restore --rolls --settle 1s >/tmp/service.log 2>&1 & echo $! >/tmp/service.pid
		until [ -S /run/skep-updates.sock ]; do kill -0 $(cat /tmp/service.pid) || { cat /tmp/service.log; exit 1; }; done`, w.skepPath, serviceStore)))
}

// stopService ends the service, and waits until it is gone.
func (w *walker) stopService() {
	w.t.Helper()
	w.vm.Output(shellProgram("kill $(cat /tmp/service.pid); while kill -0 $(cat /tmp/service.pid) 2>/dev/null; do :; done"))
}

// holdFor puts an update in force for a cgroup, by a process that goes on.
func (w *walker) holdFor(name, dir string) {
	w.t.Helper()
	w.vm.Output(shellProgram(fmt.Sprintf(`%[1]s update hold --cgroup %[3]s %[2]s >/tmp/hold-%[2]s.log 2>&1 & echo $! >/tmp/hold-%[2]s.pid
		until grep -q 'in force' /tmp/hold-%[2]s.log; do kill -0 $(cat /tmp/hold-%[2]s.pid) || { cat /tmp/hold-%[2]s.log; exit 1; }; done`, w.skepPath, name, dir)))
}

// walkJobs gives two jobs of one node two versions of one function. Killing who asked for
// them changes nothing while the jobs live, and when the service is killed the kernel ends
// them.
func (w *walker) walkJobs(strict string) {
	w.t.Helper()
	w.start()
	w.runUpdate("policy arp --nobody", "for nobody")
	w.runUpdate("commit arp", "committed")
	w.runUpdate("apply "+strict+" --uid 4711", "sequence 1 of line strict")
	w.runUpdate("policy arp_strict --nobody", "for nobody")
	w.checkRefused("without the service no job takes an update", "hold --cgroup "+w.jobFolder+" arp_strict", 4, "'skep service install kernel' installs it")
	w.startService()
	w.checkRefused("a job takes no update on trial", "hold --cgroup "+w.jobFolder+" arp_strict", 4, "jobs can take a committed update only")
	w.runUpdate("commit arp_strict", "committed")
	w.holdFor("arp", w.jobFolder)
	w.checkAnswers("a job takes the update that it asked for", "arp", "kffk")
	w.holdFor("arp_strict", w.jobFolder+"/part")
	w.checkAnswers("two jobs of one node have two versions of a function", "arp_strict", "kfsk")
	w.vm.Output(shellProgram("kill -9 $(cat /tmp/hold-arp.pid /tmp/hold-arp_strict.pid)"))
	text := w.runUpdate("hold arp -- cat /proc/self/cgroup", "")
	checkGuest(w.t, "a program is in a cgroup of its own", strings.HasSuffix(text, "/skep-update-arp\n"), "%q", text)
	w.checkAnswers("who asked was killed, and the jobs keep their versions", "arp_strict", "kfsk")
	w.vm.Output(shellProgram("kill -9 $(cat /tmp/service.pid)"))
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		since, _, _ := w.collectAnswers("")
		agree := true
		for _, a := range since {
			agree = agree && a.kernel == a.calls
		}
		if agree {
			break
		}
	}
	w.checkAnswers("the service was killed, and the kernel ended what jobs had", "arp_strict", "kkkk")
	w.hammerTo("end")
	w.runUpdate("revert arp_strict --remove", "unloaded")
	w.vm.Output(shellProgram("rm -r " + serviceStore))
}
