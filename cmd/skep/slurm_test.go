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
// systemd and Slurm, of which one fails. It returns their lines, and what is in the scope.
func runSlurm(t *testing.T, script, comment, fails string) (calls, left string) {
	t.Helper()
	dir := t.TempDir()
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
	scope := filepath.Join(dir, "scope")
	if script == "epilog" {
		if err := os.MkdirAll(filepath.Join(scope, "job_7"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("sh", "../../examples/slurm/"+script+".sh")
	c.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "SKEP_SLURM_SCOPE=" + scope, "SLURM_JOB_ID=7", "SLURM_JOB_COMMENT=" + comment, "SKEP_SLURM_WAIT=0"}
	if out, err := c.CombinedOutput(); err != nil { // it would drain the node
		t.Errorf("%s: %v: %s", script, err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	list, _ := filepath.Glob(scope + "/*")
	for _, path := range list {
		left += filepath.Base(path)
	}
	return strings.ReplaceAll(string(text), scope, "SCOPE"), left
}

// A job of Slurm that asks for an update has it before it begins, or is held or cancelled, and
// its node is not drained; no other job is touched.
func TestSlurmExample(t *testing.T) {
	const hold = "systemd-run --quiet --collect --unit skep-update-7 --property Type=notify skep update hold --cgroup SCOPE/job_7 fix\n"
	for _, test := range []struct {
		script, comment, fails string
		calls, left            string
	}{
		{"prolog", "skep-update=fix", "", hold, "job_7"},
		{"prolog", "skep-update=fix", "systemd-run", hold + "scontrol requeuehold 7\n", ""},
		{"prolog", "skep-update=fix", "systemd-run scontrol", hold + "scontrol requeuehold 7\nscancel 7\n", ""}, // no batch job
		{"prolog", "a word", "", "", ""},
		{"prolog", "", "", "", ""},
		{"epilog", "skep-update=fix", "", "systemctl stop skep-update-7\n", ""},
		{"epilog", "a word", "", "", "job_7"},
	} {
		if calls, left := runSlurm(t, test.script, test.comment, test.fails); calls != test.calls || left != test.left {
			t.Errorf("%s, %q: %q, left %q", test.script, test.comment, calls, left)
		}
	}
}
