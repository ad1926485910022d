// SPDX-License-Identifier: MIT

package hub

import (
	"errors"
	"io"
	"time"

	"skep/grid/label"
	"skep/grid/proto"
	"skep/grid/sched"
	"skep/grid/session"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// Limits of one master.
const (
	callsMax     = 1 << 18 // not ended; also of answers that it did not read
	transfersMax = 1 << 16 // begun
	modulesMax   = 256
	farewell     = 5 * time.Second
)

// A master is the connection of one session: it begins with a HELLO that has a
// new id and ends with BYE, or when its stream is cut for longer than the
// grace. Its frames go down to its modules, transfers and requests, and from
// there to the scheduler. Lower layers do not know the master: a call only
// knows its caller.
type master struct {
	*caller
	hub   *Hub
	run   *run
	conn  *session.Conn // nil: a program of skep exec, whose command line is the master
	box   *outbox       // its frames
	again chan struct{} // gets a value when the session has another stream

	// The goroutine that reads from it owns these.
	incoming map[uint64]*incoming
	modules  []*module
	initial  int64 // bytes that it reserved until it closes: the data of Initialize, and worker programs that a user sent
}

// openMaster starts a session, whose HELLO had a new id or one that an earlier hub knew.
// key is what nodes call it.
func (h *Hub) openMaster(r *run, conn *session.Conn, key string) (*master, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := r.checkMasters(); err != nil {
		return nil, err
	}
	box := newOutbox(conn)
	m := &master{
		caller: h.newCaller(key, r, r.limits, box), box: box,
		hub: h, run: r, conn: conn, again: make(chan struct{}, 1), incoming: map[uint64]*incoming{},
	}
	r.masters[conn.ID()] = m
	delete(h.back.keys, m.key)
	h.openCaller(m, r.on, r.attempts)
	return m, nil
}

// newCaller gives a session its number.
func (h *Hub) newCaller(key string, r *run, limits proto.Limits, out answers) *caller {
	lockdep.AssertHeld(&h.mu)
	h.lastSession++
	return &caller{
		id: h.lastSession, key: key, limits: limits, began: h.cfg.Now(),
		quota: h.cfg.Quotas.ofSession(), user: r.user, whole: h.quotaOf(r.user), out: out,
		calls: map[uint64]*call{}, nodes: map[*node]bool{}, leases: map[*node]int{}, data: map[[32]byte]*datum{}, objects: map[uint64]*object{},
	}
}

// openCaller makes a session known.
func (h *Hub) openCaller(m *master, on label.Selector, attempts int) {
	lockdep.AssertHeld(&h.mu)
	h.masters[m.id], h.byKey[m.key] = m, m.id
	h.handleEvent(sched.SessionOpen{Session: m.id, On: on, Attempts: attempts,
		User: sched.UserID(m.run.user), Priority: m.run.priority})
	h.emit(Event{Type: "session", State: "master", Session: m.key, Name: m.run.name, Text: m.run.key})
}

// dropCaller drops a session and its calls, here and on the nodes.
func (h *Hub) dropCaller(m *master) {
	lockdep.AssertHeld(&h.mu)
	delete(h.masters, m.id)
	delete(h.byKey, m.key)
	h.endSession(m)
	h.closeSession(m.caller)
	h.tellAll(proto.VerbRelease, proto.Release{Session: m.key})
	h.openRelease(m)
	h.emit(Event{Type: "session", State: "end", Session: m.key, Name: m.run.name, Text: m.run.key})
}

// reserve takes bytes of the quotas until the session closes.
func (m *master) reserve(n uint64) error {
	if err := reserveAll(m.quotas(m.hub), n); err != nil {
		return err
	}
	m.initial += int64(n)
	return nil
}

// serve reads frames until the session is over. With a reason it is over at once.
func (m *master) serve(why error) {
	for why == nil {
		f, err := m.conn.Read()
		switch {
		case err == nil:
			why = m.handleFrame(&f)
		case errors.Is(err, session.ErrCut):
			why = m.wait()
		default:
			why = err
		}
	}
	m.hub.log.Debug("a session ended", "session", m.key, "why", why)
	// Replies to a master that does not read must not accumulate here.
	t := time.AfterFunc(farewell, func() { m.conn.Abort(nil) })
	defer t.Stop()
	var e *uapi.Error
	if errors.As(why, &e) {
		m.conn.SendError(0, e)
	}
	m.box.close()
	m.conn.Close()
	m.close()
}

// wait waits for the grace period until a master that lost its stream has another one.
func (m *master) wait() error {
	t := time.NewTimer(m.hub.cfg.Grace)
	defer t.Stop()
	select {
	case <-m.again:
		return nil
	case <-t.C:
		return errors.New("the master has ended")
	case <-m.run.ctx.Done():
		return errors.New("the run ended")
	}
}

// close drops all that the session had, here and on the nodes.
func (m *master) close() {
	for _, in := range m.incoming {
		in.discard(errors.New("the session ended"))
	}
	m.hub.forgetMaster(m)
	m.hub.blobs.Unpin(m.key)
	m.run.dropSession(m.conn)
	for _, q := range m.quotas(m.hub) {
		q.release(m.initial)
	}
}

func (h *Hub) forgetMaster(m *master) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(m.run.masters, m.conn.ID())
	h.dropCaller(m)
	h.closeEnded(m.run)
}

func protocolError(format string, args ...any) error {
	return uapi.Errorf(uapi.EProtocol, format, args...)
}

// handleFrame returns an error when the session cannot go on.
func (m *master) handleFrame(f *session.Frame) error {
	if n := m.box.countWaiting(); n > m.hub.cfg.unread {
		return protocolError("%d answers wait and this program does not read them", n)
	}
	if n := len(m.incoming); n > m.hub.cfg.transfers {
		return protocolError("%d transfers were begun and not ended", n)
	}
	switch f.Type {
	case uapi.TypePing:
		return nil
	case uapi.TypeBye:
		return io.EOF
	case uapi.TypeData:
		return m.handleData(f)
	case uapi.TypeBind:
		return m.bindModule(f.Call, string(f.Payload))
	case uapi.TypeModuleInit:
		return m.moduleInit(f)
	case uapi.TypeCall, uapi.TypeCallKept:
		return m.call(f)
	case uapi.TypeKeep:
		return m.keepData(f)
	case uapi.TypeRead:
		return m.readData(f)
	case uapi.TypeDrop:
		return m.dropData(f)
	case uapi.TypeObject:
		return m.takeObject(f)
	case uapi.TypeReturn:
		return m.takeReturn(f.Call, f.Payload)
	case uapi.TypeError:
		return m.refuseCallback(f.Call, f.Payload)
	case uapi.TypeCancel:
		if in := m.incoming[f.Call]; in != nil {
			in.discard(errTransferCancelled) // the rest may never come
		}
		m.hub.cancelCall(m.caller, f.Call)
		return nil
	}
	return protocolError("a master must not send %v frames", f.Type)
}

// checkFresh checks a number that the master chose for something new.
func (m *master) checkFresh(id uint64) error {
	if id == 0 || m.incoming[id] != nil || m.hub.callOf(m.caller, id) != nil || m.hub.objectOf(m.caller, id) != nil {
		return protocolError("call number %d is 0 or in use", id)
	}
	return nil
}
