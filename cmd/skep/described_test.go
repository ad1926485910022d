// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/grid/idl"
	"skep/internal/cli"
	"skep/internal/uapi"
	"skep/lab/hold"
)

func TestMachineIsDescribed(t *testing.T) {
	for _, m := range []struct {
		info hold.Info
		want string
	}{
		{hold.Info{Release: "6.1.0-1", CPUs: 1, Memory: 512, Boot: 5.25}, "Linux 6.1.0-1, 1 CPU, 512M, up in 5.2 s"},
		{hold.Info{Release: "6.12", CPUs: 2, Memory: 2048, Nodes: 1, Boot: 61}, "Linux 6.12, 2 CPUs, 2G, 1 nodes, up in 61.0 s"},
		{hold.Info{Release: "6.12", CPUs: 3, Memory: 1025, Nodes: 2}, "Linux 6.12, 3 CPUs, 1025M, 2 nodes, up in 0.0 s"},
	} {
		if got := describeMachine(&m.info); got != m.want {
			t.Errorf("%q, not %q", got, m.want)
		}
	}
}

// A service that does not run gives the exit code of an unreachable one; what restores the
// kernel's modules runs only at boot.
func TestServiceStatesArePrinted(t *testing.T) {
	hub := serviceState{Service: "hub", State: "active (running)", AtBoot: "enabled", PID: "7", Restarts: "0", Says: "2 nodes"}
	agent := serviceState{Service: "agent", State: "failed (failed)", AtBoot: "disabled"}
	kernel := serviceState{Service: kernelService, State: "active (exited)", AtBoot: "enabled"}
	const head = "SERVICE  STATE             AT BOOT  PID  RESTARTS  SAYS\n"
	for _, c := range []struct {
		json bool
		list []serviceState
		want string
		code int
	}{
		{false, []serviceState{hub}, head + "hub      active (running)  enabled  7    0         2 nodes\n", 0},
		{false, []serviceState{hub, kernel}, head + "hub      active (running)  enabled  7    0         2 nodes\n" +
			"kernel   active (exited)   enabled  -    -         -\n", 0},
		{false, []serviceState{agent}, "SERVICE  STATE            AT BOOT   PID  RESTARTS  SAYS\nagent    failed (failed)  disabled  -    -         -\n", cli.Unreachable},
		{true, []serviceState{}, "[]\n", 0},
		{true, []serviceState{agent}, `[
  {
    "service": "agent",
    "state": "failed (failed)",
    "atBoot": "disabled",
    "pid": "",
    "restarts": "",
    "says": ""
  }
]
`, cli.Unreachable},
	} {
		var err error
		out := printedBy(t, &os.Stdout, func() { err = (&serviceStatus{json: c.json}).print(c.list) })
		if code, text := cli.ExitCode(err); out != c.want || code != c.code || text != "" {
			t.Errorf("%d, %s, %s", code, text, out)
		}
	}
}

func TestAppliedUpdateIsPrinted(t *testing.T) {
	var i uapi.DynamosInfo
	copy(i.Name[:], "fix")
	for _, c := range []struct {
		apply updateApply
		want  []string
	}{
		{updateApply{}, nil},
		{updateApply{supersede: true}, []string{"older updates of its functions stay in force below it; 'skep update commit fix' ends them"}},
		{updateApply{confirm: 90 * time.Second}, []string{"it is reverted in 1m30s, unless 'skep update commit fix' keeps it"}},
	} {
		var err error
		out := printedBy(t, &os.Stdout, func() { err = c.apply.printResult(&i) })
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if err != nil || !strings.HasPrefix(lines[0], "fix: on trial for ") || !slices.Equal(lines[1:], c.want) && len(lines)+len(c.want) > 1 {
			t.Errorf("%v: %s", err, out)
		}
	}
	for word, is := range map[string]bool{"fix": false, "fix.skepup": true, "./fix": true, "fix.skepup.old": false} {
		if isPackage(word) != is {
			t.Errorf("%s: a package: %v", word, !is)
		}
	}
}

// Files of Required are not added when the command line has them or their sources, and are
// found beside the interface file.
func TestRequiredFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"here.o", "lib/there.o", "lib/both.o", "both.o", "given.o", "lib/given.o"} {
		os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := &idl.Module{Files: []string{"here.o", "-lm", "there.o", "both.o", "here.o", "given.o", "./lib/given.o", "gone.o", "there.c", "-lm"}}
	var got []string
	said := printedBy(t, &os.Stderr, func() { got = requiredFiles(m, filepath.Join("lib", "module.idl"), []string{"given.c"}) })
	want := []string{"here.o", "-lm", filepath.Join("lib", "there.o"), "both.o", "./lib/given.o", "-lm"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
	if warned := "gen: warning: lib/module.idl requires gone.o, which is not there: it is left out\n"; said != warned {
		t.Errorf("%q", said)
	}
	for path, want := range map[string]string{"a/b.c": "b", "b.o": "b", "b.f": "b", "b.f90": "b", "b.cc": "b", "b.cpp": "b", "b.s": "b", "b.S": "b", "b.a": "b.a", "b": "b", "x.y.c": "x.y"} {
		if got := stem(path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
}

func TestWordsOfJoin(t *testing.T) {
	p := &installation{address: "hub:7733", passed: []string{"--slots", "3"}}
	want := "join hub:7733 --only --token-file - --state /var/x --slots 3"
	if got := strings.Join(p.joinWords("/var/x"), " "); got != want {
		t.Errorf("%s", got)
	}
	if code, text := cli.ExitCode(errNotJoined()); code != cli.Usage || !strings.Contains(text, "this agent has joined no hub yet: ") {
		t.Errorf("%d, %s", code, text)
	}
	out := printedBy(t, &os.Stdout, func() { noKeysHere("x.skepup") })
	if want := "x.skepup: this machine has no operators' keys, so nothing says whether these signers may sign; root may apply it\n"; out != want {
		t.Errorf("%q", out)
	}
}
