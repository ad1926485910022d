// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/grid/session"
	"skep/internal/uapi"
)

// Limits of one master.
const (
	callsMax     = 1 << 18 // not ended; also of answers that it did not read
	transfersMax = 1 << 16 // begun
	modulesMax   = 256
	farewell     = 5 * time.Second
)

// workerSuffix is what `skep gen --build` names worker programs.
const workerSuffix = ".rex"

// A master is one session: it begins with a HELLO that has a new id and ends
// with BYE, or when its stream is cut for longer than the grace. Its reading
// goroutine owns incoming; Hub.mu guards modules and calls.
type master struct {
	hub      *Hub
	run      *run
	id       sched.SessionID
	key      string // what nodes call it
	conn     *session.Conn
	again    chan struct{} // it was attached to another stream
	out      *outbox
	incoming map[uint64]*incoming
	modules  []*module
	calls    map[uint64]*call
	quota    *quota // of bytes that the hub holds for it
	initial  int64  // of them the data of Initialize, until it closes
}

// A module is a bound worker program. init is what workers that start from now
// on are initialised with.
type module struct {
	digest   string
	sum      [32]byte
	manifest *uapi.Manifest
	init     *initData
}

type initData struct {
	function   uint32
	digest     string
	length     uint64
	generation [32]byte
}

// incoming is a transfer from the master: arguments, or data of a module's
// Initialize. What comes for a call that has ended already is thrown away.
type incoming struct {
	to   *spool // nil: thrown away
	left uint64
	done func() // the last byte came
	fail func(error)
}

// open starts a session on a stream whose HELLO named a new id.
func (h *Hub) openMaster(r *run, conn *session.Conn) *master {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastSession++
	m := &master{
		hub: h, run: r, id: h.lastSession, key: session.NewID().String(), conn: conn,
		again: make(chan struct{}, 1), incoming: map[uint64]*incoming{}, calls: map[uint64]*call{},
		quota: h.cfg.Quotas.ofSession(),
	}
	m.out = newOutbox(conn)
	r.masters[conn.ID()] = m
	h.masters[m.id], h.byKey[m.key] = m, m.id
	h.handle(sched.SessionOpen{Session: m.id})
	h.emit(Event{Type: "session", State: "master", Session: m.key, Name: r.name, Text: r.key})
	return m
}

// serve reads frames until the session is over.
func (m *master) serve() {
	var why error
	for why == nil {
		f, err := m.conn.Read()
		switch {
		case err == nil:
			why = m.frame(&f)
		case errors.Is(err, session.ErrCut):
			why = m.wait()
		default:
			why = err
		}
	}
	m.hub.log.Debug("a session ended", "session", m.key, "why", why)
	// One that does not read must not keep what is said to it here.
	t := time.AfterFunc(farewell, func() { m.conn.Abort(nil) })
	defer t.Stop()
	var e *uapi.Error
	if errors.As(why, &e) {
		m.conn.SendError(0, e)
	}
	m.out.close()
	m.conn.Close()
	m.hub.closeMaster(m)
}

// wait gives a master that lost its stream the grace to come back.
func (m *master) wait() error {
	t := time.NewTimer(m.hub.cfg.Grace)
	defer t.Stop()
	select {
	case <-m.again:
		return nil
	case <-t.C:
		return errors.New("the master is gone")
	case <-m.run.ctx.Done():
		return errors.New("the run ended")
	}
}

// closeMaster drops all that the session had, here and on the nodes.
func (h *Hub) closeMaster(m *master) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(m.run.masters, m.conn.ID())
	delete(h.masters, m.id)
	delete(h.byKey, m.key)
	h.handle(sched.SessionClose{Session: m.id})
	for _, c := range m.calls {
		h.forget(c)
	}
	for _, in := range m.incoming {
		in.discard(errors.New("the session ended"))
	}
	h.tellAll(proto.VerbRelease, proto.Release{Session: m.key})
	h.blobs.Unpin(m.key)
	h.quota.release(m.initial)
	h.emit(Event{Type: "session", State: "end", Session: m.key, Name: m.run.name, Text: m.run.key})
}

func protocolError(format string, args ...any) error {
	return uapi.Errorf(uapi.EProtocol, format, args...)
}

// frame gives an error when the session cannot go on.
func (m *master) frame(f *session.Frame) error {
	if n := m.out.waiting(); n > m.hub.cfg.unread {
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
		return m.data(f)
	case uapi.TypeBind:
		return m.bind(f.Call, string(f.Payload))
	case uapi.TypeModuleInit:
		return m.moduleInit(f)
	case uapi.TypeCall:
		return m.call(f)
	case uapi.TypeCancel:
		m.hub.cancelCall(m, f.Call)
		return nil
	}
	return protocolError("a master must not send %v frames", f.Type)
}

func (m *master) fail(id uint64, e *uapi.Error) {
	m.out.add(outgoing{client: id, err: e})
}

