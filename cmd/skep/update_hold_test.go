// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"skep/internal/cli"
	"skep/o2g/launch"
)

// Each rank of a job with an update begins as 'skep update hold', also in each part.
func TestMpirunHoldsAnUpdate(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := &mpirun{}
	f := cli.NewFlags("mpirun", "")
	m.options(f)
	words, err := f.Parse(strings.Fields("--hosts a,b --update fix -n 8 -- /bin/app -- x"))
	if err != nil || m.job.Ranks != 8 || !slices.Equal(words, []string{"/bin/app", "--", "x"}) {
		t.Fatalf("%q, %+v, %v", words, m.job, err)
	}
	m.job.Program = words
	m.job.Parts = []launch.Part{{Program: []string{"/bin/model"}}}
	if err := m.holdUpdate(); err != nil {
		t.Fatal(err)
	}
	hold := []string{self, "update", "hold", "fix", "--"}
	if !slices.Equal(m.job.Program, append(slices.Clone(hold), "/bin/app", "--", "x")) || !slices.Equal(m.job.Parts[0].Program, append(slices.Clone(hold), "/bin/model")) {
		t.Errorf("%q, %q", m.job.Program, m.job.Parts[0].Program)
	}
}

// Bad input of commands with updates is refused before anything runs, and a machine without
// the service runs no program without the update.
func TestUpdateHoldRefused(t *testing.T) {
	old := holdSocket
	holdSocket = filepath.Join(t.TempDir(), "none")
	defer func() { holdSocket = old }()
	dir := t.TempDir()
	for line, want := range map[string]struct {
		code int
		text string
	}{
		"update hold":     {cli.Usage, "an update is expected"},
		"update hold fix": {cli.Usage, "give either a program, or --cgroup DIR"},
		"update hold --cgroup " + dir + " fix true": {cli.Usage, "give either a program, or --cgroup DIR"},
		"update hold --wait 1s fix true":            {cli.Usage, "needs --cgroup"},
		"update hold fix -- /nonexistent":           {exitMissing, "/nonexistent can't be run"},
		"update hold fix -- true":                   {cli.Refused, "'skep service install kernel' installs it"},
		"update hold --cgroup " + dir + " fix":      {cli.Refused, "'skep service install kernel' installs it"},
		"update hold --cgroup " + dir + "/x fix":    {cli.Failed, "--wait 1m waits for one"},
		"exec --on all --update fix -- true":        {cli.Unreachable, "hub"},
		"exec --update ../fix -- true":              {cli.Usage, "is not the name of an update"},
		"mpirun --update ../fix -n 1 -- true":       {cli.Usage, "is not the name of an update"},
		"exec --update= -- true":                    {cli.Usage, "is not the name of an update"},
	} {
		_, code, text := outputOf(t, strings.Fields(line)...)
		if code != want.code || !strings.Contains(text, want.text) {
			t.Errorf("skep %s: %d, %s", line, code, text)
		}
	}
}
