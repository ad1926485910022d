// SPDX-License-Identifier: MIT

// Package compat runs programs in the style of OmniRPC, one for each feature. A folder of
// programs has interface files, their workers' sources (worker*.c, worker*.f) and one source for
// each program.
package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

// buildFolder builds all worker programs and masters of a folder, in dir; the options are those
// of the masters. It returns the masters' names.
func buildFolder(t *testing.T, folder, dir string, options ...string) (masters []string) {
	t.Helper()
	source, err := filepath.Abs(filepath.Join("programs", folder))
	if err != nil {
		t.Fatal(err)
	}
	workers, _ := filepath.Glob(filepath.Join(source, "*.idl"))
	more, _ := filepath.Glob(filepath.Join(source, "worker*.[cf]"))
	for _, w := range workers {
		if out, code := runProgram(t, dir, skepPath(t), append([]string{"gen", "--build", w}, more...)...); code != 0 {
			t.Errorf("%s was not built:\n%s", w, out)
		}
	}
	programs, _ := filepath.Glob(filepath.Join(source, "*.[cf]*"))
	for _, p := range programs {
		if slices.Contains(more, p) {
			continue
		}
		name := filepath.Base(folder) + "-" + strings.TrimSuffix(filepath.Base(p), filepath.Ext(p))
		if out, code := runProgram(t, dir, skepPath(t), append([]string{"gen", "--master", p, "-o", name}, options...)...); code != 0 {
			t.Errorf("the master %s was not built:\n%s", name, out)
		}
		masters = append(masters, name)
	}
	return masters
}

// buildAll builds all folders, two at a time.
func buildAll(t *testing.T) (dir string, masters []string) {
	t.Helper()
	folders, err := os.ReadDir("programs")
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	t.Run("build", func(t *testing.T) {
		var lock sync.Mutex
		for _, f := range folders {
			t.Run(f.Name(), func(t *testing.T) {
				t.Parallel()
				built := buildFolder(t, f.Name(), dir)
				lock.Lock()
				defer lock.Unlock()
				masters = append(masters, built...)
			})
		}
	})
	slices.Sort(masters)
	if len(masters) < 67 {
		t.Fatalf("%d programs: some are missing", len(masters))
	}
	return dir, masters
}

// runMasters runs programs one after another with the options of `skep run`, and judges
// each: the last line that it prints is "right".
func runMasters(t *testing.T, dir string, masters []string, options ...string) {
	t.Helper()
	const script = `for m; do
	if ./$m >$m.out 2>&1 && [ "$(tail -n 1 $m.out)" = right ]; then echo "ok: $m"; else echo "wrong: $m"; tail -n 20 $m.out; fi
done`
	words := slices.Concat([]string{"run"}, options, []string{"--", "sh", "-c", script, "sh"}, masters)
	out, code := runProgram(t, dir, skepPath(t), words...)
	for _, m := range masters {
		t.Run(m, func(t *testing.T) {
			if !strings.Contains(out, "ok: "+m+"\n") {
				_, why, _ := strings.Cut(out, "wrong: "+m+"\n")
				why, _, _ = strings.Cut(why, "ok: ")
				t.Errorf("it ended wrong and printed:\n%s", why)
			}
		})
	}
	if code != 0 {
		t.Errorf("skep run ended with %d:\n%s", code, out)
	}
}

// All programs run on Linux.
func TestPrograms(t *testing.T) {
	dir, masters := buildAll(t)
	runMasters(t, dir, masters)
}

