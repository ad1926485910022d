// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"fmt"
	"testing"
)

// The data that a worker inherits is sealed: not even the worker can change it.
func TestInitialDataIsSealed(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", 2)
	state := bytes.Repeat([]byte("state "), 100000)
	var calls []uint64
	for i := range 4 {
		l := r.withState(state, fnTamper, "")
		l.Session = fmt.Sprint(i)
		calls = append(calls, r.send(l))
	}
	for _, c := range calls {
		if got, _ := r.mustSucceed(c); string(got) != "0 of four" {
			t.Errorf("a worker changed its data in %s ways", got)
		}
	}
	if got, _ := r.mustSucceed(r.send(r.withState(state, fnState, ""))); !bytes.Equal(got, state) {
		t.Errorf("another worker found %.20q", got)
	}
	waitUntil(t, "the end of the copies", func() bool {
		r.initials.mu.Lock()
		defer r.initials.mu.Unlock()
		return len(r.initials.open) == 0
	})
}
