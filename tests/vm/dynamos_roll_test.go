// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update"
	"skep/grid/rolls"
	"skep/tests/vmtest"
)

// A hub rolls a signed update out to a real kernel. The lease is the kernel's own: when hub
// and agent are killed, calls stop entering the update. What the kernel reverts stops the
// roll.
func TestUpdateRolled(t *testing.T) {
	kernel := cmp.Or(os.Getenv(walkVar), walkKernel)
	t.Run(kernel, func(t *testing.T) {
		w := newWalker(t, vmtest.Boot(t, updateMachine(kernel), vmtest.Limit(8*time.Minute)), kernel)
		s := &signer{t, w.skepPath, filepath.Join(w.packages, "rolled")}
		os.RemoveAll(s.path)
		if err := os.Mkdir(s.path, 0o755); err != nil {
			t.Fatal(err)
		}
		w.signRolled(s)
		w.startHub("127.0.0.1:4860")
		if kernel == walkKernel { // TestUpdateFleet does the other part
			w.runUpdate("keys trust "+filepath.Join(s.path, "keys"), "1 of 1 keys must sign")
			w.openLinks()
			w.rollOverKills(s)
			w.rollThatHarms(s)
		} else {
			w.rollAll(s)
		}
		w.stopHub()
		// The slots of the last update are freed a moment after its module.
		w.vm.Output(shellProgram("until rmmod dynamos 2>/dev/null; do :; done"))
	})
}

func (w *walker) signRolled(s *signer) {
	w.t.Helper()
	s.skep("keys new @alice --no-passphrase")
	s.skep("keys rotate --fleet lab --threshold 1 --add @alice.pub -o @keys")
	s.skep("sign @keys --key @alice")
	for name, widest := range map[string]string{"arp": "all", "links": "uid=1000", "unsigned": ""} {
		from := w.filePath(name)
		if name == "unsigned" {
			from = w.filePath("arp")
		}
		if _, err := os.Stat(from); err != nil {
			continue // this kernel has no such package
		}
		s.copy(from, name+".skepup")
		if widest != "" {
			s.skep("sign @" + name + ".skepup --key @alice --sequence 1 --trial 1h --widest " + widest)
		}
	}
}

// hubState is where the guest's hub keeps its data.
const hubState = "/tmp/hub"

// startHub starts hub and agent, as root, and waits until the node is up.
func (w *walker) startHub(listen string) {
	w.t.Helper()
	w.vm.Output(shellProgram(fmt.Sprintf(`ip link set lo up; %[1]s up --state %[2]s --no-token --listen %[3]s --slots 1 >>/tmp/up.log 2>&1 &
		echo $! >/tmp/up.pid; until %[1]s nodes --state %[2]s 2>/dev/null | grep -q ' up '; do kill -0 $(cat /tmp/up.pid) || { cat /tmp/up.log; exit 1; }; done`, w.skepPath, hubState, listen)))
}

func (w *walker) killHub() {
	w.vm.Output(shellProgram("kill -9 $(cat /tmp/up.pid)"))
}

func (w *walker) stopHub() {
	w.vm.Output(shellProgram("kill $(cat /tmp/up.pid); while kill -0 $(cat /tmp/up.pid) 2>/dev/null; do :; done"))
}

func (w *walker) roll(line, want string) string {
	w.t.Helper()
	return w.runUpdate(line+" --state "+hubState+" 2>&1 || true", want)
}

// waitForRoll waits until a roll is as it should be.
func (w *walker) waitForRoll(what, name string, is func(*rolls.Status) bool) {
	w.t.Helper()
	var text string
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		text = w.vm.Output(shellProgram(w.skepPath + " update rolls --json " + name + " --state " + hubState))
		var list []rolls.Status
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
			w.t.Fatalf("rolls: %v: %q", err, text)
		}
		if is(&list[0]) {
			return
		}
	}
	w.t.Fatalf("%s: the roll is never so: %s\n%s", what, text, w.vm.Output(shellProgram("cat /tmp/up.log")))
}

