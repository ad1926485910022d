// SPDX-License-Identifier: MIT

package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/policy"
	"skep/grid/proto"
	"skep/internal/uapi"
)

// newOwned is a rig whose owner has a policy, and is away for an hour.
func newOwned(t *testing.T, bee, text string, slots int) *rig {
	t.Helper()
	return newOwnedOf(t, text, Config{State: tempDir(t), Slots: slots, Bee: bee})
}

func newOwnedOf(t *testing.T, text string, c Config) *rig {
	t.Helper()
	p, err := policy.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c.Policy, c.PolicyName = p, "desk"
	r := newRigOf(t, c)
	if free, _ := r.pool.snapshot(); free != 0 {
		t.Errorf("%d slots before the first look", free)
	}
	r.away(time.Hour)
	return r
}

func eachOwned(t *testing.T, text string, slots int, f func(t *testing.T, r *rig)) {
	t.Run("native", func(t *testing.T) { t.Parallel(); f(t, newOwned(t, "", text, slots)) })
	t.Run("bee", func(t *testing.T) { t.Parallel(); f(t, newOwned(t, beeProgram(t), text, slots)) })
}

// away says for how long the owner has been.
func (r *rig) away(d time.Duration) {
	now := time.Now()
	r.owner.step(now, &policy.Facts{Time: now, Idle: policy.Say(d, "a test")})
}

// awaitPrograms waits until that many programs have a process.
func (r *rig) awaitPrograms(n int) (list []*process) {
	r.t.Helper()
	waitUntil(r.t, fmt.Sprintf("%d programs", n), func() bool {
		r.owner.mu.Lock()
		defer r.owner.mu.Unlock()
		list = nil
		for _, p := range r.owner.programs {
			if p.process != nil {
				list = append(list, p.process)
			}
		}
		return len(list) == n
	})
	return list
}

func (r *rig) spin(ms int) uint64 {
	args := fmt.Appendf(nil, "tick %d", ms)
	l := r.makeLease(fnConsume, args)
	inline.Store(l.Digest, args)
	return r.send(l)
}

func (r *rig) hasEnded(call uint64) bool {
	r.fake.mu.Lock()
	defer r.fake.mu.Unlock()
	_, failed := r.fake.failed[call]
	_, done := r.fake.done[call]
	return failed || done
}

// A paused call computes nothing, is not silent for that, and ends as ever when it goes on.
func TestOwnerPausesCalls(t *testing.T) {
	eachOwned(t, "use all when idle 15m\npause 1h\nsettle 0s", 2, func(t *testing.T, r *rig) {
		r.Agent.muteLimit = 1800 * time.Millisecond // of the workers, which send PING every second
		waits, computes := r.start(fnCompute, nil), r.spin(1500)
		list := r.awaitPrograms(2)
		r.away(0)
		for _, p := range list {
			waitUntil(t, "a stopped program", func() bool { return isStopped(p) })
		}
		if free, _ := r.pool.snapshot(); free != 0 || r.hasEnded(computes) {
			t.Fatalf("%d slots are free; the call has ended: %v", free, r.hasEnded(computes))
		}
		text := r.owner.beatText()
		if want := "the owner's policy permits 0 of 2 slots (no rule holds); 2 paused"; text != want {
			t.Errorf("%q, want %q", text, want)
		}
		<-time.After(4 * time.Second) // the test is that nothing happens
		if r.hasEnded(waits) || r.hasEnded(computes) {
			t.Fatalf("a paused call has ended: %v, %v", r.hasEnded(waits), r.hasEnded(computes))
		}
		r.away(time.Hour)
		r.mustSucceed(computes)
		if got := r.owner.beatText(); got != "" {
			t.Errorf("all is permitted: %q", got)
		}
		r.cancel(waits)
		r.mustFail(waits, proto.ReasonCancelled, "the call was cancelled")
		r.awaitPrograms(0)
	})
}

// What was paused for too long goes back to the hub, and idle workers end with it.
func TestOwnerReturnsCalls(t *testing.T) {
	eachOwned(t, "use all when idle 15m\npause 0s\nsettle 0s", 2, func(t *testing.T, r *rig) {
		r.mustSucceed(r.start(fnEcho, nil))
		r.pool.mu.Lock()
		idle := r.pool.idle[0]
		r.pool.mu.Unlock()
		l := r.makeLease(fnCompute, nil)
		l.Session = "other"
		call := r.send(l)
		r.awaitPrograms(1)
		r.away(0)
		r.mustFail(call, proto.ReasonCancelled, "the owner of the node needs the computer")
		<-idle.process.done
		waitUntil(t, "no worker", func() bool { return r.countWorkers() == 0 })
		if free, _ := r.pool.snapshot(); free != 0 {
			t.Errorf("%d slots are free", free)
		}
		r.away(time.Hour)
		r.mustSucceed(r.start(fnEcho, nil))
	})
}

// When fewer calls may run, those that had not begun go back at once.
func TestOwnerReturnsWaitingCalls(t *testing.T) {
	r := newOwned(t, beeOrNone(t), "use all when idle 15m\nuse 1 slot\npause 1h\nsettle 0s", 2)
	first, second := r.start(fnCompute, nil), r.start(fnCompute, nil)
	r.awaitPrograms(2)
	third := r.start(fnEcho, nil)
	waitUntil(t, "one in line", func() bool {
		r.pool.mu.Lock()
		defer r.pool.mu.Unlock()
		return len(r.pool.waiting) == 1
	})
	r.away(0)
	r.mustFail(third, proto.ReasonCancelled, "the owner of the node needs the computer")
	if got := r.owner.beatText(); got != "the owner's policy permits 1 of 2 slots (line 2: use 1 slot); 1 paused" {
		t.Error(got)
	}
	for _, call := range []uint64{first, second} {
		if r.hasEnded(call) {
			t.Errorf("call %d has ended", call)
		}
		r.cancel(call)
		r.mustFail(call, proto.ReasonCancelled, "the call was cancelled")
	}
}

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

// An agent writes down what its owner's policy does.
func TestOwnerState(t *testing.T) {
	r := newOwned(t, beeOrNone(t), "use all when idle 15m\nuse none", 3)
	path := filepath.Join(r.config.State, OwnerFile)
	for _, c := range []struct {
		away time.Duration
		want OwnerState
	}{{time.Hour, OwnerState{Slots: 3, Why: "line 1: use all when idle 15m"}}, {0, OwnerState{Why: "line 2: use none"}}} {
		r.away(c.away)
		text, err := os.ReadFile(path)
		var got OwnerState
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		c.want.Time, c.want.Policy, c.want.Of = got.Time, "desk", 3
		if err != nil || got != c.want || time.Since(got.Time) > time.Hour {
			t.Errorf("%s, %v; want %+v", text, err, c.want)
		}
	}
	if !strings.HasSuffix(path, "owner.json") {
		t.Error(path)
	}
}

// A node without a policy has all its slots, also for a hub that asks at once.
func TestNoOwner(t *testing.T) {
	r := newRig(t, beeOrNone(t), 2)
	if free, _ := r.pool.snapshot(); free != 2 || r.owner.beatText() != "" {
		t.Errorf("%d slots, %q", free, r.owner.beatText())
	}
	defer r.startOwner(t.Context())()
	l := r.makeLease(fnEcho, nil)
	l.Worker.Module = strings.Repeat("0", 2*len(uapi.Init{}.Digest))
	r.mustFail(r.send(l), proto.ReasonNode, "not in the cache")
}
