// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"testing"
)

// BenchmarkStart is one worker from nothing to READY, and its end. Each round
// has all confinements, since this machine may be busy in one and idle in the
// next.
func BenchmarkStart(b *testing.B) {
	all := listConfinementKinds()
	all["none"] = bounds{Kind: ConfinedNot}
	for name, bounds := range all {
		b.Run(name, func(b *testing.B) {
			r := newRigOf(b, Config{State: tempDir(b), Slots: 1, confine: &bounds})
			l := r.makeLease(fnEcho, nil)
			for b.Loop() {
				w, err := r.startWorker(context.Background(), &l)
				if err != nil {
					b.Fatal(err)
				}
				w.killAndWait()
			}
		})
	}
}
