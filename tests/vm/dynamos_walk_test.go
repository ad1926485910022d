// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
	"skep/lab"
	"skep/tests/vmtest"
)

// walkKernel lacks the fix of updates/arp.patch, and what updates/arp_rcu.patch
// does; that of walkVar lacks the fix.
const (
	walkKernel = "6.1.176-1"
	walkVar    = "SKEP_WALK_KERNEL"
)

// updateMachine returns a machine in which packages change functions that others call at
// the same time.
func updateMachine(kernel string) lab.Machine {
	return lab.Machine{Kernel: kernel, CPUs: 2, InTurns: true, Memory: 1024, Modules: []string{"dynamos"}}
}

// A real fix is built from a patch and applied to one process, one job and the whole node, and
// then reverted, while the function is called all the time.
func TestUpdateWalk(t *testing.T) {
	kernel, limit, cycles := cmp.Or(os.Getenv(walkVar), walkKernel), 12*time.Minute, 1
	if n, err := strconv.Atoi(os.Getenv(soakVar)); err == nil {
		limit, cycles = 3*time.Hour, n
	}
	t.Run(kernel, func(t *testing.T) {
		vm := vmtest.Boot(t, updateMachine(kernel), vmtest.Limit(limit))
		newWalker(t, vm, kernel).walkAll(kernel, cycles)
	})
}

// A walker types commands into a machine in which processes call the function all the time.
type walker struct {
	t         *testing.T
	vm        *vmtest.VM
	skepPath  string
	kernel    string
	packages  string
	hammer    string
	pids      []int
	jobFolder string
}

// answers counts the results that one process got, by version.
type answers struct{ calls, kernel, fix, strict, other uint64 }

func newWalker(t *testing.T, vm *vmtest.VM, kernel string) *walker {
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	return &walker{t: t, vm: vm, kernel: kernel, skepPath: filepath.Join(build, "bin", "skep"), packages: filepath.Join(build, "update", kernel),
		hammer: toolPath(t, "dynamos_hammer"), jobFolder: "/sys/fs/cgroup/job"}
}

func (w *walker) walkAll(kernel string, cycles int) {
	for range cycles {
		w.start()
		w.walkFixes()
		if kernel == walkKernel {
			w.walkTogether()
		}
		w.hammerTo("end")
	}
	w.walkUnconfirmed()
	w.startFollowers()
	w.walkLinks()
	w.walkFailing()
	w.walkStuck()
	w.walkObjects()
	w.stopFollowers()
	w.walkSlow()
	err := typePage(w.vm, "docs/walks/updates.md", w.packages, "modprobe dynamos")
	checkGuest(w.t, "page", err == nil, "%v", err)
	w.walkRefusals()
	w.runUpdate("status", "no update is loaded")
	w.vm.Output(shellProgram("rmmod dynamos"))
}

// runUpdate types a command of skep update and checks that its output contains a text.
func (w *walker) runUpdate(command, want string) string {
	w.t.Helper()
	text := w.vm.Output(shellProgram(w.skepPath + " update " + command))
	if !strings.Contains(text, want) {
		w.t.Errorf("skep update %s: no %q in %q", command, want, text)
	}
	return text
}

// checkRefused types a command that must fail with this exit code and reason.
func (w *walker) checkRefused(name, command string, code int, want string) {
	w.t.Helper()
	text := w.vm.Output(shellProgram(w.skepPath + " update " + command + " 2>&1; echo exit $?"))
	checkGuest(w.t, name, strings.Contains(text, want) && strings.HasSuffix(text, fmt.Sprintf("exit %d\n", code)), "it says %q", text)
}

func (w *walker) readStatus(name string) update.Status {
	w.t.Helper()
	return w.parse(w.vm.Output(shellProgram(w.skepPath + " update status --json " + name)))
}

func (w *walker) parse(text string) update.Status {
	w.t.Helper()
	var list []update.Status
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 || len(list[0].Functions) == 0 {
		w.t.Fatalf("status: %v: %q", err, text)
	}
	return list[0]
}

// start starts four processes that call the function all the time. The second is in a cgroup of
// its own, and the third in a cgroup below that one.
func (w *walker) start() {
	w.t.Helper()
	w.pids = nil
	out := w.vm.Output(shellProgram(w.hammer + " start /tmp/hammer 4"))
	for _, word := range strings.Fields(out) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			w.t.Fatalf("the hammer says %q", out)
		}
		w.pids = append(w.pids, pid)
	}
	if len(w.pids) != 4 {
		w.t.Fatalf("the hammer says %q", out)
	}
	w.vm.Output(shellProgram(fmt.Sprintf("mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup; mkdir -p %s/part && echo %d >%s/cgroup.procs && echo %d >%s/part/cgroup.procs",
		w.jobFolder, w.pids[1], w.jobFolder, w.pids[2], w.jobFolder)))
}

