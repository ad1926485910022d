// SPDX-License-Identifier: MIT

package agent

import (
	"testing"
	"time"

	"skep/grid/proto"
)

// A worker that has been stopped gets its whole time to speak again.
func TestOwnerPauseIsNoSilence(t *testing.T) {
	r := newOwned(t, beeOrNone(t), "use all when idle 15m\npause 1h\nsettle 0s", 1)
	r.mustSucceed(r.start(fnEcho, nil)) // so that its call begins at once
	const limit = 2 * time.Second
	r.Agent.muteLimit = limit
	for {
		call := r.start(fnSilent, nil)
		r.awaitPrograms(1)
		r.away(0)
		<-time.After(limit * 3 / 2)
		late := r.hasEnded(call) // this computer took that long to stop it
		resumed := time.Now()
		r.away(time.Hour)
		r.mustFail(call, proto.ReasonMute, "sent nothing")
		if ran := time.Since(resumed); !late && ran < limit {
			t.Errorf("ended %v after it went on", ran)
		}
		if !late {
			return
		}
	}
}

// The time limit of a call does not count what the owner took.
func TestOwnerPauseIsNoWallTime(t *testing.T) {
	r := newOwned(t, beeOrNone(t), "use all when idle 15m\npause 1h\nsettle 0s", 1)
	const wall = 1500 * time.Millisecond
	l := r.makeLease(fnCompute, nil)
	l.Limits.Wall = wall.Seconds()
	began := time.Now()
	call := r.send(l)
	p := r.awaitPrograms(1)[0]
	r.away(0)
	<-time.After(2 * time.Second)
	r.away(time.Hour)
	paused := p.pausedFor()
	r.mustFail(call, proto.ReasonLimit, "of time")
	if ran := time.Since(began) - paused; paused < 2*time.Second || ran < wall {
		t.Errorf("ended after %v, paused for %v", ran, paused)
	}
}

// A program that a user started by hand is paused too, and never ended for that.
func TestOwnerPausesPrograms(t *testing.T) {
	r := newOwned(t, beeOrNone(t), "use all when idle 15m\npause 0s\nsettle 0s", 1)
	ended := make(chan ran)
	go func() {
		ended <- r.execute(readBusybox(t), "", "sh", "-c", "i=0; while [ $i -lt 3000000 ]; do i=$((i+1)); done; echo $i")
	}()
	p := r.awaitPrograms(1)[0]
	r.away(0)
	waitUntil(t, "a stopped program", func() bool { return isStopped(p) })
	r.away(0)
	select {
	case got := <-ended:
		t.Fatalf("it has ended: %+v", got)
	case <-time.After(5 * time.Second):
	}
	r.away(time.Hour)
	if got := <-ended; got.status != 0 || got.out != "3000000\n" {
		t.Errorf("%+v", got)
	}
}
