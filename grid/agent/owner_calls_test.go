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
	if systemIsWindows {
		f(t, newOwned(t, beeProgram(t), text, slots))
		return
	}
	t.Run("native", func(t *testing.T) { t.Parallel(); f(t, newOwned(t, "", text, slots)) })
	t.Run("bee", func(t *testing.T) { t.Parallel(); f(t, newOwned(t, beeProgram(t), text, slots)) })
}

// away says for how long the owner has been.
func (r *rig) away(d time.Duration) {
	now := time.Now()
	r.owner.step(now, &policy.Facts{Time: now, Idle: policy.Say(d, "a test")})
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

// A paused call computes nothing, and ends as ever when it goes on.
func TestOwnerPausesCalls(t *testing.T) {
	eachOwned(t, "use all when idle 15m\npause 1h\nsettle 0s", 2, func(t *testing.T, r *rig) {
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
		<-time.After(2 * time.Second) // the test is that nothing happens
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

// A call that was to follow one that goes back goes back too: it would wait for as long as
// the owner works, while the hub takes it for running.
func TestOwnerReturnsFollowers(t *testing.T) {
	r := newOwned(t, beeOrNone(t), "use all when idle 15m\npause 1ms\nsettle 0s", 1)
	first := r.start(fnCompute, nil)
	r.awaitPrograms(1)
	r.away(0)
	l := r.makeLease(fnEcho, nil)
	l.After = first // fences are the calls' numbers here
	follower := r.send(l)
	for _, call := range []uint64{first, follower} {
		waitUntil(t, "the end of a call", func() bool { r.away(0); return r.hasEnded(call) })
		r.mustFail(call, proto.ReasonCancelled, "the owner of the node needs the computer")
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
