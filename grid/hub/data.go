// SPDX-License-Identifier: MIT

package hub

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/grid/session"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// Data that the hub stores for a session: its master sent it, or a call left it there as a
// result. Calls name it by its digest, and nodes keep what they fetched of it until the session
// drops it. It is a blob, pinned for the session's data.

// A datum is stored data of one session. Hub.mu guards it.
type datum struct {
	length uint64
	uses   int          // by its master, and by calls that have not ended
	one    bool         // only one node may have it
	node   sched.NodeID // that one, once it is known
}

// callData is the stored data of a call.
type callData struct {
	in, out  []uapi.Datum
	reserved uint64 // bytes of results that are to be stored
}

func dataOwner(session string) string { return session + "/data" }

func (d *callData) bytes() (n uint64) {
	for _, v := range d.in {
		n += v.Length
	}
	return n
}

func (d *callData) digests() (list []sched.Digest) {
	for _, v := range d.in {
		list = append(list, v.Digest)
	}
	return list
}

// parts returns what a lease says of data.
func parts(list []uapi.Datum) (out []proto.Part) {
	for _, v := range list {
		p := proto.Part{Offset: v.Offset, Length: v.Length}
		if v.Mode&uint32(uapi.ModeIn) != 0 {
			p.Blob = hex.EncodeToString(v.Digest[:])
		}
		out = append(out, p)
	}
	return out
}

// names lists digests for the ledger.
func names(list []uapi.Datum) (out []string) {
	for _, v := range list {
		out = append(out, hex.EncodeToString(v.Digest[:]))
	}
	return out
}

// add notes one more use of stored data. It reports whether the session did not have it.
func (c *caller) addDatum(sum [32]byte, length uint64) (d *datum, fresh bool) {
	if d = c.data[sum]; d == nil {
		d, fresh = &datum{length: length}, true
		c.data[sum] = d
	}
	d.uses++
	return d, fresh
}

// dropDatum ends a use of stored data, and forgets the data after the last one.
func (h *Hub) dropDatum(c *caller, sum [32]byte) {
	lockdep.AssertHeld(&h.mu)
	d := c.data[sum]
	if d == nil {
		return
	}
	if d.uses--; d.uses > 0 {
		return
	}
	delete(c.data, sum)
	h.releaseDatum(c, d)
	digest := hex.EncodeToString(sum[:])
	h.blobs.UnpinOne(digest, dataOwner(c.key))
	for id, n := range h.nodes {
		if n.ready && n.data {
			if err := h.publish(id, proto.VerbForget, proto.Forget{Session: c.key, User: c.user, Blob: digest}, nil); err != nil {
				h.log.Warn("a node was not told to forget data", "node", id, "error", err)
			}
		}
	}
}

func (h *Hub) releaseDatum(c *caller, d *datum) {
	for _, q := range c.quotas(h) {
		q.release(int64(d.length))
	}
}

// dropAllData is for a session that has ended.
func (h *Hub) dropAllData(c *caller) {
	lockdep.AssertHeld(&h.mu)
	for _, d := range c.data {
		h.releaseDatum(c, d)
	}
	clear(c.data)
	h.blobs.Unpin(dataOwner(c.key))
}

// keepData takes a KEEP frame: its bytes follow.
func (m *master) keepData(f *session.Frame) error {
	v, err := uapi.DecodeExact[uapi.Datum](f.Payload)
	if err != nil {
		return protocolError("%v", err)
	}
	if err := m.checkFresh(f.Call); err != nil {
		return err
	}
	in, id := &incoming{left: v.Length}, f.Call
	m.incoming[id] = in
	if in.to, err = m.hub.spools.newSpool(v.Length, m.quotas(m.hub)...); err != nil {
		m.fail(id, spoolError("the data", err))
		return nil
	}
	in.fail = func(err error) { m.fail(id, uapi.Errorf(uapi.EInternal, "%v", err)) }
	in.done = func() { m.storeData(id, v, in.to) }
	return nil
}

