// SPDX-License-Identifier: MIT

package rolls

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"skep/dynamos/update/roll"
)

// An agent need not be root's: it relays the messages between the hub and a Host, which
// root runs, over a socket of this machine. A message is a line of JSON; a package's
// bytes follow its line. Neither side trusts the other more than a hub.

// message is one of the lines.
type message struct {
	Order   *Order  `json:"order,omitempty"`   // to the host
	Report  *Report `json:"report,omitempty"`  // from the host
	Fetch   string  `json:"fetch,omitempty"`   // from the host: it wants the package of this digest
	Package string  `json:"package,omitempty"` // to the host: the answer, with Size bytes or an error
	Size    int64   `json:"size,omitempty"`
	Error   string  `json:"error,omitempty"`
	// Applied, from the host, has the updates of the kernel, each appliedEvery.
	Applied *[]roll.Applied `json:"applied,omitempty"`
}

const (
	lineMax    = 128 << 10
	relayRetry = 2 * time.Second
	// appliedEvery is how often the host says what is applied.
	appliedEvery = 3 * time.Second
	relayWrite   = 10 * time.Second // for one message
	packageSize  = 2<<30 + 16<<20   // most bytes of a package
)

// A wire is one side of the socket.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	mu   sync.Mutex // of what is written
}

func newWire(c net.Conn) *wire { return &wire{conn: c, in: bufio.NewReaderSize(c, lineMax)} }

// write sends a message, and then a body of its size.
func (w *wire) write(m message, body io.Reader) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.conn.SetWriteDeadline(time.Now().Add(relayWrite)); err != nil {
		return err
	}
	if _, err = w.conn.Write(append(text, '\n')); err != nil || body == nil {
		return err
	}
	for left := m.Size; left > 0; {
		if err := w.conn.SetWriteDeadline(time.Now().Add(relayWrite)); err != nil {
			return err
		}
		n, err := io.CopyN(w.conn, body, min(left, 1<<20))
		if left -= n; err != nil {
			return err
		}
	}
	return nil
}

// read returns the next message. Its body, if any, follows in w.in.
func (w *wire) read() (m message, err error) {
	line, err := w.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		err = fmt.Errorf("a line above %d bytes", lineMax)
	}
	if err == nil {
		err = json.Unmarshal(line, &m)
	}
	if err == nil && (m.Size < 0 || m.Size > packageSize) {
		err = fmt.Errorf("a package of %d bytes", m.Size)
	}
	return m, err
}

// A Relay is the agent's side. It connects to the host again and again.
type Relay struct {
	socket string
	send   func(Report)
	fetch  func(ctx context.Context, digest string) (path string, err error)
	log    func(format string, args ...any)
	orders chan Order

	lastLine string // the last line, which is not repeated; Run's

	mu      sync.Mutex
	host    *wire // nil: not connected
	applied []roll.Applied
}

// NewRelay returns a relay to the host at a socket. send publishes a report to the hub;
// fetch brings a package onto this machine.
func NewRelay(socket string, send func(Report), fetch func(context.Context, string) (string, error), log func(string, ...any)) *Relay {
	return &Relay{socket: socket, send: send, fetch: fetch, log: log, orders: make(chan Order, 64)}
}

func (r *Relay) tell(text string) {
	if text != r.lastLine {
		r.lastLine = text
		r.log("%s", text)
	}
}

func (r *Relay) connected() *wire {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.host
}

// Ready reports whether there is a host, so that this node takes part in rolls.
func (r *Relay) Ready() bool { return r.connected() != nil }

// Applied returns the updates of this node's kernel, as the host said last.
func (r *Relay) Applied() []roll.Applied {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied
}

// Take passes an order on, and does not block. One that finds no room is dropped, and
// comes again.
func (r *Relay) Take(o Order) {
	select {
	case r.orders <- o:
	default:
	}
}

// writeOrders passes orders on until ctx ends.
func (r *Relay) writeOrders(ctx context.Context, w *wire) {
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-r.orders:
			if err := w.write(message{Order: &o}, nil); err != nil {
				w.conn.Close()
				return
			}
		}
	}
}

// Run relays until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	for {
		if c, err := new(net.Dialer).DialContext(ctx, "unix", r.socket); err == nil {
			err := r.serve(ctx, newWire(c))
			if ctx.Err() == nil {
				r.tell(fmt.Sprintf("takes part in no rolls of kernel updates: %v", err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(relayRetry):
		}
	}
}

func (r *Relay) serve(ctx context.Context, w *wire) error {
	set := func(w *wire) { r.mu.Lock(); r.host, r.applied = w, nil; r.mu.Unlock() }
	defer set(nil)
	ctx, cancel := context.WithCancel(ctx)
	var ends sync.WaitGroup
	defer ends.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { w.conn.Close() })()
	defer w.conn.Close()
	ends.Go(func() { r.writeOrders(ctx, w) })
	for first := true; ; first = false {
		m, err := w.read()
		if err == nil && first { // the host permits this agent
			set(w)
			r.tell("takes part in rolls of kernel updates")
		}
		switch {
		case err != nil:
			return err
		case m.Report != nil:
			r.send(*m.Report)
		case m.Applied != nil:
			r.mu.Lock()
			r.applied = *m.Applied
			r.mu.Unlock()
		case isDigest(m.Fetch):
			ends.Go(func() {
				if err := r.sendPackage(ctx, w, m.Fetch); err != nil {
					w.conn.Close()
				}
			})
		}
	}
}

func (r *Relay) sendPackage(ctx context.Context, w *wire, digest string) error {
	refuse := func(err error) error { return w.write(message{Package: digest, Error: err.Error()}, nil) }
	path, err := r.fetch(ctx, digest)
	if err != nil {
		return refuse(err)
	}
	f, err := os.Open(path)
	if err != nil {
		return refuse(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return refuse(err)
	}
	return w.write(message{Package: digest, Size: info.Size()}, f)
}
