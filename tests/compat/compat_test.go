// SPDX-License-Identifier: MIT

// Package compat runs programs in the style of OmniRPC, one folder per feature:
// an interface file, a master, and what the worker is linked with.
package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/internal/load"
	"skep/tests/built"
)

const runTime = 2 * time.Minute

// runProgram returns a program's output and exit code. It uses its own state directory, so
// that no hub of this machine is used.
func runProgram(t *testing.T, dir, name string, args ...string) (output string, code int) {
	t.Helper()
	ctx, cancel := load.WithTimeout(t.Context(), runTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "XDG_RUNTIME_DIR=")
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil || cmd.ProcessState == nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func skepPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(built.Folder(t, "make check T=compat"), "bin", "skep")
}

// buildFolder builds all worker programs and the master of a folder.
func buildFolder(t *testing.T, folder string) (dir string) {
	t.Helper()
	source, err := filepath.Abs(filepath.Join("programs", folder))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	workers, _ := filepath.Glob(filepath.Join(source, "*.idl"))
	more, _ := filepath.Glob(filepath.Join(source, "worker*.c"))
	for _, w := range workers {
		if out, code := runProgram(t, dir, skepPath(t), append([]string{"gen", "--build", w}, more...)...); code != 0 {
			t.Fatalf("%s was not built:\n%s", w, out)
		}
	}
	if out, code := runProgram(t, dir, skepPath(t), "gen", "--master", filepath.Join(source, "master.c"), "-o", "master"); code != 0 {
		t.Fatalf("the master of %s was not built:\n%s", folder, out)
	}
	return dir
}

// Each program prints that its results are right.
func TestPrograms(t *testing.T) {
	folders, err := os.ReadDir("programs")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	for _, f := range folders {
		t.Run(f.Name(), func(t *testing.T) {
			dir := buildFolder(t, f.Name())
			out, code := runProgram(t, dir, skepPath(t), "run", "--", "./master")
			if code != 0 || !strings.HasSuffix(strings.TrimSpace(out), "right") {
				t.Errorf("the master ended with %d and printed:\n%s", code, out)
			}
		})
	}
}

// A failed call prints one line on standard error and ends the program. With
// SKEP_ERRORS=return the program continues.
func TestFailures(t *testing.T) {
	dir := buildFolder(t, "../failures")
	for name, want := range map[string]string{
		"arguments": "argument a of fails.bad",
		"async":     "argument a of fails.bad",
		"module":    "no worker program nothing.rex",
		"name":      "has a function nowhere",
		"twice":     "both have a function good: write MODULE.good",
		"path":      "there is no worker program there/is/none",
		"file":      "argument a of fails.move: its file cannot be read",
		"user":      "user nobody-like-this cannot be chosen",
	} {
		t.Run(name, func(t *testing.T) {
			out, code := runProgram(t, dir, skepPath(t), "run", "--", "./master", name)
			if code != 1 || strings.Contains(out, "result") || strings.Count(out, want) != 1 {
				t.Errorf("it ended with %d, not 1, and printed:\n%s\nwant one line with %q", code, out, want)
			}
			out, code = runProgram(t, dir, skepPath(t), "run", "--", "env", "SKEP_ERRORS=return", "./master", name)
			if code != 0 || !strings.Contains(out, "result 0") || !strings.Contains(out, want) {
				t.Errorf("with SKEP_ERRORS=return it ended with %d and printed:\n%s", code, out)
			}
		})
	}
	out, code := runProgram(t, dir, skepPath(t), "run", "--", "./master", "cancel")
	if code != 0 || !strings.Contains(out, "result") {
		t.Errorf("a cancelled call ended the program with %d:\n%s", code, out)
	}
	out, code = runProgram(t, dir, skepPath(t), "run", "--", "./master", "--hostfile", "hosts.xml")
	if code != 1 || !strings.Contains(out, "--hostfile is not read") {
		t.Errorf("a hosts file was passed over: %d\n%s", code, out)
	}
	out, code = runProgram(t, dir, skepPath(t), "run", "--", "env", "SKEP_ERRORS=perhaps", "./master", "none")
	if code != 1 || !strings.Contains(out, "SKEP_ERRORS must be return or exit") {
		t.Errorf("an unknown SKEP_ERRORS was passed over: %d\n%s", code, out)
	}
}
