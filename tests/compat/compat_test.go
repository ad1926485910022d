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
)

const runTime = 2 * time.Minute

// run gives what a program prints and its exit code; the user has a state of
// their own, so that no hub of this machine takes part.
func run(t *testing.T, dir, name string, args ...string) (output string, code int) {
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

func skep(t *testing.T) string {
	build := os.Getenv("BUILD")
	if build == "" {
		t.Skip("BUILD does not name the build folder: make check T=compat does")
	}
	return filepath.Join(build, "bin", "skep")
}

// build makes all worker programs and the master of a folder.
func build(t *testing.T, folder string) (dir string) {
	t.Helper()
	source, err := filepath.Abs(filepath.Join("programs", folder))
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	workers, _ := filepath.Glob(filepath.Join(source, "*.idl"))
	more, _ := filepath.Glob(filepath.Join(source, "worker*.c"))
	for _, w := range workers {
		if out, code := run(t, dir, skep(t), append([]string{"gen", "--build", w}, more...)...); code != 0 {
			t.Fatalf("%s was not built:\n%s", w, out)
		}
	}
	if out, code := run(t, dir, skep(t), "gen", "--master", filepath.Join(source, "master.c"), "-o", "master"); code != 0 {
		t.Fatalf("the master of %s was not built:\n%s", folder, out)
	}
	return dir
}

// Each program says that its answers are right.
func TestPrograms(t *testing.T) {
	folders, err := os.ReadDir("programs")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	for _, f := range folders {
		t.Run(f.Name(), func(t *testing.T) {
			dir := build(t, f.Name())
			out, code := run(t, dir, skep(t), "run", "--", "./master")
			if code != 0 || !strings.HasSuffix(strings.TrimSpace(out), "right") {
				t.Errorf("the master ended with %d and printed:\n%s", code, out)
			}
		})
	}
}
