// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/internal/cli"
	labs "skep/lab"
	"skep/lab/hold"
)

func TestLabUsage(t *testing.T) {
	t.Setenv("SKEP_BUILD", t.TempDir())
	for _, line := range []string{
		"lab", "lab frob", "lab list x", "lab list --nonsense", "lab down a b", "lab down --all a", "lab hold x", "lab up --detach --name run-1", "lab shell a b",
		"lab run", "lab run --memory 5 -- x", "lab run --memory 1M1 -- x", "lab run --loss 1 -- x", "lab run --loss 101% -- x",
		"lab run --loss NaN% -- x", "lab run --cpus 0 -- x", "lab run --cpus=-1 -- x", "lab run --numa 0 -- x", "lab run --kernel 5.10 -- x",
		"lab run --kernel 6.1-debug-debug -- x", "lab run --kernel 6.1.176 -- x", "lab run --kernel 6.1.176-1-debug -- x", "lab run --delay 20 -- x", "lab run --delay 20ms -- x", "lab run --swap 0 -- x",
		"lab run --name a --cpus 2 -- x", "lab run --node 1 -- x", "lab run --node -1 -- x", "lab run --cpus 65 -- x", "lab run --memory 65G -- x",
		"lab run --cpus 3 --numa 2 -- x", "lab run --swap 17G -- x", "lab run --module ../x -- x", "lab up --detach --name a,b", "lab run --detach -- x", "lab up x", "lab up --detach --name .a", "lab up --detach --name a/b",
		"help lab frob", "help lab up x",
	} {
		code, text := cli.ExitCode(dispatch(context.Background(), strings.Fields(line)))
		if code != cli.Usage || text == "" || strings.Contains(text, "\n") {
			t.Errorf("%s: %d %q", line, code, text)
		}
	}
}

func TestLabMachineOptions(t *testing.T) {
	r := &labRun{}
	f := cli.NewFlags("lab run", "lab run")
	r.options(f)
	words, err := f.ParseCommand(strings.Fields("--kernel 6.12-debug --cpus 4 --memory 2G --numa 2 --nodes 3 --delay 20ms " +
		"--loss 1% --swap 64M --module a --module b --user --node 3 -- x -y"))
	if err != nil || strings.Join(words, " ") != "x -y" {
		t.Fatal(words, err)
	}
	m := r.Machine
	if m.Kernel != "6.12-debug" || m.CPUs != 4 || m.Memory != 2048 || m.NUMA != 2 || m.Nodes != 3 || m.Delay != 20*time.Millisecond ||
		m.Loss != 0.01 || len(m.Disks) != 1 || m.Disks[0] != (labs.Disk{MiB: 64, Swap: true}) || strings.Join(m.Modules, " ") != "a b" {
		t.Errorf("%+v", m)
	}
	if !r.user || r.node != 3 || !r.isGiven(f) {
		t.Errorf("%+v, a machine is described: %v", r.labProgram, r.isGiven(f))
	}
	plain := &labRun{}
	f = cli.NewFlags("lab run", "lab run")
	plain.options(f)
	if _, err := f.ParseCommand(strings.Fields("--name a --user --node 1 --dir / -- x")); err != nil || plain.isGiven(f) {
		t.Errorf("%v, a machine is described: %v", err, plain.isGiven(f))
	}
	if plain.Kernel != labs.Series()[0] || plain.CPUs != 2 || plain.Memory != 1024 {
		t.Errorf("the defaults are %+v", plain.Machine)
	}
}

func TestLabTakesVersionsOfKernels(t *testing.T) {
	for _, kernel := range []string{"6.1.176-1", "6.12.95-1~bpo12+1", "6.12", "6.1-debug"} {
		r := &labRun{}
		f := cli.NewFlags("lab run", "lab run")
		r.options(f)
		if _, err := f.ParseCommand([]string{"--kernel", kernel, "--", "x"}); err != nil {
			t.Fatal(err)
		}
		r.Name = "run"
		if err := r.labMachine.check(f, t.TempDir()); err != nil {
			t.Errorf("%s: %v", kernel, err)
		}
	}
}

