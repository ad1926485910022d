// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"skep/dynamos/update/trust"
	"skep/grid/proto"
)

// Default lifetime of join tokens.
const (
	tokenUses = 1
	tokenLife = 24 * time.Hour
)

// controlHandler is the HTTP side of the control socket. Only the hub's own
// user can reach it.
func (h *Hub) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, http.StatusOK, h.Status()) })
	mux.HandleFunc("GET /v1/overview", byOperator(h.showOverview))
	mux.HandleFunc("GET /page/{$}", byOperator(h.showPage))
	mux.HandleFunc("GET /page/calls/{call}", byOperator(h.showCall))
	mux.HandleFunc("GET /page/metrics", byOperator(h.showMetrics))
	mux.HandleFunc("GET /v1/nodes", h.listNodes)
	mux.HandleFunc("DELETE /v1/nodes/{name}", h.dropNode)
	for _, how := range []Drain{DrainKeep, DrainMove, DrainEnd} {
		mux.HandleFunc("POST /v1/nodes/{name}/"+string(how), func(w http.ResponseWriter, r *http.Request) { h.drainNode(w, r, how) })
	}
	mux.HandleFunc("GET /v1/calls", byOperator(h.listCalls))
	mux.HandleFunc("POST /v1/calls/{call}/cancel", byOperator(h.serveCancelCall))
	mux.HandleFunc("POST /v1/sessions/{session}/cancel", byOperator(h.serveCancelCalls))
	mux.HandleFunc("GET /v1/ledger", byOperator(h.listLedger))
	mux.HandleFunc("GET /v1/backup", h.serveBackup)
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) { h.streamEvents(w, r, nil, nil) })
	mux.HandleFunc("POST /v1/tokens", h.makeToken)
	mux.HandleFunc("POST /v1/runs", byOperator(h.serveRun))
	mux.HandleFunc("POST /v1/runs/{key}/end", byOperator(h.serveEnd))
	mux.HandleFunc("POST /v1/runs/{key}/again", byOperator(h.serveAgain))
	mux.HandleFunc("POST /v1/programs", func(w http.ResponseWriter, r *http.Request) { h.storeProgram(w, r, operator) })
	mux.HandleFunc("POST /v1/exec", byOperator(h.startExec))
	mux.HandleFunc("GET /v1/jobs", h.listJobs)
	mux.HandleFunc("POST /v1/jobs/{job}/move", h.moveJob)
	mux.HandleFunc("POST /v1/jobs/{job}/checkpoint", h.checkpointJob)
	mux.HandleFunc("POST /v1/packages", h.storePackage)
	h.handleUsers(mux)
	h.handleStandby(mux)
	mux.HandleFunc("GET /v1/rolls", h.listRolls)
	mux.HandleFunc("GET /v1/rolls/{name}/audit", h.auditRoll)
	mux.HandleFunc("POST /v1/rolls", h.beginRoll)
	mux.HandleFunc("POST /v1/rolls/{name}/{action}", h.changeRoll)
	return mux
}

// byOperator lets the operator, who alone reaches the control socket, use what users use too.
func byOperator(f func(http.ResponseWriter, *http.Request, viewer)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { f(w, r, operator) }
}

// Status returns the hub's status.
func (h *Hub) Status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.status()
}

func (h *Hub) status() Status {
	s := Status{Version: h.cfg.Version, Address: h.advertisedAddress(), Started: h.started,
		PID: os.Getpid(), Sessions: len(h.masters), Calls: len(h.calls),
		Stored: uint64(max(h.quota.used.Load(), 0)), StoredMax: uint64(max(h.quota.limit(), 0))}
	for _, n := range h.nodes {
		if n.info.State == NodeUp {
			s.Nodes++
		}
	}
	return s
}

// advertisedAddress is the address for nodes; users may override it.
func (h *Hub) advertisedAddress() string {
	return advertised(&h.cfg, h.port.Addr())
}

func advertised(cfg *Config, listens net.Addr) string {
	if cfg.Advertise != "" {
		return cfg.Advertise
	}
	a, ok := listens.(*net.TCPAddr)
	if !ok || !a.IP.IsUnspecified() {
		return listens.String()
	}
	own, _ := net.InterfaceAddrs()
	return net.JoinHostPort(reachableAddress(own), strconv.Itoa(a.Port))
}

