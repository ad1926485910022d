// SPDX-License-Identifier: MIT

package load

import (
	"context"
	"testing"
	"time"
)

func TestScale(t *testing.T) {
	for _, tt := range []struct {
		text       string
		processors int
		want       float64
	}{
		{"0.50 9.00 9.00 1/200 77\n", 2, 1},
		{"16.00 0.00 0.00 2/200 77\n", 2, 8},
		{"0.50 0.00 0.00 30/200 77\n", 2, 15}, // the average lags behind
		{"75.00 0.00 0.00 2/200 77\n", 2, 37.5},
		{"900.00 0.00 0.00 2/200 77\n", 2, Max},
		{"nonsense", 2, 1},
		{"", 2, 1},
	} {
		if got := scaleOf(tt.text, tt.processors); got != tt.want {
			t.Errorf("%q on %d processors: %v, want %v", tt.text, tt.processors, got, tt.want)
		}
	}
	if s := Scale(); s < 1 || s > Max {
		t.Errorf("Scale is %v", s)
	}
	if d := Stretch(time.Second); d < time.Second || d > Max*time.Second {
		t.Errorf("a second is stretched to %v", d)
	}
}

func TestBudget(t *testing.T) {
	b := budget(10 * time.Second)
	if b.charge(4*time.Second, time.Minute, 1) || b != budget(6*time.Second) {
		t.Errorf("an idle computer: %v are left", time.Duration(b))
	}
	if b.charge(8*time.Second, time.Minute, 4) || b != budget(4*time.Second) {
		t.Errorf("at four times the load: %v are left", time.Duration(b))
	}
	if b.charge(time.Hour, time.Second, 1) || b != budget(3*time.Second) {
		t.Errorf("after an hour in which nobody ran: %v are left", time.Duration(b))
	}
	if !b.charge(3*time.Second, time.Minute, 1) {
		t.Error("what is used up is not over")
	}
}

// A timer follows the present load, not the load at its start.
func TestTimer_followsTheLoad(t *testing.T) {
	asked := 0
	timer := NewTimer(2*time.Millisecond, func() float64 {
		if asked++; asked < 5 {
			return 1e12 // a second counts as nothing
		}
		return 1
	})
	<-timer.C
	timer.Stop()
	if asked < 5 {
		t.Errorf("the timer ended after %d looks at the load", asked)
	}
}

func TestTimer_stops(t *testing.T) {
	timer := NewTimer(time.Hour, Scale)
	timer.Stop()
	select {
	case <-timer.C:
		t.Error("a timer that was stopped ended")
	default:
	}
}

func TestWithTimeout(t *testing.T) {
	ctx, cancel := WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	<-ctx.Done()
	if cause := context.Cause(ctx); cause != context.DeadlineExceeded {
		t.Errorf("it ended with %v", cause)
	}
	ctx, cancel = WithTimeout(t.Context(), time.Hour)
	cancel()
	<-ctx.Done()
	if cause := context.Cause(ctx); cause != context.Canceled {
		t.Errorf("once cancelled, it ended with %v", cause)
	}
}
