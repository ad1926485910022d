// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/rolls"
	"skep/lab"
	"skep/tests/vmtest"
	"skep/tests/vmtest/report"
)

// A panicFleet is the guest of a hub, which is also the node z, and a guest that is the node a.
// What a must not lose in a panic is on its disk.
type panicFleet struct{ hub, node *walker }

// A bad update ends the first node that it reaches. That node boots without it and says why,
// the hub gives it to no other node, and the command that made the machine a node makes it one
// again, which does not load the update again.
func TestUpdatePanics(t *testing.T) {
	t.Run(walkKernel, func(t *testing.T) {
		first, second := updateMachine(walkKernel), diskMachine(walkKernel)
		first.Name, first.CPUs, second.Name, second.CPUs = "roll-hub", 1, "roll-node", 1
		a, b := vmtest.Pair(t, first, second, vmtest.Limit(8*time.Minute))
		f := &panicFleet{hub: newWalker(t, a, walkKernel), node: newWalker(t, b, walkKernel)}
		s := &signer{t, f.hub.skepPath, filepath.Join(f.hub.packages, "panics")}
		os.RemoveAll(s.path)
		if err := os.Mkdir(s.path, 0o755); err != nil {
			t.Fatal(err)
		}
		f.sign(s)
		f.node.makeDisk()
		f.startHub()
		for _, w := range []*walker{f.hub, f.node} {
			w.runUpdate("keys trust "+filepath.Join(s.path, "keys"), "1 of 1 keys must sign")
		}
		f.join()
		f.panic(s)
		f.checkHub(s)
	})
}

// diskMachine returns a machine with a disk for /var/lib.
func diskMachine(kernel string) lab.Machine {
	m := updateMachine(kernel)
	m.Modules, m.Disks = append(m.Modules, "ext4"), []lab.Disk{{MiB: 64}}
	return m
}

func (w *walker) makeDisk() {
	w.vm.Output(shellProgram("mkfs.ext4 -q /dev/vda"))
	w.mountDisk()
}

// mountDisk mounts the disk. Of itself the file system writes nothing to it for longer than the
// test runs: what is there after a panic was written by those who need it.
func (w *walker) mountDisk() {
	w.vm.Output(shellProgram("ip link set lo up; mkdir -p /var/lib && mount -o commit=3600 /dev/vda /var/lib"))
}

// callInPanic lets one process call the function all the time. In it the update ends the machine.
func (w *walker) callInPanic() {
	w.vm.Expect(report.Oops, "arp_ioctl", 1)
	w.vm.Output(shellProgram("echo 1 >/proc/sys/kernel/panic_on_oops; " + w.hammer + " start /tmp/hammer 1"))
}

func (f *panicFleet) sign(s *signer) {
	s.skep("keys new @alice --no-passphrase")
	s.skep("keys rotate --fleet lab --threshold 1 --add @alice.pub -o @keys")
	s.skep("sign @keys --key @alice")
	for sequence, name := range []string{"oops", "again"} {
		s.copy(f.hub.filePath("oops"), name+".skepup")
		s.skep(fmt.Sprintf("sign @%s.skepup --key @alice --sequence %d --trial 1h --widest all", name, sequence+1))
	}
}

// startHub starts the hub, and in its guest the agent of z.
func (f *panicFleet) startHub() {
	f.hub.vm.Output(shellProgram(fmt.Sprintf(`ip link set lo up; echo 1 >/proc/sys/kernel/panic_on_oops
		%[1]s up --state %[2]s --no-agent --no-token --listen :4860 >/tmp/up.log 2>&1 &
		echo $! >/tmp/up.pid; until %[1]s nodes --state %[2]s >/dev/null 2>&1; do kill -0 $(cat /tmp/up.pid) || { cat /tmp/up.log; exit 1; }; done`, f.hub.skepPath, hubState)))
	f.hub.joinAs("z", "127.0.0.1", f.newToken())
	f.awaitNode("z", f.hub)
}

// newToken returns a token for one machine.
func (f *panicFleet) newToken() string {
	return strings.TrimSpace(f.hub.vm.Output(shellProgram(fmt.Sprintf("%s token --state %s", f.hub.skepPath, hubState))))
}

// joinAs types the command that makes a machine a node.
func (w *walker) joinAs(name, hub, token string) {
	if token != "" {
		w.vm.Output(shellProgram(fmt.Sprintf("mkdir -p /var/lib/agent; echo '%s' >/var/lib/token; sync /var/lib/token /var/lib", token)))
	}
	w.vm.Output(shellProgram(fmt.Sprintf(`%s join %s:4860 --token-file /var/lib/token --name %s --state /var/lib/agent --slots 1 >/tmp/join.log 2>&1 &
		echo $! >/tmp/join.pid`, w.skepPath, hub, name)))
}

