// SPDX-License-Identifier: MIT

package hub

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"skep/grid/label"
	"skep/grid/lasting"
	"skep/grid/proto"
	"skep/grid/sched"
	"skep/grid/session"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// A program that a user or the operator starts with `skep exec` is a session with one call, bound
// to the node that was chosen. So it waits for a slot, counts towards the user's share, slots and
// programs, is listed and cancelled like a call, and its node runs it under a lease. It runs at
// most once: if its lease is lost after the node connected for its streams, it has ended.

// A sentKey names a program that a user sent: nobody runs what another user sent.
type sentKey struct {
	user, digest string
}

// A sentProgram is kept for programLife after it was sent, and while it runs or waits. Hub.mu
// guards it.
type sentProgram struct {
	owner   string // of the blob
	quotas  []*quota
	bytes   int64
	uses    int
	expired bool
}

const programLife = 10 * time.Minute

// programCall is the number of its call in its session. A node lists a lease with a number when
// it comes back, and brings the end of one.
const programCall = 1

// storeProgram takes a program of a user, or of the operator, which counts towards its quota.
func (h *Hub) storeProgram(w http.ResponseWriter, r *http.Request, by viewer) {
	n := r.ContentLength
	former := n < 0 && by.all // a command line of an earlier version does not say how many
	if former {
		n = 0
	}
	if n < 0 || n > programMax {
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "a program has at most %d bytes, and its request says how many", programMax)
		return
	}
	h.mu.Lock()
	s := &sentProgram{owner: "exec " + session.NewID().String(), quotas: []*quota{h.quotaOf(by.user), h.quota}, bytes: n}
	h.mu.Unlock()
	if err := reserveAll(s.quotas, uint64(n)); err != nil {
		writeProblem(w, http.StatusInsufficientStorage, proto.ProblemFull, "the program cannot be stored: %v", err)
		return
	}
	v, ok := h.storeChecked(w, h.paceBody(w, r, ""), s.owner, r.URL.Query().Has("movable"))
	if ok && former {
		ok = h.countSent(w, s, v.Size)
	}
	if !ok {
		h.dropSent(s)
		return
	}
	key := sentKey{by.user, v.Digest}
	h.mu.Lock()
	before := h.sent[key]
	if before != nil {
		before.expired = true // its timer does nothing any more
		s.uses = before.uses
	}
	h.sent[key] = s
	h.mu.Unlock()
	if before != nil {
		h.dropSent(before)
	}
	time.AfterFunc(programLife, func() { h.expireSent(key, s) })
	writeJSON(w, http.StatusOK, v)
}

// countSent lets a program count whose bytes were not known before it was stored, or answers why not.
func (h *Hub) countSent(w http.ResponseWriter, s *sentProgram, bytes int64) bool {
	if err := reserveAll(s.quotas, uint64(bytes)); err != nil {
		writeProblem(w, http.StatusInsufficientStorage, proto.ProblemFull, "the program cannot be stored: %v", err)
		return false
	}
	s.bytes = bytes
	return true
}

// dropSent gives back what a program that was sent takes.
func (h *Hub) dropSent(s *sentProgram) {
	h.blobs.Unpin(s.owner)
	for _, q := range s.quotas {
		q.release(s.bytes)
	}
}

func (h *Hub) expireSent(key sentKey, s *sentProgram) {
	h.mu.Lock()
	over := h.sent[key] == s && s.uses == 0
	s.expired = true
	if over {
		delete(h.sent, key)
	}
	h.mu.Unlock()
	if over {
		h.dropSent(s)
	}
}

// releaseSent is called when a program has ended.
func (h *Hub) releaseSent(key sentKey) {
	h.mu.Lock()
	s := h.sent[key]
	s.uses--
	over := s.uses == 0 && s.expired
	if over {
		delete(h.sent, key)
	}
	h.mu.Unlock()
	if over {
		h.dropSent(s)
	}
}

// checkProgram refuses what only the operator may ask for.
func checkProgram(v *ExecRequest) error {
	if v.Movable || v.Checkpoint != 0 {
		return errors.New("movable programs are for the hub's operator: run it without --movable and --checkpoint")
	}
	if v.Update != "" {
		return errors.New("kernel updates are for the hub's operator: run it without --update")
	}
	return nil
}

