// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update"
	"skep/tests/vmtest"
)

// An update by hand changes a function of a module that is loaded before it, or after it, and that
// is unloaded while the update is in force.
func TestDynamosEngineModule(t *testing.T) {
	vmtest.EachLong(t, "6.12", func(t *testing.T, kernel string) {
		m := updateMachine(kernel)
		m.Modules = append(m.Modules, "dummy")
		w := newWalker(t, vmtest.Boot(t, m, vmtest.Limit(8*time.Minute)), kernel)
		const other = "00112233445566778899aabbccddeeff00112233"
		w.unloadDummy() // as the machine booted with it
		w.loadDummy()
		w.loadHand(other)
		w.checkRefused("an update for another build of the module is refused", "apply dynamos_hand --all", 4, "see the kernel's log")
		w.runUpdate("remove dynamos_hand", "unloaded")
		w.loadHand("")
		w.walkModule("dynamos_hand", "4242", true)
		w.walkExisting()
		w.loadHand(other)
		w.runUpdate("apply dynamos_hand --all --confirm 0 --enter 2m", "on trial for all")
		text := w.vm.Output(shellProgram("modprobe dummy 2>&1; echo exit $?; dmesg | grep 'another build of the module dummy'"))
		checkGuest(t, "while an update is in force, another build of its module is not loaded", !strings.Contains(text, "exit 0\n") && strings.Contains(text, "revert it"), "%q", text)
		w.runUpdate("revert --wait 2m --remove dynamos_hand", "unloaded")
		w.loadDummy()
		w.lackMemory()
		w.walkPrograms()
		w.walkProbes()
	})
}

// lackMemory lets each of the two allocations for the counts of a function fail. The update can
// be applied later.
func (w *walker) lackMemory() {
	w.t.Helper()
	w.vm.Output(shellProgram(fmt.Sprintf("insmod %s kind=one build_id=$(%s)", handModule(w.t, w.kernel, "dynamos_hand"), readKernelID)))
	for fails := 1; fails <= 2; fails++ {
		w.vm.Output(shellProgram(fmt.Sprintf("insmod %s fails=%d", handModule(w.t, w.kernel, "dynamos_scarce"), fails)))
		w.checkRefused(fmt.Sprintf("without memory, allocation %d, an update is refused", fails), "apply dynamos_hand --all", 4,
			"no memory for the counts of __x64_sys_getpgid: free some and try again")
		w.vm.Output(shellProgram("rmmod dynamos_scarce"))
	}
	w.runUpdate("apply dynamos_hand --all --confirm 0", "on trial for all")
	w.runUpdate("revert --wait 2m --remove dynamos_hand", "unloaded")
}

// loadDummy loads the module, which makes two devices.
func (w *walker) loadDummy() {
	w.t.Helper()
	w.vm.Output(shellProgram("modprobe dummy numdummies=2 && test -e /sys/class/net/dummy1 || { ls /sys/class/net; cat /proc/modules; exit 1; }"))
}

func (w *walker) unloadDummy() {
	w.t.Helper()
	w.vm.Output(shellProgram("rmmod dummy"))
}

// loadHand loads the update by hand, for the module that is loaded or for another build.
func (w *walker) loadHand(id string) {
	w.t.Helper()
	if id == "" {
		id = "$(tail -c 20 /sys/module/dummy/notes/.note.gnu.build-id | od -An -tx1 | tr -d ' \n')"
	}
	w.vm.Output(shellProgram(fmt.Sprintf("insmod %s kind=module object_id=%s build_id=$(%s)",
		handModule(w.t, w.kernel, "dynamos_hand"), id, readKernelID)))
}

// walkExisting applies an update whose code relies on what objects lack: of a module while it is
// loaded and before it is, and of the kernel. Each is refused while there may be such objects.
func (w *walker) walkExisting() {
	w.t.Helper()
	const reason = " --objects-exist 'no device is used'"
	apply := "apply dynamos_hand --all --confirm 0 --enter 2m"
	load := func(kind string) {
		w.vm.Output(shellProgram(fmt.Sprintf("insmod %s kind=%s relies=1 object_id=%s build_id=$(%s)",
			handModule(w.t, w.kernel, "dynamos_hand"), kind, "$(tail -c 20 /sys/module/dummy/notes/.note.gnu.build-id | od -An -tx1 | tr -d ' \n')", readKernelID)))
	}
	w.loadDummy()
	load("module")
	w.checkRefused("an update that relies on what objects lack is refused while their module is loaded", apply, 4, "unload that module first")
	w.checkDevice("without the update that is refused", "0")
	w.runUpdate("remove dynamos_hand", "unloaded")
	load("module")
	w.runUpdate(apply+reason, "on trial for all")
	w.checkDevice("with a reason why objects do no harm", "4242")
	w.checkRefused("it is not reverted while its module is loaded", "revert --wait 2m --remove dynamos_hand", 4, "unload the module dummy, which reverts it")
	w.checkDevice("after a revert that was refused", "4242")
	w.runUpdate("revert --wait 2m --remove dynamos_hand"+reason, "unloaded")
	w.checkDevice("after a revert with a reason", "0")
	w.unloadDummy()
	if vmtest.Both {
		w.walkExistingLater(apply, reason, load)
	}
	w.loadDummy()
	load("relies")
	w.checkRefused("an update that relies on what objects of the kernel lack is refused", apply, 4, "the kernel may have such objects")
	w.runUpdate(apply+reason, "on trial for all")
	w.checkRefused("nor is it reverted without a reason", "revert dynamos_hand", 4, "say why they do no harm")
	w.runUpdate("revert --wait 2m --remove dynamos_hand"+reason, "unloaded")
	w.unloadDummy()
	w.walkBackFromExisting(reason)
}

