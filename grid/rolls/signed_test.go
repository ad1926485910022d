// SPDX-License-Identifier: MIT

package rolls

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/dynamos/update/pack"
	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
)

// An operator has a key, and nodes that trust it.
type operator struct {
	signer *trust.Signer
	keys   trust.State
}

func newOperator(t *testing.T) *operator {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if _, err := trust.CreateKey(path, "alice", nil); err != nil {
		t.Fatal(err)
	}
	s, err := trust.OpenSigner(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	k := trust.Keys{Fleet: "lab", Version: 1, Threshold: 1, Signed: now.Add(-time.Hour), Expires: now.Add(time.Hour), Keys: []trust.Key{s.Key}, Floors: map[string]uint64{}}
	o := &operator{signer: s}
	if o.keys, _, err = (trust.State{}).Pin(o.sign(k.Encode()), now, false); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *operator) sign(text []byte) []byte {
	doc := &trust.Signed{Text: text}
	doc.Sign(o.signer)
	return doc.Encode()
}

// pack returns a package of this line, signed by the operator.
func (o *operator) pack(t *testing.T, line, content string) *pack.Package {
	t.Helper()
	widest, err := trust.ParsePolicy("all")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	p := trust.Package{Line: line, Sequence: 7, Name: "fix", Class: pack.Any, Content: content, Signed: now.Add(-time.Hour), Expires: now.Add(time.Hour), Trial: time.Minute, Widest: widest}
	made := changes("arp_ioctl")[0]
	made.Signatures = o.sign(p.Encode())
	return made
}

// linesOf returns the lines of the log that have these words, without number and time.
func linesOf(list []string, words string) (n int) {
	for _, line := range list {
		if strings.Contains(line, words) {
			n++
		}
	}
	return n
}

// The log names each first step of each node, once, also over restarts of the hub, and the
// operators' keys prove who ordered the roll.
func TestAuditOfASignedRoll(t *testing.T) {
	f, o := newFleet(t, "a", "b b", "c"), newOperator(t)
	f.nodes["b b"].k.refuse["stage package"] = errors.New("no room")
	if err := f.hub.NodeEvent("token", trust.VerbJoined, "d"); err != nil {
		t.Fatal(err)
	}
	if err := f.hub.Begin("user:7:test", testSpec, testPlan(t, "all"), []string{"a", "b b", "c"}, []*pack.Package{o.pack(t, "fix", strings.Repeat("c", 64))}); err != nil {
		t.Fatal(err)
	}
	f.run("the trial", func() bool { return f.nodes["a"].k.phase == roll.Full && f.nodes["c"].k.phase == roll.Full })
	f.open()
	f.nodes["c"].k.state, f.nodes["c"].k.end = Drains, "WARN at fs/pipe.c:1"
	f.awaitState(roll.Stopped)
	f.open()
	for range 60 {
		f.step()
	}
	a, err := f.hub.Audit("fix")
	if err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]int{" user:7:test begun fix 7 ": 1, " operators roll fix 7 ": 1, " a applied fix 7 ": 1, " b%20b refused fix 7 ": 1, " b%20b ": 1,
		" c applied fix 7 ": 1, " c reverted fix 7 ": 1, " hub stopped fix 7 ": 1, " committed ": 0, " token joined d ": 1} {
		if n := linesOf(a.Lines, words); n != want {
			t.Errorf("%d lines with %q, want %d:\n%s", n, words, want, strings.Join(a.Lines, "\n"))
		}
	}
	if len(a.Documents) != 1 || !slices.Equal(a.Contents, []string{strings.Repeat("c", 64)}) {
		t.Errorf("%d documents, contents %q", len(a.Documents), a.Contents)
	}
	about, seen, err := a.Verify(o.keys, "fix")
	if err != nil || linesOf(about, " joined ") != 0 || len(about) != len(a.Lines)-1 || int(seen.Lines) != len(a.Lines) {
		t.Errorf("about %q of %d lines, seen %d, %v", about, len(a.Lines), seen.Lines, err)
	}
	if err := a.Continues(seen); err != nil {
		t.Errorf("the log does not continue itself: %v", err)
	}
	short := Audit{Lines: a.Lines[:len(a.Lines)-1]}
	if err := short.Continues(seen); trust.Name(err) != trust.Cut {
		t.Errorf("a log that was cut: %v", err)
	}
	// By another line's name only what that line has is proved.
	if other, _, err := (&Audit{Lines: a.Lines}).Verify(o.keys, "d"); err != nil || len(other) != 1 || !strings.Contains(other[0], " joined d ") {
		t.Errorf("about d: %q, %v", other, err)
	}
	if _, _, err := (&Audit{Lines: a.Lines}).Verify(o.keys, "fix"); trust.Name(err) != trust.Forged {
		t.Errorf("without the document: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(f.dir, "hub", documentsDir)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.hub.Audit("fix"); err == nil || !strings.Contains(err.Error(), "the document about line 3 of the audit log is lost") {
		t.Errorf("a lost document: %v", err)
	}
	if _, err := f.hub.Audit("nothing"); !errors.Is(err, ErrNoRoll) {
		t.Errorf("a log about nothing: %v", err)
	}
}

// Each variant has its own order, and a node's line names that of the package it takes.
func TestAuditOfSeveralPackages(t *testing.T) {
	f, o := newFleet(t, "a", "b"), newOperator(t)
	for name, build := range map[string]string{"a": builds[0], "b": builds[1]} {
		f.nodes[name].k.build = build
		f.start(name)
	}
	packages := []*pack.Package{o.pack(t, "fix", strings.Repeat("c", 64)), o.pack(t, "fix-2", strings.Repeat("d", 64))}
	if err := f.hub.Begin("user:7:test", variantSpec(), testPlan(t, "all"), []string{"a", "b"}, packages); err != nil {
		t.Fatal(err)
	}
	f.awaitState(roll.Done)
	f.run("the commits", func() bool { return f.count(committed) == 2 })
	f.run("their lines", func() bool {
		a, err := f.hub.Audit("fix")
		if err != nil {
			t.Fatal(err)
		}
		return linesOf(a.Lines, " a committed fix 7 ") == 1 && linesOf(a.Lines, " b committed fix-2 7 ") == 1 && len(a.Documents) == 2
	})
	if got := f.hub.Packages(); len(got) != 1 || !slices.Equal(got["fix"], digests) {
		t.Errorf("the packages of the roll: %q", got)
	}
}

// Operators' text that is no signed document begins nothing.
func TestRollOfADamagedDocument(t *testing.T) {
	f := newFleet(t, "a")
	packages := changes("arp_ioctl")
	packages[0].Signatures = []byte("nonsense")
	if err := f.hub.Begin("user:7:test", testSpec, testPlan(t, "all"), []string{"a"}, packages); err == nil {
		t.Error("a roll began with a damaged document")
	}
	if list, err := f.hub.List(""); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := f.hub.Audit("fix"); !errors.Is(err, ErrNoRoll) {
		t.Errorf("the log: %v", err)
	}
}

// A roll of what relies on what existing objects lack needs the operators' reason.
func TestRollWithObjectsThatExist(t *testing.T) {
	f, o := newFleet(t, "a"), newOperator(t)
	p := o.pack(t, "fix", strings.Repeat("c", 64))
	p.State, p.Kernels[0].Relies = "it is not used", []string{"f relies on x"}
	begin := func() error {
		return f.hub.Begin("user:7:test", testSpec, testPlan(t, "all"), []string{"a"}, []*pack.Package{p})
	}
	if err := begin(); trust.Name(err) != trust.Existing {
		t.Errorf("without a reason: %v", err)
	}
	doc, err := trust.ParseSigned(p.Signatures)
	if err != nil {
		t.Fatal(err)
	}
	said, err := trust.ParsePackage(doc.Text)
	if err != nil {
		t.Fatal(err)
	}
	said.ObjectsExist = "no queue is in use"
	p.Signatures = o.sign(said.Encode())
	if err := begin(); err != nil {
		t.Errorf("with a reason: %v", err)
	}
}

// A roll of an older hub, which kept no log, gets its first line when the hub starts.
func TestAuditOfAnOlderHub(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	if err := os.Remove(filepath.Join(f.dir, "hub", journalFile)); err != nil {
		t.Fatal(err)
	}
	f.open()
	f.open()
	if got := f.logged(); !slices.Equal(got, []string{"hub begun"}) {
		t.Errorf("%q", got)
	}
}

// The step of each phase, as the log calls it.
func TestStepsOfNodes(t *testing.T) {
	for _, c := range []struct {
		phase        roll.Phase
		chosen       bool
		bad, refused string
		want         string
	}{
		{roll.None, true, "", "", ""},
		{roll.Staged, true, "", "", ""},
		{roll.Staged, true, "", "no", trust.VerbRefused},
		{roll.Loaded, true, "", "", trust.VerbApplied},
		{roll.Canary, true, "", "", trust.VerbApplied},
		{roll.Full, true, "", "", trust.VerbApplied},
		{roll.Full, true, "", "no", trust.VerbApplied},
		{roll.Committed, true, "", "", trust.VerbCommit},
		{roll.Committed, true, "", "no", trust.VerbCommit},
		{roll.Leaving, true, "", "", trust.VerbReverted},
		{roll.Reverted, true, "", "", trust.VerbReverted},
		{roll.Leaving, false, "harm", "", trust.VerbReverted},
		{roll.Leaving, false, "", "", ""},
		{roll.Reverted, false, "", "", ""},
		{roll.Reverted, false, "", "no", trust.VerbRefused},
	} {
		m := &roll.Member{Chosen: c.chosen, Last: roll.Report{Phase: c.phase, Bad: c.bad, Refused: c.refused}}
		if got := stepOf(m); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
