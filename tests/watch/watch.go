// SPDX-License-Identifier: MIT

// Package watch is for tests that wait for what other processes say and do.
package watch

import (
	"bytes"
	"sync"
	"time"

	"skep/internal/load"
)

const tick = 20 * time.Millisecond

// Scale stretches all limits; tests of tests replace it.
var Scale = load.Scale

// A Text is what a process has said so far; many may write and read it.
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

// String is all that was written.
func (t *Text) String() string {
	t.lock.Lock()
	defer t.lock.Unlock()
	return t.text.String()
}

// Poll asks until test is content, and gives its last complaint otherwise. The
// limit, like those of Ends, is that of an idle computer.
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
			late = true // and one look more
		case <-time.After(tick):
		}
	}
}

// Ends waits until done is closed, and says whether it was in time.
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
