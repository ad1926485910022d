// SPDX-License-Identifier: MIT

package agent

import (
	"sync"
	"time"
)

// A stopwatch adds up times.
type stopwatch struct {
	mu    sync.Mutex
	since time.Time // zero: it stands
	total time.Duration
}

func (s *stopwatch) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Now()
}

func (s *stopwatch) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total += time.Since(s.since)
	s.since = time.Time{}
}

func (s *stopwatch) runs() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.since.IsZero()
}

func (s *stopwatch) read() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return s.total
	}
	return s.total + time.Since(s.since)
}
