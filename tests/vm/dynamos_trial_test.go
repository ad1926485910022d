// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"slices"
	"strings"

	"skep/dynamos/update"
)

// waitForRevert waits until an update was reverted automatically, and checks the
// reason: what `last reverted because` says, and an event of that cause.
func (w *walker) waitForRevert(name, updateName, cause, why string) {
	w.t.Helper()
	s := w.waitForStatus(updateName, func(s *update.Status) bool { return s.State == "loaded" })
	checkGuest(w.t, name, strings.Contains(s.End, why) && hasEvent(&s, cause), "%+v", s)
	text := w.runUpdate("status "+updateName, "last reverted because")
	checkGuest(w.t, name+", as people read it", strings.Contains(text, "EVENT") && strings.Contains(text, why), "%s", text)
}

func hasEvent(s *update.Status, cause string) bool {
	return slices.ContainsFunc(s.Events, func(e update.Event) bool { return e.Cause == cause })
}

// walkPolicies changes the policy in quick succession while the function is called.
func (w *walker) walkPolicies() {
	one := func(whom string) string { return w.skepPath + " update policy arp " + whom }
	w.vm.Output(shellProgram(fmt.Sprintf("for i in 1 2 3 4 5; do %s && %s && %s || exit; done >/dev/null",
		one("--all"), one("--nobody"), one(fmt.Sprintf("--except --tgid %d --all", w.pids[0])))))
	w.checkAnswers("the last of many policies is in force, and no call is lost", "arp", "kfff")
}

// walkTogether tests a fix that changes a lock: all tasks use it, or none.
func (w *walker) walkTogether() {
	file := w.filePath("arp_rcu")
	w.runUpdate("inspect "+file, "now calls __rcu_read_lock")
	w.checkRefused("a fix that changes a lock is refused for one process", fmt.Sprintf("apply %s --tgid %d", file, w.pids[0]), 4, "together")
	w.runUpdate("apply "+file+" --all --enter 1m --confirm 0", "on trial for all")
	w.checkAnswers("a fix that changes a lock is taken by all", "arp_rcu", "ffff")
	w.runUpdate("status arp_rcu", "class together, trial")
	w.checkRefused("an update of class together refuses a policy", fmt.Sprintf("policy arp_rcu --tgid %d", w.pids[0]), 4, "together")
	w.runUpdate("revert --wait 2m --remove arp_rcu", "arp_rcu: unloaded")
}

// walkUnconfirmed tests an update without a commit.
func (w *walker) walkUnconfirmed() {
	w.runUpdate("apply "+w.filePath("arp")+" --all --confirm 1s", "reverted in 1s, unless 'skep update commit arp' keeps it")
	w.waitForRevert("an update without commit is reverted", "arp", "unconfirmed", "not committed within 1000 ms")
	w.runUpdate("apply arp --all --confirm 1m", "on trial for all")
	w.runUpdate("commit arp", "committed")
	w.runUpdate("revert --remove arp", "arp: unloaded")
}

// asUser types a command as a user.
func asUser(uid int, script string) string {
	return fmt.Sprintf("setpriv --reuid %d --regid %d --clear-groups sh -c '%s'", uid, uid, script)
}

// walkFailing tests an update whose calls fail more often than the older version's.
func (w *walker) walkFailing() {
	w.runUpdate("apply "+w.filePath("links")+" --uid 1000 --least 20 --max-errors 100 --confirm 0", "on trial for uid")
	const follow = "i=0; while [ $i -lt 60 ]; do read x </tmp/open/link; i=$((i+1)); done 2>/dev/null; true"
	w.vm.Output(shellProgram(asUser(1001, follow) + "; " + asUser(1000, follow)))
	w.waitForRevert("an update that fails more often is reverted", "links", "errors", "of 1000 calls fail")
	w.runUpdate("remove links", "unloaded")
}

// walkStuck tests a call that does not come back: a process opens a FIFO that no other opens.
func (w *walker) walkStuck() {
	w.vm.Output(shellProgram(asUser(1000, "mkfifo /tmp/open/own")))
	w.runUpdate("apply "+w.filePath("links")+" --uid 1000 --stuck 500ms --confirm 0", "on trial for uid")
	w.vm.Output(shellProgram(asUser(1000, "read x </tmp/open/own; exit 0") + " >/dev/null 2>&1 &"))
	var inside update.Task
	s := w.waitForStatus("links", func(s *update.Status) bool {
		i := slices.IndexFunc(s.Inside, func(t update.Task) bool { return t.Version == "new" })
		if i >= 0 {
			inside = s.Inside[i]
		}
		return i >= 0 && hasEvent(s, "stuck")
	})
	checkGuest(w.t, "a task that does not return is reported", s.State == "trial" && inside.Comm == "sh", "%+v", s)
	w.checkRefused("revert names the task that does not return", "revert --wait 0s links", 1, inside.Frame)
	w.checkRefused("an update with a task inside is not removed", "remove links", 4, "is in use")
	w.vm.Output(shellProgram("echo >/tmp/open/own"))
	s = w.waitForStatus("links", func(s *update.Status) bool { return s.State == "loaded" })
	checkGuest(w.t, "the user who reverted it is reported", slices.ContainsFunc(s.Events, func(e update.Event) bool {
		return e.State == "leaving" && e.Text == "reverted" && e.Comm == "skep" && e.PID > 0
	}), "%+v", s.Events)
	w.runUpdate("remove links", "unloaded")
}

// walkObjects tests an update of class object, whose object ends in a function
// that it does not change.
func (w *walker) walkObjects() {
	w.runUpdate("inspect "+w.filePath("allot"), "as it is")
	policy := func(whom string) string { return w.skepPath + " update policy allot " + whom + " >/dev/null; " }
	part := func(fd int) string { return fmt.Sprintf("%s allot %d 1 4096 1; ", w.hammer, fd) }
	w.runUpdate("apply "+w.filePath("allot")+" --all --confirm 0", "on trial for all")
	text := w.vm.Output(shellProgram("cd /tmp; exec 3>a; " + part(3) + policy("--nobody") + "exec 4>b; " + part(3) + part(4) +
		policy("--all") + "exec 5>c; " + part(4) + part(5) +
		w.skepPath + " update revert --wait 0s allot 2>&1; echo exit $?; " + part(3) + part(4)))
	const no, yes = "Invalid argument\n", "granted\n"
	checkGuest(w.t, "a file keeps its version", strings.HasPrefix(text, no+no+yes+yes+no) && strings.HasSuffix(text, "exit 1\n"+no+yes), "%q", text)
	checkGuest(w.t, "a revert waits for the files that took the new version", strings.Contains(text, "completes when the objects that use the new one are freed"), "%q", text)
	w.waitForStatus("allot", func(s *update.Status) bool { return s.State == "loaded" })
	w.runUpdate("remove allot", "unloaded")
}

// walkSlow tests an update whose calls take longer: its files are the large ones.
func (w *walker) walkSlow() {
	w.runUpdate("apply "+w.filePath("allot")+" --uid 1000 --least 100 --max-latency 100 --confirm 0", "on trial for uid")
	allot := func(uid, bytes int) string {
		return asUser(uid, fmt.Sprintf("exec 3>/tmp/open/%d; %s allot 3 0 %d 3000", uid, w.hammer, bytes))
	}
	w.vm.Output(shellProgram(allot(1001, 4096) + "; " + allot(1000, 256<<10)))
	w.waitForRevert("an update that takes longer is reverted", "allot", "slow", "half of the calls take more than")
	w.runUpdate("remove allot", "unloaded")
}