// walkExistingLater loads the module after the update, which leaves with it, and applies it once
// more after a revert without the module.
func (w *walker) walkExistingLater(apply, reason string, load func(string)) {
	w.t.Helper()
	w.loadDummy()
	load("module")
	w.unloadDummy()
	w.runUpdate(apply, "on trial for all")
	w.loadDummy()
	w.checkDevice("with a module that is loaded after an update that relies on its objects", "4242")
	w.checkRefused("nor is it if its module was loaded later", "revert dynamos_hand", 4, "unload the module dummy, which reverts it")
	w.unloadDummy()
	w.waitForRevert("an update that relies on objects leaves with their module", "dynamos_hand", "gone", "the module dummy was unloaded")
	w.runUpdate("remove dynamos_hand", "unloaded")
	w.loadDummy()
	load("module")
	w.unloadDummy()
	w.runUpdate(apply, "on trial for all")
	w.runUpdate("revert --wait 2m dynamos_hand", "left") // the module was never loaded
	w.runUpdate(apply, "on trial for all")
	w.loadDummy()
	w.checkDevice("after a revert without the module, and once more with it", "4242")
	w.runUpdate("revert --wait 2m --remove dynamos_hand"+reason, "unloaded")
	w.unloadDummy()
}

// walkBackFromExisting goes back from an update that relies on what objects lack, to one that it
// superseded. A trial that ends asks for no reason.
func (w *walker) walkBackFromExisting(reason string) {
	w.t.Helper()
	for _, kind := range []string{"hand kind=one", "next kind=relies"} {
		name, rest, _ := strings.Cut(kind, " ")
		w.vm.Output(shellProgram(fmt.Sprintf("insmod %s %s build_id=$(%s)", handModule(w.t, w.kernel, "dynamos_"+name), rest, readKernelID)))
	}
	apply := "apply dynamos_next --all --supersede" + reason
	w.runUpdate("apply dynamos_hand --all --confirm 0", "on trial for all")
	w.runUpdate("commit dynamos_hand", "committed")
	w.runUpdate(apply+" --confirm 1s", "on trial for all")
	w.waitForRevert("a trial ends, and nobody is asked for a reason", "dynamos_next", "unconfirmed", "")
	w.runUpdate(apply+" --confirm 0", "on trial for all")
	w.runUpdate("commit dynamos_next", "committed")
	w.waitForRevert("what was superseded leaves", "dynamos_hand", "superseded", "")
	w.checkRefused("there is no way back while objects may exist", "revert dynamos_next --to dynamos_hand", 4, "objects that code of dynamos_next set up may be in use")
	w.runUpdate("revert --wait 2m --remove dynamos_next --to dynamos_hand"+reason, "dynamos_hand: committed again")
	w.runUpdate("revert --wait 2m --remove dynamos_hand", "unloaded")
}

// readKernelID prints the build-id of the running kernel.
const readKernelID = `od -An -v -tx1 /sys/kernel/notes | tr -d ' \n' | sed 's/.*040000001400000003000000474e5500\(.\{40\}\).*/\1/'`

// Packages change modules, ext4 among them, and functions with arguments on the stack.
func TestUpdateObjects(t *testing.T) {
	eachUpdateKernel(t, walkKernel, func(t *testing.T, kernel string) {
		m := updateMachine(kernel)
		m.Modules = append(m.Modules, "dummy", "loop", "ext4")
		w := newWalker(t, vmtest.Boot(t, m, vmtest.Limit(12*time.Minute)), kernel)
		w.walkStack()
		w.walkDummy()
		w.walkExt4()
	})
}

// walkDummy changes a function of a module by a variable that only the module has.
func (w *walker) walkDummy() {
	w.runUpdate("inspect "+w.filePath("dummy_stats"), "of the module dummy")
	w.checkRefused("an update of a module has no policy", "apply "+w.filePath("dummy_stats")+" --tgid 1", 4, "together")
	w.unloadDummy() // as the machine booted with it
	w.loadDummy()
	w.walkModule("dummy_stats", "4242", false)
}

