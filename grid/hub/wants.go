// SPDX-License-Identifier: MIT

package hub

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"skep/grid/proto"
	"skep/grid/session"
)

// The run of a user has its worker programs on the user's machine. When a master names a module,
// the hub asks the run's command line for the program, with an event of type "want".

const (
	wantIn = time.Minute // for the first byte
)

// A want is a worker program that the command line of a run has to send.
type want struct {
	id, name string
	answer   chan *wanted // of one element
}

// A wanted is a worker program that arrives. done is closed when it was read.
type wanted struct {
	io.Reader
	path   string
	length int64
	err    error
	done   chan struct{}
}

func (w *wanted) Close() error {
	close(w.done)
	return nil
}

// fetchWorker asks the command line for the worker program of a module.
func (r *run) fetchWorker(name string) (*wanted, error) {
	v := &want{session.NewID().String(), name, make(chan *wanted, 1)}
	r.hub.mu.Lock()
	r.wanted[v.id] = v
	r.hub.mu.Unlock()
	defer func() {
		r.hub.mu.Lock()
		delete(r.wanted, v.id)
		r.hub.mu.Unlock()
		select {
		case late := <-v.answer:
			late.Close()
		default:
		}
	}()
	late := time.NewTimer(wantIn)
	defer late.Stop()
	for ask := r.asks; ; {
		select {
		case ask <- v:
			ask = nil
		case w := <-v.answer:
			if w.err != nil {
				w.Close()
				return nil, w.err
			}
			return w, nil
		case <-r.ctx.Done():
			return nil, errors.New("the run ended")
		case <-late.C:
			return nil, fmt.Errorf("the program `skep run` did not send the worker program of module %.80q within %v", name, wantIn)
		}
	}
}

func (v *want) event(now time.Time) Event {
	return Event{Time: now, Type: "want", State: v.id, Text: v.name}
}

// answerWant passes a worker program on to the master that waits for it, if it still does.
func (r *run) answerWant(id string, in *wanted) bool {
	r.hub.mu.Lock()
	defer r.hub.mu.Unlock()
	v := r.wanted[id]
	if v != nil {
		delete(r.wanted, id)
		v.answer <- in
	}
	return v != nil
}

// runFor returns an open run that the viewer sees.
func (h *Hub) runFor(key string, by viewer) (*run, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.runs[key]
	if r == nil || !by.sees(r.user) {
		return nil, errNoRun
	}
	return r, nil
}

// takeWorker receives a worker program, or why there is none.
func (h *Hub) takeWorker(w http.ResponseWriter, r *http.Request, u *account) {
	of, err := h.runFor(r.PathValue("key"), viewer{user: u.ID})
	if err != nil {
		writeProblem(w, http.StatusNotFound, proto.ProblemRequest, "%v", err)
		return
	}
	q := r.URL.Query()
	in := &wanted{h.paceBody(w, r, ""), cleanText(q.Get("path")), r.ContentLength, nil, make(chan struct{})}
	if text := q.Get("error"); text != "" {
		in.err = errors.New(cleanText(text))
	} else if r.ContentLength < 0 || r.ContentLength > programMax {
		in.err = fmt.Errorf("a worker program has at most %d bytes", programMax)
	}
	if !of.answerWant(r.PathValue("want"), in) {
		writeProblem(w, http.StatusGone, proto.ProblemGone, "nobody waits for this worker program")
		return
	}
	select {
	case <-in.done:
	case <-of.ctx.Done():
	}
	w.WriteHeader(http.StatusNoContent)
}

// serveMaster connects a master on the user's machine.
func (h *Hub) serveMaster(w http.ResponseWriter, r *http.Request, u *account) {
	of, err := h.runFor(r.PathValue("key"), viewer{user: u.ID})
	if err != nil {
		writeProblem(w, http.StatusNotFound, proto.ProblemRequest, "%v", err)
		return
	}
	c, err := hijackConn(w)
	if err != nil {
		writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "%v", err)
		return
	}
	h.mu.Lock()
	over := h.closed
	if !over {
		h.served.Add(1)
	}
	h.mu.Unlock()
	if over {
		c.Close()
		return
	}
	defer h.served.Done()
	of.serve(c)
}
