// SPDX-License-Identifier: MIT

package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"skep/grid/engine"
	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/uapi"
)

// What `skep calls`, `skep cancel` and `skep ledger` ask for.

// States of a live call, besides CallFailed and CallDone, which end it.
const (
	CallArriving = "arriving" // its arguments are
	CallWaiting  = "waiting"
	CallRunning  = "running"
	CallAway     = "away" // it ran on a node that is away or silent, and may go on there
)

// CallInfo is a call that has not ended.
type CallInfo struct {
	Call      uint64    `json:"call"`
	Session   string    `json:"session"`
	Run       string    `json:"run"` // its name, for people
	Function  string    `json:"function"`
	State     string    `json:"state"`
	Nodes     []string  `json:"nodes"`     // names of those that have a lease of it
	Attempt   int       `json:"attempt"`   // the number of leases that it was given; 0: none yet
	Arguments uint64    `json:"arguments"` // bytes
	Began     time.Time `json:"began"`     // when the hub, or the one that was started again, heard of it
	User      string    `json:"user,omitempty"`
}

// Calls are those that have not ended: the oldest, at most callsListed, and the number of all.
type Calls struct {
	All  int        `json:"all"`
	List []CallInfo `json:"calls"`
}

const callsListed = 10000

// CancelAnswer says how many calls a request ended.
type CancelAnswer struct {
	Cancelled int `json:"cancelled"`
}

var (
	errNoSession = errors.New("no open session begins with")
	errNoCall    = errors.New("no call that has not ended has the number")
)

// findSession returns the caller of the session that the viewer sees and whose key begins with
// prefix. The lock is held.
func (h *Hub) findSession(prefix string, by viewer) (*caller, error) {
	var found *caller
	for _, m := range h.masters {
		if prefix == "" || !strings.HasPrefix(m.key, prefix) || !by.sees(m.user) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("more than one open session begins with %q: give more of it", prefix)
		}
		found = m.caller
	}
	if found == nil {
		return nil, fmt.Errorf("%w %q: `skep calls` lists them", errNoSession, prefix)
	}
	return found, nil
}

// Calls lists the calls that have not ended, of all sessions or of one, the oldest first.
func (h *Hub) Calls(session string) (v Calls, err error) { return h.callsFor(session, operator) }

func (h *Hub) callsFor(session string, by viewer) (v Calls, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var only *caller
	if session != "" {
		if only, err = h.findSession(session, by); err != nil {
			return v, err
		}
	}
	live := make([]*call, 0, len(h.calls))
	for _, c := range h.calls {
		if by.sees(c.caller.user) && (only == nil || c.caller == only) {
			live = append(live, c)
		}
	}
	slices.SortFunc(live, func(a, b *call) int { return int(a.id) - int(b.id) })
	v.All, v.List = len(live), []CallInfo{}
	for _, c := range live[:min(len(live), callsListed)] {
		v.List = append(v.List, h.describeCall(c))
	}
	return v, nil
}

func (h *Hub) describeCall(c *call) CallInfo {
	i := CallInfo{Call: uint64(c.id), Session: c.caller.key, Function: c.functionName(), Arguments: uint64(c.args.want), User: h.accounts.nameOf(c.caller.user),
		Began: c.began, Nodes: []string{}, State: CallWaiting}
	if m := h.masters[c.caller.id]; m != nil {
		i.Run = m.run.name
	}
	switch {
	case c.state == callArriving:
		i.State = CallArriving
	case c.isAway():
		i.State = CallAway
	case h.isRunning(c):
		i.State = CallRunning
	}
	for _, l := range c.leases {
		i.Nodes = append(i.Nodes, l.node.info.Name)
		i.Attempt = max(i.Attempt, l.Attempt)
	}
	slices.Sort(i.Nodes)
	return i
}

// isAway reports whether a call has leases, and none of them on a node that is heard.
func (c *call) isAway() bool {
	for _, l := range c.leases {
		if l.node.info.State != NodeAway && l.node.info.State != NodeSilent {
			return false
		}
	}
	return len(c.leases) > 0
}

var errCancelled = uapi.Errorf(uapi.ECancelled, "the call was cancelled with 'skep cancel'")

// cancelCallFor ends a call that the viewer sees with an error for its master.
func (h *Hub) cancelCallFor(id uint64, by viewer) error {
	h.mu.Lock()
	c := h.calls[sched.CallID(id)]
	h.mu.Unlock()
	if c == nil || !by.sees(c.caller.user) || !h.abandonCall(c, errCancelled) {
		return fmt.Errorf("%w %d: `skep calls` lists them, and `skep ledger %d` says how it ended", errNoCall, id, id)
	}
	return nil
}

// cancelCallsFor ends all calls that a session has now. Its master may make others.
func (h *Hub) cancelCallsFor(session string, by viewer) (n int, err error) {
	h.mu.Lock()
	of, err := h.findSession(session, by)
	var list []*call
	if err == nil {
		list = slices.Collect(maps.Values(of.calls))
	}
	h.mu.Unlock()
	return h.abandonCalls(list, errCancelled), err
}

