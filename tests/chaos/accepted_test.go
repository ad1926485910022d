// SPDX-License-Identifier: MIT

package chaos

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
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
