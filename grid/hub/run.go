// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"skep/grid/label"
	"skep/grid/proto"
	"skep/grid/session"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// A run is what one `skep run` opened: a socket for the masters that it starts
// and the directories of their worker programs. It ends when the command line
// goes away; masters that are left end with it.
type run struct {
	hub    *Hub
	key    string
	name   string
	dirs   []string
	limits proto.Limits
	// Of each call, as in RunRequest.
	deadline time.Duration
	attempts int
	priority int    // among the runs of its user
	user     string // id; empty for the operator, whose masters are on this machine
	on       label.Selector
	socket   string
	listen   net.Listener
	ctx      context.Context
	cancel   context.CancelCauseFunc // masters hear the cause, if there is one
	keep     *keeper
	masters  map[session.ID]*master // Hub.mu
	claimed  bool                   // Hub.mu; its command line is here
	wanted   map[string]*want       // Hub.mu; of a user's run
	asks     chan *want             // to the command line of a user's run

	over      context.Context // ends after the last event
	endEvents context.CancelFunc
}

// attemptsMax is the most often that a run may have a call run whose worker dies.
const attemptsMax = 100

var errStops = errors.New("the hub is about to stop: try again when it runs")

func (h *Hub) openRun(v RunRequest, by viewer) (*run, error) {
	if by.user != "" {
		v.Dirs = nil // they are on the user's machine
	} else if len(v.Dirs) == 0 || len(v.Dirs) > 64 {
		return nil, errors.New("a run names 1 to 64 directories of worker programs")
	}
	if !v.Limits.Check() {
		return nil, errors.New("the run's limits are not valid times")
	}
	if v.Deadline < 0 || v.Attempts < 0 || v.Attempts > attemptsMax {
		return nil, fmt.Errorf("the run's deadline is no time, or it wants more than %d attempts", attemptsMax)
	}
	if v.Priority < -PriorityMax || v.Priority > PriorityMax {
		return nil, fmt.Errorf("the priority of a run is a number from %d to %d", -PriorityMax, PriorityMax)
	}
	for _, d := range v.Dirs {
		if !filepath.IsAbs(d) {
			return nil, errors.New("directories of worker programs are absolute paths, not " + d)
		}
	}
	return h.openRunAs(runRecord{RunRequest: v, Key: session.NewID().String()[:12], User: by.user}, true)
}

// runsMax and mastersMax are the most that a user may have open at a time.
const (
	runsMax    = 64
	mastersMax = 256
)

// checkUser refuses one more run of a user who was removed, or has too many.
func (h *Hub) checkUser(user string) error {
	lockdep.AssertHeld(&h.mu)
	if user == "" {
		return nil
	}
	if h.accounts.byID(user) == nil {
		return errors.New("the account of its user was removed")
	}
	n := 0
	for _, r := range h.runs {
		if r.user == user {
			n++
		}
	}
	if n >= runsMax {
		return fmt.Errorf("%d runs of yours are open: end one first", n)
	}
	return nil
}

// checkMasters refuses a master of a user who has too many.
func (r *run) checkMasters() error {
	lockdep.AssertHeld(&r.hub.mu)
	n := 0
	for _, m := range r.hub.masters {
		if m.run.user == r.user {
			n++
		}
	}
	if r.user != "" && n >= mastersMax {
		return fmt.Errorf("%d programs of yours run: end one first", n)
	}
	return nil
}

// openRunAs opens a run with the key of a record. It is claimed if its command line has it.
func (h *Hub) openRunAs(v runRecord, claimed bool) (*run, error) {
	on, err := parseOn(v.On)
	if err != nil {
		return nil, err
	}
	r := &run{hub: h, user: v.User, wanted: map[string]*want{}, asks: make(chan *want),
		key: v.Key, name: cleanText(v.Name), dirs: v.Dirs, limits: v.Limits,
		deadline: v.Deadline, attempts: v.Attempts, priority: v.Priority, on: on, masters: map[session.ID]*master{},
		claimed: claimed, keep: &keeper{to: h.records, record: v}}
	if err := r.keep.change(func(*runRecord) {}); err != nil {
		return nil, err
	}
	r.listen = newQueueListener(h.port.Addr()) // a user's masters come through serveMaster
	if r.user == "" {
		r.socket = filepath.Join(h.cfg.State, "run-"+r.key+".sock")
		if r.listen, err = listenUnix(r.socket); err != nil {
			r.keep.remove()
			return nil, err
		}
	}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	r.over, r.endEvents = context.WithCancel(context.Background())
	h.mu.Lock()
	defer h.mu.Unlock()
	err = h.checkUser(r.user)
	if h.closed {
		err = errStops
	}
	if err != nil {
		r.cancel(nil)
		r.listen.Close()
		r.keep.remove()
		return nil, err
	}
	h.runs[r.key] = r
	h.served.Add(1)
	go func() { defer h.served.Done(); r.accept() }()
	return r, nil
}

