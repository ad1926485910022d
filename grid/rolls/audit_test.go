// SPDX-License-Identifier: MIT

package rolls

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skep/dynamos/update/roll"
	"skep/dynamos/update/trust"
)

// logged returns who did what, of each line of the hub's audit log.
func (f *fleet) logged() (list []string) {
	f.t.Helper()
	a, err := f.hub.Audit("fix")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, line := range a.Lines {
		r, err := trust.ParseRecord(line)
		if err != nil {
			f.t.Fatal(err)
		}
		list = append(list, r.Who+" "+r.What)
	}
	return list
}

// Who pauses, resumes, stops or forgets a roll is in the log, and what the hub does itself.
func TestAuditOfActs(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	act := func(who, action string) {
		t.Helper()
		if err := f.hub.Act(who, "fix", action); err != nil {
			t.Fatal(err)
		}
	}
	act("user:1000:alice", ActionPause)
	if err := f.hub.NodeEvent("token", trust.VerbJoined, "b c"); err != nil {
		t.Fatal(err)
	}
	f.open() // the hub is started again
	act("user:1001:bob", ActionResume)
	act("user:0:root", ActionStop)
	act("user:0:root", ActionForget)
	want := []string{"user:7:test begun", "user:1000:alice paused", "token joined", "user:1001:bob resumed", "user:0:root stopped", "user:0:root forgotten"}
	f.begin(testSpec, "all") // the log goes on after the roll was forgotten
	f.nodes["a"].k.state, f.nodes["a"].k.end = OnTrial, ""
	f.awaitState(roll.Done)
	want = append(want, "user:7:test begun", "hub done")
	if got := f.logged(); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// A line is on disk before the act is answered. One that cannot be written changes nothing.
func TestAuditThatCannotBeWritten(t *testing.T) {
	f := newFleet(t, "a")
	f.hub.journal.file.Close()
	if err := f.hub.Begin("user:7:test", testSpec, testPlan(t, "all"), []string{"a"}, nil); err == nil || !strings.Contains(err.Error(), "the audit log cannot be written") {
		t.Fatal(err)
	}
	f.open()
	f.begin(testSpec, "all")
	f.hub.journal.file.Close()
	if err := f.hub.Act("user:7:test", "fix", ActionStop); err == nil || !strings.Contains(err.Error(), "the audit log cannot be written") {
		t.Fatal(err)
	}
	if o, ok := f.hub.Report("a", Report{ID: "one", Report: roll.Report{Boot: "1", Stamp: 1}}); ok {
		t.Errorf("a roll without a log gives the order %+v", o)
	}
}

// A line that was not written whole was never acknowledged. Any other damage is told, and
// no roll begins.
func TestAuditFileDamaged(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.awaitState(roll.Done)
	file := filepath.Join(f.dir, "hub", journalFile)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.lines = nil
		f.open()
	}
	write(string(whole) + "3 half a li" + strings.Repeat("x", 1000))
	if err := f.hub.NodeEvent("token", trust.VerbJoined, "b"); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(file); err != nil || strings.Contains(string(again), "xx") || !strings.HasPrefix(string(again), string(whole)) {
		t.Errorf("%v: %q", err, again)
	}
	for what, text := range map[string]string{"a line changed": strings.Replace(string(whole), " begun ", " paused ", 1),
		"a line left out": string(whole)[strings.Index(string(whole), "\n")+1:], "no line": "x\n"} {
		write(text)
		if err := f.hub.NodeEvent("token", trust.VerbJoined, "b"); err == nil || len(f.lines) == 0 || !strings.Contains(f.lines[0], "is damaged") {
			t.Errorf("%s: %v, %q", what, err, f.lines)
		}
		if _, err := f.hub.Audit("fix"); err == nil {
			t.Errorf("%s: it is shown", what)
		}
	}
}

