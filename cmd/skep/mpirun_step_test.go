// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"strings"
	"testing"

	"skep/internal/cli"
	"skep/o2g/launch"
)

// An option that determines how many ranks start, or where, has precedence over the number
// of cores and over the batch step that this command runs in.
func TestMpirunKnowsWhatIsPlaced(t *testing.T) {
	for line, want := range map[string]struct {
		ranks  int
		placed bool
	}{
		"":              {0, false},
		"--no-shm":      {0, false},
		"-n 3":          {3, true},
		"-np 3":         {3, true},
		"--np 4":        {4, true},
		"--hosts a,b":   {0, true},
		"--hostfile /x": {0, true},
	} {
		m := &mpirun{}
		f := cli.NewFlags("mpirun", "mpirun")
		m.options(f)
		if _, err := f.ParseCommand(append(strings.Fields(line), "--", "x")); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if m.job.Ranks != want.ranks || m.placed() != want.placed {
			t.Errorf("%s: %d ranks, placed %v", line, m.job.Ranks, m.placed())
		}
	}
}

// A rank of a batch step is replaced by the program, or fails.
func TestRankOfAStep(t *testing.T) {
	m := &mpirun{}
	m.job.Program = []string{"/nonexistent"}
	m.job.Step = true
	r := &launch.Runner{Install: &launch.Install{Kind: launch.MPICH}, Cache: t.TempDir()}
	if err := m.execRank(r, "1.0"); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("got %v", err)
	}
	r.Cache = "/dev/null/x"
	if err := m.execRank(r, "1.0"); err == nil || strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("without a key: %v", err)
	}
}