// walkModule takes an update of the module from a loaded one to one that is loaded later. It is not
// loaded at the end, nor is the update.
func (w *walker) walkModule(name, answer string, byHand bool) {
	apply := func() { w.runUpdate("apply "+w.moduleUpdate(name)+" --all --confirm 0 --enter 2m", "on trial for all") }
	w.checkDevice("without the update", "0")
	apply()
	w.waitForStatus(name, func(s *update.Status) bool { return s.State == "trial" })
	w.checkDevice("with the update of a loaded module", answer)
	w.runUpdate("revert --wait 2m "+name, "left")
	w.checkDevice("after the revert", "0")
	w.checkRefused("an update that holds a module's addresses is not applied again", "apply "+name+" --all", 4, "apply its package again")
	w.runUpdate("remove "+name, "unloaded")
	w.unloadDummy()

	if byHand {
		w.loadDummy()
		w.loadHand("")
		w.unloadDummy()
	}
	apply()
	w.waitForStatus(name, func(s *update.Status) bool { return s.State == "trial" })
	w.loadDummy()
	w.checkDevice("with a module that is loaded after the update", answer)
	w.unloadDummy()
	w.waitForRevert("when its module goes, an update leaves", name, "gone", "the module dummy was unloaded")
	w.loadDummy()
	w.checkDevice("a module that comes back is as it was", "0")
	w.runUpdate("remove "+name, "unloaded")
	w.unloadDummy()
}

// moduleUpdate is what apply takes: a package, or an update by hand that is loaded.
func (w *walker) moduleUpdate(name string) string {
	if name == "dynamos_hand" {
		return name
	}
	return w.filePath(name)
}

// checkDevice asks a changed function of the module for a number.
func (w *walker) checkDevice(when, want string) {
	w.t.Helper()
	text := w.vm.Output(shellProgram("cat /sys/class/net/dummy0/statistics/collisions"))
	checkGuest(w.t, when+" the module answers", text == want+"\n", "%q, not %q", text, want)
}

// walkExt4 changes ext4, which has trace points of its own and needs jbd2: loaded before the
// update, unloaded while it is in force, loaded after it.
func (w *walker) walkExt4() {
	apply := func() {
		w.runUpdate("apply "+w.filePath("ext4_sync")+" --all --confirm 0 --enter 2m", "on trial for all")
		w.waitForStatus("ext4_sync", func(s *update.Status) bool { return s.State == "trial" })
	}
	w.vm.Output(shellProgram("mkdir /tmp/ext4 && truncate -s 16M /tmp/image && mkfs.ext4 -q /tmp/image"))
	w.checkSync("without the update", "0 0")
	apply()
	w.checkSync("with the update of the loaded module", "1 0")
	text := w.vm.Output(shellProgram("rmmod ext4 && echo gone"))
	checkGuest(w.t, "ext4 is unloaded while the update is in force", text == "gone\n", "%q", text)
	w.waitForRevert("when ext4 goes, its update leaves", "ext4_sync", "gone", "the module ext4 was unloaded")
	w.vm.Output(shellProgram("modprobe ext4"))
	w.checkSync("when ext4 comes back", "0 0")
	w.runUpdate("remove ext4_sync", "unloaded")
	w.vm.Output(shellProgram("rmmod ext4"))
	apply()
	w.vm.Output(shellProgram("modprobe ext4"))
	w.checkSync("with a module that is loaded after the update", "1 0")
	w.vm.Output(shellProgram(`test -e /sys/kernel/tracing/events || mount -t tracefs tracefs /sys/kernel/tracing
				echo 1 >/sys/kernel/tracing/events/ext4/ext4_sync_file_enter/enable`))
	w.checkSync("while a trace point is on", "1 0")
	text = w.vm.Output(shellProgram("grep -c ext4_sync_file_enter: /sys/kernel/tracing/trace; echo 0 >/sys/kernel/tracing/events/ext4/ext4_sync_file_enter/enable"))
	// Twice, since dd tries fsync when fdatasync has failed.
	checkGuest(w.t, "the new text's trace point fires", text == "2\n", "%q", text)
	w.runUpdate("revert --wait 2m --remove ext4_sync", "unloaded")
	w.checkSync("after the revert", "0 0")
}

// checkSync prints the exit codes of fdatasync and fsync on a file of ext4.
func (w *walker) checkSync(when, want string) {
	w.t.Helper()
	text := w.vm.Output(shellProgram(`mount -o loop /tmp/image /tmp/ext4 || exit 1
		for how in fdatasync fsync; do dd if=/dev/zero of=/tmp/ext4/file bs=1 count=9 conv=$how 2>/dev/null; codes="$codes $?"; done
		umount /tmp/ext4; echo $codes`))
	checkGuest(w.t, when+" fdatasync and fsync end", text == want+"\n", "%q, not %q", text, want)
}
