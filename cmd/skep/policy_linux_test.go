// SPDX-License-Identifier: MIT

package main

import (
	"strings"
	"testing"
	"time"

	"skep/internal/load"
)

// A node whose owner permits nothing takes no program's calls, and says so to its hub, to
// its log and to whoever asks on the machine.
func TestPolicyOfANode(t *testing.T) {
	dir, _, _ := startJoinedHub(t)
	path := writePolicy(t, "use all when metered and not metered\nuse none\n")
	a := startService(t, dir, agentService, "--policy", path)
	a.hears("STATUS=connected to the hub")
	const said = "the owner's policy permits 0 of "
	listed := func() bool { // a heartbeat is due every three seconds
		out, code, _ := outputOf(t, "nodes", "--json", "--state", dir)
		return code == 0 && strings.Contains(out, said) && strings.Contains(out, "(line 2: use none)")
	}
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(load.Stretch(time.Minute)); !listed(); <-poll.C {
		if time.Now().After(end) {
			t.Fatal("the hub does not list what the policy permits")
		}
	}
	out, code, text := outputOf(t, "policy", "why", "--state", dir)
	if code != 0 || !strings.Contains(out, said) || !strings.Contains(out, path) || !strings.Contains(out, "2     yes      use none") {
		t.Errorf("%d %s\n%s", code, text, out)
	}
	if !strings.Contains(a.printed(), said) {
		t.Errorf("the log says nothing:\n%s", a.printed())
	}
}