// reachableAddress returns the first of a machine's addresses that others can reach, or
// localhost if there is none.
func reachableAddress(own []net.Addr) string {
	for _, v := range own {
		if n, ok := v.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return "localhost"
}

func (h *Hub) listNodes(w http.ResponseWriter, r *http.Request) {
	list := h.Nodes()
	if on := r.URL.Query().Get("on"); on != "" {
		var err error
		if list, err = SelectNodes(list, on); err != nil {
			writeProblem(w, http.StatusNotFound, proto.ProblemRequest, "%v", err)
			return
		}
	}
	writeJSON(w, http.StatusOK, list)
}

func (h *Hub) drainNode(w http.ResponseWriter, r *http.Request, how Drain) {
	name, verb := r.PathValue("name"), trust.VerbDrained
	if how == DrainEnd {
		verb = trust.VerbReopened
	}
	err := h.DrainNode(name, how)
	if err == nil {
		err = h.rolls.NodeEvent(userOf(r), verb, name)
	}
	answerNode(w, err)
}

func (h *Hub) dropNode(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	err := h.RemoveNode(name)
	if err == nil {
		err = h.rolls.NodeEvent(userOf(r), trust.VerbRemoved, name)
	}
	answerNode(w, err)
}

func answerNode(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, errNoNode):
		writeProblem(w, http.StatusNotFound, proto.ProblemRequest, "%v", err)
	case err != nil:
		writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "%v", err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (h *Hub) makeToken(w http.ResponseWriter, r *http.Request) {
	var v TokenRequest
	if !h.body(w, r, &v) {
		return
	}
	if v.Uses == 0 {
		v.Uses = tokenUses
	}
	if v.Life == 0 {
		v.Life = tokenLife
	}
	t, err := h.tokens.New(v.Uses, v.Life)
	if err != nil {
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "%v", err)
		return
	}
	writeJSON(w, http.StatusOK, TokenAnswer{Token: t.String(), Address: h.Status().Address})
}

// serveRun holds a run open as long as its caller reads events.
func (h *Hub) serveRun(w http.ResponseWriter, r *http.Request, by viewer) {
	var v RunRequest
	if !h.body(w, r, &v) {
		return
	}
	run, err := h.openRun(v, by)
	if errors.Is(err, errStops) {
		writeProblem(w, http.StatusServiceUnavailable, proto.ProblemGone, "%v", err)
		return
	}
	if err != nil {
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "%v", err)
		return
	}
	h.streamRun(w, r, run)
}

// serveAgain is serveRun for a run that an earlier hub opened.
func (h *Hub) serveAgain(w http.ResponseWriter, r *http.Request, by viewer) {
	run, err := h.claimRun(r.PathValue("key"), by)
	if err != nil {
		writeProblem(w, http.StatusNotFound, proto.ProblemRequest, "%v", err)
		return
	}
	h.streamRun(w, r, run)
}

func (h *Hub) streamRun(w http.ResponseWriter, r *http.Request, run *run) {
	defer run.close(errRunGone)
	h.streamEvents(w, r, run, &Event{Time: h.cfg.Now(), Type: "session", State: "open",
		Name: run.name, Text: run.key, Socket: run.socket, Keep: h.cfg.Hold.Milliseconds()})
}

func (h *Hub) serveEnd(w http.ResponseWriter, r *http.Request, by viewer) {
	if err := h.endRun(r.PathValue("key"), by); err != nil {
		writeProblem(w, http.StatusNotFound, proto.ProblemRequest, "%v", err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// eventsIn is how long an event may wait for others: a small call has three, and each send
// wakes the command line.
const eventsIn = 20 * time.Millisecond

// streamEvents writes events, one JSON value a line, of a run or of all, until the reader
// goes away or the run is over.
func (h *Hub) streamEvents(w http.ResponseWriter, r *http.Request, of *run, first *Event) {
	ctl := http.NewResponseController(w)
	key, over, stall := "", context.Background(), h.cfg.stall
	if of != nil {
		key, over, stall = of.key, of.over, of.stall()
	}
	watch, stop := h.watchEvents(key)
	defer stop()
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	send := func(e Event) bool {
		if stall > 0 {
			ctl.SetWriteDeadline(time.Now().Add(stall))
		}
		return out.Encode(e) == nil
	}
	if first != nil {
		out.Encode(first)
	}
	if ctl.Flush() != nil {
		return
	}
	var asks <-chan *want
	if of != nil {
		asks = of.asks
	}
	var due <-chan time.Time // for what was written and not sent
	for {
		select {
		case e := <-watch.events:
			if !send(e) {
				return
			}
			if due == nil {
				due = time.After(eventsIn)
			}
		case v := <-asks:
			if !send(v.event(h.cfg.Now())) || ctl.Flush() != nil {
				return
			}
		case <-due:
			if due = nil; ctl.Flush() != nil {
				return
			}
		case <-over.Done():
			for len(watch.events) > 0 && send(<-watch.events) {
			}
			if n := h.missedBy(watch); n > 0 {
				send(Event{Time: h.cfg.Now(), Type: "missed", Missed: n})
			}
			return
		case <-r.Context().Done():
			return
		case <-h.stop:
			return
		}
	}
}
