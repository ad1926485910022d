// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"errors"
	"net"
	"path/filepath"

	"skep/grid/proto"
	"skep/grid/session"
)

// A run is what one `skep run` opened: a socket for the masters that it starts
// and the directories of their worker programs. It ends when the command line
// goes away; masters that are left end with it.
type run struct {
	hub     *Hub
	key     string
	name    string
	dirs    []string
	limits  proto.Limits
	socket  string
	listen  net.Listener
	ctx     context.Context
	cancel  context.CancelFunc
	masters map[session.ID]*master // Hub.mu

	over      context.Context // ends after the last event
	endEvents context.CancelFunc
}

var errStops = errors.New("the hub is about to stop: try again when it runs")

func (h *Hub) openRun(v RunRequest) (*run, error) {
	if len(v.Dirs) == 0 || len(v.Dirs) > 64 {
		return nil, errors.New("a run names 1 to 64 directories of worker programs")
	}
	if !v.Limits.Check() {
		return nil, errors.New("the run's limits are not valid times")
	}
	for _, d := range v.Dirs {
		if !filepath.IsAbs(d) {
			return nil, errors.New("directories of worker programs are absolute paths, not " + d)
		}
	}
	r := &run{hub: h, key: session.NewID().String()[:12], name: cleanText(v.Name), dirs: v.Dirs, limits: v.Limits, masters: map[session.ID]*master{}}
	r.socket = filepath.Join(h.cfg.State, "run-"+r.key+".sock")
	var err error
	if r.listen, err = listenUnix(r.socket); err != nil {
		return nil, err
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.over, r.endEvents = context.WithCancel(context.Background())
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		r.cancel()
		r.listen.Close()
		return nil, errStops
	}
	h.runs[r.key] = r
	h.served.Add(1)
	go func() { defer h.served.Done(); r.accept() }()
	return r, nil
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
	conn, resumed, err := session.Accept(c, r.find)
	stop()
	if err != nil {
		r.hub.log.Warn("a master's connection was refused", "run", r.name, "error", err)
		return
	}
	if resumed {
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
		return
	}
	m := r.hub.openMaster(r, conn)
	stop = context.AfterFunc(r.ctx, func() { conn.Abort(nil) })
	defer stop()
	m.serve()
}

func (r *run) find(id session.ID) *session.Conn {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	if m := r.masters[id]; m != nil {
		return m.conn
	}
	return nil
}

func (r *run) close() {
	r.cancel()
	r.listen.Close()
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
