// SPDX-License-Identifier: MIT

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"skep/tests/mutants/mutate"
	"skep/tests/mutants/sandbox"
)

// A state file has a header line with tree and seed, then a line for each mutant that was
// tried. A run that was stopped continues from it.
type state struct {
	path string
	done map[string]sandbox.Answer // by the id of the mutation
}

func openState(path, digest, seed string) (*state, error) {
	s := &state{path: path, done: map[string]sandbox.Answer{}}
	head := fmt.Sprintf("tree %s seed %s", digest, seed)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	lines := strings.SplitAfter(string(text), "\n")
	if lines[0] != head+"\n" {
		return s, os.WriteFile(path, []byte(head+"\n"), 0o644)
	}
	kept := 0
	for i, line := range lines {
		if !strings.HasSuffix(line, "\n") {
			break // truncated: the run was killed while it wrote
		}
		kept += len(line)
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 4)
		if i > 0 && len(f) == 4 {
			s.done[f[3]] = sandbox.Answer{Outcome: f[0], Suite: f[1], Why: f[2]}
		}
	}
	return s, os.Truncate(path, int64(kept))
}

// put adds a line by one write.
func (s *state) put(m mutate.Mutation, a sandbox.Answer) error {
	s.done[m.ID()] = a
	file, err := os.OpenFile(s.path, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s\t%s\t%s\t%s\n", a.Outcome, a.Suite, mutate.Shorten(a.Why), m.ID())
	return errors.Join(err, file.Close())
}

// A tally counts outcomes of a room.
type tally struct {
	room                          string
	killed, hung, survived, wrong int
	alive                         []mutate.Mutation
}

func (t *tally) add(m mutate.Mutation, a sandbox.Answer) {
	switch a.Outcome {
	case sandbox.Killed:
		t.killed++
	case sandbox.Hung:
		t.hung++
	case sandbox.Survived:
		t.survived++
		t.alive = append(t.alive, m)
	case sandbox.Broken:
		t.wrong++
	}
}

func (t *tally) countMutants() int { return t.killed + t.hung + t.survived }

func (t *tally) killedPercent() float64 {
	if t.countMutants() == 0 {
		return 0
	}
	return 100 * float64(t.killed+t.hung) / float64(t.countMutants())
}

func byPlace(a, b mutate.Mutation) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.String(), b.String()))
}

// formatReport returns survivors, then a line for each room.
func formatReport(list []*tally) string {
	var b strings.Builder
	for _, t := range list {
		slices.SortFunc(t.alive, byPlace)
		for _, m := range t.alive {
			fmt.Fprintf(&b, "survived %s  [%s]\n", m, m.Mark)
		}
	}
	fmt.Fprintf(&b, "%-16s %8s %7s %5s %9s %8s\n", "room", "mutants", "killed", "hung", "survived", "percent")
	for _, t := range list {
		fmt.Fprintf(&b, "%-16s %8d %7d %5d %9d %7.1f%%\n", t.room, t.countMutants(), t.killed, t.hung,
			t.survived, t.killedPercent())
	}
	return b.String()
}
