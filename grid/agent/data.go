// SPDX-License-Identifier: MIT

package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"

	"skep/grid/proto"
)

// merged reads arguments of which some are blobs. Other programs of this user may write to a
// blob's file, so the read of its last bytes fails unless all have its digest.
type merged struct {
	own   io.ReadCloser // all that are not blobs
	store store
	parts []proto.Part // to come
	at    uint64
	left  uint64

	file *os.File // the current part
	sum  hash.Hash
	todo uint64 // of it
}

func (m *merged) Close() error {
	if m.file != nil {
		m.file.Close()
	}
	return m.own.Close()
}

func (m *merged) Read(p []byte) (int, error) {
	if m.left == 0 {
		return 0, io.EOF
	}
	for m.file == nil && len(m.parts) > 0 && m.parts[0].Offset == m.at {
		if err := m.openPart(); err != nil {
			return 0, err
		}
	}
	var n int
	var err error
	switch {
	case m.file != nil:
		n, err = m.readPart(p)
	case len(m.parts) > 0:
		n, err = m.own.Read(p[:min(uint64(len(p)), m.parts[0].Offset-m.at)])
	default:
		n, err = m.own.Read(p[:min(uint64(len(p)), m.left)])
	}
	m.at += uint64(n)
	m.left -= uint64(n)
	if err == io.EOF && m.left > 0 {
		err = nil
		if n == 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// openPart opens the next blob. An empty one is passed over.
func (m *merged) openPart() error {
	part := m.parts[0]
	path, err := m.store.Path(part.Blob)
	if err != nil {
		return fmt.Errorf("data of the call is not in the node's cache any more: %w", err)
	}
	if part.Length == 0 {
		m.parts = m.parts[1:]
		return nil
	}
	m.sum, m.todo = sha256.New(), part.Length
	m.file, err = os.Open(path)
	return err
}

func (m *merged) readPart(p []byte) (int, error) {
	n, err := m.file.Read(p[:min(uint64(len(p)), m.todo)])
	m.sum.Write(p[:n])
	m.todo -= uint64(n)
	if m.todo > 0 && err != io.EOF {
		return n, err
	}
	digest := m.parts[0].Blob
	m.file.Close()
	m.file, m.parts = nil, m.parts[1:]
	if m.todo > 0 || hex.EncodeToString(m.sum.Sum(nil)) != digest {
		m.store.Drop(digest)
		return 0, fmt.Errorf("data in the node's cache was changed: %s", digest)
	}
	return n, nil
}

// keepParts returns a reader of a result that stores a copy of those parts of it which later
// calls may need. What cannot be stored they fetch from the hub. The second function waits until
// the copies are complete.
func (a *Agent) keepParts(l *lease, from io.Reader) (io.Reader, func()) {
	if len(l.Keep) == 0 {
		return from, func() {}
	}
	k := &partKeeper{from: from, parts: l.Keep, agent: a, lease: l}
	return k, k.end
}

type partKeeper struct {
	from  io.Reader
	parts []proto.Part // to come
	at    uint64
	agent *Agent
	lease *lease

	to   *io.PipeWriter // the current part
	done chan struct{}
}

func (k *partKeeper) Read(p []byte) (int, error) {
	n, err := k.from.Read(p)
	for b := p[:n]; len(b) > 0; {
		b = b[k.take(b):]
	}
	return n, err
}

// take passes on the first bytes of b and returns their number.
func (k *partKeeper) take(b []byte) int {
	for len(k.parts) > 0 && k.parts[0].Length == 0 {
		k.parts = k.parts[1:]
	}
	if len(k.parts) == 0 {
		k.at += uint64(len(b))
		return len(b)
	}
	part := k.parts[0]
	if k.at < part.Offset {
		n := min(uint64(len(b)), part.Offset-k.at)
		k.at += n
		return int(n)
	}
	if k.to == nil {
		k.begin()
	}
	n := min(uint64(len(b)), part.Offset+part.Length-k.at)
	k.to.Write(b[:n]) // fails if the store failed, which has been logged
	k.at += n
	if k.at == part.Offset+part.Length {
		k.parts = k.parts[1:]
		k.to.Close()
		<-k.done
		k.to = nil
	}
	return int(n)
}

func (k *partKeeper) begin() {
	r, w := io.Pipe()
	k.to, k.done = w, make(chan struct{})
	go func() {
		defer close(k.done)
		_, _, err := k.lease.area.store.Put(r, k.lease.Session)
		r.CloseWithError(err)
		if err != nil && err != io.ErrUnexpectedEOF {
			k.agent.config.Log("a result is not kept here for later calls: %v", err)
		}
	}()
}

// end drops a part that did not arrive whole.
func (k *partKeeper) end() {
	if k.to != nil {
		k.to.CloseWithError(io.ErrUnexpectedEOF)
		<-k.done
	}
}

// forgetData lets go of data that a session needs no more. It is removed when the cache is full.
func (a *Agent) forgetData(f proto.Forget) {
	p, err := a.areaOf(f.User)
	if err != nil {
		a.config.Log("data is not forgotten: %v", err)
		return
	}
	p.store.UnpinOne(f.Blob, f.Session)
}
