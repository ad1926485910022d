// SPDX-License-Identifier: MIT

package agent

import (
	"os"
	"strings"
	"testing"

	"skep/grid/proto"
)

// A loader that passes the program to CreateProcess, which runs it natively under Wine, must not
// be accepted as bee.
func TestCheatingLoader(t *testing.T) {
	path := os.Getenv("AGENT_TEST_CHEAT")
	if path == "" {
		t.Fatal("AGENT_TEST_CHEAT names no loader; run: make test T=wine-agent")
	}
	t.Setenv("CHEAT_PROGRAM", workerFile)
	t.Setenv("CHEAT_COMMAND", "worker")
	r := newRig(t, path, 1)
	_, f, ok := r.waitForEnd(r.start(fnEcho, []byte("x")))
	if ok || f.Reason != proto.ReasonRefused && f.Reason != proto.ReasonDied {
		t.Errorf("%v %+v", ok, f)
	}
	// The system gives such a program no streams, but it can leave a file.
	mark := os.Getenv("AGENT_TEST_MARK")
	t.Setenv("CHEAT_PROGRAM", `Z:\bin\busybox`)
	t.Setenv("CHEAT_COMMAND", "busybox touch "+mark)
	got := r.execute(readBusybox(t), "", "touch", "mark")
	if !strings.Contains(got.failed, "safety check") {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat("Z:" + mark); err != nil {
		t.Errorf("the cheat ran nothing, so nothing was tested: %+v", got)
	}
}