// abandonCalls ends calls, and counts those that had not ended. The newest comes first: no
// waiting call is given a slot that is about to be free.
func (h *Hub) abandonCalls(list []*call, e *uapi.Error) (n int) {
	slices.SortFunc(list, func(a, b *call) int { return cmp.Compare(b.id, a.id) })
	for _, c := range list {
		if h.abandonCall(c, e) {
			n++
		}
	}
	return n
}

// expireCalls ends the calls that are open beyond the deadline of their run.
func (h *Hub) expireCalls() {
	late := map[time.Duration][]*call{} // by deadline
	h.mu.Lock()
	now := h.cfg.Now()
	for _, m := range h.masters {
		deadline := m.run.deadline
		if deadline == 0 {
			continue
		}
		for _, c := range m.calls {
			if now.Sub(c.began) >= deadline {
				late[deadline] = append(late[deadline], c)
			}
		}
	}
	h.mu.Unlock()
	for deadline, list := range late {
		h.abandonCalls(list, uapi.Errorf(uapi.ECancelled, "the call had not ended within its deadline of %v: give 'skep run' a longer --deadline", deadline))
	}
}

func answerListed(w http.ResponseWriter, v any, err error) {
	if err != nil {
		writeProblem(w, http.StatusNotFound, proto.ProblemRequest, "%v", err)
		return
	}
	writeJSON(w, http.StatusOK, v)
}

func (h *Hub) listCalls(w http.ResponseWriter, r *http.Request, by viewer) {
	v, err := h.callsFor(r.URL.Query().Get("session"), by)
	answerListed(w, v, err)
}

func (h *Hub) serveCancelCall(w http.ResponseWriter, r *http.Request, by viewer) {
	id, err := strconv.ParseUint(r.PathValue("call"), 10, 64)
	if err == nil {
		err = h.cancelCallFor(id, by)
	}
	answerListed(w, CancelAnswer{1}, err)
}

func (h *Hub) serveCancelCalls(w http.ResponseWriter, r *http.Request, by viewer) {
	n, err := h.cancelCallsFor(r.PathValue("session"), by)
	answerListed(w, CancelAnswer{n}, err)
}

// listLedger answers with the last entries, of all calls, of one, or of one session. Those of
// one are searched among the last ledgerMax.
func (h *Hub) listLedger(w http.ResponseWriter, r *http.Request, by viewer) {
	q := r.URL.Query()
	n, err := strconv.Atoi(q.Get("last"))
	if err != nil || n < 1 || n > ledgerMax {
		n = ledgerLast
	}
	id, _ := strconv.ParseUint(q.Get("call"), 10, 64)
	session := q.Get("session")
	read := n
	if id != 0 || session != "" || !by.all {
		read = ledgerMax
	}
	list, err := h.engine.Entries(r.Context(), read)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "the ledger cannot be read: %v", err)
		return
	}
	list = slices.DeleteFunc(list, func(e engine.Entry) bool {
		return id != 0 && e.Call != id || !strings.HasPrefix(e.Session, session) || !by.sees(e.User)
	})
	list = list[max(0, len(list)-n):]
	for i := range list {
		list[i].Name, list[i].User = h.roster.name(list[i].Node), h.accounts.nameOf(list[i].User)
	}
	writeJSON(w, http.StatusOK, append([]engine.Entry{}, list...))
}

// ledgerLast is how many entries are listed if nobody says how many.
const ledgerLast = 100

// Calls lists the calls that have not ended, of all sessions or of the one that begins so.
func (c *Client) Calls(ctx context.Context, session string) (Calls, error) {
	return requestJSON[Calls](ctx, c, http.MethodGet, "/v1/calls?session="+url.QueryEscape(session), nil)
}

// CancelCall ends a call.
func (c *Client) CancelCall(ctx context.Context, id uint64) (CancelAnswer, error) {
	return requestJSON[CancelAnswer](ctx, c, http.MethodPost, fmt.Sprintf("/v1/calls/%d/cancel", id), nil)
}

// CancelCalls ends the calls of the session that begins so.
func (c *Client) CancelCalls(ctx context.Context, session string) (CancelAnswer, error) {
	return requestJSON[CancelAnswer](ctx, c, http.MethodPost, "/v1/sessions/"+url.PathEscape(session)+"/cancel", nil)
}

// A LedgerQuery asks for entries: of a call unless it is 0, of sessions that begin so unless
// that is empty, and at most Last of them, 0: some.
type LedgerQuery struct {
	Last    int
	Call    uint64
	Session string
}

// Ledger returns the last entries, the oldest of them first.
func (c *Client) Ledger(ctx context.Context, q LedgerQuery) ([]engine.Entry, error) {
	return requestJSON[[]engine.Entry](ctx, c, http.MethodGet,
		fmt.Sprintf("/v1/ledger?last=%d&call=%d&session=%s", q.Last, q.Call, url.QueryEscape(q.Session)), nil)
}
