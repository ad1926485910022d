// SPDX-License-Identifier: MIT

package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"skep/grid/engine"
	"skep/grid/hub"
)

const (
	keptCalls = 12
	keptCount = 300_000 // numbers in each result, 1.2 MB: together more than a session's window
)

// awaitDone waits until the hub's ledger has so many results.
func (s *scene) awaitDone(n int) {
	s.t.Helper()
	c := hub.NewClient(hub.ControlSocket(s.path("hub/hub")))
	s.await(fmt.Sprint(n, " results"), func() bool {
		list, err := c.Ledger(s.t.Context(), hub.LedgerQuery{Last: 10 * n})
		if err != nil {
			s.t.Fatal(err)
		}
		done := 0
		for _, e := range list {
			if e.State == engine.Done {
				done++
			}
		}
		return done == n
	})
}

// Results that a message cannot hold were accepted, and their master has not taken them, when
// the hub is killed, and with it the agent that computed them. No call is run again.
func TestAcceptedResultsAreKept(t *testing.T) {
	s := newScene(t)
	s.openLog()
	s.startAgent("--token", s.startHub())
	var said strings.Builder
	run := s.start(&said, "run", "--state", s.path("hub"), "--modules", filepath.Join(s.build, "test", "chaos"), "--",
		filepath.Join(s.build, "test", "chaos", "large"), strconv.Itoa(keptCalls), strconv.Itoa(keptCount), s.path("log/runs"))
	s.awaitDone(keptCalls)
	killNow(s.hub)
	killNow(s.agent)
	s.startHub()
	s.startAgent()
	s.continueChild(run.Process.Pid)
	if err := run.Wait(); err != nil {
		t.Errorf("skep run: %v", err)
	}
	if want := strconv.Itoa(keptCalls) + " right\n"; said.String() != want {
		t.Errorf("the master says %q, not %q", said.String(), want)
	}
	for number, runs := range s.runs() {
		if runs != 1 {
			t.Errorf("call %d was run %d times", number, runs)
		}
	}
	if left, _ := filepath.Glob(s.path("hub/hub/spool/result-*")); len(left) != 0 {
		t.Errorf("%d results are left", len(left))
	}
}

// childrenOf lists the children of a process.
func (s *scene) childrenOf(of int) (pids []string) {
	s.t.Helper()
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", of))
	for _, name := range lists {
		b, err := os.ReadFile(name)
		if err != nil {
			s.t.Fatal(err)
		}
		pids = append(pids, strings.Fields(string(b))...)
	}
	return pids
}

// continueChild continues the one child of a process.
func (s *scene) continueChild(of int) {
	s.t.Helper()
	words := s.childrenOf(of)
	if len(words) != 1 {
		s.t.Fatalf("process %d has the children %q", of, words)
	}
	pid, err := strconv.Atoi(words[0])
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGCONT)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
