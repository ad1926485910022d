// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"skep/internal/load"
	"skep/lab"
	"skep/tests/vmtest"
)

// plantedTime is the time limit of a planted test on an idle computer. The guards must end it much
// earlier, because the message of a test's time limit names no cause.
const plantedTime = 10 * time.Minute

// guards lists tests that must fail, with the expected words; a nil list belongs to a test that
// must pass. The long form has those of which tests without machines check most.
var guards = []struct {
	name  string
	long  bool
	fails []string
}{
	{"undeclared", false, []string{"the kernel reported what was not declared: WARNING in plant_warn: WARNING: CPU:"}},
	{"declared", true, nil},
	{"absent", true, []string{
		"declared, but not on the console: WARNING in plant_warn; console: ",
		"declared, but not on the console: BUG in plant_bug; console: "}},
	{"panic", false, []string{
		"no plan after 1 tests: machine \"planted-panic\" is dead: Kernel panic - not syncing: skep_planted",
		"the kernel reported what was not declared: panic in plant_panic"}},
	{"hang", false, []string{
		"2 tests planned, 1 reported: no result line for ", " s; last line: ok 1 - before it; console: "}},
	{"reports", true, []string{
		"no plan after 1 tests",
		"0 tests passed, the floor is 1", "no reason at all",
		"2 tests passed, the floor is 3",
		"exit status 3, though no test failed",
		"no test and no plan"}},
}

func TestLabGuard(t *testing.T) {
	for _, tt := range guards {
		if tt.long && !vmtest.Both {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			p := startPlanted(t, tt.name)
			out, err := p.wait()
			if (err == nil) != (tt.fails == nil) {
				t.Errorf("%v", err)
			}
			want := tt.fails
			if want == nil {
				want = []string{"--- PASS: TestLabPlanted"}
			}
			p.check(t, out, want, tt.fails != nil)
		})
	}
}

// If a test or the process that started it is killed, its machine ends too. A QEMU that is killed
// is named as the cause of a failure.
func TestLabGuard_killed(t *testing.T) {
	for _, who := range []string{"its starter", "the test", "QEMU"} {
		if who != "its starter" && !vmtest.Both {
			continue
		}
		t.Run(who, func(t *testing.T) {
			name, want := "orphaned", []string(nil)
			if who == "QEMU" {
				name, want = "killed", []string{"QEMU was killed by signal 9", "console: "}
			}
			p := startPlanted(t, name)
			p.waitUntilUp(t)
			pid := p.cmd.Process.Pid
			switch who {
			case "the test":
				pid = listChildren(pid)[0]
			case "QEMU":
				list := listQEMUs("planted-killed")
				if len(list) != 1 {
					t.Fatalf("QEMU's processes: %v", list)
				}
				pid = list[0]
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			out, err := p.wait()
			if err == nil {
				t.Error("the test passed")
			}
			p.check(t, out, want, true)
		})
	}
}

// A plantedRun is a planted test below a shell, which stands for `go test`.
type plantedRun struct {
	name string
	cmd  *exec.Cmd
	out  *bufio.Scanner
	text strings.Builder
	late func() bool // reports whether its time is over
}

func startPlanted(t *testing.T, name string) *plantedRun {
	t.Helper()
	vmtest.Lock(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &plantedRun{name: name}
	ctx, cancel := load.WithTimeout(t.Context(), plantedTime)
	t.Cleanup(cancel)
	p.late = func() bool { return ctx.Err() != nil }
	p.cmd = exec.CommandContext(ctx, "/bin/sh", "-c", `"$0" -test.v -test.run='^TestLabPlanted$'; exit $?`, exe)
	p.cmd.Env = append(os.Environ(), plantedVar+"="+name, vmtest.Held+"=yes", "SKEP_VM_BEGAN=")
	pipe, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(pipe)
	p.out.Buffer(nil, 1<<20)
	return p
}

// nextLine reads one line; false at the end.
func (p *plantedRun) nextLine() (string, bool) {
	if !p.out.Scan() {
		return "", false
	}
	fmt.Fprintln(&p.text, p.out.Text())
	return p.out.Text(), true
}

// waitUntilUp waits for the machine.
func (p *plantedRun) waitUntilUp(t *testing.T) {
	t.Helper()
	for {
		line, ok := p.nextLine()
		if !ok {
			t.Fatalf("the planted test ended early:\n%s", p.text.String())
		}
		if line == upLine {
			return
		}
	}
}

// wait reads until end of file, when all processes with the output open have ended.
func (p *plantedRun) wait() (string, error) {
	for {
		if _, ok := p.nextLine(); !ok {
			return p.text.String(), p.cmd.Wait()
		}
	}
}

// check checks that these words were printed, that no process remains, and that only the logs of a
// failure remain.
func (p *plantedRun) check(t *testing.T, out string, want []string, logs bool) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(out, text) {
			t.Errorf("no %q", text)
		}
	}
	if p.late() {
		t.Errorf("not over within %v of an idle computer", plantedTime)
	}
	name := "planted-" + p.name
	for end := time.Now().Add(load.Stretch(10 * time.Second)); len(listQEMUs(name)) > 0; <-time.After(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("QEMU still runs: %v", listQEMUs(name))
			break
		}
	}
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(build, "lab", name)
	p.checkFiles(t, dir, logs)
	if t.Failed() {
		t.Logf("it said:\n%s", out)
	} else if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// checkFiles checks that the logs of a failure remain, or nothing.
func (p *plantedRun) checkFiles(t *testing.T, dir string, logs bool) {
	t.Helper()
	list, _ := filepath.Glob(dir + "/*")
	allowed := []string{"console.log", "results.tap", "qemu.log", "out"}
	seen := false
	for _, path := range list {
		name := filepath.Base(path)
		seen = seen || name == "console.log"
		if !logs || !slices.Contains(allowed, name) {
			t.Errorf("%s is left", path)
		}
	}
	if seen != logs {
		t.Errorf("the console's log is left: %v, want %v", seen, logs)
	}
}

// listQEMUs lists the processes of the machine with this name.
func listQEMUs(machine string) (list []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		if strings.Contains(string(text), "\x00-name\x00skep-"+machine+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			list = append(list, pid)
		}
	}
	return list
}

func listChildren(pid int) (list []int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	for _, f := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(f); err == nil {
			list = append(list, n)
		}
	}
	return list
}
