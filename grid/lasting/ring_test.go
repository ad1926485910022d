// SPDX-License-Identifier: MIT

package lasting

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// A ring gives back what it was given, in its order, whatever the sizes are.
func TestRing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var r ring
	var want []byte
	next := byte(0)
	for range 20000 {
		most := []int{3, 100, 5000, window}[rnd.IntN(4)]
		b := make([]byte, min(rnd.IntN(most+1), r.free()))
		for i := range b {
			next += 7
			b[i] = next
		}
		r.add(b)
		want = append(want, b...)
		skip := rnd.IntN(r.n + 1)
		got := make([]byte, rnd.IntN(most+1))
		if n := r.copyAt(got, skip); n != min(len(got), len(want)-skip) || !bytes.Equal(got[:n], want[skip:][:n]) {
			t.Fatalf("%d bytes from %d on of %d are others", n, skip, len(want))
		}
		n := rnd.IntN(min(most, r.n) + 1)
		r.drop(n)
		want = want[n:]
		if r.n != len(want) || r.free() != window-len(want) || len(r.b) > window {
			t.Fatalf("it has %d bytes and room for %d, of %d, want %d", r.n, r.free(), len(r.b), len(want))
		}
		if r.trim(); (r.b == nil) != (r.n == 0) {
			t.Fatalf("%d bytes are in %d", r.n, len(r.b))
		}
	}
}
