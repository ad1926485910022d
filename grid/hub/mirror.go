// SPDX-License-Identifier: MIT

package hub

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"skep/internal/patience"
)

// A hub copies what it stores to its standby: docs/design/standby.md. A copy is a sequence of
// changes, each with a line of JSON before it:
//
//	put     the file has this content now
//	remove  there is no such file any more
//	blob    a blob, before the record that names it
//	result  a result above 256 KiB, as it came from its node
//	seal    what follows a result once it was accepted
//	ledger  entries of the ledger, up to this number of the hub's own
//	whole   all that was there when the copy began has been sent
//	beat    nothing
//
// The standby answers each with its number, 8 bytes, when it has it as a hub would store it.

const (
	copyPut    = "put"
	copyRemove = "remove"
	copyBlob   = "blob"
	copyResult = "result"
	copySeal   = "seal"
	copyLedger = "ledger"
	copyWhole  = "whole"
	copyBeat   = "beat"
)

// A copyHead is the line before a change.
type copyHead struct {
	Seq  uint64 `json:"seq"` // 0: not answered
	Op   string `json:"op"`
	Name string `json:"name,omitempty"`
	Size int64  `json:"size,omitempty"`
	At   int64  `json:"at,omitempty"` // of a seal: where it begins. Of the ledger: the last entry's number
}

const (
	copyHeadMax  = 4096
	copyQueueMax = 256 << 20       // bytes that wait for the standby, until the hub begins anew with it
	copyStall    = 5 * time.Second // the standby may not move for so long
	copyBeats    = 3 * time.Second
)

// A copyItem waits to be sent.
type copyItem struct {
	copyHead
	body []byte
	file *spool // of a result: what is sent, with a reference
}

// A mirror is the hub's side of a copy. The lock guards all. What calls put may hold other locks.
type mirror struct {
	stop    <-chan struct{}
	stalled time.Duration

	mu      sync.Mutex
	changed chan struct{} // closed and replaced when something below changes
	peer    net.Conn      // nil: no standby is connected
	queue   []copyItem
	bytes   int64
	last    uint64 // number of the last change that was queued, and that was answered
	acked   uint64
	moved   uint64          // counts signs of progress
	whole   uint64          // number of the change that ends the beginning; 0: not yet
	blobs   map[string]bool // that the standby has
	frozen  bool            // nothing is accepted any more: the standby takes over
}

func newMirror(stop <-chan struct{}, stalled time.Duration) *mirror {
	return &mirror{stop: stop, stalled: stalled, changed: make(chan struct{})}
}

func (m *mirror) notify() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// isWhole reports whether the standby had everything at one moment. From then on it is behind by
// what is queued only.
func (m *mirror) isWhole() bool { return m.peer != nil && m.whole > 0 && m.acked >= m.whole }

// add queues a change for the standby, if one is connected.
func (m *mirror) add(i copyItem) {
	m.mu.Lock()
	connected := m.peer != nil
	if connected {
		m.addLocked(i)
	}
	m.mu.Unlock()
	if !connected {
		dropItems([]copyItem{i})
	}
}

// dropItems forgets changes. A spool has a lock of its own, under which the mirror's is taken.
func dropItems(list []copyItem) {
	for _, i := range list {
		if i.file != nil {
			i.file.put()
		}
	}
}

func (m *mirror) addLocked(i copyItem) {
	m.last++
	i.Seq = m.last
	if i.file == nil {
		i.Size = int64(len(i.body))
	}
	m.queue = append(m.queue, i)
	if m.bytes += int64(len(i.body)); m.bytes > copyQueueMax {
		go m.peer.Close() // it reads too slowly
	}
	m.notify()
}

func (m *mirror) put(name string, text []byte) {
	m.add(copyItem{copyHead: copyHead{Op: copyPut, Name: name}, body: text})
}

func (m *mirror) remove(name string) { m.add(copyItem{copyHead: copyHead{Op: copyRemove, Name: name}}) }

// needBlob queues a blob that a record is about to name, once for each standby. owner keeps it
// there, or else the record.
func (m *mirror) needBlob(digest, owner string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.peer != nil && !m.blobs[digest] {
		m.blobs[digest] = true
		m.addLocked(copyItem{copyHead: copyHead{Op: copyBlob, Name: strings.TrimSpace(digest + " " + owner)}})
	}
}

// claimBlob is needBlob for a blob that the caller sends. false: the standby has it.
func (m *mirror) claimBlob(digest string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	had := m.blobs[digest]
	m.blobs[digest] = true
	return !had
}

// finish queues the end of what was there when the copy began.
func (m *mirror) finish(c net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.peer == c {
		m.addLocked(copyItem{copyHead: copyHead{Op: copyWhole}})
		m.whole = m.last
	}
}

// settle waits until the standby has all changes so far, if it has been whole and is connected. What
// then is answered to a master or a node is on both machines. A standby that does not move is
// given up, and the hub goes on alone.
func (m *mirror) settle() {
	m.mu.Lock()
	want, peer := m.last, m.peer
	for m.frozen || m.isWhole() && m.peer == peer && m.acked < want {
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-m.stop:
			return
		}
		m.mu.Lock()
	}
	m.mu.Unlock()
}

// freeze has nothing more be accepted, and waits until the standby has all that was. false: it
// has gone, or was not whole.
func (m *mirror) freeze() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = true
	want, peer := m.last, m.peer
	for m.isWhole() && m.peer == peer && m.acked < want {
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-m.stop:
		}
		m.mu.Lock()
		select {
		case <-m.stop:
			return false
		default:
		}
	}
	if !m.isWhole() || m.peer != peer {
		m.frozen = false
		m.notify()
		return false
	}
	return true
}

