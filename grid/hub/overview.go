// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"skep/grid/rolls"
	"skep/internal/lockdep"
)

// An Overview is what the hub's page and `skep top` show: the hub at one moment.
type Overview struct {
	Time     time.Time      `json:"time"`
	Status   Status         `json:"status"`
	Nodes    []NodeInfo     `json:"nodes"`
	Sessions []SessionInfo  `json:"sessions"` // that are open, the oldest first
	Ended    []SessionInfo  `json:"ended"`    // the last of them, the newest first
	Calls    Counts         `json:"calls"`    // of all sessions
	History  []Interval     `json:"history"`  // of the last ten minutes, the oldest first
	Troubles []Event        `json:"troubles"` // calls that failed or ran again, the newest first
	Rolls    []rolls.Status `json:"rolls"`
	Acts     []Act          `json:"acts"`               // the last lines of the audit log, the newest first
	NoAudit  string         `json:"no_audit,omitempty"` // why the audit log cannot be used
}

// An Act is a line of the audit log: who did what, when, and by which keys.
type Act struct {
	Number   uint64    `json:"number"`
	Time     time.Time `json:"time"`
	Who      string    `json:"who"`
	What     string    `json:"what"`
	Line     string    `json:"line"` // of updates, or a node
	Sequence uint64    `json:"sequence,omitempty"`
	Keys     []string  `json:"keys,omitempty"`
}

const actsMax = 100

// actsOf returns the last acts.
func actsOf(h *rolls.Hub) (list []Act, err error) {
	records, err := h.LastActs(actsMax)
	list = make([]Act, 0, len(records))
	for _, r := range records {
		list = append(list, Act{r.Number, r.Time, r.Who, r.What, r.Line, r.Sequence, r.Keys})
	}
	return list, err
}

// A SessionInfo is a program that calls functions through the hub.
type SessionInfo struct {
	Key   string    `json:"session"`
	Run   string    `json:"run"`  // of `skep run`
	Name  string    `json:"name"` // of that run, for people
	User  string    `json:"user,omitempty"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"`
	Calls Counts    `json:"calls"`
}

// A Substrate sums up the nodes that run programs in one way.
type Substrate struct {
	Name   string
	Nodes  int
	Up     int
	Slots  int // of nodes that are up
	Busy   int // of these
	Done   uint64
	Failed uint64 // leases
}

// Substrates sums up the nodes by substrate.
func (o *Overview) Substrates() (list []Substrate) {
	for i := range o.Nodes {
		n := &o.Nodes[i]
		at := slices.IndexFunc(list, func(s Substrate) bool { return s.Name == n.Substrate })
		if at < 0 {
			at = len(list)
			list = append(list, Substrate{Name: n.Substrate})
		}
		s := &list[at]
		s.Nodes++
		s.Done += n.Done
		s.Failed += n.Failed
		if n.State == NodeUp {
			s.Up++
			s.Slots += n.Slots
			s.Busy += n.Busy()
		}
	}
	slices.SortFunc(list, func(a, b Substrate) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Overview reads the state of the hub.
func (h *Hub) Overview() (o Overview, err error) { return h.overviewFor(operator) }

// overviewFor has all nodes, and the sessions and calls that the viewer sees. Rolls and the audit
// log are the operator's.
func (h *Hub) overviewFor(by viewer) (o Overview, err error) {
	o.Rolls, o.Acts = []rolls.Status{}, []Act{}
	if by.all {
		if o.Rolls, err = h.rolls.List(""); err != nil {
			return o, err
		}
		if o.Acts, err = actsOf(h.rolls); err != nil { // everything else is shown
			o.NoAudit = err.Error()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := &h.tally
	o.Time, o.Status, o.Nodes = h.cfg.Now(), h.status(), h.listed()
	if !by.all {
		t, o.Status = h.tallyOf(by.user), h.statusOf(by.user)
	}
	o.Calls, o.Sessions = t.counts, make([]SessionInfo, 0, len(h.masters))
	for _, m := range h.masters {
		if !by.sees(m.user) {
			continue
		}
		s := m.info()
		o.Calls.Waiting += s.Calls.Waiting
		o.Calls.Running += s.Calls.Running
		o.Sessions = append(o.Sessions, s)
	}
	slices.SortFunc(o.Sessions, func(a, b SessionInfo) int {
		if c := a.Began.Compare(b.Began); c != 0 {
			return c
		}
		return strings.Compare(a.Key, b.Key)
	})
	o.History = t.history(o.Time)
	o.Ended, o.Troubles = newestFirst(t.ended), newestFirst(t.troubles)
	return o, nil
}

// newestFirst copies a list in the other order.
func newestFirst[T any](list []T) []T {
	copied := append(make([]T, 0, len(list)), list...)
	slices.Reverse(copied)
	return copied
}

// info counts the calls of a session.
func (m *master) info() SessionInfo {
	lockdep.AssertHeld(&m.hub.mu)
	s := SessionInfo{Key: m.key, Run: m.run.key, Name: m.run.name, User: m.hub.accounts.nameOf(m.user), Began: m.began, Calls: m.counts}
	for _, c := range m.calls {
		if m.hub.isRunning(c) {
			s.Calls.Running++
		} else {
			s.Calls.Waiting++
		}
	}
	return s
}

// endSession keeps the counts of a session that is over, and is called before its calls are dropped.
func (h *Hub) endSession(m *master) {
	lockdep.AssertHeld(&h.mu)
	s := m.info()
	s.Ended = h.cfg.Now()
	left := uint64(s.Calls.Waiting + s.Calls.Running)
	s.Calls.Waiting, s.Calls.Running = 0, 0
	s.Calls.Dropped += left
	for _, t := range h.talliesOf(m.user) {
		t.counts.Dropped += left
		t.ended = keepLast(t.ended, s, endedMax)
	}
}

func (h *Hub) showOverview(w http.ResponseWriter, _ *http.Request, by viewer) {
	o, err := h.overviewFor(by)
	if err != nil {
		answerNode(w, err)
		return
	}
	writeJSON(w, http.StatusOK, o)
}

// Overview reads the state of the hub.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	return requestJSON[Overview](ctx, c, http.MethodGet, "/v1/overview", nil)
}
