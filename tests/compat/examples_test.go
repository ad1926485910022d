// SPDX-License-Identifier: MIT

package compat

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var shownLine = regexp.MustCompile("(?m)^The last command prints `(.*)`\\.$")

const examples = "../../examples/omnirpc"

// withMPI names the example that needs an MPI, which TestRanksExample tries.
const withMPI = "mpi"

// The commands of each example's README, typed in a copy of its folder, print what it says.
func TestExamples(t *testing.T) {
	list, err := os.ReadDir(examples)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, e := range list {
		if !e.IsDir() || e.Name() == withMPI {
			continue
		}
		seen++
		t.Run(e.Name(), func(t *testing.T) { runExample(t, e.Name()) })
	}
	if seen != 6 {
		t.Errorf("%d examples, not 6", seen)
	}
}

func runExample(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(examples, name, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := shownLine.FindStringSubmatch(string(text))
	var commands []string
	for _, line := range strings.Split(string(text), "\n") {
		if command, found := strings.CutPrefix(line, "    "); found {
			commands = append(commands, command)
		}
	}
	if shown == nil || len(commands) < 3 {
		t.Fatalf("its README says neither what to type nor what it prints:\n%s", text)
	}
	dir := shortDir(t)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(examples, name))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	out := ""
	for _, c := range commands {
		out = mustRun(t, dir, c, 0)
	}
	if lines := strings.Split(strings.TrimSpace(out), "\n"); lines[len(lines)-1] != shown[1] {
		t.Errorf("the last command printed\n%s\nnot %q", out, shown[1])
	}
}
