// SPDX-License-Identifier: MIT

package hub

import (
	"errors"
	"fmt"
	"time"

	"skep/grid/proto"
	"skep/internal/lockdep"
)

// A run that ends in order waits until the nodes have released its sessions, since
// workers may write lines after their last result:
//
//	skep run            hub                        node
//	   | POST end ------> |                          |
//	   |                  | Release ---------------> | ends the workers
//	   | <---- log events | <------------------- Log |
//	   |                  | <-------------- Released |
//	   | <-- end of events|                          |

const releaseMax = 10 * time.Second // a run waits no longer for its nodes

// A release is a session that has ended while nodes may still send its output. Hub.mu
// guards it.
type release struct {
	run   *run
	nodes map[*node]bool
}

// openRelease is called when Release was sent to the nodes.
func (h *Hub) openRelease(m *master) {
	lockdep.AssertHeld(&h.mu)
	if h.runs[m.run.key] == nil {
		return // nobody reads its events any more
	}
	r := &release{run: m.run, nodes: map[*node]bool{}}
	for n := range m.caller.nodes {
		if n.ready && n.releases {
			r.nodes[n] = true
		}
	}
	if len(r.nodes) > 0 {
		h.releases[m.key] = r
	}
}

func (h *Hub) handleReleased(n *node, v *proto.Released) error {
	lockdep.AssertHeld(&h.mu)
	if len(v.Session) > keyMax {
		return fmt.Errorf("a session's name of %d bytes", len(v.Session))
	}
	h.noteHeard(n)
	h.closeRelease(v.Session, n)
	return nil
}

// closeRelease records that a node sends no more output of a session.
func (h *Hub) closeRelease(session string, n *node) {
	lockdep.AssertHeld(&h.mu)
	r := h.releases[session]
	if r == nil {
		return
	}
	delete(r.nodes, n)
	if len(r.nodes) == 0 {
		delete(h.releases, session)
		h.closeEnded(r.run)
	}
}

// dropReleases is called for a node that is gone or silent; an event says so to watchers.
func (h *Hub) dropReleases(n *node) {
	lockdep.AssertHeld(&h.mu)
	for session, r := range h.releases {
		if r.nodes[n] {
			h.closeRelease(session, n)
		}
	}
}

var errNoRun = errors.New("no run has this name: it has ended")

// endRun ends a run's masters. Its events end when its sessions are released.
func (h *Hub) endRun(key string, by viewer) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runs[key]
	if r == nil || !by.sees(r.user) {
		return errNoRun
	}
	r.cancel(nil)
	r.listen.Close()
	h.closeEnded(r)
	time.AfterFunc(h.cfg.release, func() { h.giveUpReleases(r) })
	return nil
}

// closeEnded ends the events of a run that was ended and of which nothing is left.
func (h *Hub) closeEnded(r *run) {
	lockdep.AssertHeld(&h.mu)
	if r.ctx.Err() == nil || len(r.masters) > 0 {
		return
	}
	for _, other := range h.releases {
		if other.run == r {
			return
		}
	}
	r.endEvents()
}

// giveUpReleases stops waiting for nodes that have not answered; an event names each.
func (h *Hub) giveUpReleases(r *run) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for session, late := range h.releases {
		if late.run != r {
			continue
		}
		for n := range late.nodes {
			h.emit(Event{Type: "session", State: SessionLate, Session: session, Node: n.info.ID, Name: n.info.Name, Text: r.key})
		}
		delete(h.releases, session)
	}
	r.endEvents()
}
