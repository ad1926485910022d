// SPDX-License-Identifier: MIT

package roll

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkFleet rolls an update out to 1,000 machines without faults, each of which loads
// it in 0.68 to 2.30 seconds, and reports how long the fleet takes and what the hub spends.
func BenchmarkFleet(b *testing.B) {
	const count, step = 1000, 500 * time.Millisecond
	for b.Loop() {
		// After simFaults nothing fails.
		s := &sim{rng: rand.New(rand.NewPCG(1, 23)), names: map[*simNode]string{}, firstBad: -1, now: simFaults + step}
		var known []string
		for i := range count {
			n := &simNode{sim: s}
			s.names[n] = fmt.Sprintf("n%03d", i)
			n.boot(s.now)
			s.nodes, known = append(s.nodes, n), append(known, n.Name)
		}
		waves, err := ParseWaves("1,5%,25%,all")
		if err != nil {
			b.Fatal(err)
		}
		s.hub = NewHub(Plan{Waves: waves, Times: DefaultTimes, MaxUnavailable: 1}, known)
		var spent time.Duration
		reports, began := 0, s.now
		for ; s.hub.State != Done; s.now += step {
			if s.hub.State == Stopped || s.now > began+time.Hour {
				b.Fatalf("it is %v: %s", s.hub.State, s.hub.Why)
			}
			for _, n := range s.nodes {
				s.stepNode(n)
			}
			reports += len(s.reports)
			at := time.Now()
			s.stepHub()
			spent += time.Since(at)
		}
		b.ReportMetric((s.now - began).Minutes(), "fleet-min")
		b.ReportMetric(spent.Seconds(), "hub-s")
		b.ReportMetric(float64(spent.Nanoseconds())/float64(reports), "hub-ns/report")
	}
}