// A taken is a hub in other hands, which replaces the log that its nodes have seen.
func taken(t *testing.T, rewrite func(lines []string) []string) *fleet {
	t.Helper()
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.awaitState(roll.Done)
	if err := f.hub.NodeEvent("token", trust.VerbJoined, "b"); err != nil {
		t.Fatal(err)
	}
	f.run("the node's sight of that line", func() bool { return f.nodes["a"].seen.at.Lines == 3 })
	file := filepath.Join(f.dir, "hub", journalFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var last *trust.Record
	var out string
	for _, line := range rewrite(strings.Split(strings.TrimSpace(string(text)), "\n")) {
		a, err := trust.ParseRecord(line)
		if err != nil {
			t.Fatal(err)
		}
		a.After(last) // a chain that fits
		last = &a
		out += a.String() + "\n"
	}
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	f.open()
	return f
}

// newerRoll is an update that comes after the log was changed.
func newerRoll(f *fleet) {
	f.t.Helper()
	s := testSpec
	s.ID, s.Name = "two", "newer"
	f.nodes["a"].k.others = map[string]*fakeKernel{"newer": {boot: "1", refuse: map[string]error{}}}
	f.begin(s, "all")
}

// A hub that cuts, forks or rewrites the log gets no update into a node that saw it, and the
// refusal has its name. The roll leaves that node out.
func TestNodeFollowsTheAudit(t *testing.T) {
	for what, test := range map[string]struct {
		rewrite func(lines []string) []string
		name    string
	}{
		"nothing is changed": {func(lines []string) []string { return lines }, ""},
		"the end is cut":     {func(lines []string) []string { return lines[:1] }, trust.Cut},
		"all is cut":         {func(lines []string) []string { return nil }, trust.Cut},
		"the end is cut, and other lines follow": {func(lines []string) []string {
			return append(lines[:1:1], lines[0], lines[0], lines[0], lines[0])
		}, trust.Forged},
		"the last line says another":  {func(lines []string) []string { lines[len(lines)-1] = lines[0]; return lines }, trust.Forged},
		"the first line says another": {func(lines []string) []string { lines[0] = strings.Replace(lines[0], "test", "root", 1); return lines }, trust.Forged},
	} {
		f := taken(t, test.rewrite)
		newerRoll(f)
		for range 40 {
			f.step()
		}
		k, n := f.nodes["a"].k.others["newer"], f.nodes["a"].rolls["newer"]
		if test.name == "" {
			if k.state != Kept {
				t.Errorf("%s: %v, %+v", what, k.did, n)
			}
			continue
		}
		list, err := f.hub.List("newer")
		if err != nil {
			t.Fatal(err)
		}
		sentence := map[string]string{trust.Cut: "its end was cut off", trust.Forged: "the log was rewritten"}[test.name]
		if len(k.did) > 0 || n == nil || !strings.Contains(n.node.Refused, sentence) || !strings.Contains(list[0].Nodes[0].Failed, sentence) {
			t.Errorf("%s: the node did %q, and the hub shows %+v", what, k.did, list[0].Nodes[0])
		}
	}
}

// Over a restart of its agent a node knows what it has seen. Root may let it begin anew.
func TestNodeRemembersTheAudit(t *testing.T) {
	f := taken(t, func(lines []string) []string { return lines[:1] })
	f.start("a")
	newerRoll(f)
	refused := func() bool {
		n := f.nodes["a"].rolls["newer"]
		return n != nil && strings.Contains(n.node.Refused, "its end was cut off")
	}
	f.run("the refusal", refused)
	if err := os.Remove(f.nodes["a"].seen.file); err != nil {
		t.Fatal(err)
	}
	f.run("the new beginning", func() bool { return !refused() && f.nodes["a"].seen.at.Lines > 0 })
	if err := os.WriteFile(f.nodes["a"].seen.file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewNode(filepath.Join(f.dir, "a"), f.nodes["a"].k, nil, nil, t.Logf); err == nil || !strings.Contains(err.Error(), "is damaged: as root remove") {
		t.Error(err)
	}
}

// A hub that does not show its log, or that answers other reports, is not obeyed; an order
// to revert always is.
func TestOrdersWithoutTheAudit(t *testing.T) {
	f := newFleet(t, "a")
	f.begin(testSpec, "all")
	f.run("the trial", func() bool { return f.nodes["a"].k.phase == roll.Canary })
	n := f.nodes["a"]
	seen, l := n.seen.at, n.rolls["fix"]
	for what, g := range map[string]*Growth{"no log": nil, "another report": {From: seen.Lines + 1, Now: trust.Seen{Lines: seen.Lines + 2, Root: seen.Root}},
		"no digest": {From: seen.Lines, Now: trust.Seen{Lines: seen.Lines + 1}}} {
		l.node.Refused, n.k.did = "", nil
		n.k.now++
		n.take(t.Context(), Order{Spec: testSpec, Order: roll.Order{Boot: "1", Stamp: n.k.now, Goal: roll.Full, Grant: true}, Audit: g})
		if len(n.k.did) > 0 || l.waits == "" || n.seen.at != seen {
			t.Errorf("%s: did %q, waits %q", what, n.k.did, l.waits)
		}
		if late := strings.Contains(l.waits, errLag.Error()); late != (what == "another report") {
			t.Errorf("%s: waits %q", what, l.waits)
		}
	}
	n.k.now++
	n.take(t.Context(), Order{Spec: testSpec, Order: roll.Order{Boot: "1", Stamp: n.k.now, Goal: roll.Reverted}})
	if !slices.Contains(n.k.did, "revert") {
		t.Errorf("an order to revert is not obeyed: %q", n.k.did)
	}
	if errors.Is(n.seen.follow(&Growth{From: seen.Lines, Now: seen}), errLag) {
		t.Error("a log that is as it was is taken for a late answer")
	}
}
