// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"fmt"
	"sync"
	"time"

	"skep/grid/engine"
	"skep/internal/lockdep"
)

// A watcher gets events until it is closed. A slow reader misses some and learns how many. Hub.mu guards missed.
type watcher struct {
	events chan Event
	missed int
}

const watchDepth = 4096

// emit is called with the lock held. Its cost does not depend on the number of runs.
func (h *Hub) emit(e Event) {
	lockdep.AssertHeld(&h.mu)
	e.Time = h.cfg.Now()
	if e.Type == "node" || e.Type == eventHubs {
		for _, list := range h.watchers {
			e.tell(list)
		}
		return
	}
	e.tell(h.watchers[""])
	if run := h.runOf(&e); run != "" {
		e.tell(h.watchers[run])
	}
}

func (e Event) tell(watchers map[*watcher]bool) {
	for w := range watchers {
		e.Missed = w.missed
		select {
		case w.events <- e:
			w.missed = 0
		default:
			w.missed++
		}
	}
}

// runOf returns the key of the run whose event it is, or "".
func (h *Hub) runOf(e *Event) string {
	if e.Type == "session" {
		return e.Text
	}
	if late := h.releases[e.Session]; late != nil {
		return late.run.key
	}
	if m := h.masters[h.byKey[e.Session]]; m != nil {
		return m.run.key
	}
	return ""
}

// watchEvents begins a stream of events; call stop when it is not read any more.
func (h *Hub) watchEvents(run string) (w *watcher, stop func()) {
	w = &watcher{events: make(chan Event, watchDepth)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers[run] == nil {
		h.watchers[run] = map[*watcher]bool{}
	}
	h.watchers[run][w] = true
	return w, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if delete(h.watchers[run], w); len(h.watchers[run]) == 0 {
			delete(h.watchers, run)
		}
	}
}

// missedBy returns how many events were missed since the last one that was delivered.
func (h *Hub) missedBy(w *watcher) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return w.missed
}

// A recorder writes the ledger asynchronously, so calls never wait for it. The
// lock guards the list.
type recorder struct {
	record func(context.Context, ...engine.Entry) error
	failed func(error)

	mu      sync.Mutex
	more    sync.Cond
	entries []engine.Entry
	lost    int
	closed  bool
	done    chan struct{}
}

const (
	recordMax = 1 << 16 // entries that may wait for the disk
	recordAt  = 512     // entries written at once
	recordIn  = 10 * time.Second
)

func newRecorder(record func(context.Context, ...engine.Entry) error, failed func(error)) *recorder {
	r := &recorder{record: record, failed: failed, done: make(chan struct{})}
	r.more.L = &r.mu
	go r.write()
	return r
}

func (r *recorder) add(e engine.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.entries) >= recordMax {
		r.lost++
		return
	}
	r.entries = append(r.entries, e)
	r.more.Signal()
}

func (r *recorder) takeEntries() (list []engine.Entry, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.entries) == 0 && !r.closed {
		r.more.Wait()
	}
	n := min(len(r.entries), recordAt)
	list, r.entries = r.entries[:n:n], r.entries[n:]
	lost, r.lost = r.lost, 0
	return list, lost
}

func (r *recorder) write() {
	defer close(r.done)
	for {
		list, lost := r.takeEntries()
		if len(list) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), recordIn)
		err := r.record(ctx, list...)
		cancel()
		if err != nil {
			r.failed(err)
		}
		if lost > 0 {
			r.failed(fmt.Errorf("the ledger was too slow: %d entries are missing", lost))
		}
	}
}

// close writes what waits, then ends.
func (r *recorder) close() {
	r.mu.Lock()
	r.closed = true
	r.more.Signal()
	r.mu.Unlock()
	<-r.done
}