// A failed call prints one line on standard error and ends the program. With
// SKEP_ERRORS=return the program continues.
func TestFailures(t *testing.T) {
	dir := t.TempDir()
	buildFolder(t, "../failures", dir)
	for name, want := range map[string]string{
		"arguments": "argument a of fails.bad",
		"async":     "argument a of fails.bad",
		"module":    "no worker program nothing.rex",
		"name":      "has a function nowhere",
		"twice":     "both have a function good: write MODULE.good",
		"path":      "there is no worker program there/is/none",
		"file":      "argument a of fails.move: its file cannot be read",
		"user":      "user nobody-like-this cannot be chosen",
		"inside":    "argument a of fails.bad",
		"thread":    "step of this program ended its thread: a function that a worker calls must return",
	} {
		t.Run(name, func(t *testing.T) {
			out, code := runProgram(t, dir, skepPath(t), "run", "--", "./failures-master", name)
			if code != 1 || strings.Contains(out, "result") || strings.Count(out, want) != 1 {
				t.Errorf("it ended with %d, not 1, and printed:\n%s\nwant one line with %q", code, out, want)
			}
			out, code = runProgram(t, dir, skepPath(t), "run", "--", "env", "SKEP_ERRORS=return", "./failures-master", name)
			if code != 0 || !strings.Contains(out, "result 0") || !strings.Contains(out, want) {
				t.Errorf("with SKEP_ERRORS=return it ended with %d and printed:\n%s", code, out)
			}
		})
	}
	for line, want := range map[string]string{
		"old request":     "omnirpc_wait was given 2, which is no request",
		"old handle":      "omnirpc_call_by_handle was given 2, which is no request or handle",
		"old string":      "argument text of fails.told: a Fortran program cannot pass it",
		"old name":        "a name must end in *",
		"old module":      "module fails has no Initialize",
		"old negative":    "argument a of fails.spread",
		"modern elements": "argument a of fails.spread has 6 elements and must have 5",
		"modern gaps":     "an array of a call is not contiguous",
		"old text":        "argument tell of fails.spoken: a Fortran subroutine cannot get the string s",
		"modern text":     "argument tell of fails.spoken: a Fortran subroutine cannot get the string s",
		"modern number":   "argument step of fails.stepped is a subroutine: give skep_procedure(NAME)",
		"modern array":    "argument step of fails.stepped is a subroutine: give skep_procedure(NAME)",
		"modern few":      "argument a of fails.spread: no pointer to it is given",
	} {
		t.Run(line, func(t *testing.T) {
			name, which, _ := strings.Cut(line, " ")
			out, code := runProgram(t, dir, skepPath(t), "run", "--", "./failures-"+name, which)
			if code != 1 || strings.Contains(out, "result") || strings.Count(out, want) != 1 {
				t.Errorf("it ended with %d, not 1, and printed:\n%s\nwant one line with %q", code, out, want)
			}
		})
	}
	out, code := runProgram(t, dir, skepPath(t), "run", "--", "./failures-master", "cancel")
	if code != 0 || !strings.Contains(out, "result") {
		t.Errorf("a cancelled call ended the program with %d:\n%s", code, out)
	}
	out, code = runProgram(t, dir, skepPath(t), "run", "--", "./failures-master", "exit")
	if code != 7 || out != "" {
		t.Errorf("exit(7) in a function that a worker called ended the program with %d:\n%s", code, out)
	}
	out, code = runProgram(t, dir, skepPath(t), "run", "--", "./failures-master", "--hostfile", "hosts.xml")
	if code != 1 || !strings.Contains(out, "--hostfile is not read") {
		t.Errorf("a hosts file was passed over: %d\n%s", code, out)
	}
	out, code = runProgram(t, dir, skepPath(t), "run", "--", "env", "SKEP_ERRORS=perhaps", "./failures-master", "none")
	if code != 1 || !strings.Contains(out, "SKEP_ERRORS must be return or exit") {
		t.Errorf("an unknown SKEP_ERRORS was passed over: %d\n%s", code, out)
	}
}

// On a grid with one slot, calls that functions of the master make run 16 deep, synchronous and
// asynchronous ones. One more is refused by name, and the others go on.
func TestNesting(t *testing.T) {
	dir := t.TempDir()
	buildFolder(t, "callbacks", dir)
	for depth, want := range map[string]string{
		"17": "right\n",
		"18": "count cannot be called: calls of this program wait for one another 16 deep",
	} {
		out, code := runProgram(t, dir, skepPath(t), "run", "--slots", "1", "--", "./callbacks-nested", depth)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s functions within one another: it ended with %d and printed:\n%s", depth, code, out)
		}
	}
	for _, name := range []string{"gridrpc", "both"} {
		out, code := runProgram(t, dir, skepPath(t), "run", "--slots", "1", "--", "./callbacks-"+name)
		if code != 0 || !strings.HasSuffix(out, "right\n") {
			t.Errorf("callbacks-%s on one slot: it ended with %d and printed:\n%s", name, code, out)
		}
	}
}
