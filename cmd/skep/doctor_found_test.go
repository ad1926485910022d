// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"skep/grid/agent"
	"skep/grid/ident"
	"skep/internal/cli"
)

// skep doctor reports the same as text and as JSON.
func TestDoctorForProgramsAndPeople(t *testing.T) {
	dir := t.TempDir()
	out, _, _ := outputOf(t, "doctor", "--json", "--state", dir)
	var checks []check
	if err := json.Unmarshal([]byte(out), &checks); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"machine", "system", "state", "room", "confined", "hub", "node"} {
		if !slices.ContainsFunc(checks, func(c check) bool { return c.Name == name && c.State != "" && c.Found != "" }) {
			t.Errorf("nothing is said of %s: %s", name, out)
		}
	}
	if out, _, _ = outputOf(t, "doctor", "--state", dir); !strings.HasPrefix(out, "CHECK ") || !strings.Contains(out, "\nhub ") {
		t.Errorf("for people: %s", out)
	}
	out = printedBy(t, &os.Stdout, func() {
		if err := printChecks([]check{passed("a", "fine"), passed("b", "broken").withState(checkBad, "repair it")}, false); err != nil {
			t.Error(err)
		}
	})
	if want := "CHECK  STATE  FOUND\na      ok     fine\nb      bad    broken\n       cure   repair it\n"; out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

// What bee reports as missing is named.
func TestDoctorNamesWhatBeeLacks(t *testing.T) {
	for line, want := range map[string]check{
		"arena bad error 487":  {"bee arena", checkBad, "error 487", "guests can't run here; docs/windows.md, arena"},
		"links absent no link": {"bee links", checkNote, "no link", ""},
	} {
		if checks := probeLines(line); len(checks) != 1 || checks[0] != want {
			t.Errorf("%s: %+v", line, checks)
		}
	}
}

// skep doctor reports the confinement that an agent would use.
func TestDoctorReportsConfinement(t *testing.T) {
	found, err := agent.FindConfined()
	if err != nil {
		t.Skip(err)
	}
	if c := checkConfined(); c.State == checkBad || c.Found != found.String() {
		t.Errorf("%+v, the agent finds %v", c, found)
	}
}

// A stopped hub is distinguished from a machine that never was a hub.
func TestDoctorSaysThatTheHubIsStopped(t *testing.T) {
	dir := t.TempDir()
	if c := checkHub(t.Context(), dir); c.State != checkOK || c.Found != "none runs here" {
		t.Errorf("never a hub: %+v", c)
	}
	if err := os.MkdirAll(hubState(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(hubState(dir), "ca.crt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := checkHub(t.Context(), dir); c.State != checkNote || !strings.Contains(c.Found, "does not run") || !strings.HasPrefix(c.Cure, "skep up --state "+dir+", if ") {
		t.Errorf("stopped: %+v", c)
	}
	t.Setenv(cli.StateVariable, dir)
	if c := checkHub(t.Context(), dir); !strings.HasPrefix(c.Cure, "skep up, if ") {
		t.Errorf("the default directory: %+v", c)
	}
}

// A node's hub that does not answer is distinguished from one that does.
func TestDoctorTriesTheHubOfANode(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	text, err := json.Marshal(ident.Admission{Hub: address, Name: "pc"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(agentState(dir), "node", "admission.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text, state, found string
		up                 bool
	}{
		{string(text), checkOK, address + " can be reached", true},
		{string(text), checkBad, "refused", false},
		{"{", checkBad, "unexpected end", false},
	} {
		if !c.up {
			listener.Close()
		}
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		checks := checkNode(t.Context(), dir)
		last := checks[len(checks)-1]
		if last.State != c.state || !strings.Contains(last.Found, c.found) || (last.State == checkBad) != (last.Cure != "") {
			t.Errorf("%s, up %v: %+v", c.text, c.up, checks)
		}
	}
}

// Each answer of O2G's module gives a different sentence.
func TestDoctorReadsTheModulesAnswer(t *testing.T) {
	for errno, want := range map[syscall.Errno][2]string{
		0:              {checkOK, "matches MPI programs' messages"},
		syscall.EPROTO: {checkNote, "another revision"},
		syscall.EPERM:  {checkNote, "not permitted"},
		syscall.ENOMEM: {checkNote, "cannot allocate memory"},
	} {
		if c := moduleAnswer("/dev/o2g", errno); c.State != want[0] || !strings.Contains(c.Found, want[1]) {
			t.Errorf("%v: %+v", errno, c)
		}
	}
}
