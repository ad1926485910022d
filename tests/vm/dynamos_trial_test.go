// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"slices"
	"strings"

	"skep/dynamos/update"
)

// leaves waits until an update was reverted automatically, and checks the
// reason: what `last reverted because` says, and an event of that cause.
func (w *walker) leaves(name, updateName, cause, why string) {
	w.t.Helper()
	s := w.until(updateName, func(s *update.Status) bool { return s.State == "loaded" })
	claim(w.t, name, strings.Contains(s.End, why) && happened(&s, cause), "%+v", s)
	text := w.skep("status "+updateName, "last reverted because")
	claim(w.t, name+", as people read it", strings.Contains(text, "EVENT") && strings.Contains(text, why), "%s", text)
}

func happened(s *update.Status, cause string) bool {
	return slices.ContainsFunc(s.Events, func(e update.Event) bool { return e.Cause == cause })
}

// replaced changes the policy as fast as it can be typed, under the hammer.
func (w *walker) replaced() {
	one := func(whom string) string { return w.skepPath + " update policy arp " + whom }
	w.vm.Output(shell(fmt.Sprintf("for i in 1 2 3 4 5; do %s && %s && %s || exit; done >/dev/null",
		one("--all"), one("--nobody"), one(fmt.Sprintf("--except --tgid %d --all", w.pids[0])))))
	w.takes("the last of many policies is in force, and no call is lost", "arp", "kfff")
}

// together is the walk of a fix that changes a lock: all take it, or none.
func (w *walker) together() {
	file := w.file("arp_rcu")
	w.skep("inspect "+file, "uses of rtnl_unlock become")
	w.refused("a fix that changes a lock is refused for one process", fmt.Sprintf("apply %s --tgid %d", file, w.pids[0]), 4, "together")
	w.skep("apply "+file+" --all --enter 1m --confirm 0", "on trial for all")
	w.takes("a fix that changes a lock is taken by all", "arp_rcu", "ffff")
	w.skep("status arp_rcu", "class together, trial")
	w.refused("an update of class together refuses a policy", fmt.Sprintf("policy arp_rcu --tgid %d", w.pids[0]), 4, "together")
	w.skep("revert --wait 2m --remove arp_rcu", "arp_rcu: unloaded")
}

// unconfirmed is an update without a commit.
func (w *walker) unconfirmed() {
	w.skep("apply "+w.file("arp")+" --all --confirm 1s", "reverted in 1s, unless 'skep update commit arp' keeps it")
	w.leaves("an update without commit is reverted", "arp", "unconfirmed", "not committed within 1000 ms")
	w.skep("apply arp --all --confirm 1m", "on trial for all")
	w.skep("commit arp", "committed")
	w.skep("revert --remove arp", "arp: unloaded")
}

// as types a command as a user.
func as(uid int, script string) string {
	return fmt.Sprintf("setpriv --reuid %d --regid %d --clear-groups sh -c '%s'", uid, uid, script)
}

// failing is an update whose calls fail more often than the older version's.
func (w *walker) failing() {
	w.skep("apply "+w.file("links")+" --uid 1000 --least 20 --max-errors 100 --confirm 0", "on trial for uid")
	const follow = "i=0; while [ $i -lt 60 ]; do read x </tmp/open/link; i=$((i+1)); done 2>/dev/null; true"
	w.vm.Output(shell(as(1001, follow) + "; " + as(1000, follow)))
	w.leaves("an update that fails more often is reverted", "links", "errors", "of 1000 calls fail")
	w.skep("remove links", "unloaded")
}

// stuck is a call that does not come back: a process opens a FIFO that no other opens.
func (w *walker) stuck() {
	w.vm.Output(shell(as(1000, "mkfifo /tmp/open/own")))
	w.skep("apply "+w.file("links")+" --uid 1000 --stuck 500ms --confirm 0", "on trial for uid")
	w.vm.Output(shell(as(1000, "read x </tmp/open/own; exit 0") + " >/dev/null 2>&1 &"))
	var inside update.Task
	s := w.until("links", func(s *update.Status) bool {
		i := slices.IndexFunc(s.Inside, func(t update.Task) bool { return t.Version == "new" })
		if i >= 0 {
			inside = s.Inside[i]
		}
		return i >= 0 && happened(s, "stuck")
	})
	claim(w.t, "a task that does not return is reported", s.State == "trial" && inside.Comm == "sh", "%+v", s)
	w.refused("revert names the task that does not return", "revert --wait 0s links", 1, inside.Frame)
	w.refused("an update with a task inside is not removed", "remove links", 4, "is in use")
	w.vm.Output(shell("echo >/tmp/open/own"))
	s = w.until("links", func(s *update.Status) bool { return s.State == "loaded" })
	claim(w.t, "the user who reverted it is reported", slices.ContainsFunc(s.Events, func(e update.Event) bool {
		return e.State == "leaving" && e.Text == "reverted" && e.Comm == "skep" && e.PID > 0
	}), "%+v", s.Events)
	w.skep("remove links", "unloaded")
}

// objects is an update of class object, whose object ends in a function that
// it does not change.
func (w *walker) objects() {
	w.skep("inspect "+w.file("allot"), "as it is")
	policy := func(whom string) string { return w.skepPath + " update policy allot " + whom + " >/dev/null; " }
	part := func(fd int) string { return fmt.Sprintf("%s allot %d 1 4096 1; ", w.hammer, fd) }
	w.skep("apply "+w.file("allot")+" --all --confirm 0", "on trial for all")
	text := w.vm.Output(shell("cd /tmp; exec 3>a; " + part(3) + policy("--nobody") + "exec 4>b; " + part(3) + part(4) +
		policy("--all") + "exec 5>c; " + part(4) + part(5) +
		w.skepPath + " update revert --wait 0s allot 2>&1; echo exit $?; " + part(3) + part(4)))
	const no, yes = "Invalid argument\n", "granted\n"
	claim(w.t, "a file keeps its version", strings.HasPrefix(text, no+no+yes+yes+no) && strings.HasSuffix(text, "exit 1\n"+no+yes), "%q", text)
	claim(w.t, "a revert waits for the files that took the new version", strings.Contains(text, "completes when the objects that use the new one are freed"), "%q", text)
	w.until("allot", func(s *update.Status) bool { return s.State == "loaded" })
	w.skep("remove allot", "unloaded")
}

// slow is an update whose calls take longer: its files are the large ones.
func (w *walker) slow() {
	w.skep("apply "+w.file("allot")+" --uid 1000 --least 100 --max-latency 100 --confirm 0", "on trial for uid")
	allot := func(uid, bytes int) string {
		return as(uid, fmt.Sprintf("exec 3>/tmp/open/%d; %s allot 3 0 %d 3000", uid, w.hammer, bytes))
	}
	w.vm.Output(shell(allot(1001, 4096) + "; " + allot(1000, 256<<10)))
	w.leaves("an update that takes longer is reverted", "allot", "slow", "half of the calls take more than")
	w.skep("remove allot", "unloaded")
}
