// SPDX-License-Identifier: MIT

package hub

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"skep/grid/engine"
	"skep/grid/move"
	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/lockdep"
)

func (h *Hub) readLeave(m *nats.Msg) (report, error) {
	var v proto.Leave
	if len(m.Data) > 0 {
		if _, err := proto.Decode(m.Data, &v); err != nil {
			return report{}, err
		}
	}
	return report{take: func(n *node) error { return h.handleLeave(n, m.Reply, &v) }}, nil
}

// handleLeave gives the calls of a node that shuts down to others. Nobody lost them, so that
// counts against none. The node waits for the answer, as its connection ends then. If it waits
// for its movable programs, they move before that.
func (h *Hub) handleLeave(n *node, reply string, v *proto.Leave) error {
	lockdep.AssertHeld(&h.mu)
	if !strings.HasPrefix(reply, engine.InboxPrefix(n.info.ID)+".") {
		return errors.New("a node leaves without asking for an answer")
	}
	if n.leaving == n.conn {
		return errors.New("a node that leaves says so again")
	}
	if n.info.State == NodeUp || n.info.State == NodeSilent {
		h.setState(n, NodeDown, "it was shut down")
	}
	h.handleEvent(sched.NodeDrain{Node: sched.NodeID(n.info.ID), On: true, Move: true, Why: "its node was shut down"})
	if !(v.Wait > 0) {
		return h.nats.Publish(reply, nil)
	}
	n.leaving = n.conn
	wait := time.Duration(min(v.Wait, proto.LeaveMax.Seconds()) * float64(time.Second))
	h.served.Add(1)
	go func(c net.Conn) {
		defer h.served.Done()
		h.emptyNode(n, c, wait)
		if err := h.nats.Publish(reply, nil); err != nil {
			h.log.Warn("a node that leaves was not answered", "node", n.info.ID, "error", err)
		}
	}(n.conn)
	return nil
}

// emptyNode moves the programs of a node that shuts down, and returns when none is left there,
// or when the node's connection has ended. One that no node takes, or that was not moved in time,
// goes on from its last checkpoint or ends.
func (h *Hub) emptyNode(n *node, c net.Conn, wait time.Duration) {
	late := time.NewTimer(wait)
	defer late.Stop()
	poll := time.NewTicker(jobTick)
	defer poll.Stop()
	asked := map[*job]map[string]bool{} // the nodes that were asked to take it
	for {
		left := h.legsOn(n.info.ID)
		if len(left) == 0 || !h.isOn(n, c) {
			return
		}
		for _, j := range left {
			if asked[j] == nil {
				asked[j] = map[string]bool{}
			}
			j.shutDown(n.info.ID, asked[j])
		}
		select {
		case <-h.stop:
			return
		case <-late.C:
			for _, j := range left {
				j.loseOn(n.info.ID, fmt.Sprintf("%s, and it was not moved within %v", move.ShutDown, wait))
			}
			return
		case <-poll.C:
		}
	}
}

func (h *Hub) isOn(n *node, c net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return n.conn == c
}

// legsOn returns the jobs that have a leg on a node, which may be the target of a move.
func (h *Hub) legsOn(id string) (list []*job) {
	for _, j := range h.allJobs() {
		j.mu.Lock()
		for _, l := range j.legs {
			if l.node == id && !l.dead {
				list = append(list, j)
				break
			}
		}
		j.mu.Unlock()
	}
	return list
}

// shutDown takes the next step to get a job off a node that shuts down. Slots do not matter: a
// program that waits for one would be lost.
func (j *job) shutDown(id string, asked map[string]bool) {
	to := j.hub.movers(j.req.On)
	j.happen(func(now time.Time) []move.Action {
		state, leg, node := j.machine.State()
		for number, l := range j.legs {
			if l.node == id && !l.dead && number != leg {
				return j.machine.Lost(now, number, move.ShutDown)
			}
		}
		if state != move.Running || node != id {
			return nil
		}
		for _, n := range to {
			if n.ID != id && !asked[n.ID] {
				asked[n.ID] = true
				return j.machine.Leave(now, n.ID, move.ShutDown)
			}
		}
		return j.machine.Lost(now, leg, move.ShutDown+", and there is no other node that is up and takes it: "+MovesNeed)
	})
}

// loseOn ends the leg of a job that counts, if it is on a node.
func (j *job) loseOn(id, why string) {
	j.happen(func(now time.Time) []move.Action {
		if _, leg, node := j.machine.State(); node == id {
			return j.machine.Lost(now, leg, why)
		}
		return nil
	})
}
