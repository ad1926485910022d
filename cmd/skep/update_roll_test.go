// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"skep/dynamos/update"
	"skep/dynamos/update/pack"
	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
	"skep/grid/agent"
	"skep/grid/hub"
	"skep/grid/rolls"
	"skep/internal/cli"
	"skep/internal/uapi"
)

// A rollKernel is the kernel of one node: it has at most one update.
type rollKernel struct {
	mu        sync.Mutex
	info      uapi.DynamosInfo
	loaded    bool
	applied   []uapi.DynamosPolicy
	flags     uint32 // of the last APPLY
	build     string // the kernel's build-id; empty: that of the office's package
	functions uint32 // that its updates change
}

func (k *rollKernel) BuildID() (string, error)       { return cmp.Or(k.build, strings.Repeat("01", 20)), nil }
func (k *rollKernel) Close() error                   { return nil }
func (k *rollKernel) HasModule(string) (bool, error) { return true, nil }

func (k *rollKernel) change(state uapi.DynamosState, p *uapi.DynamosPolicy) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if state != 0 {
		k.info.State = state
	}
	if p != nil {
		k.info.Policy = *p
		k.applied = append(k.applied, *p)
	}
	return nil
}

func (k *rollKernel) Load(name string, _ []byte) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loaded = true
	copy(k.info.Name[:], name)
	k.info.State, k.info.Functions = uapi.DynamosLoaded, k.functions
	return true, nil
}

func (k *rollKernel) Apply(_ context.Context, _ string, a *uapi.DynamosApply) (uapi.DynamosInfo, error) {
	k.flags = a.Flags
	return k.info, k.change(uapi.DynamosTrial, &a.Policy)
}

func (k *rollKernel) SetPolicy(_ string, p uapi.DynamosPolicy) error { return k.change(0, &p) }
func (k *rollKernel) Commit(string) error                            { return k.change(uapi.DynamosCommitted, nil) }
func (k *rollKernel) CommitFor(_ string, p uapi.DynamosPolicy) error {
	return k.change(uapi.DynamosCommitted, &p)
}
func (k *rollKernel) TakesRolls() error { return nil }

// Events returns none.
func (k *rollKernel) Events() ([]uapi.DynamosEvent, error) { return nil, nil }

func (k *rollKernel) Revert(string, bool) error { return k.change(uapi.DynamosLoaded, nil) }

func (k *rollKernel) Remove(string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.loaded = false
	return nil
}

func (k *rollKernel) Info(n uint32) (uapi.DynamosInfo, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if n > 0 || !k.loaded {
		return k.info, update.ErrNoMore
	}
	return k.info, nil
}

// Count returns figures of the older version, 0, and of the newer one.
func (k *rollKernel) Count(_ string, _, version uint32) (c uapi.DynamosCount, err error) {
	copy(c.Symbol[:], "arp_ioctl")
	c.In, c.Out = 40-uint64(version), 38
	c.Sampled, c.Latency[10+version] = 1, 1
	return c, nil
}

func (k *rollKernel) state() (uapi.DynamosState, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.info.State, k.loaded
}

// A rollFleet is a hub with nodes, whose operators are those of an office.
type rollFleet struct {
	*office
	hub     *hub.Hub
	state   string
	kernels map[string]*rollKernel
	settles atomic.Bool // restored updates are on trial
}

