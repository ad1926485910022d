// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"testing"
)

// BenchmarkStart measures the start of one worker up to READY, and its end. Each round measures
// all confinements, because the load of this machine may change between rounds.
func BenchmarkStart(b *testing.B) {
	all := listConfinementKinds()
	all["none"] = bounds{Kind: ConfinedNot}
	for name, bounds := range all {
		b.Run(name, func(b *testing.B) {
			r := newRigOf(b, Config{State: tempDir(b), Slots: 1, confine: &bounds})
			l := r.makeLease(fnEcho, nil)
			for b.Loop() {
				w, err := r.startWorker(context.Background(), &lease{Lease: l, program: r.owner.begin(true, nil)})
				if err != nil {
					b.Fatal(err)
				}
				w.killAndWait()
			}
		})
	}
}
