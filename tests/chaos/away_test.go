// SPDX-License-Identifier: MIT

package chaos

import (
	"fmt"
	"slices"
	"testing"

	"skep/grid/hub"
)

// goAway cuts the network until the hub knows that the node is gone.
func (s *scene) goAway() {
	s.t.Helper()
	s.net.cut()
	s.await("a node that is gone", func() bool {
		list := skepJSON[[]hub.NodeInfo](s, "nodes")
		return len(list) == 1 && list[0].State != hub.NodeUp
	})
}

// A call that stands in its function, or in that of its master, when its node goes away is shown
// as away, and goes on when the node is back: it has called its master, so it could not run again.
// The node also goes away from a hub that stands still for longer than agents wait for one.
func TestCallThatCalledOutlivesItsConnection(t *testing.T) {
	s := newScene(t)
	s.openLog()
	s.startAgent("--token", s.startHub())
	s.awaitNode()
	for i, k := range []strike{{"network", "in", 2}, {"network", "back", 2}, {"paused hub", "in", 2}} {
		said, passed := s.callAndStrike(k, fmt.Sprintf("away-%d", i), false)
		if said != k.want() {
			t.Errorf("%v: the master says %q", k, said)
		}
		for _, line := range []string{"send 1", "in 1", "in 2", "in 3", "out 3", "back 3"} {
			if n := len(passed) - len(slices.DeleteFunc(slices.Clone(passed), func(o string) bool { return o == line })); n != 1 {
				t.Errorf("%v: %q passed %d times: %q", k, line, n, passed)
			}
		}
	}
}

// The node goes away and comes back while calls are made, and the hub is stopped in between.
func TestNodeAway(t *testing.T) {
	newScene(t).play(newRandom(1), calls/4, []disturbance{nodeAway, hubStopped, nodeAway})
}
