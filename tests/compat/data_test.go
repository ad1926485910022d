// SPDX-License-Identifier: MIT

package compat

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/grid/engine"
	"skep/tests/watch"
)

const onceBytes = 40000 * 8 // of the data of the program "once"

// Data that is sticky moves to a node once, and what a call left there does not move at all. The
// ledger names it.
func TestDataMovesOnce(t *testing.T) {
	dir := t.TempDir()
	buildFolder(t, "griddata", dir)
	state := filepath.Join(dir, "hub")
	s, err := watch.NewStage("data")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(func(a *watch.Actor) { a.End(10 * time.Second) }) })
	hub, err := s.Start("hub", exec.Command(skepPath(t), "up", "--state", state, "--listen", "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hub.WaitForLine(t.Context(), `SKEP_TOKEN=(skep1\.\S+) skep join (\S+)`, time.Minute); err != nil {
		t.Fatal(err)
	}
	if out, code := runProgram(t, dir, skepPath(t), "run", "--state", state, "--", "./griddata-once"); code != 0 || !strings.Contains(out, "right\n") {
		t.Fatalf("the program ended with %d:\n%s", code, out)
	}
	program, err := os.Stat(filepath.Join(dir, "griddata.rex"))
	if err != nil {
		t.Fatal(err)
	}
	var done []engine.Entry
	out, _ := runProgram(t, dir, skepPath(t), "ledger", "--json", "--state", state)
	var all []engine.Entry
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, e := range all {
		if e.State == engine.Done {
			done = append(done, e)
		}
	}
	if len(done) != 7 {
		t.Fatalf("the ledger has %d calls that are done, not 7:\n%s", len(done), out)
	}
	var fetched uint64
	for _, e := range done {
		fetched += e.Fetched
	}
	if want := uint64(program.Size()) + onceBytes; fetched != want {
		t.Errorf("the node fetched %d bytes, not %d: the program and the data once", fetched, want)
	}
	for i, e := range done[1:5] {
		if len(e.Data) != 1 || len(e.Data[0]) != 64 || !slices.Equal(e.Data, done[0].Data) {
			t.Errorf("call %d has the data %q, and the first %q", i+2, e.Data, done[0].Data)
		}
	}
	if left := done[5].Kept; len(left) != 1 || !slices.Equal(left, done[6].Data) || slices.Equal(left, done[0].Data) {
		t.Errorf("a call left %q, and the next one got %q", left, done[6].Data)
	}
}

// Handles, containers and descriptions neither use memory that is free nor leave any.
func TestDataMemory(t *testing.T) {
	dir := t.TempDir()
	masters := buildFolder(t, "griddata", dir, "--", "-fsanitize=address")
	if len(masters) < 4 {
		t.Fatalf("%d programs: some are missing", len(masters))
	}
	runMasters(t, dir, masters)
}
