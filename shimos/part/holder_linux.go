// SPDX-License-Identifier: MIT

package part

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"skep/internal/peercred"
)

// A Holder is the Terminal of a kernel without one. It keeps the output until a console
// of another process has shown it; without a console it keeps the newest part. mu guards
// all that changes; changed is signalled then.
type Holder struct {
	held     Held
	socket   *socket
	ctx      context.Context // ends the sessions
	cancel   context.CancelFunc
	sessions sync.WaitGroup

	mu            sync.Mutex
	changed       *sync.Cond
	backlog       backlog
	console       *session
	typed         []byte
	last          byte // that was typed
	rows, columns uint16
	end           *End
	seen          bool
}

// A session is one console. The Holder's lock guards all but conn.
type session struct {
	conn    *net.UnixConn
	pid     int32
	sent    int    // bytes of the backlog
	told    uint64 // dropped bytes that it knows of
	taken   uint64 // bytes that it may type, and does not know of
	credit  uint64 // all bytes that it may type
	ended   bool   // it knows the end
	refused bool   // it is gone, or does not keep the rules
}

// Hold listens for consoles of the kernel on a partition, in a folder that it makes.
func Hold(dir string, id uint32, name string) (*Holder, error) {
	s, err := listenIn(dir, id)
	if err != nil {
		return nil, err
	}
	h := &Holder{held: Held{heldVersion, id, name, os.Getpid()}, socket: s, last: '\n'}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.changed = sync.NewCond(&h.mu)
	h.sessions.Go(h.accept)
	return h, nil
}

// Held says what is held.
func (h *Holder) Held() Held { return h.held }

// Close ends all sessions.
func (h *Holder) Close() error {
	err := h.socket.close()
	h.cancel()
	h.sessions.Wait()
	return err
}

// Room is a Terminal's. Without a console all output is taken.
func (h *Holder) Room() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.console == nil {
		return mostBacklog
	}
	return h.backlog.room()
}

// Write is a Terminal's.
func (h *Holder) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.backlog.add(p)
	if h.console == nil {
		h.backlog.trim()
	}
	h.changed.Broadcast()
	return len(p), nil
}

// Typed is a Terminal's.
func (h *Holder) Typed(p []byte) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := copy(p, h.typed)
	h.typed = h.typed[:copy(h.typed, h.typed[n:])]
	if h.console != nil && n > 0 {
		h.console.grant(uint64(n))
		h.changed.Broadcast()
	}
	return n
}

func (s *session) grant(n uint64) {
	s.taken += n
	s.credit += n
}

// Size is a Terminal's.
func (h *Holder) Size() (rows, columns uint16) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rows, h.columns
}

// Finish says how the kernel ended.
func (h *Holder) Finish(e End) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end = &e
	h.changed.Broadcast()
}

// Wait waits until a console has shown all, with the end, or ctx ends.
func (h *Holder) Wait(ctx context.Context) {
	defer context.AfterFunc(ctx, h.signal)()
	h.mu.Lock()
	defer h.mu.Unlock()
	for !h.seen && ctx.Err() == nil {
		h.changed.Wait()
	}
}

func (h *Holder) signal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed.Broadcast()
}

func (h *Holder) accept() {
	for h.ctx.Err() == nil {
		c, err := h.socket.l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example too many open files
			time.Sleep(late)
			continue
		}
		h.sessions.Go(func() {
			defer c.Close()
			defer context.AfterFunc(h.ctx, func() { c.Close() })()
			h.welcome(c)
		})
	}
}

