// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Process 1 reaps every child, which would disturb other tests. So its tests run this
// program again as a child.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "-as-guest" {
		startReaper()
		os.Exit(actAsGuest(os.Args[2], os.Args[3], os.Args[4:]))
	}
	os.Exit(m.Run())
}

// actAsGuest runs a tool with input, or starts a program in a node.
func actAsGuest(how, name string, args []string) int {
	if how == "tool" {
		if err := runTool("input\n", name, args...); err != nil {
			fmt.Println(err)
			return 1
		}
		return 0
	}
	node, _ := strconv.Atoi(how)
	s := start{path: name, args: append([]string{name}, args...), dir: "/", env: []string{"A=b"},
		node: node, files: []*os.File{os.Stdin, os.Stdout, os.Stderr}}
	pid, ended, err := s.startProcess()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	status := <-ended
	fmt.Println(pid > 1, statusText(status), exitStatus(status))
	return 0
}

func runAsGuest(t *testing.T, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{"-as-guest"}, args...)...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// A tool gets its input, and the error of a failing tool contains its output.
func TestRunTool(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"true"}, ""},
		{[]string{"grep", "-q", "^input$"}, ""},
		{[]string{"sh", "-c", "[ $PWD = / ] && [ $PATH = " + pathList + " ]"}, ""},
		{[]string{"sh", "-c", "echo why; echo not >&2; exit 3"}, "sh -c echo why; echo not >&2; exit 3: status 3: why\nnot\n"},
		{[]string{"sh", "-c", "kill -9 $$"}, "sh -c kill -9 $$: ended by killed: \n"},
		{[]string{"no-such-tool"}, "no-such-tool: not found in PATH (" + pathList + "): run make setup on this computer\n"},
		{[]string{"sh", "-c", "head -c 200000 /dev/zero | tr '\\0' x; exit 1"}, ""},
	} {
		out, status := runAsGuest(t, append([]string{"tool"}, tt.args...)...)
		if strings.Contains(strings.Join(tt.args, " "), "200000") {
			if status != 1 || strings.Count(out, "x") < 4000 || strings.Count(out, "x") > 4200 {
				t.Errorf("a tool that says a lot: status %d, %d bytes", status, len(out))
			}
			continue
		}
		if out != tt.want || (status == 0) != (tt.want == "") {
			t.Errorf("%q: status %d, %q, not %q", tt.args, status, out, tt.want)
		}
	}
}

// A program's end reaches its starter; the error for a missing node names it.
func TestStartProcess(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"0", "/bin/sh", "-c", "[ $A = b ] && exit 7"}, "true status 7 7\n"},
		{[]string{"0", "/bin/sh", "-c", "kill -TERM $$"}, "true ended by terminated 143\n"},
		// Orphans are reaped too, and their ends are not taken for those of others.
		{[]string{"0", "/bin/sh", "-c", "(sh -c 'exit 9' &); exit 2"}, "true status 2 2\n"},
		{[]string{"0", "/no/such"}, syscall.ENOENT.Error() + "\n"},
		{[]string{"9999", "/bin/true"}, "enter node 9999: open /run/netns/node9999: no such file or directory\n"},
	} {
		if out, _ := runAsGuest(t, tt.args...); out != tt.want {
			t.Errorf("%q: %q, not %q", tt.args, out, tt.want)
		}
	}
}

// Signals that would end process 1, and so the machine, are caught.
func TestReaperTakesSignals(t *testing.T) {
	out, _ := runAsGuest(t, "0", "/bin/sh", "-c", "for s in HUP INT QUIT TERM USR1 USR2; do kill -$s $PPID; done; exit 4")
	if out != "true status 4 4\n" {
		t.Errorf("got %q", out)
	}
}
