// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"skep/grid/proto"
)

const (
	claimEvery = 50 * time.Millisecond
	// One beat may have been on its way when its agent was killed.
	claimBeats = 2
)

// handleClaim admits an agent if no other agent works with its identity. The copy of a
// state directory makes a second one: each connection would end the other's, for ever,
// and calls would run nowhere.
func (h *Hub) handleClaim(w http.ResponseWriter, r *http.Request, id string) {
	var v proto.Claim
	if !h.body(w, r, &v) {
		return
	}
	if other := h.otherAgent(r.Context(), id, v.Boot); other != "" {
		h.log.Warn("a second agent with one identity was refused", "node", h.roster.name(id), "from", r.RemoteAddr, "first", other)
		writeProblem(w, http.StatusConflict, proto.ProblemIdentity,
			"another agent works with this identity already, node %s at %s: the state directory of one is a copy of the other's; "+
				"stop that agent, or give this one another --state and join it with a token from `skep token` on the hub", h.roster.name(id), other)
		return
	}
	writeJSON(w, http.StatusOK, struct{}{})
}

// otherAgent returns the address of another live agent of the node, or "". It waits until that
// agent has sent beats, or has ended; a silent one counts as ended.
func (h *Hub) otherAgent(ctx context.Context, id, boot string) string {
	t := time.NewTicker(claimEvery)
	defer t.Stop()
	var first net.Conn
	var begin uint64
	for {
		c, beats := h.identityHolder(id, boot)
		switch {
		case c == nil:
			return ""
		case c != first:
			first, begin = c, beats
		case beats-begin >= claimBeats:
			host, _, err := net.SplitHostPort(c.RemoteAddr().String())
			if err != nil {
				host = fmt.Sprint(c.RemoteAddr())
			}
			return host
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ""
		}
	}
}

// identityHolder returns the connection of the agent that works under an id, unless it is
// that of this boot, and the number of its beats.
func (h *Hub) identityHolder(id, boot string) (net.Conn, uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteLook()
	n := h.nodes[id]
	if n == nil || !n.ready || n.boot == boot || h.cfg.Now().Sub(n.info.LastSeen) >= proto.SilentFor {
		return nil, 0
	}
	return n.conn, n.beats
}
