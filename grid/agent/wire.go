// SPDX-License-Identifier: MIT

package agent

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"skep/internal/uapi"
)

// A wire carries session frames to and from one worker. It never resumes: a
// worker's stream ends with the worker. One goroutine reads; sending has a
// lock of its own, so acknowledgements go between the parts of a transfer.
type wire struct {
	rw io.ReadWriteCloser
	in *bufio.Reader

	send  sync.Mutex // held while a frame is written
	mu    sync.Mutex // guards what follows, up to err
	moved sync.Cond
	sent  uint64 // counted bytes sent, and acknowledged by the worker
	acked uint64
	err   error // why nothing can be sent any more

	received, ackSent uint64       // counted bytes read, and acknowledged; the reader's
	heard             atomic.Int64 // when bytes were last transferred, by uptime
	idle              atomic.Int32 // this side is the slow one: silence is not the worker's fault
	stuck             atomic.Int64 // since when the worker reads nothing, by uptime; 0: it reads
}

type wireFrame struct {
	uapi.Frame
	payload []byte // valid until the next read
}

func newWire(rw io.ReadWriteCloser) *wire {
	w := &wire{rw: rw, in: bufio.NewReaderSize(rw, 64<<10)}
	w.moved.L = &w.mu
	w.noteHeard()
	return w
}

var programBegan = time.Now()

// uptime is the time since the program began, in nanoseconds and never 0. It does not follow steps
// of the machine's clock, which would make all workers silent at once.
func uptime() int64 { return int64(time.Since(programBegan)) + 1 }

func (w *wire) noteHeard() { w.heard.Store(uptime()) }

// silentFor is how long the worker has sent nothing while it was expected to.
func (w *wire) silentFor() time.Duration {
	if w.idle.Load() > 0 {
		w.noteHeard()
	}
	return time.Duration(uptime() - w.heard.Load())
}

// unreadFor is how long the worker has not read what was sent. Its PING frames make no difference.
func (w *wire) unreadFor() time.Duration {
	since := w.stuck.Load()
	if since == 0 {
		return 0
	}
	return time.Duration(uptime() - since)
}

// restartSilence forgets for how long the worker has been silent or has not read.
func (w *wire) restartSilence() {
	w.noteHeard()
	if since := w.stuck.Load(); since != 0 {
		w.stuck.CompareAndSwap(since, uptime())
	}
}

// pauseSilence runs f, in which the worker has to wait for this side.
func (w *wire) pauseSilence(f func()) {
	w.idle.Add(1)
	defer func() { w.noteHeard(); w.idle.Add(-1) }()
	f()
}

// close ends both directions; waiters get err.
func (w *wire) close(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.moved.Broadcast()
	w.mu.Unlock()
	w.rw.Close()
}

func isCounted(t uapi.FrameType) bool { return t != uapi.TypeHello && t != uapi.TypeAck }

// waitWindow waits until n more bytes fit the worker's window.
func (w *wire) waitWindow(n uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && w.sent-w.acked+n > uapi.SessionWindow {
		w.stuck.Store(uptime())
		w.moved.Wait()
	}
	w.stuck.Store(0)
	if w.err == nil {
		w.sent += n
	}
	return w.err
}

func (w *wire) write(f uapi.Frame, payload []byte) error {
	whole := make([]byte, uapi.FrameSize, uapi.FrameSize+len(payload))
	return w.writeWhole(f, append(whole, payload...))
}

// writeWhole sends a frame by one call to the system, which wakes the worker once. Before the
// payload there is room for the frame's head.
func (w *wire) writeWhole(f uapi.Frame, whole []byte) error {
	f.Length = uint32(len(whole) - uapi.FrameSize)
	if isCounted(f.Type) {
		if err := w.waitWindow(uint64(len(whole))); err != nil {
			return err
		}
	}
	uapi.PutFrame(whole[:uapi.FrameSize], f)
	return w.writeUnder(func() error {
		_, err := w.rw.Write(whole)
		return err
	})
}

func (w *wire) writeUnder(write func() error) error {
	w.send.Lock()
	defer w.send.Unlock()
	w.stuck.Store(uptime())
	err := write()
	w.stuck.Store(0)
	if err == nil {
		w.noteHeard()
	}
	return err
}

// writeFile sends a frame whose payload is in a file. The system hands the file's pages to the
// worker, so this process does not copy them.
func (w *wire) writeFile(f uapi.Frame, file *os.File, at int64) error {
	if err := w.waitWindow(uapi.FrameSize + uint64(f.Length)); err != nil {
		return err
	}
	var head [uapi.FrameSize]byte
	uapi.PutFrame(head[:], f)
	return w.writeUnder(func() error {
		if _, err := w.rw.Write(head[:]); err != nil {
			return err
		}
		return sendFile(w.rw, file, at, int64(f.Length))
	})
}

