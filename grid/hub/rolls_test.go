// SPDX-License-Identifier: MIT

package hub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/roll"
	"skep/grid/proto"
	"skep/grid/rolls"
)

// writePackage writes an update of a kernel with this build-id, which nobody signed.
func writePackage(t *testing.T, build string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fix"+pack.Suffix)
	p := &pack.Package{Manifest: pack.Manifest{Revision: pack.Revision, Name: "fix", Class: pack.Any, Proposed: pack.Any,
		Files: []string{"net/ipv4/arp.c"}, Kernels: []pack.Kernel{{BuildID: build, Release: "6.1.0-50-amd64", Version: "6.1.176-1",
			Functions: []pack.Function{{Symbol: pack.Symbol{Name: "arp_ioctl"}, File: "net/ipv4/arp.c", Type: "int arp_ioctl(void)",
				Args: 3, Result: pack.Int, OldSize: 100, Size: 120, Original: strings.Repeat("0", 64)}}}}},
		Patch: []byte("--- a\n+++ b\n"), Modules: map[string][]byte{build: []byte("\x7fELF and more")}}
	if err := pack.WriteFile(path, p); err != nil {
		t.Fatal(err)
	}
	return path
}

// requestRoll returns the request for a roll of packages.
func requestRoll(digests ...string) RollRequest {
	s := rolls.Spec{Name: "fix", Package: digests[0], Canary: "uid=7", Policy: "all", Trial: time.Hour, Lease: roll.DefaultTimes.Lease}
	if len(digests) > 1 {
		s.Package = ""
		for _, d := range digests {
			s.Variants = append(s.Variants, rolls.Variant{Package: d})
		}
	}
	return RollRequest{Spec: s, Plan: roll.Plan{Waves: []roll.Wave{{Percent: 100}}, Times: roll.DefaultTimes}}
}

// startRoller returns an agent that takes part in rolls.
func (w *world) startRoller() *fakeAgent {
	w.t.Helper()
	a := w.join()
	a.orders = make(chan rolls.Order, 100)
	a.connect()
	if v := a.helloWith(proto.Hello{Revision: proto.Revision, OS: "linux", Substrate: "linux", CPUs: 1, Slots: 1, Boot: "b", Rolls: true}); v.Problem != nil {
		w.t.Fatal(v.Problem)
	}
	return a
}

// store stores a package at the hub, and returns its digest.
func (w *world) store(path string) string {
	w.t.Helper()
	b, err := w.cli.Package(w.t.Context(), path)
	if err != nil {
		w.t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || b.Size != info.Size() {
		w.t.Errorf("%d bytes were stored, %v", b.Size, err)
	}
	return b.Digest
}

// What the hub refuses to store or to roll out, with words and codes.
func TestRollsThatAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	none := filepath.Join(t.TempDir(), "none")
	if _, err := w.cli.Package(t.Context(), none); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
	_, err := w.cli.Package(t.Context(), filepath.Join(w.dirs, "mod.rex"))
	wantProblem(t, "a program", err, proto.ProblemRequest, "it is not a usable package: ")
	one, two := w.store(writePackage(t, strings.Repeat("01", 20))), w.store(writePackage(t, strings.Repeat("02", 20)))
	begin := func(what, code, text string, digests ...string) {
		t.Helper()
		_, err := w.cli.BeginRoll(t.Context(), requestRoll(digests...))
		wantProblem(t, what, err, code, text)
	}
	program := strings.Repeat("3", 64)
	if b, err := w.cli.Program(t.Context(), filepath.Join(w.dirs, "mod.rex")); err == nil {
		program = b.Digest
		begin("a program", proto.ProblemRequest, "it is not a usable package: ", program)
	}
	begin("a package that is not there", proto.ProblemGone, "the hub does not have this package: send it first", strings.Repeat("4", 64))
	begin("no digest", proto.ProblemRequest, "the package is not named by its digest", "x")
	begin("one package twice", proto.ProblemRequest, "two packages are for the kernel 6.1.0-50-amd64", one, one)
	begin("a roll without nodes", proto.ProblemRequest, "no node can take kernel updates", one, two)
	if list := w.hub.rolls.Packages(); len(list) != 0 {
		t.Errorf("there are the rolls %v", list)
	}
	_, err = w.cli.Rolls(t.Context(), "fix")
	wantProblem(t, "the list", err, proto.ProblemGone, rolls.ErrNoRoll.Error())
	_, err = w.cli.AuditRoll(t.Context(), "fix")
	if err != nil {
		wantProblem(t, "the audit log", err, proto.ProblemGone, rolls.ErrNoRoll.Error())
	}
	wantProblem(t, "a pause", w.cli.ChangeRoll(t.Context(), "fix", rolls.ActionPause), proto.ProblemGone, rolls.ErrNoRoll.Error())
}

