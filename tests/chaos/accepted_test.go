// SPDX-License-Identifier: MIT

package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Once 'skep run --detach' has returned, the run and its calls outlive a hub that is killed at
// any moment: before the run is open, while sessions and modules are recorded, while calls run,
// and while they end.
func TestAcceptedRunsOutliveTheHub(t *testing.T) {
	const runs, calls = 6, 60
	seed := uint64(9)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := newScene(t)
	s.openLog()
	s.startAgent("--token", s.startHub())
	s.awaitNode() // an agent that cannot join ends
	for i := range runs {
		id := s.detach("--modules", filepath.Join(s.build, "test", "chaos"), "--",
			filepath.Join(s.build, "test", "chaos", "master"), strconv.Itoa(calls), strconv.Itoa(window), strconv.Itoa(pause), s.path("log/runs"))
		after := time.Duration(0)
		if i > 0 {
			after = time.Duration(rng.IntN(400)) * time.Millisecond >> rng.IntN(6)
		}
		<-time.After(after)
		killNow(s.hub)
		s.startHub()
		if i%3 == 2 { // it would wait twice as long after each loss of its hub
			killNow(s.agent)
			s.startAgent()
		}
		out, code := s.skep("attach", "--state", s.path("hub"), id)
		if want := fmt.Sprintf("\n%d right, 0 wrong, 0 failed\n", calls); code != 0 || !strings.Contains(out, want) {
			t.Errorf("seed %d, run %d, hub killed after %v: exit code %d: %.500q", seed, i, after, code, out)
		}
	}
}

// The open call of a detached run has more arguments than memory keeps, and the hub is killed. It
// is not lost: its arguments are in a file of the run's folder, which has no name.
func TestDetachedArgumentsAreKept(t *testing.T) {
	const calls, count = 1, 70_000_000 // 280 MB
	s := newScene(t)
	s.openLog()
	s.startAgent("--token", s.startHub())
	s.awaitNode()
	id := s.detach("--modules", filepath.Join(s.build, "test", "chaos"), "--",
		filepath.Join(s.build, "test", "chaos", "large"), strconv.Itoa(calls), strconv.Itoa(count), s.path("log/runs"))
	holder := s.holderOf(id)
	s.awaitStopped(holder)
	killNow(s.hub)
	s.startHub()
	s.continueChild(holder)
	out, code := s.skep("attach", "--state", s.path("hub"), id)
	if want := fmt.Sprintf("%d right\n", calls); code != 0 || !strings.Contains(out, want) {
		t.Errorf("exit code %d: %.500q", code, out)
	}
	if left, _ := filepath.Glob(s.path("hub/detached/" + id + "/.kept-*")); len(left) != 0 {
		t.Errorf("%q are left", left)
	}
}

// holderOf returns the process that holds a detached run.
func (s *scene) holderOf(id string) int {
	s.t.Helper()
	b, err := os.ReadFile(s.path("hub/detached/" + id + "/record.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	pid, err := strconv.Atoi(regexp.MustCompile(`"pid":(\d+)`).FindStringSubmatch(string(b))[1])
	if err != nil {
		s.t.Fatal(err)
	}
	return pid
}

// awaitStopped waits until the one child of a process has stopped itself.
func (s *scene) awaitStopped(of int) {
	s.t.Helper()
	s.await("a master that stops", func() bool {
		children := s.childrenOf(of)
		if len(children) != 1 {
			return false
		}
		b, err := os.ReadFile("/proc/" + children[0] + "/stat")
		return err == nil && strings.Contains(string(b), ") T ")
	})
}