const callsEnough = 200

// collectAnswers makes all processes call the function while no command runs. It returns each one's answers, and the update's counts before and after.
func (w *walker) collectAnswers(name string) (answered map[int]answers, before, after update.Function) {
	w.t.Helper()
	status := w.skepPath + " update status --json " + name
	if name == "" {
		status = "true"
	}
	out := w.vm.Output(shellProgram(fmt.Sprintf("h=%s; $h pause /tmp/hammer && echo -- && %s && echo -- && $h look /tmp/hammer %d && echo -- && %s && $h go /tmp/hammer",
		w.hammer, status, callsEnough, status)))
	part := strings.Split(out, "--\n")
	if len(part) != 4 {
		w.t.Fatalf("it says %q", out)
	}
	then, now := w.parseAnswers(part[0]), w.parseAnswers(part[2])
	answered = map[int]answers{}
	for pid, a := range now {
		b := then[pid]
		answered[pid] = answers{a.calls - b.calls, a.kernel - b.kernel, a.fix - b.fix, a.strict - b.strict, a.other - b.other}
	}
	if name == "" {
		return answered, before, after
	}
	return answered, w.parse(part[1]).Functions[0], w.parse(part[3]).Functions[0]
}

func (w *walker) parseAnswers(text string) map[int]answers {
	w.t.Helper()
	list := map[int]answers{}
	for line := range strings.Lines(text) {
		var pid int
		var a answers
		if _, err := fmt.Sscan(line, &pid, &a.calls, &a.kernel, &a.fix, &a.strict, &a.other); err != nil {
			w.t.Fatalf("the hammer says %q", line)
		}
		list[pid] = a
	}
	return list
}

// checkAnswers checks which version answers which process, and that the update
// counted all calls: no call is lost, and no task is inside at rest. by[i] is
// of the i-th process: k the kernel, f the fix, s the stricter one.
func (w *walker) checkAnswers(name, updateName, by string) {
	w.t.Helper()
	answered, before, after := w.collectAnswers(updateName)
	var older, newer uint64
	var wrong []string
	for i, pid := range w.pids {
		a := answered[pid]
		if n := map[byte]uint64{'k': a.kernel, 'f': a.fix, 's': a.strict}[by[i]]; a.calls < callsEnough || n != a.calls {
			wrong = append(wrong, fmt.Sprintf("process %d, wanted %c: %+v", i, by[i], a))
		}
		if mine := map[string]byte{"arp": 'f', "arp_rcu": 'f', "arp_strict": 's'}[updateName]; by[i] == mine {
			newer += a.calls
		} else {
			older += a.calls
		}
	}
	for _, v := range []update.Version{before.Old, before.New, after.Old, after.New} {
		if v.Calls != v.Returned || v.Lost != 0 || v.Inside != 0 {
			wrong = append(wrong, fmt.Sprintf("calls and returns differ at rest: %+v", v))
		}
	}
	if o, n := after.Old.Calls-before.Old.Calls, after.New.Calls-before.New.Calls; o != older || n != newer {
		wrong = append(wrong, fmt.Sprintf("counted are %d and %d calls, made were %d and %d", o, n, older, newer))
	}
	checkGuest(w.t, name, len(wrong) == 0, "%s", strings.Join(wrong, "\n"))
}

func (w *walker) filePath(name string) string { return filepath.Join(w.packages, name+".skepup") }