// awaitNode waits until the hub sees the node.
func (f *panicFleet) awaitNode(name string, w *walker) {
	f.hub.t.Helper()
	text := ""
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		text = f.hub.vm.Output(shellProgram(fmt.Sprintf("%s nodes --state %s", f.hub.skepPath, hubState)))
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, name+" ") && strings.Contains(line, " up ") {
				return
			}
		}
	}
	f.hub.t.Fatalf("%s does not join: %s\n%s", name, text, w.vm.Output(shellProgram("cat /tmp/join.log; ip addr")))
}

func (f *panicFleet) join() {
	f.node.joinAs("a", "roll-hub", f.newToken())
	f.awaitNode("a", f.node)
}

// joinAgain types the same command after a boot: the token has been used up.
func (f *panicFleet) joinAgain() {
	f.node.mountDisk()
	f.node.joinAs("a", "roll-hub", "")
	f.awaitNode("a", f.node)
}

// panic rolls the update out while the function is called on both nodes. z does not answer until
// a has it, so that a is the first.
func (f *panicFleet) panic(s *signer) {
	f.node.callInPanic()
	f.hub.vm.Output(shellProgram(f.hub.hammer + " start /tmp/hammer 1; kill -STOP $(cat /tmp/join.pid)"))
	f.node.vm.ExpectPanic()
	f.hub.roll("roll "+filepath.Join(s.path, "oops.skepup")+" --detach --waves 1,all --canary all --canary-time 2s --settle 10s", "the roll begins")
	f.hub.waitForRoll("the first node", "oops", func(s *rolls.Status) bool {
		return s.State == "stopped" || hasPhase("loaded")(s) || hasPhase("canary")(s)
	})
	f.hub.vm.Output(shellProgram("kill -CONT $(cat /tmp/join.pid)"))
	f.node.vm.RebootAfterPanic()
	f.joinAgain()
}

// checkHub shows that the roll stopped at the first node.
func (f *panicFleet) checkHub(s *signer) {
	t := f.hub.t
	f.hub.waitForRoll("after the panic", "oops", func(s *rolls.Status) bool {
		return s.State == "stopped" && strings.HasPrefix(s.Why, "a: ")
	})
	f.checkNode()
	f.hub.runUpdate("status", "no update is loaded")
	audit := f.hub.roll("rolls --audit oops", "oops")
	checkGuest(t, "one of two nodes was touched", strings.Contains(audit, " a applied oops ") && !strings.Contains(audit, " z applied ") && !strings.Contains(audit, " z committed "), "%s", audit)
	for _, name := range []string{"oops", "again"} {
		f.hub.roll("roll "+filepath.Join(s.path, name+".skepup")+" --waves all", "harmed a node, and the hub gives it to no other")
	}
}

// checkNode shows that the node runs without the update, and says why.
func (f *panicFleet) checkNode() {
	text := f.node.runUpdate("status", "no update is loaded")
	checkGuest(f.node.t, "the node says what failed", strings.Contains(text, "\noops failed on this node at sequence 1 ("), "%s", text)
	text = f.node.vm.Output(shellProgram("cat /proc/modules"))
	checkGuest(f.node.t, "the node is there again without the update", !strings.Contains("\n"+text, "\noops "), "%s", text)
}

// A committed update that ends the machine whenever it comes back is left out after two boots.
func TestUpdatePanicsAtBoot(t *testing.T) {
	t.Run(walkKernel, func(t *testing.T) {
		w := newWalker(t, vmtest.Boot(t, diskMachine(walkKernel), vmtest.Limit(8*time.Minute)), walkKernel)
		w.makeDisk()
		w.vm.Output(shellProgram("mkdir -m 700 " + serviceStore))
		w.runUpdate(fmt.Sprintf("apply %s --all", w.filePath("oops")), "on trial") // nobody calls the function yet
		w.runUpdate("commit oops", "oops: it is restored at boot")
		w.vm.Reboot()
		for range 2 {
			w.mountDisk()
			w.callInPanic()
			w.vm.ExpectPanic()
			w.vm.Output(shellProgram(w.skepPath + " service restore --settle 10m >/tmp/restore.log 2>&1 &"))
			w.vm.RebootAfterPanic()
		}
		w.mountDisk()
		w.vm.Output(shellProgram(w.hammer + " start /tmp/hammer 1"))
		text := w.vm.Output(shellProgram(w.skepPath + " service restore --settle 1s 2>&1; echo exit $?"))
		checkGuest(t, "two boots that panicked turn updates off", strings.Contains(text, "2 boots with [oops] ended") && strings.HasSuffix(text, "exit 4\n"), "%s", text)
		w.runUpdate("status", "no update is loaded")
	})
}