func hasPhase(phase string) func(*rolls.Status) bool {
	return func(s *rolls.Status) bool {
		return slices.ContainsFunc(s.Nodes, func(n rolls.NodeStatus) bool { return n.Phase == phase })
	}
}

// rollAll brings an update to the node, while the function is called all the time.
func (w *walker) rollAll(s *signer) {
	w.t.Helper()
	at := func(name string) string { return filepath.Join(s.path, name) }
	w.start()
	const quick = " --waves all --canary-time 2s --settle 2s"
	w.roll("roll "+at("arp.skepup")+quick, "this node has no keys of operators")
	w.runUpdate("keys trust "+at("keys"), "1 of 1 keys must sign")
	w.roll("roll "+at("unsigned.skepup")+quick, "nobody signed arp")
	out := w.roll("roll "+at("arp.skepup")+quick, "committing")
	checkGuest(w.t, "a roll ends", strings.HasSuffix(out, " done\n"), "%s", out)
	status := w.waitForStatus("arp", func(s *update.Status) bool { return s.Policy == "all" })
	checkGuest(w.t, "a roll commits, and its policy has no end", status.State == "committed" && status.Functions[0].New.Calls > 0, "%+v", status)
	w.hammerTo("end")
	w.runUpdate("revert arp --remove", "unloaded")
}

// openLink is what a user gets who follows another user's link: with the update it is refused.
func (w *walker) openLink(uid int) string {
	return w.vm.Output(shellProgram(asUser(uid, "cat /tmp/open/link 2>&1; true")))
}

func (w *walker) waitForLink(what, want string) {
	w.t.Helper()
	text := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if text = w.openLink(1000); strings.Contains(text, want) {
			return
		}
	}
	w.t.Fatalf("%s: %q, want %q", what, text, want)
}

// openLinks makes a link that the update lets nobody follow.
func (w *walker) openLinks() {
	w.vm.Output(shellProgram(`cd /proc/sys/fs && echo 0 >protected_symlinks; mkdir -m 1777 /tmp/open && cd /tmp/open && echo secret >/tmp/target && chmod 644 /tmp/target
		setpriv --reuid 2000 --regid 2000 --clear-groups ln -s /tmp/target link`))
}

// rollOverKills kills hub and agent during the trial, and starts them again.
func (w *walker) rollOverKills(s *signer) {
	w.t.Helper()
	w.roll("roll "+filepath.Join(s.path, "links.skepup")+" --detach --waves all --canary uid=1000 --canary-time 2s --settle 10m --least 500 --max-errors 400", "the roll begins")
	w.waitForLink("on trial", "Permission denied")
	w.killHub()
	w.waitForLink("after hub and agent were killed, calls leave the update", "secret")
	status := w.readStatus("links")
	checkGuest(w.t, "the update is still on trial, for nobody", status.State == "trial" && strings.Contains(status.Policy, "a time that is over"), "%+v", status)
	w.startHub("127.0.0.1:4860")
	w.waitForRoll("after the kill", "links", hasPhase("node"))
	w.waitForLink("the roll goes on", "Permission denied")
}

// rollThatHarms lets calls of the update fail more often, over many leases.
func (w *walker) rollThatHarms(s *signer) {
	w.t.Helper()
	const follow = "i=0; while [ $i -lt 1000 ]; do read x </tmp/open/link; i=$((i+1)); done 2>/dev/null; true"
	w.vm.Output(shellProgram(asUser(1001, follow) + "; " + asUser(1000, follow)))
	w.waitForRoll("too many errors", "links", func(s *rolls.Status) bool {
		return s.State == "stopped" && strings.Contains(s.Why, "calls fail") && hasPhase("reverted")(s)
	})
	w.waitForLink("after the revert", "secret")
	text := w.vm.Output(shellProgram("cat /proc/modules"))
	checkGuest(w.t, "the module is unloaded", !strings.Contains("\n"+text, "\nlinks "), "%q", text)
	w.roll("roll "+filepath.Join(s.path, "links.skepup")+" --waves all", "harmed a node, and the hub gives it to no other")
}