// walkFixes tests a fix and the one that supersedes it. The function is called
// all the time, also while the kernel's text changes.
func (w *walker) walkFixes() {
	w.runUpdate("inspect "+w.filePath("arp"), "which runs here")
	w.runUpdate(fmt.Sprintf("apply %s --tgid %d", w.filePath("arp"), w.pids[0]), "on trial for tgid")
	w.checkAnswers("only the chosen process takes the fix", "arp", "fkkk")
	w.walkPolicies()
	w.runUpdate("policy arp --cgroup job", "for cgroup /job")
	w.checkAnswers("the cgroup takes the fix, with the cgroup below it", "arp", "kffk")
	w.runUpdate(fmt.Sprintf("policy arp --except --tgid %d --all", w.pids[3]), "all others")
	w.checkAnswers("all processes but one take the fix", "arp", "fffk")
	w.runUpdate("policy arp --all", "for all")
	w.checkAnswers("all processes take the fix", "arp", "ffff")
	w.runUpdate("commit arp", "committed")
	w.checkRefused("an update is applied once", "apply arp --all", 4, "arp is committed: 'skep update policy' changes")
	w.checkRefused("no process has the number of a policy", "policy arp --tgid 4194304", 2, "there is no process 4194304")
	w.checkRefused("an update in force is not unloaded", "remove arp", 4, "is in use")
	w.runUpdate("status arp", "class any, committed")

	w.runUpdate(fmt.Sprintf("apply %s --all --supersede --confirm 0", w.filePath("arp_strict")), "on trial for all")
	w.checkAnswers("a newer update is put on top of it", "arp_strict", "ssss")
	w.runUpdate("revert arp_strict", "arp_strict: left")
	w.checkAnswers("a newer update that is reverted in its trial leaves the older one in force", "arp", "ffff")
	w.runUpdate("apply arp_strict --all --supersede", "on trial for all")
	w.runUpdate("commit arp_strict", "arp_strict: committed")
	w.checkAnswers("a newer update supersedes it", "arp_strict", "ssss")
	w.waitUntilSettled("arp")
	w.runUpdate("revert arp_strict --to arp", "arp: committed again")
	w.checkAnswers("the older one is in force again", "arp", "ffff")
	w.checkRefused("there is no way back from an update that superseded nothing", "revert arp --to links", 4, "has no links that a newer update superseded")
	w.runUpdate("revert arp --to arp_strict", "arp_strict: committed again")
	w.runUpdate("remove arp", "unloaded")
	w.runUpdate("revert --remove arp_strict", "arp_strict: unloaded")
	text := w.vm.Output(shellProgram("cat /sys/kernel/tracing/enabled_functions 2>/dev/null || { mount -t tracefs none /sys/kernel/tracing && cat /sys/kernel/tracing/enabled_functions; }"))
	checkGuest(w.t, "no part of the updates stays in the kernel", !strings.Contains(text, "arp_ioctl") && !strings.Contains(w.vm.Output(shellProgram("cat /proc/modules")), "arp"), "%s", text)
	w.walkRestore()
	since, _, _ := w.collectAnswers("")
	agree := true
	for _, a := range since {
		agree = agree && a.kernel == a.calls
	}
	checkGuest(w.t, "the kernel's own function is back", agree, "%v", since)
}

// walkRestore tests that a committed update is restored when the kernel has lost it, and that it
// is not restored after two boots that failed early.
func (w *walker) walkRestore() {
	const store = serviceStore
	w.vm.Output(shellProgram("mkdir -m 700 " + store))
	w.runUpdate(fmt.Sprintf("apply %s --uid 4711", w.filePath("arp")), "on trial")
	w.runUpdate("commit arp", "arp: it is restored at boot")
	w.vm.Output(shellProgram("cp -a " + store + " /run/kept"))
	w.runUpdate("revert --remove arp", "arp: unloaded")
	left := w.vm.Output(shellProgram("ls -A " + store))
	checkGuest(w.t, "a reverted update is not kept", left == "", "left: %s", left)
	restore := w.skepPath + " service restore --settle 1s 2>&1; echo exit $?"
	text := w.vm.Output(shellProgram("cp -a /run/kept/. " + store + "; " + restore))
	status := w.runUpdate("status arp", "class any, committed")
	checkGuest(w.t, "a committed update comes back with its policy", strings.HasSuffix(text, "exit 0\n") && strings.Contains(status, "4711"), "%s%s", text, status)
	w.vm.Output(shellProgram(`echo '{"ID":"an earlier boot","Failed":1,"Names":["arp"]}' >` + store + "/.boot.json"))
	text = w.vm.Output(shellProgram(restore))
	checkGuest(w.t, "two boots that did not last turn updates off", strings.Contains(text, "2 boots with [arp] ended") && strings.HasSuffix(text, "exit 4\n"), "%s", text)
	w.runUpdate("revert --remove arp", "arp: unloaded")
	w.vm.Output(shellProgram("rm -r " + store + " /run/kept"))
}

func (w *walker) hammerTo(word string) {
	w.vm.Output(shellProgram(w.hammer + " " + word + " /tmp/hammer"))
}

// waitUntilSettled waits until a superseded update has drained.
func (w *walker) waitUntilSettled(name string) {
	w.t.Helper()
	s := w.waitForStatus(name, func(s *update.Status) bool { return s.State == "loaded" })
	checkGuest(w.t, "the superseded one leaves", strings.Contains(s.End, "superseded by arp_strict"), "%+v", s)
}

// waitForStatus looks at an update until done says so.
func (w *walker) waitForStatus(name string, done func(*update.Status) bool) update.Status {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		s := w.readStatus(name)
		if done(&s) {
			return s
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s stays as it is: %+v", name, s)
		}
	}
}

// startFollowers makes each CPU follow a link and close a file repeatedly while it is otherwise
// idle. So functions are called while their text changes.
func (w *walker) startFollowers() {
	w.t.Helper()
	w.vm.Output(shellProgram(`mkdir /tmp/follow && cd /tmp/follow && echo text >text && ln -s text link
		for i in 1 2; do nice -n 19 sh -c 'echo >$1; while test -e $1; do read x <link; done; echo >end$1' - $i >/dev/null 2>&1 & done
		until test -e 1 && test -e 2; do :; done`))
}

