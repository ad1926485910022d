// SPDX-License-Identifier: MIT

package launch

import "slices"

// A Rate is what an endpoint did between two readings of its status page, per second,
// beside the counters of the second reading.
type Rate struct {
	Endpoint
	Ended         bool    `json:"ended,omitempty"` // it was closed, or its process killed, since the first reading
	SentRate      float64 `json:"sent_per_second"`
	SentByteRate  float64 `json:"sent_bytes_per_second"`
	RecvRate      float64 `json:"received_per_second"`
	RecvByteRate  float64 `json:"received_bytes_per_second"`
	SurpriseRate  float64 `json:"unexpected_per_second"`
	StallRate     float64 `json:"waited_per_second"`
	KernelMatched uint64  `json:"matched_in_kernel"` // messages, all so far
}

// Rates compares two readings that are that many seconds apart. An endpoint that was
// not in the first one counts from its opening; one that is only in the first has
// ended. The result is in the order of the processes.
func Rates(before, after []Endpoint, seconds float64) []Rate {
	old := map[string]Endpoint{}
	for _, e := range before {
		old[e.ID] = e
	}
	var list []Rate
	for _, e := range after {
		list = append(list, rateOf(old[e.ID], e, seconds))
		delete(old, e.ID)
	}
	for _, e := range before {
		if _, gone := old[e.ID]; gone {
			r := rateOf(e, e, seconds)
			r.Ended = true
			list = append(list, r)
		}
	}
	slices.SortStableFunc(list, func(a, b Rate) int { return a.PID - b.PID })
	return list
}

func rateOf(old, e Endpoint, seconds float64) Rate {
	per := func(before, now uint64) float64 {
		if now < before || seconds <= 0 {
			return 0
		}
		return float64(now-before) / seconds
	}
	r := Rate{
		Endpoint: e,
		SentRate: per(old.Sent, e.Sent), SentByteRate: per(old.SentBytes, e.SentBytes),
		RecvRate: per(old.Received, e.Received), RecvByteRate: per(old.ReceivedBytes, e.ReceivedBytes),
		SurpriseRate: per(old.Unexpected, e.Unexpected), StallRate: per(old.Waited, e.Waited),
	}
	if e.Engine == "kernel" {
		r.KernelMatched = e.Received
	}
	return r
}
