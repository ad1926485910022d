// SPDX-License-Identifier: MIT

package rolls

import (
	"slices"
	"strings"
	"testing"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/roll"
)

// changes returns what a hub knows of a package that changes these functions.
func changes(functions ...string) []*pack.Package {
	k := pack.Kernel{BuildID: strings.Repeat("01", 20)}
	for _, name := range functions {
		k.Functions = append(k.Functions, pack.Function{Symbol: pack.Symbol{Name: name}, Result: pack.Int, OldSize: 1, Size: 1, Original: strings.Repeat("0", 64)})
	}
	return []*pack.Package{{Manifest: pack.Manifest{Name: "fix", Class: pack.Any, Proposed: pack.Any, Kernels: []pack.Kernel{k}},
		Modules: map[string][]byte{k.BuildID: []byte("module")}}}
}

// newerSpec is a roll that supersedes that of testSpec.
func newerSpec() Spec {
	s := testSpec
	s.ID, s.Name, s.Supersede = "two", "newer", true
	return s
}

func (f *fleet) newer(name string) *fakeKernel { return f.nodes[name].k.others["newer"] }

// addNewer gives each node a kernel that can take the newer update.
func (f *fleet) addNewer() {
	for _, n := range f.nodes {
		if n.k.others == nil {
			n.k.others = map[string]*fakeKernel{"newer": {refuse: map[string]error{}}}
		}
	}
}

// supersede lets a node's kernel do what it does with the commit of the newer update.
func (f *fleet) supersede() {
	for _, n := range f.nodes {
		if n.k.state == Kept && n.k.others["newer"].state == Kept {
			n.k.state, n.k.end, n.k.superseded = Drains, "superseded by newer", true
		}
	}
}

func (f *fleet) list(name string) Status {
	f.t.Helper()
	list, err := f.hub.List(name)
	if err != nil {
		f.t.Fatal(err)
	}
	return list[0]
}

// A roll that supersedes another one ends that update on each node, and nobody counts as
// harmed. Nodes that join later, and those that boot, get the newer one alone.
func TestRollSupersedes(t *testing.T) {
	f := newFleet(t, "a", "b")
	if err := f.hub.Begin("user:7:test", testSpec, testPlan(t, "all"), []string{"a", "b"}, changes("arp_ioctl", "arp_req_set")); err != nil {
		t.Fatal(err)
	}
	f.addNewer()
	newer := func() error {
		return f.hub.Begin("user:7:test", newerSpec(), testPlan(t, "1,all"), []string{"a", "b"}, changes("arp_ioctl", "z"))
	}
	if err := newer(); err == nil || !strings.Contains(err.Error(), "a roll of fix, which changes the same functions, is running") {
		t.Errorf("two rolls of one function: %v", err)
	}
	f.run("the older commits", func() bool { return f.count(committed) == 2 })
	f.awaitState(roll.Done)
	f.now = f.now.Add(1) // the newer one begins later
	if err := newer(); err != nil {
		t.Fatal(err)
	}
	f.join("later")
	f.addNewer()
	f.run("the end of both", func() bool {
		f.supersede()
		return f.list("newer").State == roll.Done.String() && f.newer("later").state == Kept && f.count(committed) == 0
	})
	for _, name := range []string{"a", "b"} {
		if k := f.nodes[name].k; k.failed != "" || !slices.Contains(k.did, "unload") {
			t.Errorf("%s: the superseded update did %v, failed: %q", name, k.did, k.failed)
		}
	}
	if k := f.nodes["later"].k; slices.Contains(k.did, "load") {
		t.Errorf("a node that joined later loads what is superseded: %v", k.did)
	}
	f.run("the reports", func() bool {
		s := f.list("fix")
		return s.Nodes[0].Failed == "superseded by newer" && s.Nodes[1].Failed == "superseded by newer"
	})
	if s := f.list("fix"); s.State != roll.Done.String() || f.hub.rolls["fix"].Roll.Blocked {
		t.Errorf("the older roll is %s, blocked %v", s.State, f.hub.rolls["fix"].Roll.Blocked)
	}
	f.join("last")
	f.addNewer()
	f.run("the newer update on a node that joined last", func() bool { return f.newer("last").state == Kept })
	if k := f.nodes["last"].k; slices.Contains(k.did, "load") {
		t.Errorf("a node that joined last loads what is superseded: %v", k.did)
	}
	k := f.nodes["a"].k
	k.did, k.boot, k.now, k.state, k.end, k.superseded = nil, "2", 0, Absent, "", false
	f.start("a")
	f.run("the report after the boot", func() bool { return f.list("fix").Nodes[0].Phase == roll.Reverted.String() && k.now > 10*reportEvery })
	if len(k.did) > 0 || f.nodes["a"].rolls["fix"].node.Bad != "" {
		t.Errorf("after a boot the superseded update did %v, bad %q", k.did, f.nodes["a"].rolls["fix"].node.Bad)
	}
}

// While a roll that supersedes another one was stopped, nodes get the older update.
func TestStoppedRollSupersedesNothing(t *testing.T) {
	f := newFleet(t, "a")
	if err := f.hub.Begin("user:7:test", testSpec, testPlan(t, "all"), []string{"a"}, changes("arp_ioctl")); err != nil {
		t.Fatal(err)
	}
	f.awaitState(roll.Done)
	f.addNewer()
	f.now = f.now.Add(1)
	if err := f.hub.Begin("user:7:test", newerSpec(), testPlan(t, "all"), []string{"a"}, changes("arp_ioctl")); err != nil {
		t.Fatal(err)
	}
	if err := f.hub.Act("user:7:test", "newer", ActionStop); err != nil {
		t.Fatal(err)
	}
	f.join("later")
	f.addNewer()
	f.run("the older update", func() bool { return f.count(committed) == 2 })
}

// A node whose agent would stack the update instead of superseding is left out.
func TestOlderAgentSupersedesNothing(t *testing.T) {
	f := newFleet(t)
	if err := f.hub.Begin("user:7:test", newerSpec(), testPlan(t, "all"), []string{"a"}, nil); err != nil {
		t.Fatal(err)
	}
	f.hub.Report("a", Report{ID: "two", Report: roll.Report{Boot: "1", Stamp: 1, Fits: true, Phase: roll.Staged}})
	if n := f.list("newer").Nodes[0]; !strings.Contains(n.Failed, "its agent does not know --supersede: update skep there") {
		t.Errorf("%+v", n)
	}
}