// Without a place on the disk no package is taken.
func TestPackageThatCannotBeStored(t *testing.T) {
	w := newWorld(t, nil)
	if err := os.RemoveAll(filepath.Join(w.hub.cfg.State, "blobs")); err != nil {
		t.Fatal(err)
	}
	_, err := w.cli.Package(t.Context(), writePackage(t, strings.Repeat("01", 20)))
	wantProblem(t, "a package", err, proto.ProblemFull, "the package cannot be stored: ")
}

// Nodes hear of a roll when it begins, or after they connect, and their reports are answered.
func TestRollReachesItsNodes(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startRoller()
	w.startAgent(1) // takes part in no rolls
	one, two := w.store(writePackage(t, strings.Repeat("01", 20))), w.store(writePackage(t, strings.Repeat("02", 20)))
	list, err := w.cli.BeginRoll(t.Context(), requestRoll(one, two))
	if err != nil || len(list) != 1 || list[0].Spec.Package != one || len(list[0].Nodes) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	id := list[0].Spec.ID
	if o := receiveFrom(t, "the roll", a.orders); o.Spec.ID != id || o.Order.Boot != "" || len(o.Spec.Variants) != 2 {
		t.Errorf("the node hears of %+v", o)
	}
	late := w.startRoller()
	if o := receiveFrom(t, "the roll, later", late.orders); o.Spec.ID != id {
		t.Errorf("a later node hears of %+v", o)
	}
	a.sendVerb(proto.VerbRoll, rolls.Report{ID: id, Report: roll.Report{Boot: "b"}}, nil)
	if o := receiveFrom(t, "an answer", a.orders); o.Order.Boot != "b" {
		t.Errorf("the answer is %+v", o)
	}
	for _, c := range []struct{ action, code, text string }{
		{rolls.ActionForget, proto.ProblemRequest, "stop it first"}, {rolls.ActionPause, "", ""},
		{rolls.ActionPause, proto.ProblemRequest, "it cannot be changed by pause"}, {rolls.ActionStop, "", ""}, {rolls.ActionForget, "", ""},
	} {
		err := w.cli.ChangeRoll(t.Context(), "fix", c.action)
		if c.code == "" && err == nil {
			continue
		}
		wantProblem(t, c.action, err, c.code, c.text)
	}
	if list, err = w.cli.Rolls(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("at the end there are %+v, %v", list, err)
	}
}

// Packages of a roll stay as long as the roll, also over a restart, and no longer.
func TestRollKeepsItsPackages(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.BlobLimit = 1 })
	w.startRoller()
	digest := w.store(writePackage(t, strings.Repeat("01", 20)))
	if _, err := w.cli.BeginRoll(t.Context(), requestRoll(digest)); err != nil {
		t.Fatal(err)
	}
	w.hub.Close()
	cfg := w.hub.cfg
	cfg.Listen = "127.0.0.1:0"
	h, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	w.hub = h
	other := w.store(writePackage(t, strings.Repeat("02", 20)))
	if !h.blobs.Has(digest) || !h.blobs.Has(other) {
		t.Error("a package of a roll, or one that was just sent, is gone")
	}
	for _, action := range []string{rolls.ActionStop, rolls.ActionForget} {
		if err := w.cli.ChangeRoll(t.Context(), "fix", action); err != nil {
			t.Fatal(err)
		}
	}
	if h.blobs.Has(digest) {
		t.Error("the package of a roll that was forgotten is still there")
	}
}

// A hub whose numbers are lost does not start: it could give a number twice.
func TestHubWithoutItsNumbers(t *testing.T) {
	dir := shortDir(t)
	if err := os.WriteFile(filepath.Join(dir, "fences"), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err := Open(Config{State: dir, Listen: "127.0.0.1:0"}); err == nil || !strings.Contains(err.Error(), "fences is damaged") {
		if err == nil {
			h.Close()
		}
		t.Errorf("it starts: %v", err)
	}
}