// newProgram submits a program.
func (h *Hub) newProgram(id string, v ExecRequest, by viewer) (x *execution, err error) {
	sum, _ := parseDigest(v.Program)
	args, err := h.spools.newSpool(0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			args.put()
		}
	}()
	if err := args.finish(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n, err := h.execNode(&v, by)
	if err != nil {
		return nil, err
	}
	s := h.sent[sentKey{by.user, v.Program}]
	if s == nil {
		return nil, errors.New("the hub does not have this program of yours: send it first")
	}
	name := "exec " + cleanText(path.Base(strings.ReplaceAll(v.Name, `\`, "/")))
	r := &run{hub: h, key: session.NewID().String()[:12], name: name, user: by.user}
	if err := r.checkMasters(); err != nil {
		return nil, err
	}
	x = newExecution(n, by)
	x.answered, x.request = make(chan struct{}), v
	x.master = &master{hub: h, run: r, caller: h.newCaller(session.NewID().String(), r, v.Limits, x)}
	h.openCaller(x.master, label.Selector{}, 1)
	h.lastCall++
	x.call = &call{id: h.lastCall, client: programCall, began: h.cfg.Now(), caller: x.master.caller, args: args, leases: map[sched.Fence]*lease{}, program: x,
		module: &module{digest: v.Program, sum: sum, node: sched.NodeID(v.Node), manifest: &uapi.Manifest{Name: name, Functions: []uapi.Function{{Name: name}}}}}
	x.master.calls[programCall], h.calls[x.call.id] = x.call, x.call
	s.uses++
	h.served.Add(1)
	h.execs[id], x.id = x, id
	x.call.setState(callWaiting)
	h.handleEvent(h.queuedEvent(x.call))
	return x, nil
}

// add takes the end of the call. It is called once.
func (x *execution) add(v outgoing) {
	v.discard()
	if v.err != nil {
		x.finish(v.err.Text)
	}
	close(x.answered)
}

// lease is what the node is told of a program.
func (x *execution) lease() *proto.Exec {
	return &proto.Exec{ID: x.id, Name: x.request.Name, Args: x.request.Args, Env: x.request.Env, Update: x.request.Update}
}

// endProgram ends a program, of which nobody reads the output any more.
func (h *Hub) endProgram(x *execution) {
	defer h.served.Done()
	h.mu.Lock()
	begun := x.begun
	h.mu.Unlock()
	drain := h.cfg.execDrain
	if x.whole { // the node says next how it ended
		drain = h.cfg.execIn
	}
	for away := false; begun; {
		late := time.NewTimer(drain)
		select {
		case <-x.answered:
			begun = false
		case <-late.C:
			h.mu.Lock()
			is := x.whole && x.call.isAway() // it says so when it is back
			h.mu.Unlock()
			begun, away = is || away, is // and has as long again for it
		case <-h.stop:
			begun = false
		}
		late.Stop()
	}
	h.abandonCall(x.call, uapi.Errorf(uapi.ECancelled, "its command ended"))
	h.mu.Lock()
	h.dropCaller(x.master)
	h.mu.Unlock()
	h.releaseSent(sentKey{x.user, x.request.Program})
}

const (
	execPoll = time.Second
	waitTell = 2 // polls, after which the user is told that the program waits
)

// awaitProgram waits until the node connects for the streams of a program. c is its command's,
// which must be there meanwhile: it takes output of no bytes.
func (h *Hub) awaitProgram(x *execution, c net.Conn) (agent io.ReadWriteCloser, why string) {
	t := time.NewTicker(h.cfg.execPoll)
	defer t.Stop()
	for n := 1; ; n++ {
		select {
		case agent = <-x.agent:
			return agent, ""
		case <-x.ended:
			return nil, x.why
		case <-t.C:
		}
		kind, text := proto.ExecStdout, ""
		if n == waitTell {
			kind, text = proto.ExecStderr, fmt.Sprintf("skep: the program waits for a slot of node %s: `skep calls` lists it, and `skep cancel %d` ends it\n", h.nodeName(x.request.Node), x.call.id)
		}
		c.SetWriteDeadline(time.Now().Add(stallIn))
		if err := proto.WriteExec(c, kind, []byte(text)); err != nil {
			return nil, "its command ended"
		}
		c.SetWriteDeadline(time.Time{})
	}
}

const awayTell = 3 // polls, after which the user is told that the node is away

// tellAway tells a command that the node of its program is away, and that it is back. A command
// that reads nothing holds only this up.
func (h *Hub) tellAway(x *execution, out *commandSide, done <-chan struct{}) {
	t := time.NewTicker(h.cfg.execPoll)
	defer t.Stop()
	for away := 0; ; {
		select {
		case <-done:
			return
		case <-x.ended:
			return
		case <-t.C:
		}
		h.mu.Lock()
		is := x.call.isAway()
		h.mu.Unlock()
		text := ""
		if is {
			away++
		}
		switch name := h.nodeName(x.request.Node); {
		case is && away == awayTell:
			text = fmt.Sprintf("skep: node %s is away: the program goes on if the node comes back within %v, and `skep cancel %d` ends it\n", name, h.keepNodes(), x.call.id)
		case !is && away >= awayTell:
			text = fmt.Sprintf("skep: node %s is back\n", name)
		}
		if !is {
			away = 0
		}
		if text != "" && out.write(proto.ExecStderr, []byte(text)) != nil {
			return
		}
	}
}

// keepNodes is for how long the leases of a node that is away are kept, and so the streams of its
// programs. It is not above 0 if they are not.
func (h *Hub) keepNodes() time.Duration { return cmp.Or(h.cfg.Sched.Keep, sched.KeepDefault) }

// serveLasting lets a program of a lease have streams that outlive their connection, as the lease
// does. The kernel says when the node's machine is away.
func (h *Hub) serveLasting(w http.ResponseWriter, x *execution) {
	c, err := hijackPeer(w, fmt.Sprintf("%s: %d\r\n", proto.HeaderKeep, h.keepNodes().Milliseconds()))
	if err != nil {
		x.finish("the node's stream cannot be used: " + err.Error())
		return
	}
	l := streamTimes
	l.Silence, l.Keep = 0, h.keepNodes()
	s := lasting.Accept(l, c, nil)
	h.mu.Lock()
	x.stream = s
	h.mu.Unlock()
	x.agent <- s
	<-x.over
	s.Close()
	s.Flush(farewells)
	s.Fail(net.ErrClosed)
}

// isLeased reports whether a node that connects for the streams of a program has the lease.
func (h *Hub) isLeased(x *execution, node string, fence uint64) bool {
	lockdep.AssertHeld(&h.mu)
	if x.call == nil {
		return fence == 0
	}
	return h.sched.Current(sched.NodeID(node), x.call.id, sched.Fence(fence))
}
