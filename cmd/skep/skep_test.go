// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"skep/internal/cli"
)

// Every invalid command line gives exit code 2 and one sentence.
func TestUsage(t *testing.T) {
	for _, line := range []string{"frob", "doctor x", "doctor --nonsense", "version --json=maybe", "help a b", "help frob", "kit",
		"help lab frob", "help lab up x", "help up x", "--json nodes", "nodes --remove=", "token --expires soon",
		"up --listen nonsense", "up --listen 127.0.0.1:99999", "up --advertise here", "up --advertise :1"} {
		code, text := cli.ExitCode(dispatch(context.Background(), strings.Fields(line)))
		if code != cli.Usage || text == "" || strings.Contains(text, "\n") {
			t.Errorf("%s: %d %q", line, code, text)
		}
	}
}

func TestHelpOfUnknownSubcommand(t *testing.T) {
	_, text := cli.ExitCode(dispatch(t.Context(), []string{"help", "lab", "frob"}))
	if !strings.Contains(text, `skep lab has no subcommand "frob"`) || !strings.Contains(text, "up, shell") {
		t.Errorf("got %q", text)
	}
}

// A command fails if its output can't be written.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	out := os.Stdout
	defer func() { os.Stdout = out; full.Close() }()
	idl := filepath.Join(t.TempDir(), "m.idl")
	if err := os.WriteFile(idl, []byte("Module m;\nDefine f() { }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"help", "help lab", "help lab up", "gen --help", "version", "version --json", "doctor", "gen --manifest " + idl} {
		os.Stdout = full
		code, text := cli.ExitCode(dispatch(t.Context(), strings.Fields(line)))
		os.Stdout = out
		if code != cli.Failed || !strings.Contains(text, "no space left") {
			t.Errorf("%s: %d %q", line, code, text)
		}
	}
}

// The exit codes 126 and 127 are those of a shell.
func TestProgramsThatDoNotStart(t *testing.T) {
	for _, verb := range []string{"run", "mpirun -n 1"} {
		for program, want := range map[string]int{"/nonexistent": exitMissing, "no-such-program": exitMissing, "/dev/null": exitCannot, t.TempDir(): exitCannot} {
			code, text := cli.ExitCode(dispatch(t.Context(), append(strings.Fields(verb), "--", program)))
			if code != want || !strings.HasPrefix(text, program+" can't be run: ") || strings.Count(text, program) != 1 {
				t.Errorf("%s %s: %d %q, want %d", verb, program, code, text, want)
			}
		}
	}
}

func TestHelpNamesEachCommand(t *testing.T) {
	var out strings.Builder
	if err := list(&out); err != nil {
		t.Fatal(err)
	}
	for _, c := range commands() {
		if strings.Contains(out.String(), "skep "+c.name+" ") == c.hidden {
			t.Errorf("%s is hidden %v, but the list is\n%s", c.name, c.hidden, out.String())
		}
		if !strings.HasPrefix(c.usage, c.name) || c.summary == "" {
			t.Errorf("%s: usage %q, summary %q", c.name, c.usage, c.summary)
		}
	}
}

func TestProbeLines(t *testing.T) {
	checks := probeLines("host   ok   bee 0.1 on Wine 8.0\r\nguest-arena bad error 487\nsymlinks accepted no link\ntimers ok fine\n")
	if len(checks) != 3 || checks[0].Found != "bee 0.1 on Wine 8.0" || checks[1].State != checkBad || checks[1].Cure == "" || checks[2].State != checkNote {
		t.Errorf("%+v", checks)
	}
	checks = probeLines("bee 0.1 on Linux\ncpus  2\n")
	if len(checks) != 1 || checks[0].State != checkOK {
		t.Errorf("%+v", checks)
	}
}

func TestDoctorState(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if checks := checkState(file); checks[0].State != checkBad {
		t.Errorf("a file as state directory: %+v", checks)
	}
	if checks := checkState(filepath.Join(dir, "a", "b")); checks[0].State != checkOK {
		t.Errorf("a directory to be made: %+v", checks)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("the doctor left %v, %v", left, err)
	}
}

// A loader that merely starts the program gives the right output, but fails because it has
// no report of this run.
func TestKitWantsProof(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("kit.tbl", "# comment\nhello hello\n", 0o644)
	program := write("programs/hello", "#!/bin/sh\necho hello\n", 0o755)
	write("expected/hello.out", "hello\n", 0o644)
	write("expected/hello.code", "0\n", 0o644)
	const head = "#!/bin/sh\n# --clean-env --nonce N --report F PROGRAM\n"
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte("#!/bin/sh\necho hello\n")))
	cheats := map[string]string{
		"":                head + `exec "$6"`,
		"nonce":           head + `printf 'nonce 00\nsha256_file ` + digest + `\ncalls 3\n' >"$5"; exec "$6"`,
		"sha256_file":     head + `printf 'nonce %s\nsha256_file 00\ncalls 3\n' "$3" >"$5"; exec "$6"`,
		"counts no calls": head + `printf 'nonce %s\nsha256_file ` + digest + `\ncalls 0\n' "$3" >"$5"; exec "$6"`,
	}
	for word, script := range cheats {
		k := &kit{bee: write("bee", script, 0o755), folder: dir}
		if err := k.runCase(t.Context(), "hello", []string{"hello"}); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("cheat %q: %v", word, err)
		}
	}
	honest := head + `printf 'nonce %s\nsha256_file ` + digest + `\ncalls 3\n' "$3" >"$5"; exec "$6"`
	k := &kit{bee: write("bee", honest, 0o755), folder: dir}
	if err := k.runCase(t.Context(), "hello", []string{"hello"}); err != nil {
		t.Errorf("%s: %v", program, err)
	}
	write("expected/hello.code", "1\n", 0o644)
	if err := k.runCase(t.Context(), "hello", []string{"hello"}); err == nil {
		t.Error("a wrong exit code passes")
	}
}
