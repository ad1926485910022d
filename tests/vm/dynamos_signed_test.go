// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/tests/vmtest"
)

// A signer runs skep on this computer, where the operators' keys are. The guest sees its
// folder and cannot change it.
type signer struct {
	t              *testing.T
	skepPath, path string
}

// skep runs a command; @ stands for the folder.
func (s *signer) skep(line string) {
	s.t.Helper()
	c := exec.Command(s.skepPath, strings.Fields("update "+strings.ReplaceAll(line, "@", s.path+"/"))...)
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
}

func (s *signer) copy(from, to string) {
	s.t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(filepath.Join(s.path, to), text, 0o644)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// A node with operators' keys applies what two of three signed, within the policy that they
// signed, and nothing older; a kernel that is locked down is named.
func TestUpdateSigned(t *testing.T) {
	t.Run(walkKernel, func(t *testing.T) {
		m := updateMachine(walkKernel)
		m.CPUs = 1
		w := newWalker(t, vmtest.Boot(t, m, vmtest.Limit(8*time.Minute)), walkKernel)
		s := &signer{t, w.skepPath, filepath.Join(w.packages, "signed")}
		os.RemoveAll(s.path)
		if err := os.Mkdir(s.path, 0o755); err != nil {
			t.Fatal(err)
		}
		s.signPackages(w.filePath("arp"), w.filePath("arp_strict"))
		at := func(name string) string { return filepath.Join(s.path, name) }
		w.runUpdate("apply "+w.filePath("arp")+" --tgid 1 2>&1", "nobody but root vouches for arp")
		w.runUpdate("revert arp --remove", "unloaded")
		w.runUpdate("keys trust "+at("keys"), "2 of 3 keys must sign")
		w.checkRefused("an update that nobody signed is refused", "apply "+w.filePath("arp")+" --all", 4, "nobody signed arp, and 2 of 3 keys must")
		w.checkRefused("an update that one of two signed is refused", "apply "+at("one.skepup")+" --uid 1000", 4, "1 of the 2 signatures that are needed count")
		w.checkRefused("a wider policy than the signed one is refused", "apply "+at("arp.skepup")+" --all", 4, "the policy is wider than the signed one: uid=1000")
		w.checkRefused("a trial without end is refused", "apply "+at("arp.skepup")+" --uid 1000 --confirm 0", 4, "may last 5m0s at most")
		text := w.vm.Output(shellProgram("cat /proc/modules"))
		checkGuest(t, "nothing of it was loaded", !strings.Contains("\n"+text, "\narp "), "%q", text)
		w.runUpdate("apply "+at("arp.skepup")+" --uid 1000", "sequence 7 of line arp, signed by SHA256:")
		w.checkRefused("an applied update is not widened", "policy arp --all", 4, "the policy is wider than the signed one")
		w.runUpdate("policy arp --uid 1000 --cpus 0", "for uid")
		w.runUpdate("policy arp --nobody", "for nobody")
		w.runUpdate("commit arp", "committed")
		w.checkRefused("an older update is refused", "apply "+at("older.skepup")+" --uid 1000", 4, "it has sequence 6 of line arp, and 7 was seen")
		w.checkRefused("an order that one of two signed is refused", "revert "+at("one.skeprevert"), 4, "1 of the 2 signatures")
		w.runUpdate("revert --remove "+at("arp.skeprevert"), "sequence 8 of line arp orders the revert")
		w.checkRefused("what operators reverted is not applied again", "apply "+at("arp.skepup")+" --uid 1000", 4, "8 was an order to revert")
		w.runUpdate("apply "+at("newer.skepup")+" --all", "sequence 9 of line arp")
		w.walkJobs(at("strict.skepup"))
		w.runUpdate("revert arp --remove", "unloaded")
		w.walkLocked(at)
		w.vm.Output(shellProgram("rmmod dynamos"))
	})
}

// signPackages makes keys and packages in all the states of the test.
func (s *signer) signPackages(arp, strict string) {
	s.t.Helper()
	for _, name := range []string{"alice", "bob", "carol"} {
		s.skep("keys new @" + name + " --no-passphrase")
	}
	s.skep("keys rotate --fleet lab --threshold 2 --add @alice.pub --add @bob.pub --add @carol.pub -o @keys")
	s.skep("sign @keys --key @alice")
	s.skep("sign @keys --key @bob")
	for name, stated := range map[string]string{"arp": "--sequence 7 --widest uid=1000 --trial 5m", "older": "--line arp --sequence 6 --widest all", "newer": "--line arp --sequence 9 --widest all", "strict": "--sequence 1 --line strict --widest all"} {
		from := arp
		if name == "older" || name == "strict" {
			from = strict
		}
		s.copy(from, name+".skepup")
		s.skep("sign @" + name + ".skepup --key @alice " + stated)
		if name == "arp" {
			s.copy(s.path+"/arp.skepup", "one.skepup")
		}
		s.skep("sign @" + name + ".skepup --key @carol")
	}
	s.skep("sign @arp.skepup --revert --key @bob -o @arp.skeprevert")
	s.copy(s.path+"/arp.skeprevert", "one.skeprevert")
	s.skep("sign @arp.skeprevert --key @carol")
	s.copy(arp, "boot.skepup")
	c := exec.Command("openssl", "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=MOK/", "-keyout", s.path+"/mok.key", "-out", s.path+"/mok.pem")
	if out, err := c.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
	s.skep("sign @boot.skepup --sign-module @mok.key --certificate @mok.pem")
	s.skep("sign @boot.skepup --key @alice --line boot --sequence 1 --widest all")
	s.skep("sign @boot.skepup --key @bob")
}

// walkLocked locks the kernel down, which cannot be undone. The signature of the module is
// read by the kernel, which does not know its key.
func (w *walker) walkLocked(at func(string) string) {
	w.t.Helper()
	w.runUpdate("apply "+at("boot.skepup")+" --all", "sequence 1 of line boot")
	w.runUpdate("revert arp --remove", "unloaded")
	state := w.vm.Output(shellProgram("mount -t securityfs none /sys/kernel/security 2>/dev/null; echo integrity >/sys/kernel/security/lockdown; cat /sys/kernel/security/lockdown"))
	if !strings.Contains(state, "[integrity]") {
		w.t.Fatalf("the kernel was not locked down: %q", state)
	}
	w.checkRefused("a kernel that is locked down is named", "apply "+at("newer.skepup")+" --all", 4, "this kernel is locked down (integrity), so it loads signed modules only")
	w.checkRefused("a key that the kernel does not know is named", "apply "+at("boot.skepup")+" --all", 4, "does not trust the key that signed the module of arp")
	w.vm.Output(shellProgram("echo Y >/sys/module/module/parameters/sig_enforce"))
	w.checkRefused("a key that an enforcing kernel does not know is named", "apply "+at("boot.skepup")+" --all", 4, "does not trust the key that signed the module of arp")
	log := w.vm.Output(shellProgram("dmesg | tail -5"))
	checkGuest(w.t, "the kernel read the module's signature", strings.Contains(log, "Loading of module with unavailable key is rejected"), "%s", log)
}