// storeData answers KEEP when all bytes are there.
func (m *master) storeData(id uint64, v uapi.Datum, from *spool) {
	h := m.hub
	sum, err := h.putBlob(from.reader(m.run.ctx), dataOwner(m.key))
	if err != nil {
		m.fail(id, uapi.Errorf(uapi.EInternal, "the data cannot be stored: %v", err))
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	d, fresh := m.addDatum(sum, v.Length)
	if fresh {
		if err := reserveAll(m.quotas(h), v.Length); err != nil {
			delete(m.data, sum)
			h.blobs.UnpinOne(hex.EncodeToString(sum[:]), dataOwner(m.key))
			m.fail(id, spoolError("the data", err))
			return
		}
	}
	d.one = d.one || v.Mode&uapi.OneNode != 0
	v.Digest = sum
	m.out.add(outgoing{client: id, kind: uapi.TypeKept, payload: uapi.Append(nil, v)})
}

// dropData takes a DROP frame.
func (m *master) dropData(f *session.Frame) error {
	v, err := uapi.DecodeExact[uapi.Datum](f.Payload)
	if err != nil {
		return protocolError("%v", err)
	}
	m.hub.mu.Lock()
	defer m.hub.mu.Unlock()
	m.hub.dropDatum(m.caller, v.Digest)
	return nil
}

// readData takes a READ frame: the answer has the data's bytes.
func (m *master) readData(f *session.Frame) error {
	v, err := uapi.DecodeExact[uapi.Datum](f.Payload)
	if err != nil {
		return protocolError("%v", err)
	}
	if err := m.checkFresh(f.Call); err != nil {
		return err
	}
	m.hub.mu.Lock()
	d := m.data[v.Digest]
	m.hub.mu.Unlock()
	if d == nil || d.length != v.Length {
		m.fail(f.Call, noDatum(v))
		return nil
	}
	s, err := m.hub.openDatum(v)
	if err != nil {
		m.fail(f.Call, uapi.Errorf(uapi.EInternal, "the data cannot be read back: %v", err))
		return nil
	}
	m.out.add(outgoing{client: f.Call, result: &uapi.Result{Length: v.Length}, data: s})
	return nil
}

func noDatum(v uapi.Datum) *uapi.Error {
	return uapi.Errorf(uapi.EArguments, "the hub stores no data %x of %d bytes for this program: it was freed, or the hub was started again: send it again", v.Digest[:8], v.Length)
}

// openDatum makes a spool of a blob's file.
func (h *Hub) openDatum(v uapi.Datum) (*spool, error) {
	f, err := h.openBlob(v.Digest)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && uint64(info.Size()) != v.Length {
		err = fmt.Errorf("it has %d bytes, not %d", info.Size(), v.Length)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	h.spools.files.Add(1)
	n := int64(v.Length)
	return &spool{from: &h.spools, want: n, moved: make(chan struct{}), file: f, size: n, finished: true, refs: 1}, nil
}

// parseCallKept splits the payload of CALL_KEPT.
func parseCallKept(b []byte) (v uapi.Call, d *callData, err error) {
	d = &callData{}
	if v, b, err = uapi.DecodePrefix[uapi.Call](b); err != nil {
		return v, nil, err
	}
	for len(b) > 0 {
		var one uapi.Datum
		if one, b, err = uapi.DecodePrefix[uapi.Datum](b); err != nil {
			return v, nil, err
		}
		switch one.Mode &^ uapi.OneNode {
		case uint32(uapi.ModeIn):
			d.in = append(d.in, one)
		case uint32(uapi.ModeOut):
			d.out = append(d.out, one)
		default:
			return v, nil, fmt.Errorf("stored data has the mode %#x", one.Mode)
		}
	}
	if len(d.in)+len(d.out) > 2*uapi.ParamsMax {
		return v, nil, fmt.Errorf("a call has %d places with stored data", len(d.in)+len(d.out))
	}
	var all uint64
	for _, one := range d.in {
		all += min(one.Length, spoolMax)
	}
	if !inOrder(d.in, v.Length+all) || !inOrder(d.out, v.Result) {
		return v, nil, fmt.Errorf("stored data lies outside of the call")
	}
	return v, d, nil
}

// inOrder reports whether the places are apart, ascending, and within so many bytes.
func inOrder(list []uapi.Datum, within uint64) bool {
	places := proto.Places{Within: within}
	return !slices.ContainsFunc(list, func(v uapi.Datum) bool { return !places.Next(v.Offset, v.Length) })
}

// label is a node's name for people, also of one that has gone.
func (n *node) label() string {
	if n == nil {
		return "that has gone"
	}
	return n.info.Name
}

// useData makes a new call use stored data, until endData.
func (m *master) useData(c *call, d *callData) *uapi.Error {
	h := m.hub
	for _, v := range d.out {
		d.reserved += v.Length
	}
	if err := reserveAll(m.quotas(h), d.reserved); err != nil {
		return spoolError("what the call is to leave in the hub", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e := m.checkData(c, d)
	if e != nil {
		for _, q := range m.quotas(h) {
			q.release(int64(d.reserved))
		}
		return e
	}
	for _, v := range d.in {
		m.data[v.Digest].uses++
	}
	c.data = d
	return nil
}

// checkData finds out which node alone may run a call, because of its data.
func (m *master) checkData(c *call, d *callData) *uapi.Error {
	lockdep.AssertHeld(&m.hub.mu)
	c.only = cmp.Or(c.only, c.module.node)
	one := slices.ContainsFunc(d.out, func(v uapi.Datum) bool { return v.Mode&uapi.OneNode != 0 })
	for _, v := range d.in {
		have := m.data[v.Digest]
		if have == nil || have.length != v.Length {
			return noDatum(v)
		}
		have.one = have.one || v.Mode&uapi.OneNode != 0
		one = one || have.one
		if have.node == "" {
			continue
		}
		if c.only != "" && c.only != have.node {
			return uapi.Errorf(uapi.ERefused, "the data %x may be on the node %s only, and the call is bound to the node %s by its handle or by other data: use a handle of the first node, or a mode other than GRPC_UNIQUE_STICKY", v.Digest[:8], m.hub.nodes[string(have.node)].label(), m.hub.nodes[string(c.only)].label())
		}
		c.only = have.node
	}
	if !one {
		return nil
	}
	if c.only == "" {
		if c.only = m.chooseNode(); c.only == "" {
			return uapi.Errorf(uapi.ENoNode, "no node is there that could have the data of this call: wait for one to join")
		}
	}
	for _, v := range d.in {
		if have := m.data[v.Digest]; have.one {
			have.node = c.only
		}
	}
	return nil
}

// chooseNode returns the node with the fewest leases that may run the session's calls.
func (m *master) chooseNode() sched.NodeID {
	lockdep.AssertHeld(&m.hub.mu)
	var best *node
	for _, id := range slices.Sorted(maps.Keys(m.hub.nodes)) {
		n := m.hub.nodes[id]
		if n.ready && n.data && n.info.State == NodeUp && !n.info.Drained && m.run.on.Matches(n.info.About()) &&
			(best == nil || n.leases < best.leases) {
			best = n
		}
	}
	if best == nil {
		return ""
	}
	return sched.NodeID(best.info.ID)
}

// endData ends the uses of a call that has ended.
func (h *Hub) endData(c *call) {
	lockdep.AssertHeld(&h.mu)
	if c.data == nil {
		return
	}
	for _, v := range c.data.in {
		h.dropDatum(c.caller, v.Digest)
	}
	for _, q := range c.caller.quotas(h) {
		q.release(int64(c.data.reserved))
	}
	c.data = nil
}