func newRollFleet(t *testing.T, names ...string) *rollFleet {
	t.Helper()
	o := newOffice(t)
	o.now = time.Now()
	o.pin()
	dir, err := os.MkdirTemp("", "roll") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := &rollFleet{office: o, state: dir, kernels: map[string]*rollKernel{}}
	f.hub, err = hub.Open(hub.Config{State: hubState(dir), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.hub.Close)
	for _, name := range names {
		f.join(name)
	}
	return f
}

// node returns a node. One whose name begins with "x" has no keys.
func (f *rollFleet) node(name string) (*update.RollNode, *rollKernel) {
	f.t.Helper()
	k := &rollKernel{}
	store := &trust.Store{Dir: f.path(name + "-keys")}
	if !strings.HasPrefix(name, "x") {
		if err := os.CopyFS(store.Dir, os.DirFS(f.path("node"))); err != nil {
			f.t.Fatal(err)
		}
	}
	return &update.RollNode{Trust: store, Keep: &update.Keep{Dir: f.path(name + "-kept"), Run: f.path(name + "-run")}, Settles: f.settles.Load,
		BootID: "boot", Now: time.Now, IsRoot: true, Root: f.path("root"), Build: k.BuildID, Open: func() (update.RollKernel, error) { return k, nil }}, k
}

// join adds a node to the hub.
func (f *rollFleet) join(name string) { f.joinWith(name, "") }

// joinWith adds a node whose kernel has a build-id.
func (f *rollFleet) joinWith(name, build string) {
	f.t.Helper()
	n, k := f.node(name)
	k.build = build
	f.kernels[name] = k
	c := agent.Config{State: filepath.Join(f.state, name), Name: name, Slots: 1, Rolls: n.Rolls(), Log: func(format string, args ...any) {
		f.t.Logf(name+": "+format, args...)
	}}
	if err := joinHere(f.t.Context(), f.hub, &c); err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = agent.Run(ctx, c) }()
	f.t.Cleanup(func() { cancel(); <-done })
}

func (f *rollFleet) sign(widest string) {
	f.t.Helper()
	f.signAs(7, widest)
}

func (f *rollFleet) signAs(sequence int, widest string) {
	f.t.Helper()
	f.skep(0, fmt.Sprintf("update sign %%s --key %%s --sequence %d --trial 1h --widest %s", sequence, widest), "fix.skepup", "alice")
	f.skep(0, "update sign %s --key %s", "fix.skepup", "bob")
}

// await waits until the nodes take part.
func (f *rollFleet) await(what string, is func() bool) {
	f.t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for end := time.After(copiedTimeout); !is(); {
		select {
		case <-poll.C:
		case <-end:
			f.t.Fatalf("%s never came", what)
		}
	}
}

func (f *rollFleet) awaitNodes(n int) {
	f.t.Helper()
	f.await("the nodes", func() bool { list, err := hub.SelectNodes(f.hub.Nodes(), "all"); return err == nil && len(list) == n })
}

