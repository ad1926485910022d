// SPDX-License-Identifier: MIT

package agent

import (
	"sync"
	"time"
)

// A pause is the part of a process that knows whether it is stopped, and for how long it
// has been: no time limit counts that. mu guards the rest.
type pause struct {
	mu        sync.Mutex
	stopwatch        // runs while the process does not
	hurry     func() // it answers: it is not stopped, but told that it is to be
}

// setPaused stops all processes of a program, or lets them go on. Its memory stays.
func (p *process) setPaused(on bool) {
	p.paused.mu.Lock()
	defer p.paused.mu.Unlock()
	if on == p.paused.runs() {
		return
	}
	if on {
		p.paused.start()
	} else {
		p.paused.stop()
	}
	switch {
	case p.paused.hurry == nil:
		p.stop(on)
	case on:
		p.paused.hurry()
	}
}

// letAnswer lets the processes of a program go on until stopAgain, also if it is paused before or
// meanwhile; then hurry is called, which does not block.
func (p *process) letAnswer(hurry func()) {
	p.paused.mu.Lock()
	defer p.paused.mu.Unlock()
	p.paused.hurry = hurry
	if p.paused.runs() {
		p.stop(false)
		hurry()
	}
}

func (p *process) stopAgain() {
	p.paused.mu.Lock()
	defer p.paused.mu.Unlock()
	p.paused.hurry = nil
	if p.paused.runs() {
		p.stop(true)
	}
}

// wallTimer is closed when the program has run for wall, not counting pauses; 0: never.
func (p *process) wallTimer(wall time.Duration) <-chan struct{} {
	late := make(chan struct{})
	if wall == 0 {
		return late
	}
	began := time.Now()
	go func() {
		for left := wall; left > 0; left = wall - (time.Since(began) - p.pausedFor()) {
			select {
			case <-p.done:
				return
			case <-time.After(max(left, time.Millisecond)):
			}
		}
		close(late)
	}()
	return late
}

func (p *process) isPaused() bool {
	p.paused.mu.Lock()
	defer p.paused.mu.Unlock()
	return p.paused.runs()
}

// pausedFor is the time in which the process was stopped since its start.
func (p *process) pausedFor() time.Duration {
	p.paused.mu.Lock()
	defer p.paused.mu.Unlock()
	return p.paused.read()
}
