// SPDX-License-Identifier: MIT

// Package watch is for tests that wait for what other processes say and do.
package watch

import (
	"bytes"
	"sync"
	"time"
)

const tick = 20 * time.Millisecond

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

// Poll asks until test is content, and gives its last complaint otherwise.
func Poll(limit time.Duration, test func() error) error {
	deadline := time.Now().Add(limit)
	for {
		err := test()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(tick)
	}
}
