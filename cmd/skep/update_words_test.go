// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/dynamos/update"
	"skep/dynamos/update/trust"
	"skep/internal/cli"
	"skep/internal/uapi"
)

// loaded describes a module for a test: its updates, each with one function.
type loaded struct {
	list   []uapi.DynamosInfo
	inside uint64
	events []uapi.DynamosEvent
	broken error
}

func (l *loaded) Info(n uint32) (uapi.DynamosInfo, error) {
	if l.broken != nil {
		return uapi.DynamosInfo{}, l.broken
	}
	if int(n) >= len(l.list) {
		return uapi.DynamosInfo{}, update.ErrNoMore
	}
	return l.list[n], nil
}

func (l *loaded) Count(_ string, _, version uint32) (c uapi.DynamosCount, err error) {
	copy(c.Symbol[:], "f")
	if version == 1 {
		c.In = l.inside
	}
	return c, nil
}

func (l *loaded) Events() ([]uapi.DynamosEvent, error) { return l.events, nil }

func (l *loaded) load(name string, class uapi.DynamosClass) {
	i := uapi.DynamosInfo{Functions: 1, Class: class}
	copy(i.Name[:], name)
	l.list = append(l.list, i)
}

// The list of updates shows no events. The page of one update and the JSON output do.
func TestStatusOfLoadedUpdates(t *testing.T) {
	l := &loaded{}
	l.load("a", uapi.DynamosAny)
	l.load("b", uapi.DynamosAny)
	for _, name := range []string{"a", "b", "b"} {
		var e uapi.DynamosEvent
		copy(e.Name[:], name)
		l.events = append(l.events, e)
	}
	for _, c := range []struct {
		json   bool
		word   string
		names  string
		events int // number of events of the last update
	}{
		{false, "", "a b", 0}, {true, "", "a b", 2}, {false, "b", "b", 2}, {true, "a", "a", 1},
	} {
		list, err := (&updateStatus{json: c.json}).read(l, strings.Fields(c.word))
		var names []string
		for _, u := range list {
			names = append(names, u.Name)
		}
		if err != nil || strings.Join(names, " ") != c.names || len(list[len(list)-1].Events) != c.events {
			t.Errorf("%+v: %+v, %v", c, list, err)
		}
	}
	if list, err := (&updateStatus{}).read(l, []string{"c"}); err == nil {
		t.Errorf("an update that is not there: %+v", list)
	}
}

