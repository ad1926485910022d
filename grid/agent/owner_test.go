// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"skep/grid/policy"
)

// The machine is looked at seldom while no program runs. A program that begins causes a look
// at once; many short programs cause one look each second. The clock is synctest's, so the
// test counts looks and does not depend on this computer's speed.
func TestOwnerLooksSeldomWithoutPrograms(t *testing.T) {
	p, err := policy.Parse([]byte("use all"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAgent(Config{State: tempDir(t), Slots: 2, Bee: beeOrNone(t), Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	defer a.unlock()
	synctest.Test(t, func(t *testing.T) {
		o := newOwner(a, "desk", p)
		a.owner = o
		var looks atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		go o.run(ctx, func(now time.Time) *policy.Facts {
			looks.Add(1)
			return &policy.Facts{Time: now}
		})
		expect := func(when string, after time.Duration, want int64) {
			t.Helper()
			<-time.After(after)
			synctest.Wait()
			if n := looks.Swap(0); n != want {
				t.Errorf("%s: %d looks, want %d", when, n, want)
			}
		}
		expect("at the start", 0, 1)
		expect("a minute without programs", 62*time.Second, 12)
		long := o.begin(true, nil)
		expect("a program begins", 0, 1)
		expect("a program runs", 10*time.Second, 10)
		other := o.begin(false, nil)
		expect("a second one begins", 0, 0)
		long.end()
		expect("one of two ends", 3*time.Second, 3)
		other.end()
		expect("the last ends", 62*time.Second, 12)
		for range 1000 {
			o.begin(true, nil).end()
			<-time.After(10 * time.Millisecond)
		}
		expect("a thousand short programs in 10 s", time.Second/2, 11)
		cancel()
		expect("the agent ends", time.Hour, 0)
	})
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
