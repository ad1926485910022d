// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update"
	"skep/grid/rolls"
	"skep/lab"
	"skep/tests/vmtest"
)

// A fleet is a hub and two nodes with kernels of different series.
type fleet struct {
	first, second *walker
	signer        *signer
}

// Two nodes with different kernels take one update in one roll, each by the package for its
// own kernel. Then an MPI job on both has the update in force for its ranks, and nobody else.
func TestUpdateFleet(t *testing.T) {
	kernels := []string{walkKernel, "6.12"}
	one, two := updateMachine(kernels[0]), updateMachine(kernels[1])
	one.Name, two.Name = "fleet-one", "fleet-two"
	a, b := vmtest.Pair(t, one, two, vmtest.Limit(10*time.Minute))
	f := &fleet{first: newWalker(t, a, kernels[0]), second: newWalker(t, b, kernels[1])}
	f.signer = &signer{t, f.first.skepPath, filepath.Join(f.first.packages, "fleet")}
	os.RemoveAll(f.signer.path)
	if err := os.Mkdir(f.signer.path, 0o755); err != nil {
		t.Fatal(err)
	}
	f.sign()
	for _, w := range f.nodes() {
		w.start()
		w.vm.Output(shellProgram("mkdir -m 700 " + serviceStore))
	}
	f.startNodes()
	f.rollRefused()
	f.rollBoth()
	f.runJob()
	for _, w := range f.nodes() {
		w.stopService()
		w.hammerTo("end")
	}
	f.second.stopHub()
	f.first.stopHub()
	for _, w := range f.nodes() {
		w.runUpdate("revert arp --remove", "unloaded")
		w.vm.Output(shellProgram("rm -r " + serviceStore + "; until rmmod dynamos 2>/dev/null; do :; done"))
	}
}

func (f *fleet) nodes() []*walker { return []*walker{f.first, f.second} }

func (f *fleet) path(name string) string { return filepath.Join(f.signer.path, name) }

// sign signs a package for each kernel, as one update.
func (f *fleet) sign() {
	s := f.signer
	s.skep("keys new @alice --no-passphrase")
	s.skep("keys rotate --fleet lab --threshold 1 --add @alice.pub -o @keys")
	s.skep("sign @keys --key @alice")
	s.copy(f.first.filePath("arp"), "unsigned.skepup")
	for _, w := range f.nodes() {
		s.copy(w.filePath("arp"), "arp-"+w.kernel+".skepup")
		s.skep("sign @arp-" + w.kernel + ".skepup --key @alice --sequence 1 --trial 1h --widest all")
	}
}

// startNodes starts the hub with a node in the first machine and a node in the second one.
func (f *fleet) startNodes() {
	f.first.startHub(":4860 --advertise fleet-one:4860")
	token := f.first.vm.Output(shellProgram(f.first.skepPath + " token --state " + hubState + " 2>/dev/null"))
	f.second.vm.Output(shellProgram(fmt.Sprintf(`cat >/tmp/token <<'END'
%sEND
%s join fleet-one:4860 --token-file /tmp/token --state /tmp/node --slots 1 >>/tmp/up.log 2>&1 & echo $! >/tmp/up.pid`, token, f.second.skepPath)))
	f.first.vm.Output(shellProgram(fmt.Sprintf("until %s nodes --state %s | grep 'fleet-two .* up '; do :; done", f.first.skepPath, hubState)))
}

// rollRefused tries a roll before the nodes have keys of operators, and one that nobody signed.
func (f *fleet) rollRefused() {
	f.first.roll("roll "+f.path("arp-"+f.first.kernel+".skepup")+" --waves all", "this node has no keys of operators")
	for _, w := range f.nodes() {
		w.runUpdate("keys trust "+f.path("keys"), "1 of 1 keys must sign")
	}
	f.first.roll("roll "+f.path("unsigned.skepup")+" --waves all", "nobody signed arp")
}

// rollBoth rolls the update out: to one node, then to both.
func (f *fleet) rollBoth() {
	t := f.first.t
	both := f.path("arp-"+f.first.kernel+".skepup") + " " + f.path("arp-"+f.second.kernel+".skepup")
	out := f.first.roll("roll "+both+" --waves 1,all --canary-time 1s --settle 1s", "committing")
	checkGuest(t, "a roll over two kernels ends", strings.HasSuffix(out, " done\n"), "%s", out)
	f.first.waitForRoll("both nodes committed", "arp", func(s *rolls.Status) bool {
		return len(s.Nodes) == 2 && !slices.ContainsFunc(s.Nodes, func(n rolls.NodeStatus) bool { return n.Phase != "committed" })
	})
	for _, w := range f.nodes() {
		status := w.waitForStatus("arp", func(s *update.Status) bool { return s.Policy == "all" })
		checkGuest(t, w.kernel+" has committed it, and it is called", status.State == "committed" && status.Functions[0].New.Calls > 0, "%+v", status)
		w.checkAnswers("all calls of "+w.kernel+" take it", "arp", "ffff")
	}
}

// runJob runs an MPI job with the update on both nodes. Each rank says what its own calls were
// answered, while the other processes of the node are asked too.
func (f *fleet) runJob() {
	t := f.first.t
	for _, w := range f.nodes() {
		w.runUpdate("policy arp --nobody", "for nobody")
		w.startService()
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_, _ = f.second.vm.Guest().Run(ctx, lab.Program{Args: []string{toolPath(t, "o2g_shell"), "serve"}}, lab.Streams{})
	}()
	defer func() {
		stop()
		<-served
	}()
	f.second.vm.Output(shellProgram("until ss -Hltn 'sport = 7022' | grep -q .; do :; done"))
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	rank := fmt.Sprintf(`h=%s; $h start /tmp/rank 1 >/dev/null && $h look /tmp/rank %d | sed "s/^/rank $(uname -r) /" && $h end /tmp/rank && exec %s talk`,
		f.first.hammer, callsEnough, filepath.Join(build, "test", "o2g", "app-wheel"))
	out := f.first.vm.Output(shellProgram(fmt.Sprintf("%s mpirun --mpi %s --no-shm --update arp -n 2 --launcher %s --hosts fleet-one,fleet-two -- sh -c '%s' 2>&1",
		f.first.skepPath, filepath.Join(build, "mpi", "mpich"), toolPath(t, "o2g_shell"), rank)))
	checkGuest(t, "the job runs on both kernels", strings.Contains(out, "2 of 2 ranks reported"), "%s", out)
	for _, series := range []string{"6.1.", "6.12."} {
		var pid, calls, kernel, fix, strict, other uint64
		_, line, _ := strings.Cut(out, "rank "+series)
		_, line, _ = strings.Cut(line, " ")
		n, err := fmt.Sscan(line, &pid, &calls, &kernel, &fix, &strict, &other)
		checkGuest(t, "all calls of the rank on "+series+" take the update", n == 6 && calls >= callsEnough && fix == calls, "%v: %s", err, out)
	}
	for _, w := range f.nodes() {
		w.checkAnswers("no other process of "+w.kernel+" takes it", "arp", "kkkk")
	}
}