// parseOn reads the selector of a run.
func parseOn(text string) (label.Selector, error) {
	if text == "" {
		return label.Selector{}, nil
	}
	return label.Parse(text)
}

func (r *run) accept() {
	for {
		c, err := r.listen.Accept()
		if err != nil {
			return
		}
		r.hub.served.Add(1)
		go func() { defer r.hub.served.Done(); r.serve(c) }()
	}
}

// serve opens the session of a master, or gives a resumed one its new stream.
func (r *run) serve(c net.Conn) {
	stop := context.AfterFunc(r.ctx, func() { c.Close() })
	var record sessionRecord
	var refused error
	conn, resumed, err := session.AcceptAgain(c, r.keep.to.dir != "", func(id session.ID, again bool) *session.Conn {
		if conn := r.find(id); conn != nil && !again {
			return conn
		}
		record, refused = r.recordSession(id, again)
		return nil
	})
	stop()
	if err != nil {
		r.hub.log.Warn("a master's connection was refused", "run", r.name, "error", err)
		return
	}
	if resumed {
		r.resume(conn)
		return
	}
	if record.ID == "" && refused == nil { // the peer left its id to us
		record, refused = r.recordSession(conn.ID(), false)
	}
	var m *master
	if refused == nil {
		if m, refused = r.hub.openMaster(r, conn, record.Key); refused != nil {
			r.dropSession(conn)
		}
	}
	if refused != nil {
		conn.SendError(0, uapi.Errorf(uapi.EInternal, "%v", refused))
		conn.Close()
		return
	}
	stop = context.AfterFunc(r.ctx, func() { r.dismiss(conn) })
	defer stop()
	m.serve(m.restoreModules(record))
}

// errRunGone ends the masters of a run that nobody reads any more.
var errRunGone = errors.New("the run ended, because its 'skep run' is gone")

// dismiss ends the session of a master whose run is over: it need not come back.
func (r *run) dismiss(conn *session.Conn) {
	t := time.AfterFunc(farewell, func() { conn.Abort(nil) }) // it may not read
	defer t.Stop()
	if why := context.Cause(r.ctx); why != context.Canceled {
		conn.SendError(0, uapi.Errorf(uapi.EInternal, "%v", why))
	}
	conn.Close()
}

func (r *run) resume(conn *session.Conn) {
	r.hub.mu.Lock()
	m := r.masters[conn.ID()]
	r.hub.mu.Unlock()
	if m == nil {
		conn.Abort(errors.New("the session is over"))
		return
	}
	select {
	case m.again <- struct{}{}:
	default:
	}
}

// recordSession stores a session before its master hears that it has one, or finds that of
// a master that comes back to a hub that was started again.
func (r *run) recordSession(id session.ID, again bool) (sessionRecord, error) {
	s := sessionRecord{ID: id.String(), Key: session.NewID().String()}
	if !again {
		return s, r.keep.change(func(v *runRecord) { setSession(v, s) })
	}
	s, ok := r.keep.session(id)
	if !ok || r.find(id) != nil {
		return s, fmt.Errorf("the session is over: it was ended meanwhile, or %w", r.hub.lateError("its master"))
	}
	return s, nil
}

func (r *run) find(id session.ID) *session.Conn {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	if m := r.masters[id]; m != nil {
		return m.conn
	}
	return nil
}

// stall is how long its command line may read no event before the run ends; 0: for ever. One on this
// machine may be stopped, or its terminal; the kernel says when it is gone.
func (r *run) stall() time.Duration {
	if r.user == "" {
		return 0
	}
	return r.hub.cfg.Hold
}

// close ends a run. Its masters hear why, unless that is nil.
func (r *run) close(why error) {
	r.cancel(why)
	r.listen.Close()
	r.keep.remove()
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	r.endEvents()
	delete(r.hub.runs, r.key)
	for session, late := range r.hub.releases {
		if late.run == r {
			delete(r.hub.releases, session)
		}
	}
}

// claimRun gives the command line its run back after the hub was started again.
func (h *Hub) claimRun(key string, by viewer) (*run, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runs[key]
	if r == nil || r.claimed || !by.sees(r.user) {
		return nil, errNoRun
	}
	r.claimed = true
	return r, nil
}
