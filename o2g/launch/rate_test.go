// SPDX-License-Identifier: MIT

package launch

import "testing"

// TestRates: differences per second, also of endpoints that have just been opened or
// have ended. A page that is written meanwhile never gives a negative rate.
func TestRates(t *testing.T) {
	before := []Endpoint{
		{PID: 9, ID: "a", Engine: "user", Sent: 10, SentBytes: 1000, Received: 4, Unexpected: 1, Waited: 2},
		{PID: 5, ID: "gone", Sent: 7},
		{PID: 6, ID: "odd", Sent: 100},
	}
	after := []Endpoint{
		{PID: 9, ID: "a", Engine: "user", Sent: 30, SentBytes: 5000, Received: 8, ReceivedBytes: 6, Unexpected: 2, Waited: 6},
		{PID: 7, ID: "new", Engine: "kernel", Sent: 3, Received: 12},
		{PID: 6, ID: "odd", Sent: 99},
	}
	got := Rates(before, after, 2)
	if len(got) != 4 {
		t.Fatalf("%d rates: %+v", len(got), got)
	}
	for i, want := range []Rate{
		{Endpoint: before[1], Ended: true},
		{Endpoint: after[2]},
		{Endpoint: after[1], SentRate: 1.5, RecvRate: 6, KernelMatched: 12},
		{Endpoint: after[0], SentRate: 10, SentByteRate: 2000, RecvRate: 2, RecvByteRate: 3, SurpriseRate: 0.5, StallRate: 2},
	} {
		if got[i] != want {
			t.Errorf("rate %d:\n%+v, want\n%+v", i, got[i], want)
		}
	}
	if list := Rates(nil, nil, 1); len(list) != 0 {
		t.Errorf("no endpoint: %+v", list)
	}
	if r := Rates(before, after, 0)[3]; r.SentRate != 0 {
		t.Errorf("two readings at one moment: %+v", r)
	}
}
