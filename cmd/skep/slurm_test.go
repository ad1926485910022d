// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runSlurm runs one of the examples for Slurm with programs that stand for the commands of
// systemd and Slurm, of which one fails, and scopes of which the first is this node's. It
// returns their lines, and what is in that scope.
func runSlurm(t *testing.T, script, scopeName, comment, fails string) (calls, left string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range strings.Fields(scopeName) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	log := filepath.Join(dir, "log")
	for _, name := range []string{"systemd-run", "systemctl", "scontrol", "scancel"} {
		status := "0"
		if strings.Contains(fails, name) {
			status = "1"
		}
		text := "#!/bin/sh\necho " + name + " \"$@\" >>" + log + "\nexit " + status + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	scopeName, _, _ = strings.Cut(scopeName, " ")
	scope := filepath.Join(dir, scopeName)
	if script == "epilog" {
		if err := os.MkdirAll(filepath.Join(scope, "job_7"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("sh", "../../examples/slurm/"+script+".sh")
	c.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "SKEP_SLURM_SLICE=" + dir, "SLURMD_NODENAME=n1", "SLURM_JOB_ID=7", "SLURM_JOB_COMMENT=" + comment, "SKEP_SLURM_WAIT=0"}
	if out, err := c.CombinedOutput(); err != nil { // it would drain the node
		t.Errorf("%s: %v: %s", script, err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	list, _ := filepath.Glob(scope + "/job_*")
	for _, path := range list {
		left += filepath.Base(path)
	}
	return strings.ReplaceAll(string(text), scope, "SCOPE"), left
}

// A job of Slurm that asks for an update has it before it begins, or is held or cancelled, and
// its node is not drained; no other job is touched.
func TestSlurmExample(t *testing.T) {
	const one, several = "slurmstepd.scope", "n1_slurmstepd.scope n2_slurmstepd.scope slurmstepd.scope"
	const hold = "systemd-run --quiet --collect --unit skep-update-7 --property Type=notify skep update hold --cgroup SCOPE/job_7 fix\n"
	for _, test := range []struct {
		script, scopes, comment, fails string
		calls, left                    string
	}{
		{"prolog", one, "skep-update=fix", "", hold, "job_7"},
		{"prolog", several, "skep-update=fix", "", hold, "job_7"},
		{"prolog", "", "skep-update=fix", "", "scontrol requeuehold 7\n", ""}, // it would be in force for nobody
		{"prolog", one, "skep-update=fix", "systemd-run", hold + "scontrol requeuehold 7\n", ""},
		{"prolog", one, "skep-update=fix", "systemd-run scontrol", hold + "scontrol requeuehold 7\nscancel 7\n", ""}, // no batch job
		{"prolog", one, "a word", "", "", ""},
		{"prolog", one, "", "", "", ""},
		{"epilog", one, "skep-update=fix", "", "systemctl stop skep-update-7\n", ""},
		{"epilog", one, "a word", "", "", "job_7"},
	} {
		if calls, left := runSlurm(t, test.script, test.scopes, test.comment, test.fails); calls != test.calls || left != test.left {
			t.Errorf("%s, %q, %q: %q, left %q", test.script, test.scopes, test.comment, calls, left)
		}
	}
}
