// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/internal/lazy"
	"skep/internal/lockdep"
	"skep/internal/uapi"
)

// Results that a message cannot hold are in files that a later hub finds, until their master
// has all of them: docs/design/reattach.md. Nodes keep the smaller ones. A file has a result's
// bytes, and after them a seal, which is written when the result was checked. Without it the
// file means nothing.

// A storedResult is a file of an earlier hub.
type storedResult struct {
	path  string
	frame uapi.Result
}

var (
	sealMagic  = []byte("skep result 1\n\x00\x00")
	storedFile = lazy.Regexp(`^result-([0-9a-f]{32})-([0-9]{1,20})-[0-9]+$`)
)

// storedName is the pattern of the file for a call's result of n bytes, or "" if none is needed.
func (h *Hub) storedName(c *call, n uint64) string {
	if !h.cfg.Keep || n <= proto.InlineMax || c.data != nil { // data in the hub ends with it
		return ""
	}
	return fmt.Sprintf("result-%s-%d-*", c.caller.key, c.client)
}

// sealResult makes the result that a node announces one that a later hub finds. Hub.mu is not
// held. A result that cannot be accepted gets no seal, and handleDone finds out why.
func (h *Hub) sealResult(id string, v *proto.Done) error {
	s, frame := h.sealable(id, v)
	if s == nil {
		return nil
	}
	defer s.put()
	seal := append(uapi.Append(nil, frame), sealMagic...)
	if _, err := s.file.WriteAt(seal, s.want); err != nil {
		return diskFull(s.from.dir, err)
	}
	h.mirror.add(copyItem{copyHead: copyHead{Op: copySeal, Name: resultFolder + filepath.Base(s.file.Name()), At: s.want}, body: seal})
	h.mirror.settle()
	return nil
}

// sealable returns, with a reference, the spool of a result that will be accepted.
func (h *Hub) sealable(id string, v *proto.Done) (*spool, uapi.Result) {
	c, l := h.leaseOf(id, sched.CallID(v.Call), sched.Fence(v.Fence))
	if c == nil {
		return nil, uapi.Result{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := l.result
	if _, why := c.checkSafety(l, v); why != "" || s == nil || s.name == "" || c.checkResultSize(v.Length) != nil ||
		l.checkResult(v) != nil || !s.get() {
		return nil, uapi.Result{}
	}
	return s, c.resultFrame(l, v)
}

// readSeal returns what the seal of a file says.
func readSeal(path string) (r uapi.Result, err error) {
	f, err := os.Open(path)
	if err != nil {
		return r, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return r, err
	}
	seal := make([]byte, sealSize)
	if _, err := f.ReadAt(seal, max(info.Size()-sealSize, 0)); err != nil {
		return r, err
	}
	text, magic := seal[:len(seal)-len(sealMagic)], seal[len(seal)-len(sealMagic):]
	if r, err = uapi.DecodeExact[uapi.Result](text); err != nil {
		return r, err
	}
	if !bytes.Equal(magic, sealMagic) || uint64(info.Size()) != r.Length+uint64(sealSize) {
		return r, fmt.Errorf("%s was not completed", path)
	}
	return r, nil
}

var sealSize = int64(len(uapi.Append(nil, uapi.Result{})) + len(sealMagic))

// restoreResults finds the results that a killed hub had accepted for sessions that may come
// back. It removes all others.
func (h *Hub) restoreResults() {
	names, _ := filepath.Glob(filepath.Join(h.cfg.Spool, "result-*"))
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range names {
		m := storedFile().FindStringSubmatch(filepath.Base(name))
		if m == nil {
			continue // not the hub's
		}
		client, err := strconv.ParseUint(m[2], 10, 64)
		key := carryKey{m[1], client}
		var frame uapi.Result
		if err == nil {
			frame, err = readSeal(name)
		}
		if err != nil || !h.back.keys[key.session] || h.stored[key] != nil {
			os.Remove(name)
			continue
		}
		h.stored[key] = &storedResult{name, frame}
		h.quota.used.Add(int64(frame.Length))
	}
}

func (h *Hub) hasStored(c *call) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stored[carryKey{c.caller.key, c.client}] != nil
}

// commitStored ends a call that was sent again with the result that an earlier hub accepted.
// It returns false if there is none.
func (h *Hub) commitStored(c *call) bool {
	lockdep.AssertHeld(&h.mu)
	key := carryKey{c.caller.key, c.client}
	r := h.stored[key]
	if r == nil {
		return false
	}
	delete(h.stored, key)
	h.quota.release(int64(r.frame.Length))
	s, err := h.spools.openStored(r, c.caller.quotas(h)...)
	if err != nil {
		h.log.Error("a result that was stored cannot be read, so its call is run again", "error", err)
		os.Remove(r.path)
		h.mirror.remove(resultFolder + filepath.Base(r.path))
		return false
	}
	h.callEvent(c, nil, CallDone, "its result was stored before the hub was started again")
	h.forgetCall(c)
	c.caller.out.add(outgoing{client: c.client, result: &r.frame, data: s})
	return true
}

// openStored makes a complete spool of a file. Its bytes count, even beyond a quota.
func (p *spooler) openStored(r *storedResult, quotas ...*quota) (*spool, error) {
	f, err := os.Open(r.path)
	if err != nil {
		return nil, err
	}
	p.files.Add(1)
	n := int64(r.frame.Length)
	for _, q := range quotas {
		q.used.Add(n)
	}
	return &spool{from: p, name: r.path, want: n, quotas: quotas, kept: n, moved: make(chan struct{}),
		file: f, left: true, size: n, finished: true, refs: 1}, nil
}

// dropStored removes the results of a session that has ended.
func (h *Hub) dropStored(session string) {
	lockdep.AssertHeld(&h.mu)
	for key, r := range h.stored {
		if key.session == session {
			delete(h.stored, key)
			h.quota.release(int64(r.frame.Length))
			os.Remove(r.path)
			h.mirror.remove(resultFolder + filepath.Base(r.path))
		}
	}
}