// Without machines the commands find nothing and create no files.
func TestLabWithoutMachines(t *testing.T) {
	t.Setenv("SKEP_BUILD", t.TempDir())
	for line, want := range map[string]int{
		"lab list": 0, "lab list --json": 0, "lab down": cli.Failed, "lab down --all": 0, "lab down a": cli.Unreachable,
		"lab run --name a -- x": cli.Unreachable,
	} {
		if code, text := cli.ExitCode(dispatch(context.Background(), strings.Fields(line))); code != want {
			t.Errorf("%s: %d %q, want %d", line, code, text, want)
		}
	}
	t.Setenv("SKEP_BUILD", t.TempDir()+"/absent")
	if code, text := cli.ExitCode(dispatch(context.Background(), []string{"lab", "list"})); code != cli.Failed || !strings.Contains(text, "run make") {
		t.Errorf("no build folder: %d %q", code, text)
	}
}

// plantDeadMachine creates the files that remain of a machine whose holder was killed.
func plantDeadMachine(t *testing.T, build, name string) {
	t.Helper()
	dir := filepath.Join(build, "lab", ".hold", name)
	info, err := json.Marshal(hold.Info{Name: name, State: hold.Dead, Cause: "a panic of " + name, Dir: build})
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	for file, text := range map[string][]byte{"lock": nil, "info": info} {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), text, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A command for one machine also reports other machines that it found dead and removed.
func TestLabReportsOtherDeaths(t *testing.T) {
	build := t.TempDir()
	t.Setenv("SKEP_BUILD", build)
	old := os.Stderr
	defer func() { os.Stderr = old }()
	for _, line := range []string{"lab run --name b -- x", "lab down b"} {
		plantDeadMachine(t, build, "a")
		plantDeadMachine(t, build, "b")
		file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
		if err != nil {
			t.Fatal(err)
		}
		os.Stderr = file
		_, text := cli.ExitCode(dispatch(context.Background(), strings.Fields(line)))
		os.Stderr = old
		file.Close()
		said, _ := os.ReadFile(file.Name())
		if !strings.Contains(string(said), "a panic of a") || strings.Contains(string(said), "a panic of b") || strings.Contains(text, "a panic of a") {
			t.Errorf("%s: %q beside %q", line, said, text)
		}
	}
}

func TestLabOffersNoMachineOfACommand(t *testing.T) {
	list := []*hold.Machine{{Info: hold.Info{Name: "lab"}}, {Info: hold.Info{Name: "run-1"}}}
	for name, want := range map[string]string{"": "lab", "run-1": "lab, run-1", "x": "lab, run-1"} {
		if got := hold.JoinNames(labOffered(list, name)); got != want {
			t.Errorf("for %q: %s, want %s", name, got, want)
		}
	}
}

func TestLabEnds(t *testing.T) {
	for _, c := range []struct {
		status int
		err    error
		code   int
	}{
		{0, nil, 0}, {7, nil, 7}, {137, nil, 137}, {256, nil, cli.Failed},
		{0, &labs.RunError{Status: exitMissing, Reason: "x: not found in PATH (/bin)"}, exitMissing},
		{0, &labs.RunError{Status: exitCannot, Reason: "start /etc/passwd in /: permission denied"}, exitCannot},
		{0, &hold.Gone{Text: "the machine x died: Kernel panic"}, cli.Unreachable},
		{0, context.Canceled, exitStopped}, {0, errors.New("a file"), cli.Failed},
	} {
		if code, _ := cli.ExitCode(labEnd(c.status, c.err)); code != c.code {
			t.Errorf("%d, %v: %d, want %d", c.status, c.err, code, c.code)
		}
	}
}

func TestHelpOfTheLab(t *testing.T) {
	var out strings.Builder
	lab, _ := findCommand([]string{"lab"})
	printHelp(&out, lab)
	for _, w := range labWords() {
		if strings.Contains(out.String(), "skep "+w.name+" ") == w.hidden {
			t.Errorf("%s is hidden %v, but help says\n%s", w.name, w.hidden, out.String())
		}
		if !strings.HasPrefix(w.usage, w.name) || w.summary == "" {
			t.Errorf("%s: usage %q, summary %q", w.name, w.usage, w.summary)
		}
	}
}