// writePart writes n bytes of a file.
func writePart(to io.Writer, file *os.File, at, n int64) error {
	done, err := io.Copy(struct{ io.Writer }{to}, io.NewSectionReader(file, at, n))
	if err == nil && done < n {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// sendData sends n bytes of r as DATA frames; n may be 0. While r has nothing,
// the worker's silence does not count.
func (w *wire) sendData(call uint64, r io.Reader, n uint64) error {
	d := &dataSender{wire: w, from: r}
	for {
		part := min(n, dataPart)
		n -= part
		f := uapi.Frame{Type: uapi.TypeData, Call: call, Length: uint32(part)}
		if n == 0 {
			f.Flags = uapi.FlagLast
		}
		if err := d.send(f); err != nil || n == 0 {
			return err
		}
	}
}

const dataPart = 256 << 10 // bytes of a DATA frame

// A dataSender sends what a reader has, from the reader's file if there is one.
type dataSender struct {
	wire *wire
	from io.Reader
	buf  []byte
}

func (d *dataSender) send(f uapi.Frame) error {
	var file *os.File
	var at int64
	var let func()
	var err error
	if s, ok := d.from.(fileSource); ok && f.Length > 0 {
		d.wire.pauseSilence(func() { file, at, let, err = s.NextFile(int64(f.Length)) })
	}
	if err != nil {
		return &sourceError{err}
	}
	if file != nil {
		defer let()
		return d.wire.writeFile(f, file, at)
	}
	if d.buf == nil {
		d.buf = make([]byte, uapi.FrameSize+f.Length) // later frames are not longer
	}
	whole := d.buf[:uapi.FrameSize+f.Length]
	d.wire.pauseSilence(func() { _, err = io.ReadFull(d.from, whole[uapi.FrameSize:]) })
	if err != nil {
		return &sourceError{err}
	}
	return d.wire.writeWhole(f, whole)
}

// A sourceError is about what was to be sent, not about the worker.
type sourceError struct{ err error }

func (e *sourceError) Error() string { return e.err.Error() }
func (e *sourceError) Unwrap() error { return e.err }

func (w *wire) exchangeHello() error {
	h := uapi.Hello{Magic: uapi.SessionMagic, Revision: uapi.SessionRevision}
	if err := w.write(uapi.Frame{Type: uapi.TypeHello}, uapi.Append(nil, h)); err != nil {
		return err
	}
	f, err := w.readFrame(nil)
	if err != nil {
		return err
	}
	if f.Type != uapi.TypeHello {
		return fmt.Errorf("the worker began with %v and not with HELLO", f.Type)
	}
	theirs, err := uapi.DecodeExact[uapi.Hello](f.payload)
	switch {
	case err != nil:
		return err
	case theirs.Magic != uapi.SessionMagic:
		return errors.New("the program does not use the workers' protocol: link it with skep's worker library")
	case theirs.Revision != uapi.SessionRevision:
		return fmt.Errorf("the worker speaks session revision %d and this agent %d: %s",
			theirs.Revision, uapi.SessionRevision, olderSide(theirs.Revision))
	}
	return nil
}

func olderSide(worker uint32) string {
	if worker < uapi.SessionRevision {
		return "build the worker with this version of skep"
	}
	return "update skep on this node"
}

// read returns the next frame that is not an acknowledgement or a sign of life.
func (w *wire) read(buf []byte) (wireFrame, error) {
	for {
		f, err := w.readFrame(buf)
		if err != nil {
			return f, err
		}
		switch f.Type {
		case uapi.TypePing:
		case uapi.TypeAck:
			if err := w.handleAck(f.payload); err != nil {
				return f, err
			}
		default:
			return f, nil
		}
	}
}

func (w *wire) readFrame(buf []byte) (wireFrame, error) {
	var head [uapi.FrameSize]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		return wireFrame{}, err
	}
	f, err := uapi.ParseFrame(head[:])
	if err != nil {
		return wireFrame{}, err
	}
	w.noteHeard()
	if uint32(cap(buf)) < f.Length {
		buf = make([]byte, f.Length)
	}
	buf = buf[:f.Length]
	for at := 0; at < len(buf); {
		n, err := w.in.Read(buf[at:])
		if err != nil {
			return wireFrame{}, err
		}
		w.noteHeard()
		at += n
	}
	if isCounted(f.Type) {
		w.received += uint64(len(head) + len(buf))
	}
	return wireFrame{f, buf}, w.sendAck(uapi.AckEvery)
}

// sendAck acknowledges what was read when it is enough to be worth a frame.
func (w *wire) sendAck(least uint64) error {
	if w.received-w.ackSent < least {
		return nil
	}
	w.ackSent = w.received
	return w.write(uapi.Frame{Type: uapi.TypeAck}, binary.LittleEndian.AppendUint64(nil, w.ackSent))
}

func (w *wire) handleAck(payload []byte) error {
	if len(payload) != 8 {
		return fmt.Errorf("an ACK of %d bytes", len(payload))
	}
	n := binary.LittleEndian.Uint64(payload)
	w.mu.Lock()
	defer w.mu.Unlock()
	if n < w.acked || n > w.sent {
		return fmt.Errorf("an ACK of byte %d, between %d and %d was expected", n, w.acked, w.sent)
	}
	w.acked = n
	w.moved.Broadcast()
	return nil
}