// thaw has the hub go on.
func (m *mirror) thaw() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frozen = false
	m.notify()
}

// attach begins a copy to a standby that connected, and ends the one before.
func (m *mirror) attach(c net.Conn, blobs []string) {
	m.mu.Lock()
	if m.peer != nil {
		go m.peer.Close()
	}
	old := m.takeQueue()
	m.peer, m.whole, m.acked, m.blobs = c, 0, m.last, map[string]bool{}
	for _, digest := range blobs {
		m.blobs[digest] = true
	}
	m.notify()
	m.mu.Unlock()
	dropItems(old)
}

// detach ends the copy to a standby.
func (m *mirror) detach(c net.Conn) {
	c.Close()
	m.mu.Lock()
	var old []copyItem
	if m.peer == c {
		m.peer = nil
		old = m.takeQueue()
		m.notify()
	}
	m.mu.Unlock()
	dropItems(old)
}

func (m *mirror) takeQueue() (old []copyItem) {
	old, m.queue, m.bytes = m.queue, nil, 0
	return old
}

// next returns the next change for a standby, or one of its beats.
func (m *mirror) next(c net.Conn, beat <-chan time.Time) (i copyItem, err error) {
	for {
		m.mu.Lock()
		if m.peer != c {
			m.mu.Unlock()
			return i, errors.New("another standby connected")
		}
		if len(m.queue) > 0 {
			i, m.queue = m.queue[0], m.queue[1:]
			m.bytes -= int64(len(i.body))
			m.notify() // the ledger waits for room
			m.mu.Unlock()
			return i, nil
		}
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-changed:
		case <-beat:
			m.add(copyItem{copyHead: copyHead{Op: copyBeat}})
		case <-m.stop:
			return i, errStops
		}
	}
}

// room waits until less than this many bytes wait. false: the standby is gone.
func (m *mirror) room(c net.Conn, most int64) bool {
	for {
		m.mu.Lock()
		gone, full, changed := m.peer != c, m.bytes > most, m.changed
		m.mu.Unlock()
		if gone || !full {
			return !gone
		}
		select {
		case <-changed:
		case <-m.stop:
			return false
		}
	}
}

// readAcks reads the standby's answers until it is gone.
func (m *mirror) readAcks(c net.Conn, from io.Reader) error {
	var b [8]byte
	for {
		if _, err := io.ReadFull(from, b[:]); err != nil {
			return err
		}
		m.mu.Lock()
		if n := binary.BigEndian.Uint64(b[:]); m.peer == c && n > m.acked && n <= m.last {
			m.acked = n
			m.moved++
			m.notify()
		}
		m.mu.Unlock()
	}
}

// noteMoved counts bytes that the standby took.
func (m *mirror) noteMoved() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved++
}

// watch gives up a standby that does not move although it has something to do. Time in which this
// hub did not run hardly counts.
func (m *mirror) watch(c net.Conn, gone <-chan struct{}) {
	left, seen := patience.Ticks(m.stalled), uint64(0)
	for {
		m.mu.Lock()
		idle, moved := m.acked == m.last && m.whole > 0, m.moved
		m.mu.Unlock()
		if idle || moved != seen {
			left, seen = patience.Ticks(m.stalled), moved
		}
		if !left.Wait(gone) {
			c.Close()
			return
		}
	}
}

// copyWriter writes changes, and notes that they move.
type copyWriter struct {
	m *mirror
	c net.Conn
}

func (w copyWriter) Write(b []byte) (int, error) {
	n, err := w.c.Write(b)
	if n > 0 {
		w.m.noteMoved()
	}
	return n, err
}

// writeCopy writes a change. A body that is shorter than it said breaks the copy.
func writeCopy(to io.Writer, head copyHead, body io.Reader) error {
	b, err := json.Marshal(head)
	if err != nil {
		return err
	}
	if _, err := to.Write(append(b, '\n')); err != nil {
		return err
	}
	if n, err := io.Copy(struct{ io.Writer }{to}, io.LimitReader(body, head.Size)); err != nil || n != head.Size {
		return errors.Join(err, fmt.Errorf("%s has %d bytes, not %d", head.Name, n, head.Size))
	}
	return nil
}

// readCopy reads the head of a change; its body follows.
func readCopy(from *bufio.Reader) (head copyHead, err error) {
	line, err := from.ReadSlice('\n')
	if err != nil {
		return head, err
	}
	if err = json.Unmarshal(line, &head); err == nil && head.Size < 0 {
		err = errors.New("a change has a negative size")
	}
	return head, err
}

// settling answers only when the standby has what the request changed.
func (m *mirror) settling(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(&settled{ResponseWriter: w, m: m}, r)
	})
}

type settled struct {
	http.ResponseWriter
	m    *mirror
	done bool
}

func (s *settled) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// bare is the server's own writer, which http.MaxBytesReader has to see.
func bare(w http.ResponseWriter) http.ResponseWriter {
	if s, ok := w.(*settled); ok {
		return s.ResponseWriter
	}
	return w
}

func (s *settled) wait() {
	if !s.done {
		s.done = true
		s.m.settle()
	}
}

func (s *settled) WriteHeader(code int) {
	s.wait()
	s.ResponseWriter.WriteHeader(code)
}

func (s *settled) Write(b []byte) (int, error) {
	s.wait()
	return s.ResponseWriter.Write(b)
}
