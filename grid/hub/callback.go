// SPDX-License-Identifier: MIT

package hub

import (
	"errors"
	"io"
	"net/http"
	"time"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// Calls that call their masters: docs/design/callbacks.md. A node asks with the payload of
// CALLBACK, and the answer is the payload of RETURN.

// A callback is the last one of a call. Hub.mu guards it until done is closed.
type callback struct {
	number uint64
	param  uint32
	done   chan struct{} // closed when there is an answer, or none will come
	answer []byte        // nil: the call has ended
	held   int64         // bytes that count towards the quotas, until the call's next one or its end
}

func (b *callback) isDone() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// calledWhy is why a call that an earlier hub knew ends.
const calledWhy = "no node has the call any more since the hub was started again" + sched.OnceWhy

var errCallEnded = errors.New("the call has ended")

// handleCallback answers when the master's function has returned, or the call has ended. The
// node asks again if the connection breaks.
func (h *Hub) handleCallback(w http.ResponseWriter, r *http.Request, id string) {
	c, l := h.checkLease(w, r, id)
	if c == nil {
		return
	}
	ctl := http.NewResponseController(w)
	ctl.SetReadDeadline(time.Now().Add(h.cfg.bodyIn))
	payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, uapi.FrameMax))
	if err != nil {
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "the hub cannot read this request: %v", err)
		return
	}
	ctl.SetReadDeadline(time.Time{})
	b, err := h.beginCallback(c, l, payload)
	var e *uapi.Error
	switch {
	case errors.As(err, &e):
		h.abandonCall(c, e)
		writeProblem(w, http.StatusConflict, proto.ProblemCallback, "%v", e)
		return
	case err != nil:
		writeProblem(w, http.StatusConflict, proto.ProblemFence, "%v", err)
		return
	}
	select {
	case <-b.done:
	case <-r.Context().Done():
		return
	}
	if b.answer == nil {
		writeProblem(w, http.StatusConflict, proto.ProblemFence, "%v", errCallEnded)
		return
	}
	ctl.SetWriteDeadline(time.Now().Add(stallIn))
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Write(b.answer)
}

// beginCallback asks the master, or returns the callback that the node repeats. A *uapi.Error is
// that of a worker that breaks the rules.
func (h *Hub) beginCallback(c *call, l *lease, payload []byte) (*callback, error) {
	v, _, err := uapi.ParseCallback(payload)
	if err != nil {
		return nil, uapi.Errorf(uapi.EProtocol, "a callback that cannot be read: %v", err)
	}
	f := &c.module.manifest.Functions[c.number]
	if uint64(v.Param) >= uint64(len(f.Params)) || f.Params[v.Param].Type != uapi.MasterFunction {
		return nil, uapi.Errorf(uapi.EProtocol, "the worker of %s called parameter %d, which is no function of its master", f.Name, v.Param)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.state == callEnded || c.leases[l.Fence] != l {
		return nil, errCallEnded
	}
	switch last := c.back; {
	case last != nil && v.Number == last.number && v.Param == last.param:
		return last, nil
	case last != nil && (!last.isDone() || v.Number != last.number+1),
		// An earlier hub may have passed on those before.
		last == nil && v.Number != 1 && (h.adopted[l.Fence] == nil || v.Number == 0):
		return nil, uapi.Errorf(uapi.EProtocol, "the worker of %s sent callback %d out of its turn", f.Name, v.Number)
	}
	h.dropCallback(c) // it was answered, and its node does not ask for it any more
	b := &callback{number: v.Number, param: v.Param, done: make(chan struct{})}
	if err := h.holdBytes(c, b, payload); err != nil {
		return nil, err
	}
	c.back, c.called = b, true
	h.handleEvent(sched.CallOnce{Call: c.id})
	if c.inners > 0 { // the function may wait for calls that it made before
		h.lend(c, true)
	}
	c.caller.out.add(outgoing{client: c.client, kind: uapi.TypeCallback, payload: payload})
	return c.back, nil
}

// takeReturn takes a RETURN. One that comes late, after its call or for another callback, is
// dropped.
func (m *master) takeReturn(number uint64, payload []byte) error {
	v, _, err := uapi.ParseCallback(payload)
	if err != nil {
		return protocolError("%v", err)
	}
	if c, e := m.keepReturn(number, v, payload); e != nil {
		m.hub.abandonCall(c, e)
	}
	return nil
}

// keepReturn gives a RETURN to the node that waits for it. With an error there is no room for it.
func (m *master) keepReturn(number uint64, v uapi.Callback, payload []byte) (*call, *uapi.Error) {
	m.hub.mu.Lock()
	defer m.hub.mu.Unlock()
	c := m.calls[number]
	if c == nil || c.back == nil || c.back.isDone() || v.Number != c.back.number || v.Param != c.back.param {
		return c, nil
	}
	if e := m.hub.holdBytes(c, c.back, payload); e != nil {
		return c, e
	}
	c.back.answer = append([]byte{}, payload...)
	close(c.back.done)
	m.hub.lend(c, false)
	return c, nil
}

// holdBytes counts the bytes of a callback towards the quotas of its call, as those of other
// arguments and results, or returns the error with which the call ends.
func (h *Hub) holdBytes(c *call, b *callback, payload []byte) *uapi.Error {
	lockdep.AssertHeld(&h.mu)
	n := len(payload)
	if err := reserveAll(c.caller.quotas(h), uint64(n)); err != nil {
		return spoolError("what "+c.functionName()+" calls in its master", err)
	}
	b.held += int64(n)
	return nil
}

// dropCallback gives back what the last callback of a call holds.
func (h *Hub) dropCallback(c *call) {
	lockdep.AssertHeld(&h.mu)
	if c.back == nil {
		return
	}
	for _, q := range c.caller.quotas(h) {
		q.release(c.back.held)
	}
	c.back.held = 0
}

// refuseCallback takes an ERROR of a master: it does not take a callback of the call, which ends.
func (m *master) refuseCallback(number uint64, payload []byte) error {
	e, err := uapi.ParseError(payload)
	if err != nil {
		return protocolError("%v", err)
	}
	if c := m.hub.callOf(m.caller, number); c != nil {
		m.hub.abandonCall(c, e)
	}
	return nil
}

// endCallback wakes the node of a call that has ended.
func (h *Hub) endCallback(c *call) {
	h.dropCallback(c)
	if c.back != nil && !c.back.isDone() {
		close(c.back.done)
	}
}

// endCalled ends a call that has called its master and that no node has. It returns false for
// other calls.
func (h *Hub) endCalled(c *call, why string) bool {
	lockdep.AssertHeld(&h.mu)
	if c.called {
		h.endCall(c, uapi.Errorf(uapi.EWorker, "%s", why))
	}
	return c.called
}