func (w *walker) stopFollowers() {
	w.t.Helper()
	w.vm.Output(shellProgram("cd /tmp/follow && rm 1 2 && until test -e end1 && test -e end2; do :; done"))
}

// walkLinks tests the update that was written by hand: two users, the same link.
func (w *walker) walkLinks() {
	w.vm.Output(shellProgram(`cd /proc/sys/fs && echo 0 >protected_symlinks && echo 0 >protected_fifos && echo 0 >protected_hardlinks
		mkdir -m 1777 /tmp/open && cd /tmp/open && echo secret >/tmp/target && chmod 644 /tmp/target
		setpriv --reuid 2000 --regid 2000 --clear-groups sh -c 'ln -s /tmp/target link && mkfifo -m 666 fifo && exec 3<>fifo && sleep 300' >/dev/null 2>&1 &
		until test -p /tmp/open/fifo; do :; done`))
	try := func(uid int) string {
		return w.vm.Output(shellProgram(fmt.Sprintf("cd /tmp/open; setpriv --reuid %d --regid %d --clear-groups sh -c 'cat link; : >>fifo && echo opened' 2>&1; true", uid, uid)))
	}
	const free = "secret\nopened\n"
	before := try(1000)
	checkGuest(w.t, "without the fix a user follows another user's link", before == free, "%q", before)
	w.runUpdate("apply "+w.filePath("links")+" --uid 1000", "on trial for uid")
	strict, other := try(1000), try(1001)
	checkGuest(w.t, "a chosen user follows no link and opens no FIFO of another user", strings.Count(strict, "Permission denied") == 2 && !strings.Contains(strict, "secret"), "%q", strict)
	checkGuest(w.t, "a user who is not chosen still follows the link", other == free, "%q", other)
	w.runUpdate("revert --remove links", "links: unloaded")
	after := try(1000)
	checkGuest(w.t, "after the revert the user follows the link again", after == free, "%q", after)
}

// foreignPackage returns the package of the fix with another kernel's build-id.
func (w *walker) foreignPackage() string {
	w.t.Helper()
	p, err := pack.Open(w.filePath("arp"))
	if err != nil {
		w.t.Fatal(err)
	}
	k := &p.Kernels[0]
	module := p.Modules[k.BuildID]
	k.BuildID = strings.Repeat("0123456789", 4)
	p.Modules = map[string][]byte{k.BuildID: module}
	if err := pack.WriteFile(w.filePath("foreign"), p); err != nil {
		w.t.Fatal(err)
	}
	return w.filePath("foreign")
}

// renamedPackage returns the package of the fix as if it changed another function, whose
// name is not longer.
func (w *walker) renamedPackage(symbol string) string {
	w.t.Helper()
	p, err := pack.Open(w.filePath("arp"))
	if err != nil {
		w.t.Fatal(err)
	}
	id := p.Kernels[0].BuildID
	was, is := make([]byte, len("arp_ioctl")+1), make([]byte, len("arp_ioctl")+1)
	copy(was, "arp_ioctl")
	copy(is, symbol)
	p.Modules[id] = bytes.ReplaceAll(p.Modules[id], was, is)
	if err := pack.WriteFile(w.filePath("renamed"), p); err != nil {
		w.t.Fatal(err)
	}
	return w.filePath("renamed")
}

// walkRefusals tests what must not be applied, and that each refusal names a remedy.
func (w *walker) walkRefusals() {
	w.checkRefused("a package for another kernel is refused", "apply "+w.foreignPackage()+" --all", 4, "is not for this kernel")
	w.vm.Output(shellProgram("head -c 9000 " + w.filePath("arp") + " >/tmp/cut.skepup; sed s/arp_ioctl/arp_ioctk/ " + w.filePath("arp") + " >/tmp/changed.skepup"))
	w.checkRefused("a package that was cut is refused", "apply /tmp/cut.skepup --all", 4, "is not a usable package")
	w.checkRefused("a package that was changed is refused", "apply /tmp/changed.skepup --all", 4, "is not a usable package")
	w.checkRefused("a function that is only inlined is refused", "apply "+w.renamedPackage("pick_link")+" --all", 4, "pick_link is not in this kernel, or only inlined")
	w.checkRefused("a missing update is refused", "apply nothing --all", 4, "no update")
	text := w.vm.Output(lab.Program{User: true, Args: []string{"/bin/sh", "-c", w.skepPath + " update status 2>&1; echo exit $?"}})
	checkGuest(w.t, "a user who is not root is refused", strings.Contains(text, "for root only") && strings.HasSuffix(text, "exit 4\n"), "it says %q", text)
	w.runUpdate("inspect "+w.filePath("links"), "its author says")
}
