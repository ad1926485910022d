// SPDX-License-Identifier: MIT

// Package watch lets tests wait for the output and the end of other processes.
package watch

import (
	"bytes"
	"sync"
	"time"

	"skep/internal/load"
)

const tick = 20 * time.Millisecond

// Scale is the factor of all time limits; tests of tests replace it.
var Scale = load.Scale

// A Text is the output of a process so far. It is safe for concurrent use.
type Text struct {
	lock sync.Mutex
	text bytes.Buffer
}

// Write appends.
func (t *Text) Write(b []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.text.Write(b)
}

// String returns all that was written.
func (t *Text) String() string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.text.String()
}

// Poll calls test until it succeeds, and returns its last error at the time limit. The limits
// of Poll and Ends are in seconds of an idle computer.
func Poll(limit time.Duration, test func() error) error {
	timer := load.NewTimer(limit, Scale)
	defer timer.Stop()
	for late := false; ; {
		err := test()
		if err == nil || late {
			return err
		}
		select {
		case <-timer.C:
			late = true // try once more
		case <-time.After(tick):
		}
	}
}

// Ends waits until done is closed, and reports whether it was closed in time.
func Ends(done <-chan struct{}, limit time.Duration) bool {
	timer := load.NewTimer(limit, Scale)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
