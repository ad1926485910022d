// SPDX-License-Identifier: MIT

package agent

import (
	"slices"
	"testing"

	"skep/internal/proto"
)

func TestHelloNamesSessions(t *testing.T) {
	r := newRig(t, beeOrNone(t), 1)
	if h := r.Agent.hello(); len(h.Sessions) != 0 {
		t.Fatalf("a fresh agent has %v", h.Sessions)
	}
	r.good(r.start(fnEcho, nil))
	if h := r.Agent.hello(); !slices.Equal(h.Sessions, []string{"s"}) {
		t.Fatalf("after a call: %v", h.Sessions)
	}
	workers := r.pool.release("")
	r.welcomed(proto.Welcome{Ended: []string{"s"}})
	if h := r.Agent.hello(); len(workers) != 1 || len(h.Sessions) != 0 {
		t.Fatalf("%d workers, then %v", len(workers), h.Sessions)
	}
	<-workers[0].process.done
}

func beeOrNone(t *testing.T) string {
	if systemIsWindows {
		return beeProgram(t)
	}
	return ""
}