// After a boot, the list of updates says which packages failed on this node, and why.
func TestStatusNamesWhatFailed(t *testing.T) {
	store := &trust.Store{Dir: filepath.Join(t.TempDir(), "trust")}
	show := func(when, want string) {
		t.Helper()
		var b strings.Builder
		if err := showFailed(&b, store); err != nil || b.String() != want {
			t.Errorf("%s: %q, %v", when, b.String(), err)
		}
	}
	show("a node without keys", "")
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	err := store.Change(func(s trust.State) (trust.State, error) {
		s.Lines = map[string]trust.Mark{"fix": {Sequence: 7, Content: one}, "other": {Sequence: 2, Content: two}, "floor": {Sequence: 1}}
		return s, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	show("nothing failed", "")
	if err := store.Change(func(s trust.State) (trust.State, error) { return s.Block(one, "it booted\x1b[2J"), nil }); err != nil {
		t.Fatal(err)
	}
	show("one failed", "fix failed on this node at sequence 7 ("+cli.CleanText("it booted\x1b[2J")+"), and no hub applies that package here again: mend the fix, then build and sign it anew\n")
	if err := os.WriteFile(filepath.Join(store.Dir, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := showFailed(io.Discard, store); err == nil {
		t.Error("a damaged state says nothing")
	}
}

// The functions of an update are listed below it.
func TestListOfUpdates(t *testing.T) {
	var b strings.Builder
	err := showUpdates(&b, []update.Status{
		{Name: "a", Functions: []update.Function{{Symbol: "f"}, {Symbol: "g"}}},
		{Name: "b", Functions: []update.Function{{Symbol: "h"}}}})
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(b.String()) {
		words := strings.Fields(line)
		rows = append(rows, words[0]+" "+words[1])
	}
	if got := strings.Join(rows, ", "); got != "UPDATE CLASS, a f, g 0, b h" {
		t.Errorf("%s\n%s", got, b.String())
	}
}

// A user who waits for an update to drain is told what it waits for.
func TestUpdateWithTasksInside(t *testing.T) {
	l := &loaded{}
	l.load("a", uapi.DynamosAny)
	l.load("o", uapi.DynamosObject)
	for name, want := range map[string]string{"a": "when a running task returns", "o": "when the objects that use the new one are freed"} {
		if err := stillInside(l, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	l.broken = errors.New("broken")
	if err := stillInside(l, "a"); !errors.Is(err, l.broken) {
		t.Errorf("a module that does not answer: %v", err)
	}
}

// A reverted update that the agent of a roll has unloaded is unloaded, also for who waits.
func TestRevertedUpdateThatIsGone(t *testing.T) {
	l := &loaded{}
	for _, wanted := range []bool{true, false} {
		if done, err := removeReverted(l, "fix", wanted); !done || err != nil {
			t.Errorf("--remove %v: %v, %v", wanted, done, err)
		}
	}
	l.load("fix", uapi.DynamosAny)
	if done, err := removeReverted(l, "fix", false); done || err != nil {
		t.Errorf("it stays loaded: %v, %v", done, err)
	}
	l.broken = errors.New("broken")
	if done, err := removeReverted(l, "fix", false); done || !errors.Is(err, l.broken) {
		t.Errorf("a module that does not answer: %v, %v", done, err)
	}
}

// With --kernel, an update is built for that kernel and not for the running one.
func TestUpdateBuildTakesTheNamedKernel(t *testing.T) {
	dir := t.TempDir()
	patch := dir + "/fix.patch"
	if err := os.WriteFile(patch, []byte("--- a/x\n+++ b/x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SKEP_BUILD", dir)
	for _, kernel := range []string{"0.1", "0.2"} {
		_, text := cli.ExitCode(dispatch(t.Context(), []string{"update", "build", patch, "--kernel", kernel, "-o", dir + "/x.skepup"}))
		if !strings.Contains(text, "Linux "+kernel+":") {
			t.Errorf("%s: %q", kernel, text)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// plantProc makes a /proc with threads, and the number of the process of each.
func plantProc(t *testing.T, threads map[string]string) string {
	t.Helper()
	proc := t.TempDir()
	for number, tgid := range threads {
		if err := os.Mkdir(filepath.Join(proc, number), 0o755); err != nil {
			t.Fatal(err)
		}
		text := "Name:\ta\nUmask:\t0022\nTgid:\t" + tgid + "\nNgid:\t0\n"
		if err := os.WriteFile(filepath.Join(proc, number, "status"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return proc
}

// A policy for an unused process number would hold for the process that gets it next.
func TestPolicyNamesWhatIsThere(t *testing.T) {
	proc := plantProc(t, map[string]string{"5": "5", "6": "5"})
	rule := func(terms uint32, pid, tgid int32) uapi.DynamosRule {
		return uapi.DynamosRule{Terms: terms, PID: pid, TGID: tgid}
	}
	for _, c := range []struct {
		rule uapi.DynamosRule
		want string
	}{
		{rule(uapi.DynamosTGID, 0, 5), ""},
		{rule(uapi.DynamosPID, 6, 0), ""},
		{rule(uapi.DynamosUID, 9, 9), ""},
		{rule(uapi.DynamosTGID, 0, 9), "there is no process 9"},
		{rule(uapi.DynamosPID, 9, 0), "there is no thread 9"},
		{rule(uapi.DynamosTGID, 0, 6), "6 is a thread of process 5"},
		{rule(uapi.DynamosPID|uapi.DynamosTGID, 6, 9), "there is no process 9"},
	} {
		p := uapi.DynamosPolicy{Rules: 2}
		p.Rule[1] = c.rule // after a rule for all tasks
		p.Rule[2] = rule(uapi.DynamosPID, 9, 0)
		if err := checkTasks(&p, proc); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.rule, err, c.want)
		}
	}
}