var moduleName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,62}$`)

// bind finds the worker program of a module. What is looked at is the stored
// copy, so nobody can exchange the file in between.
func (m *master) bind(id uint64, name string) error {
	mod, raw, e := m.load(name)
	if e != nil {
		m.fail(id, e)
		return nil
	}
	m.hub.mu.Lock()
	m.modules = append(m.modules, mod)
	handle := uint32(len(m.modules))
	m.hub.mu.Unlock()
	m.out.add(outgoing{client: id, kind: uapi.TypeBound, payload: uapi.Bound{Module: handle, Manifest: raw}.Encode()})
	return nil
}

func (m *master) load(name string) (*module, []byte, *uapi.Error) {
	if len(m.modules) >= modulesMax {
		return nil, nil, uapi.Errorf(uapi.ENoModule, "this program bound %d modules, more are not taken", modulesMax)
	}
	path, f, err := m.find(name)
	if err != nil {
		return nil, nil, uapi.Errorf(uapi.ENoModule, "%v", err)
	}
	defer f.Close()
	digest, err := m.hub.putBlob(f, m.key)
	if err != nil {
		return nil, nil, uapi.Errorf(uapi.EInternal, "module %s cannot be stored: %v", name, err)
	}
	stored, err := m.hub.openBlob(digest)
	if err != nil {
		return nil, nil, uapi.Errorf(uapi.EInternal, "module %s cannot be read back: %v", name, err)
	}
	defer stored.Close()
	manifest, raw, err := uapi.ReadManifest(stored)
	if err != nil {
		return nil, nil, uapi.Errorf(uapi.EBadModule, "%s is no worker program that skep can run: %v", path, err)
	}
	return &module{digest: hex.EncodeToString(digest[:]), sum: digest, manifest: manifest}, raw, nil
}

func (m *master) find(name string) (string, *os.File, error) {
	if !moduleName.MatchString(name) {
		return "", nil, fmt.Errorf("%.80q is no name of a module", name)
	}
	for _, dir := range m.run.dirs {
		path := filepath.Join(dir, name+workerSuffix)
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			continue // also keeps Open from waiting for a pipe's other end
		}
		f, err := os.Open(path)
		if err != nil {
			return "", nil, fmt.Errorf("the worker program of module %s cannot be read: %v", name, err)
		}
		return path, f, nil
	}
	return "", nil, fmt.Errorf("no worker program %s%s in %s: build it there, or name its directory with --modules", name, workerSuffix, strings.Join(m.run.dirs, ", "))
}

func (m *master) module(handle uint32) *module {
	if handle == 0 || uint64(handle) > uint64(len(m.modules)) {
		return nil
	}
	return m.modules[handle-1]
}

// fresh checks a number that the master chose for something new.
func (m *master) fresh(id uint64) error {
	m.hub.mu.Lock()
	live := m.calls[id] != nil
	m.hub.mu.Unlock()
	if id == 0 || live || m.incoming[id] != nil {
		return protocolError("call number %d is 0 or in use", id)
	}
	return nil
}

func (m *master) moduleInit(f *session.Frame) error {
	v, err := uapi.Exact[uapi.ModuleInit](f.Payload)
	if err != nil {
		return protocolError("%v", err)
	}
	if err := m.fresh(f.Call); err != nil {
		return err
	}
	in, id, mod := &incoming{left: v.Length}, f.Call, m.module(v.Module)
	m.incoming[id] = in
	switch {
	case mod == nil:
		m.fail(id, uapi.Errorf(uapi.ENoModule, "no module has the handle %d", v.Module))
	case uint64(v.Function) >= uint64(len(mod.manifest.Functions)) || !mod.manifest.Functions[v.Function].Init:
		m.fail(id, uapi.Errorf(uapi.ENoFunction, "function %d of module %s is not its Initialize", v.Function, mod.manifest.Name))
	default:
		if in.to, err = m.hub.spools.spool(v.Length, m.quota, m.hub.quota); err != nil {
			m.fail(id, spoolError("the data of Initialize", err))
			return nil
		}
		in.done = func() { m.initialise(id, mod, v, in.to) }
		in.fail = func(err error) { m.fail(id, uapi.Errorf(uapi.EInternal, "%v", err)) }
	}
	return nil
}

// initialise stores what came; calls read from here on use it.
func (m *master) initialise(id uint64, mod *module, v uapi.ModuleInit, data *spool) {
	digest, err := m.hub.putBlob(data.reader(context.Background()), m.key)
	if err != nil {
		m.fail(id, uapi.Errorf(uapi.EInternal, "the data of Initialize cannot be stored: %v", err))
		return
	}
	if err := reserveAll([]*quota{m.quota, m.hub.quota}, v.Length); err != nil {
		m.fail(id, spoolError("the data of Initialize", err))
		return
	}
	m.initial += int64(v.Length)
	m.hub.mu.Lock()
	mod.init = &initData{v.Function, hex.EncodeToString(digest[:]), v.Length, generation(v.Function, digest)}
	m.hub.mu.Unlock()
	m.out.add(outgoing{client: id, kind: uapi.TypeDone})
}

func (m *master) call(f *session.Frame) error {
	v, err := uapi.Exact[uapi.Call](f.Payload)
	if err != nil {
		return protocolError("%v", err)
	}
	if err := m.fresh(f.Call); err != nil {
		return err
	}
	in := &incoming{left: v.Length}
	m.incoming[f.Call] = in
	c, e := m.newCall(f.Call, v)
	if e != nil {
		m.fail(f.Call, e)
		return nil
	}
	in.to = c.args
	in.fail = func(err error) { m.hub.abandon(c, uapi.Errorf(uapi.EInternal, "%v", err)) }
	c.args.hold() // for in; the call may end before its data
	m.hub.mu.Lock()
	m.calls[f.Call], m.hub.calls[c.id] = c, c
	m.hub.mu.Unlock()
	in.done = func() { m.hub.queue(c) }
	if v.Length > proto.InlineMax {
		in.done() // a node may begin to pull while bytes still come
		in.done = func() {}
	}
	return nil
}

func (m *master) newCall(id uint64, v uapi.Call) (*call, *uapi.Error) {
	mod := m.module(v.Module)
	switch {
	case mod == nil:
		return nil, uapi.Errorf(uapi.ENoModule, "no module has the handle %d", v.Module)
	case uint64(v.Function) >= uint64(len(mod.manifest.Functions)):
		return nil, uapi.Errorf(uapi.ENoFunction, "module %s has no function %d", mod.manifest.Name, v.Function)
	case mod.manifest.Functions[v.Function].Init:
		return nil, uapi.Errorf(uapi.ENoFunction, "function %s of module %s is its Initialize, which is not called like others", mod.manifest.Functions[v.Function].Name, mod.manifest.Name)
	}
	if err := m.roomFor(v.Result); err != nil {
		return nil, spoolError("the result of the call", err)
	}
	m.hub.mu.Lock()
	live := len(m.calls)
	m.hub.mu.Unlock()
	if live >= callsMax {
		return nil, uapi.Errorf(uapi.ERefused, "%d calls of this program wait already: wait for some of them first", live)
	}
	args, err := m.hub.spools.spool(v.Length, m.quota, m.hub.quota)
	if err != nil {
		return nil, spoolError("the call", err)
	}
	return &call{
		id: m.hub.nextCall(), client: id, session: m, module: mod, init: mod.init,
		number: v.Function, args: args, most: v.Result, leases: map[sched.Fence]*lease{},
	}, nil
}

// roomFor refuses a result that no quota could ever hold, before it is computed.
func (m *master) roomFor(result uint64) error {
	for _, q := range []*quota{m.quota, m.hub.quota, m.hub.cfg.Quotas.ofNode("any")} {
		if result > uint64(q.most) {
			return &quotaError{q, result, true}
		}
	}
	return nil
}

// spoolError is for the master: what it may do about it is in err.
func spoolError(what string, err error) *uapi.Error {
	code := uapi.EInternal
	if q := (*quotaError)(nil); errors.As(err, &q) {
		code = uapi.ERefused
	}
	return uapi.Errorf(code, "%s cannot be taken: %v", what, err)
}

// queue gives a call to the scheduler, unless it ended meanwhile.
func (h *Hub) queue(c *call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls[c.id] != c {
		return
	}
	w := sched.Worker{Module: c.module.sum}
	memory := uint64(c.args.want)
	if c.init != nil {
		w.Init = c.init.generation
		memory += c.init.length
	}
	h.callEvent(c, nil, CallQueued, "")
	h.handle(sched.CallQueued{Call: c.id, Session: c.session.id, Worker: w,
		Function: c.number, Memory: memory, Size: uint64(c.args.want)})
}

// data takes a part of a transfer.
func (m *master) data(f *session.Frame) error {
	in := m.incoming[f.Call]
	n := uint64(len(f.Payload))
	switch {
	case in == nil:
		return protocolError("DATA for call %d, which expects none", f.Call)
	case n > in.left, f.Last() && n != in.left:
		return protocolError("call %d has %d bytes to come and got %d", f.Call, in.left, n)
	}
	in.left -= n
	if in.to != nil {
		_, err := in.to.Write(f.Payload)
		if err == nil && f.Last() {
			err = in.to.finish()
		}
		if err != nil {
			in.fail(err)
			in.discard(err)
		}
	}
	if f.Last() {
		delete(m.incoming, f.Call)
		if in.to != nil {
			in.done()
			in.discard(nil)
		}
	}
	return nil
}

// discard lets go of a transfer's bytes; what still comes is thrown away.
func (in *incoming) discard(err error) {
	if in.to == nil {
		return
	}
	if err != nil {
		in.to.abort(err)
	}
	in.to.drop()
	in.to = nil
}

// cancelCall answers CANCEL: the call ends with ERROR, if it has not yet.
func (h *Hub) cancelCall(m *master, id uint64) {
	h.mu.Lock()
	c := m.calls[id]
	h.mu.Unlock()
	if c != nil {
		h.abandon(c, uapi.Errorf(uapi.ECancelled, "the call was cancelled"))
	}
}

// abandon ends a call that runs or waits.
func (h *Hub) abandon(c *call, e *uapi.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls[c.id] == c {
		h.handle(sched.CallCancel{Call: c.id})
		h.endCall(c, e)
	}
}