// A roll from the command line to the kernels of its nodes, over real connections.
func TestUpdateRoll(t *testing.T) {
	f := newRollFleet(t, "a", "b", "xc")
	f.awaitNodes(3)
	f.kernels["a"].functions, f.kernels["b"].functions = 1, 1
	line := "update roll %s --supersede --state " + f.state + " --waves 1,all --canary-time 1s --settle 1s"
	if _, text := f.skep(cli.Refused, line, "fix.skepup"); !strings.Contains(text, "nobody signed fix") {
		t.Error(text)
	}
	f.sign("uid=1000")
	out, _ := f.skep(0, line, "fix.skepup")
	for _, want := range []string{"begun for 3 nodes", "xc is left out: it refused: this node has no keys of operators", "wave 2 of 2 begins", "a: committed", "done"} {
		if !strings.Contains(out, want) {
			t.Errorf("the roll does not say %q:\n%s", want, out)
		}
	}
	for name, want := range map[string]bool{"a": true, "b": true, "xc": false} {
		k := f.kernels[name]
		state, loaded := k.state()
		if got := loaded && state == uapi.DynamosCommitted; got != want {
			t.Errorf("%s: committed %v", name, got)
		}
		if supersedes := k.flags == uapi.DynamosSupersede; supersedes != want {
			t.Errorf("%s: supersedes older updates: %v", name, supersedes)
		}
		if !want {
			continue
		}
		f.await("the policy without an end", func() bool {
			k.mu.Lock()
			defer k.mu.Unlock()
			r := k.info.Policy.Rule[0]
			return r.UID == 1000 && r.Terms == uapi.DynamosUID
		})
		for _, p := range k.applied[:len(k.applied)-1] {
			for _, r := range p.Rule[:p.Rules] {
				if p.Otherwise != 0 || r.Terms&uapi.DynamosWindow == 0 || r.UID != 1000 {
					t.Errorf("%s on trial: %+v", name, r)
				}
			}
		}
	}
	out, _ = f.skep(0, "update rolls --state "+f.state)
	if !strings.Contains(out, "fix     done   2/2   3      0       2          1") {
		t.Error(out)
	}
	out, _ = f.skep(0, "update rolls fix --state "+f.state)
	for _, want := range []string{"first for share=6553 uid=1000", "then for uid=1000", "committed"} {
		if !strings.Contains(strings.Replace(out, "uid=1000 share=6553", "share=6553 uid=1000", 1), want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	f.await("the figures of both nodes", func() bool {
		out, _ = f.skep(0, "top --count 1 --interval 0.1 --state "+f.state)
		return strings.Contains(out, "  arp_ioctl: old 80 calls, 0 errors, 99 % in 2µs; new 78 calls, 0 errors, 99 % in 4.1µs\n")
	})
	out, _ = f.skep(0, "update rolls fix --state "+f.state)
	for _, want := range []string{"FUNCTION   NODE  VERSION  CALLS  INSIDE  ERRORS  P50    P99", "arp_ioctl  b     old      40     2       0       1.5µs  2µs", "                 new      39     1       0       3.1µs  4.1µs"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	f.checkPage()
	out, _ = f.skep(0, "update rolls --audit fix --state "+f.state)
	for _, want := range []string{" operators roll fix 7 ", " a applied fix 7 ", " a committed fix 7 ", " b committed fix 7 ", " xc refused fix 7 ", " begun fix ", " hub done fix ", "8 lines of 11, which follow one another"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in the audit log:\n%s", want, out)
		}
	}
	if strings.Count(out, "SHA256:") != 2 {
		t.Errorf("the order does not name both keys: %s", out)
	}
	f.skep(0, "update rolls --forget fix --state "+f.state)
	if _, text := f.skep(cli.Unreachable, "update rolls fix --state "+f.state); !strings.Contains(text, "there is no roll of this update") {
		t.Error(text)
	}
}

// With --per, a node runs the update first for a tenth of its users or cgroups, of what is signed.
func TestUpdateRollPerUnit(t *testing.T) {
	f := newRollFleet(t, "a")
	f.awaitNodes(1)
	f.sign("gid=7")
	f.skep(0, "update roll %s --per cgroup --state "+f.state+" --waves all --canary-time 1s --settle 1s", "fix.skepup")
	out, _ := f.skep(0, "update rolls fix --state "+f.state)
	if !strings.Contains(out, "first for gid=7 share=6553:cgroup\nthen for gid=7\n") {
		t.Error(out)
	}
	k, first, whole := f.kernels["a"], 0, 0
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.applied {
		r := p.Rule[0]
		switch {
		case p.Rules == 0 && p.Otherwise == 0: // for nobody
		case p.Rules != 1 || p.Otherwise != 0 || r.GID != 7 || r.Terms&uapi.DynamosGID == 0:
			t.Errorf("wider than signed: %+v", p)
		case r.Terms&uapi.DynamosShare == 0:
			whole++
		case r.Share != 6553 || r.Per != uapi.DynamosPerCgroup || whole > 0:
			t.Errorf("not a tenth of the cgroups, first: %+v", r)
		default:
			first++
		}
	}
	if first == 0 || whole == 0 {
		t.Errorf("%d policies for a tenth, and %d for all", first, whole)
	}
}

// checkPage reports an error if the hub's page has no figures of functions, or does not say who
// did what by which keys.
func (f *rollFleet) checkPage() {
	f.t.Helper()
	o, err := f.hub.Overview()
	if err != nil || o.NoAudit != "" || len(o.Rolls) != 1 || len(o.Rolls[0].Nodes[0].Functions) != 1 {
		f.t.Fatalf("%+v, %v", o, err)
	}
	if v := o.Rolls[0].Nodes[0].Functions[0]; v.New != (rolls.Version{Calls: 39, Inside: 1, P50: v.New.P50, P99: v.New.P99}) || v.New.P50 <= v.Old.P50 {
		f.t.Errorf("%+v", v)
	}
	order := slices.IndexFunc(o.Acts, func(a hub.Act) bool { return a.What == "roll" })
	if order < 0 || o.Acts[order].Who != "operators" || len(o.Acts[order].Keys) != 2 || o.Acts[order].Sequence != 7 || o.Acts[0].Number != uint64(len(o.Acts)) {
		f.t.Errorf("acts %+v", o.Acts)
	}
}

// sisterPackage writes the office's package once more, for another kernel, and signs it.
func (f *rollFleet) sisterPackage(build, widest string) {
	f.t.Helper()
	p, _, err := readPackage(f.path("fix.skepup"))
	if err != nil {
		f.t.Fatal(err)
	}
	k := p.Kernels[0]
	k.BuildID, k.Release = build, "6.12.95"
	sister := &pack.Package{Manifest: p.Manifest, Patch: p.Patch, Modules: map[string][]byte{build: []byte("\x7fELF and other")}}
	sister.Kernels = []pack.Kernel{k}
	if err := pack.WriteFile(f.path("sister.skepup"), sister); err != nil {
		f.t.Fatal(err)
	}
	f.skep(0, "update sign %s --key %s --line fix-6_12 --sequence 3 --trial 1h --widest "+widest, "sister.skepup", "alice")
	f.skep(0, "update sign %s --key %s", "sister.skepup", "bob")
}

// A package for each kernel: nodes take the one that fits, and a node with none is named
// with its kernel. The audit log has an order about each.
func TestUpdateRollOfSeveralKernels(t *testing.T) {
	f := newRollFleet(t, "a")
	other, third := strings.Repeat("02", 20), strings.Repeat("03", 20)
	f.joinWith("b", other)
	f.joinWith("c", third)
	f.awaitNodes(3)
	f.sign("uid=1000")
	if _, text := f.skep(cli.Refused, "update roll %s %s --state "+f.state, "fix.skepup", "fix.skepup"); !strings.Contains(text, "two packages are for the kernel 6.1.0-50-amd64") {
		t.Error(text)
	}
	f.sisterPackage(other, "uid=1001")
	line := "update roll %s %s --waves 1,all --canary-time 1s --settle 1s --state " + f.state
	if _, text := f.skep(cli.Refused, line, "fix.skepup", "sister.skepup"); !strings.Contains(text, "different policies (uid=1000, and uid=1001): give --policy") {
		t.Error(text)
	}
	f.sisterPackage(other, "uid=1000")
	out, _ := f.skep(0, line, "fix.skepup", "sister.skepup")
	if want := "c is left out: it refused: none of the 2 packages of the roll is for this kernel"; !strings.Contains(out, want) || !strings.Contains(out, third) {
		t.Errorf("no %q in %s", want, out)
	}
	for name, want := range map[string]bool{"a": true, "b": true, "c": false} {
		if state, loaded := f.kernels[name].state(); (loaded && state == uapi.DynamosCommitted) != want {
			t.Errorf("%s: %v, loaded %v", name, state, loaded)
		}
	}
	out, _ = f.skep(0, "update rolls --audit fix --state "+f.state)
	for _, want := range []string{" operators roll fix 7 ", " operators roll fix-6_12 3 ", " a committed fix 7 ", " b committed fix-6_12 3 "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in the audit log:\n%s", want, out)
		}
	}
}

// What a kernel reverts stops the roll; every node unloads the update, and the node that
// was harmed takes the package from no hub again.
func TestUpdateRollThatHarms(t *testing.T) {
	f := newRollFleet(t, "a", "b")
	f.awaitNodes(2)
	f.sign("all")
	f.skep(0, "update roll %s --detach --waves all --settle 20m --state "+f.state, "fix.skepup")
	a := f.kernels["a"]
	f.await("the trial", func() bool {
		s, loaded := f.kernels["b"].state()
		return loaded && s == uapi.DynamosTrial && len(f.kernels["b"].applied) > 1
	})
	a.mu.Lock()
	a.info.State = uapi.DynamosLoaded
	copy(a.info.End[:], "WARN at net/ipv4/arp.c:1")
	a.mu.Unlock()
	f.await("the end", func() bool { _, one := a.state(); _, other := f.kernels["b"].state(); return !one && !other })
	out, _ := f.skep(0, "update rolls fix --state "+f.state)
	if !strings.Contains(out, "fix: stopped: a: WARN at net/ipv4/arp.c:1") {
		t.Error(out)
	}
	for name, want := range map[string]int{"a": 1, "b": 0} {
		s, err := (&trust.Store{Dir: f.path(name + "-keys")}).Load()
		if err != nil || len(s.Blocked) != want {
			t.Errorf("%s: blocked %v, %v", name, s.Blocked, err)
		}
	}
	if _, text := f.skep(cli.Failed, "update rolls --resume fix --state "+f.state); !strings.Contains(text, "cannot be changed by resume") {
		t.Error(text)
	}
	_, text := f.skep(cli.Failed, "update roll %s --waves all --state "+f.state, "fix.skepup")
	if want := "this package of fix harmed a node, and the hub gives it to no other (a: WARN at net/ipv4/arp.c:1): mend the fix, then build and sign it anew"; !strings.Contains(text, want) {
		t.Error(text)
	}
	for _, sequence := range []int{7, 8} { // the same contents, in another file
		f.signAs(sequence, "all --replace")
		if _, text := f.skep(cli.Failed, "update roll %s --waves all --state "+f.state, "fix.skepup"); !strings.Contains(text, "harmed a node") {
			t.Errorf("signed again with the sequence %d: %s", sequence, text)
		}
	}
}

// A hub that was taken over cannot change the log of a roll.
func TestUpdateRollAuditForged(t *testing.T) {
	f := newRollFleet(t, "a", "b")
	f.awaitNodes(2)
	f.sign("all")
	f.skep(0, "update roll %s --waves all --canary-time 1s --settle 1s --state "+f.state, "fix.skepup")
	c, err := openControl(f.state)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := newTrust().Load()
	if err != nil {
		t.Fatal(err)
	}
	for what, forge := range map[string]func(a *rolls.Audit){
		"a line changed":           func(a *rolls.Audit) { a.Lines[4] = strings.Replace(a.Lines[4], " applied ", " reverted ", 1) },
		"a line left out":          func(a *rolls.Audit) { a.Lines = append(a.Lines[:1], a.Lines[2:]...) },
		"a line twice":             func(a *rolls.Audit) { a.Lines = append(a.Lines, a.Lines[1]) },
		"the beginning left":       func(a *rolls.Audit) { a.Lines = a.Lines[1:] },
		"another sequence":         func(a *rolls.Audit) { a.Lines = a.Lines[:4]; a.Lines[3] = strings.Replace(a.Lines[3], " 7 ", " 8 ", 1) },
		"no signed document":       func(a *rolls.Audit) { a.Documents = nil },
		"a key that is false":      func(a *rolls.Audit) { a.Lines = a.Lines[:4]; a.Lines[3] = a.Lines[3][:len(a.Lines[3])-1] },
		"no contents, no document": func(a *rolls.Audit) { a.Contents, a.Documents = nil, nil },
	} {
		a, err := c.AuditRoll(t.Context(), "fix") // two nodes joined; begun, ordered; four steps, and done
		if err != nil || len(a.Lines) != 9 {
			t.Fatalf("%v: %q", err, a.Lines)
		}
		about, seen, err := a.Verify(keys, "fix")
		if err != nil || len(about) != 7 || seen.Lines != 9 {
			t.Fatalf("%q, %+v, %v", about, seen, err)
		}
		forge(&a)
		if _, _, err := a.Verify(keys, "fix"); trust.Name(err) != trust.Forged {
			t.Errorf("%s: %v", what, err)
		}
		a.Lines = a.Lines[:3]
		if err := a.Continues(seen); trust.Name(err) != trust.Cut {
			t.Errorf("the end is cut: %v", err)
		}
	}
	seenFile = f.path("seen")
	defer func() { seenFile = "" }()
	if err := os.WriteFile(seenFile, []byte(`{"lines":99,"root":"`+strings.Repeat("ab", 32)+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, text := f.skep(cli.Refused, "update rolls --audit fix --state "+f.state); !strings.Contains(text, "its end was cut off") {
		t.Error(text)
	}
	os.Remove(seenFile)
	f.skep(0, "update rolls --forget fix --state "+f.state)
	out, _ := f.skep(0, "update rolls --audit fix --state "+f.state)
	if user := fmt.Sprintf(" user:%d:", os.Getuid()); !strings.Contains(out, user) || !strings.Contains(out, " forgotten fix 7 ") {
		t.Errorf("who forgot the roll is not in the log:\n%s", out)
	}
}

// A node takes part while updates that it restored are on trial, loads nothing, and says why.
func TestUpdateRollWhileSettling(t *testing.T) {
	f := newRollFleet(t)
	f.settles.Store(true)
	f.join("a")
	f.awaitNodes(1)
	f.sign("all")
	f.skep(0, "update roll %s --detach --waves all --canary-time 1s --settle 1s --state "+f.state, "fix.skepup")
	f.await("the reason", func() bool {
		out, _ := f.skep(0, "update rolls fix --state "+f.state)
		return strings.Contains(out, "settling: updates that were restored after the boot are on trial")
	})
	if _, loaded := f.kernels["a"].state(); loaded {
		t.Error("it was loaded")
	}
	f.settles.Store(false)
	f.await("the commit", func() bool { s, loaded := f.kernels["a"].state(); return loaded && s == uapi.DynamosCommitted })
	if out, _ := f.skep(0, "update rolls fix --state "+f.state); strings.Contains(out, "settling") {
		t.Errorf("it still waits:\n%s", out)
	}
}

// After a package was loaded, no step opens and digests it again.
func TestUpdateRollOpensThePackageTwice(t *testing.T) {
	f := newRollFleet(t)
	f.sign("all")
	n, k := f.node("a")
	u := f.rolled(n, false)
	if err := errors.Join(u.Stage(), u.Load()); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(n.Keep.Run); err != nil {
		t.Fatal(err)
	}
	for _, p := range []roll.Phase{roll.Canary, roll.Full} {
		if err := u.Select(p, time.Hour); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
	content, err := u.Content()
	if err := errors.Join(u.Commit(), err, u.Fail(content, "a test")); err != nil {
		t.Error(err)
	}
	if s, _ := k.state(); s != uapi.DynamosCommitted {
		t.Errorf("it is %v", s)
	}
}

// rolled returns the signed update of the office on a node.
func (f *rollFleet) rolled(n *update.RollNode, supersede bool) rolls.Update {
	f.t.Helper()
	text, err := os.ReadFile(f.path("fix.skepup"))
	if err != nil {
		f.t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	spec := rolls.Spec{ID: "one", Name: "fix", Package: hex.EncodeToString(sum[:]), Canary: "share=6553", Policy: "all", Trial: time.Hour, Lease: time.Second, Supersede: supersede}
	return n.Rolls().Open(spec, func(string) ([]byte, error) { return text, nil })
}

// An update is loaded again when the last task has left it, and not before. Supersede
// reaches the kernel, and a superseded update is told from one that did harm.
func TestUpdateRollAgain(t *testing.T) {
	f := newRollFleet(t)
	f.sign("all")
	n, k := f.node("a")
	u := f.rolled(n, true)
	if err := u.Stage(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Load("fix", nil); err != nil {
		t.Fatal(err)
	}
	k.info.State = uapi.DynamosLeaving
	if err := u.Load(); !errors.Is(err, roll.ErrLater) {
		t.Errorf("while tasks are inside: %v", err)
	}
	k.info.State = uapi.DynamosLoaded
	if err := u.Load(); err != nil || k.flags != uapi.DynamosSupersede {
		t.Errorf("%v, flags %d", err, k.flags)
	}
	k.info.State = uapi.DynamosLoaded
	if err := f.rolled(n, false).Load(); err != nil || k.flags != 0 {
		t.Errorf("%v, flags %d", err, k.flags)
	}
	for cause, want := range map[uapi.DynamosCause]bool{uapi.DynamosSuperseded: true, uapi.DynamosWarned: false} {
		for _, state := range []uapi.DynamosState{uapi.DynamosLeaving, uapi.DynamosLoaded, uapi.DynamosCommitted} {
			k.info.State, k.info.Cause = state, cause
			v, err := u.Look()
			if err != nil || v.Superseded != (want && state != uapi.DynamosCommitted) {
				t.Errorf("%v %v: %+v, %v", cause, state, v, err)
			}
		}
	}
}

// With the commit of an update, what it superseded is no longer kept for the next boot.
func TestUpdateRollForgetsWhatItSupersedes(t *testing.T) {
	f := newRollFleet(t)
	n, k := f.node("a")
	if err := os.MkdirAll(n.Keep.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[uapi.DynamosState]bool{uapi.DynamosCommitted: true, uapi.DynamosLeaving: false, uapi.DynamosLoaded: false} {
		file := filepath.Join(n.Keep.Dir, "old.json")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Load("old", nil); err != nil {
			t.Fatal(err)
		}
		k.info.State = state
		if err := n.Keep.ForgetEnded(k); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(file); (err == nil) != want {
			t.Errorf("%v: %v", state, err)
		}
	}
}

func TestUpdateRollOptions(t *testing.T) {
	f := newRollFleet(t)
	f.sign("all")
	for line, want := range map[string]string{
		"update roll":                              "a package is expected",
		"update roll %s --waves 5,1,all":           "each wave must be larger",
		"update roll %s --canary everybody":        "is not a term",
		"update roll %s --policy uid=x":            "is not a term",
		"update roll %s --settle 0s":               "take times",
		"update roll %s --per pid":                 "--per takes uid, cgroup or share",
		"update roll %s --per uid --canary uid=7":  "leave --per out, or write --canary 'share=10%:uid'",
		"update rolls --pause":                     "--pause expects a value",
		"update rolls --pause fix --stop fix":      "give one of",
		"update rolls fix --forget fix":            "give one of",
		"update roll %s --waves 1,all --settle 1h": "sign the package with a longer --trial",
		"update roll %s":                           "no node can take kernel updates",
	} {
		code := cli.Usage
		if strings.Contains(want, "--trial") || strings.HasPrefix(want, "no node") {
			code = cli.Failed
			line += " --state " + f.state
		}
		if _, text := f.skep(code, line, "fix.skepup"); !strings.Contains(text, want) {
			t.Errorf("%s: %s", line, text)
		}
	}
}

// The first policy selects a tenth of the processes, users or cgroups of the whole one.
func TestCanaryPolicy(t *testing.T) {
	for text, want := range map[string]string{
		"uid: all":                  "share=6553:uid",
		"cgroup: all, except uid=0": "share=6553:cgroup, except uid=0",
		"share: uid=7":              "uid=7 share=6553",
		"share=50%:uid":             "share=3276:uid",
		"uid: share=50%:uid":        "share=3276:uid",
		"cgroup: comm=make, gid=6":  "comm=make share=6553:cgroup, gid=6 share=6553:cgroup",
		"all":                       fmt.Sprintf("share=%d", uapi.DynamosShareMax/10),
		"all, except comm=sshd":     fmt.Sprintf("share=%d, except comm=sshd", uapi.DynamosShareMax/10),
		"uid=5, gid=6 share=50%":    fmt.Sprintf("uid=5 share=%d, gid=6 share=%d", uapi.DynamosShareMax/10, uapi.DynamosShareMax/20),
		"comm=sh share=1":           "comm=sh share=1",
	} {
		unit, text, given := strings.Cut(text, ": ")
		if !given {
			unit, text = "", unit
		}
		p, err := trust.ParsePolicy(text)
		if err != nil {
			t.Fatal(err)
		}
		c, err := canaryOf(p, unit)
		if err != nil || c.String() != want {
			t.Errorf("%s: %s, want %s: %v", text, c, want, err)
		}
		k, err := c.Kernel(1, nil)
		if err != nil || !p.Contains(&k, nil) {
			t.Errorf("%s is wider than %s: %v", c, p, err)
		}
	}
	p, err := trust.ParsePolicy("comm=sh, uid=5 share=50%")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := canaryOf(p, "cgroup"); err == nil || !strings.Contains(err.Error(), "uid=5 share=32768, and a tenth of other units is no part of it") {
		t.Error(err)
	}
}
