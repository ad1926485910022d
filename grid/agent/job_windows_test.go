// SPDX-License-Identifier: MIT

package agent

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/windows"
)

func init() { roles["victim"] = func([]string) { runVictim() } }

// runVictim runs an agent in another process with a worker, for a test that kills it. It prints
// the worker's process number.
func runVictim() {
	if err := protectAgent(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestVictim$", "-test.v")
	cmd.Env = append(os.Environ(), "AGENT_TEST_VICTIM=1")
	cmd.Stdout = os.Stdout
	cmd.Run()
	os.Exit(0)
}

func TestVictim(t *testing.T) {
	if os.Getenv("AGENT_TEST_VICTIM") == "" {
		return
	}
	r := newRig(t, beeProgram(t), 1)
	r.start(fnCompute, nil)
	var pid int
	waitUntil(t, "a worker", func() bool {
		r.pool.mu.Lock()
		defer r.pool.mu.Unlock()
		for w := range r.pool.all {
			pid = w.process.pid
		}
		return pid != 0
	})
	fmt.Println("ready", pid)
	select {}
}

func processRunning(pid uint32) bool {
	h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, pid)
	if err != nil {
		return false
	}
	defer windows.CloseHandle(h)
	state, err := windows.WaitForSingleObject(h, 0)
	return err == nil && state == uint32(windows.WAIT_TIMEOUT)
}

func TestKilledAgentLeavesNothing(t *testing.T) {
	cmd := exec.Command(os.Args[0], "victim")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for in := bufio.NewScanner(out); pid == 0 && in.Scan(); {
		if text, ok := strings.CutPrefix(in.Text(), "ready "); ok {
			pid, _ = strconv.Atoi(strings.TrimSpace(text))
		}
	}
	if pid == 0 || !processRunning(uint32(pid)) {
		t.Fatalf("no worker runs (process %d)", pid)
	}
	cmd.Process.Kill()
	waitUntil(t, "the end of the worker's loader", func() bool { return !processRunning(uint32(pid)) })
	cmd.Wait()
}