// welcome says who holds what, and makes a console of a process that asks for it. What
// the process does wrong ends the session alone.
func (h *Holder) welcome(c *net.UnixConn) {
	peer, err := peercred.Read(c)
	if err != nil || peer.Uid != uint32(os.Getuid()) {
		return
	}
	text, err := json.Marshal(h.held)
	if err != nil || writeFrame(c, frameInfo, text) != nil {
		return
	}
	if kind, _, err := readFrame(c); err != nil || kind != frameAttach {
		return
	}
	s := &session{conn: c, pid: peer.Pid}
	if err := h.attach(s); err != nil {
		writeFrame(c, frameRefused, []byte(err.Error())) // it may be gone
		return
	}
	h.sessions.Go(func() { h.send(s) })
	for err == nil {
		err = h.receive(s)
	}
	h.detach(s)
}

func (h *Holder) attach(s *session) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.console != nil {
		return fmt.Errorf("process %d shows the console of partition %d, and one at a time can: leave it there with ~. first", h.console.pid, h.held.ID)
	}
	h.console = s
	s.grant(uint64(max(0, mostUnread-len(h.typed))))
	return nil
}

// detach forgets a console; what it did not confirm is for the next one.
func (h *Holder) detach(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.refused, h.console = true, nil
	h.backlog.trim()
	h.changed.Broadcast()
}

// receive reads one frame of a console.
func (h *Holder) receive(s *session) error {
	kind, data, err := readFrame(s.conn)
	if err != nil {
		return err
	}
	return h.handle(s, kind, data)
}

func (h *Holder) handle(s *session, kind byte, data []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.changed.Broadcast()
	switch {
	case kind == frameData && len(data) > 0 && uint64(len(data)) <= s.credit:
		s.credit -= uint64(len(data))
		h.typed, h.last = append(h.typed, data...), data[len(data)-1]
	case kind == frameFinished && len(h.typed) <= 2*mostUnread:
		h.typed, h.last = append(h.typed, endOfInput(h.last)...), '\n'
	case kind == frameTaken:
		return h.confirm(s, data)
	case kind == frameSize && len(data) == 4:
		h.rows, h.columns = binary.LittleEndian.Uint16(data), binary.LittleEndian.Uint16(data[2:])
	case kind == frameSeen && s.ended && len(h.backlog.bytes) == 0:
		h.seen = true
	default:
		return errFrame
	}
	return nil
}

// confirm forgets output that a console has shown.
func (h *Holder) confirm(s *session, data []byte) error {
	n, err := numberOf(data)
	if err != nil || n == 0 || n > uint64(s.sent) {
		return errFrame
	}
	h.backlog.remove(int(n))
	h.backlog.dropped -= s.told
	s.sent, s.told = s.sent-int(n), 0
	return nil
}

// send sends a console what is new, until it is gone.
func (h *Holder) send(s *session) {
	for {
		kind, data := h.await(s)
		if kind == 0 {
			return
		}
		if writeFrame(s.conn, kind, data) != nil {
			return // the reader sees it too, behind what was typed before
		}
	}
}

// await returns the next frame for a console; 0 if it is gone.
func (h *Holder) await(s *session) (kind byte, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for !s.refused {
		if kind, data = h.next(s); kind != 0 {
			return kind, data
		}
		h.changed.Wait()
	}
	return 0, nil
}

func (h *Holder) next(s *session) (kind byte, data []byte) {
	rest := min(len(h.backlog.bytes)-s.sent, mostFrame, mostUnread-s.sent)
	switch {
	case s.taken > 0:
		data = numberBytes(s.taken)
		s.taken = 0
		return frameTaken, data
	case h.backlog.dropped > s.told:
		data = numberBytes(h.backlog.dropped - s.told)
		s.told = h.backlog.dropped
		return frameDropped, data
	case rest > 0:
		data = bytes.Clone(h.backlog.bytes[s.sent:][:rest])
		s.sent += rest
		return frameData, data
	case h.end != nil && s.sent == 0 && !s.ended:
		text, err := json.Marshal(h.end)
		if err != nil {
			return 0, nil
		}
		s.ended = true
		return frameEnd, text
	}
	return 0, nil
}

// Attached reports whether a console shows the output.
func (h *Holder) Attached() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.console != nil
}
