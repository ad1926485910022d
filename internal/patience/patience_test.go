// SPDX-License-Identifier: MIT

package patience

import (
	"testing"
	"testing/synctest"
	"time"
)

// A try counts for what it took, and for no more than was said.
func TestSpend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(time.Minute, 15*time.Second)
		for _, c := range []struct {
			took, spent time.Duration
			more        bool
		}{{0, 0, true}, {10 * time.Second, 10 * time.Second, true}, {time.Hour, 25 * time.Second, true},
			{15 * time.Second, 40 * time.Second, true}, {time.Hour, 55 * time.Second, true}, {5 * time.Second, time.Minute, false}} {
			began := time.Now()
			<-time.After(c.took)
			if more := p.Spend(began); more != c.more || p.Spent() != c.spent {
				t.Errorf("after %v more: %v, %v are spent", c.took, more, p.Spent())
			}
		}
	})
}

// A wait takes as long as was said, in steps, and ends when it is told to.
func TestWait(t *testing.T) {
	for _, long := range []time.Duration{0, time.Millisecond, 2500 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			began, steps := time.Now(), 0
			for p := Ticks(long); p.Wait(nil); {
				steps++
			}
			if want := int((long + tick - 1) / tick); time.Since(began) != long || steps != want {
				t.Errorf("%v took %v, in %d steps", long, time.Since(began), steps)
			}
		})
	}
	stop := make(chan struct{})
	close(stop)
	if p := Ticks(time.Hour); p.Wait(stop) || p.Spent() != 0 {
		t.Errorf("it was told to end, and spent %v", p.Spent())
	}
	// A process that is stopped while it waits finds the time gone: it counts for two seconds.
	p := Ticks(time.Minute)
	if p.Spend(time.Now().Add(-time.Hour)); p.Spent() != 2*time.Second {
		t.Errorf("an hour counts for %v", p.Spent())
	}
	if p = Ticks(time.Millisecond); p.Spend(time.Now().Add(-time.Hour)) || p.Spent() != 2*time.Millisecond {
		t.Errorf("an hour counts for %v of a millisecond", p.Spent())
	}
}
