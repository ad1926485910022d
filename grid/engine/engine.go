// SPDX-License-Identifier: MIT

// Package engine transports messages between hub and nodes and stores the ledger of
// calls. It is a NATS server inside this process, which listens on no port. Nodes'
// connections arrive through ServeConn, after TLS. JWTs signed by the engine's keys limit
// what each node may publish. The engine does not schedule calls.
package engine

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"skep/internal/lazy"
)

// Limits of the server.
const (
	maxPayload = 1 << 20 // the largest that NATS recommends
	pingEvery  = 3 * time.Second
	maxPending = 64 << 20 // unsent bytes for a slow node before it is disconnected
)

// readyIn is the time limit for the start of the server; tests shorten it.
var readyIn = 20 * time.Second

// Config of an engine.
type Config struct {
	Dir  string // state directory, used by this package only
	Sync bool   // write each ledger entry through to the disk
}

// An Engine is a running server and the hub's own connection to it.
type Engine struct {
	keys   *keys
	server *server.Server
	conn   *nats.Conn
	ledger ledger

	mu     sync.Mutex // guards the fields below
	proxy  map[net.Conn]struct{}
	closed bool
	served sync.WaitGroup
}

// Start runs the server and connects to it.
func Start(c Config) (*Engine, error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("the engine's directory cannot be made: %w", err)
	}
	k, err := openKeys(c.Dir)
	if err != nil {
		return nil, err
	}
	o := &server.Options{
		ServerName: "skep", DontListen: true, NoSigs: true, NoLog: true,
		MaxPayload: maxPayload, MaxPending: maxPending, PingInterval: pingEvery, MaxPingsOut: 3,
		JetStream: true, StoreDir: filepath.Join(c.Dir, "jetstream"), SyncAlways: c.Sync,
	}
	if err := k.fillOptions(o); err != nil {
		return nil, err
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("the engine cannot start: %w", err)
	}
	e := &Engine{keys: k, server: s, proxy: map[net.Conn]struct{}{}}
	s.Start()
	if err := e.connect(); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

func (e *Engine) connect() error {
	if !e.server.ReadyForConnections(readyIn) {
		return fmt.Errorf("the engine was not ready within %v: is another hub using its directory?", readyIn)
	}
	text, err := e.keys.userJWT("hub", publicKey(e.keys.hub), nil, nil)
	if err != nil {
		return err
	}
	e.conn, err = nats.Connect("", nats.InProcessServer(e.server), nats.Name("hub"),
		nats.UserJWT(func() (string, error) { return text, nil }, e.keys.hub.Sign),
		nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return fmt.Errorf("the hub cannot reach its engine: %w", err)
	}
	return e.ledger.open(e.conn)
}

// Conn is the hub's own connection, with all rights.
func (e *Engine) Conn() *nats.Conn { return e.conn }

var validID = lazy.Regexp(`^[a-z0-9]{1,64}$`)

// InboxPrefix is the prefix of a node's reply subjects.
func InboxPrefix(id string) string { return "_INBOX." + id }

// UserJWT returns a JWT that permits the node with this public nkey to publish to
// skep.v1.node.<id>.> and to subscribe to skep.v1.to.<id>.> and its own inbox.
func (e *Engine) UserJWT(id, nkey string) (string, error) {
	if !validID().MatchString(id) {
		return "", fmt.Errorf("%q is not a node id", id)
	}
	return e.keys.userJWT(id, nkey, []string{"skep.v1.node." + id + ".>"},
		[]string{"skep.v1.to." + id + ".>", InboxPrefix(id) + ".>"})
}

// ErrClosed is returned by an engine that has ended.
var ErrClosed = errors.New("the engine has ended")

// ServeConn joins an authenticated connection to the server until either side
// ends it, and closes it. The node still proves its nkey to the server.
func (e *Engine) ServeConn(c net.Conn) error {
	defer c.Close()
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return ErrClosed
	}
	e.proxy[c] = struct{}{}
	e.served.Add(1)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.proxy, c)
		e.mu.Unlock()
		e.served.Done()
	}()
	inside, err := e.server.InProcessConn()
	if err != nil {
		return fmt.Errorf("the engine takes no connection: %w", err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := copyBuffered(c, inside)
		c.Close() // wakes the copy below
		done <- err
	}()
	_, err = copyBuffered(inside, c)
	inside.Close()
	c.Close()
	if e := <-done; err == nil {
		err = e
	}
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) {
		err = nil
	}
	return err
}

// buffers have the size of the server's writes.
var buffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

func copyBuffered(to io.Writer, from io.Reader) (int64, error) {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	// Hide ReadFrom and WriteTo, so that io.CopyBuffer uses the buffer: neither
	// connection supports a transfer without one.
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, *b)
}

// Close ends the connections and the server.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	for c := range e.proxy {
		c.Close()
	}
	e.mu.Unlock()
	if e.conn != nil {
		e.conn.Close()
	}
	e.served.Wait()
	e.server.Shutdown()
	e.server.WaitForShutdown()
}

// DialConfig says how a node reaches the engine.
type DialConfig struct {
	ID    string
	JWT   func() (string, error)             // called at each connect, since the JWT may be renewed
	Sign  func(nonce []byte) ([]byte, error) // with the node's nkey
	Dial  func() (net.Conn, error)           // TLS, ALPN skep-nats/1
	Down  func(err error)                    // the connection broke; err may be nil
	Up    func()                             // the connection works again
	Wrong func(err error)                    // a subscription or a publication was refused
}

type dialer func() (net.Conn, error)

func (d dialer) Dial(_, _ string) (net.Conn, error) { return d() }

// Dial connects a node. It fails at once if the hub cannot be reached or refuses. Later
// the client reconnects after each break until the connection is closed.
func Dial(c DialConfig) (*nats.Conn, error) {
	return nats.Connect("nats://skep-hub:1", nats.Name(c.ID),
		nats.SetCustomDialer(dialer(c.Dial)), nats.CustomInboxPrefix(InboxPrefix(c.ID)),
		nats.UserJWT(c.JWT, c.Sign),
		nats.DontRandomize(), nats.IgnoreDiscoveredServers(),
		nats.MaxReconnects(-1), nats.CustomReconnectDelay(backOff), nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(pingEvery), nats.MaxPingsOutstanding(3), nats.Timeout(10*time.Second),
		nats.ReconnectBufSize(-1), // the state before a break is reported again, not replayed
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if c.Down != nil {
				c.Down(err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			if c.Up != nil {
				c.Up()
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if c.Wrong != nil {
				c.Wrong(err)
			}
		}))
}

// backOff returns the pause before the next attempt: up to 0.2 s, 0.4 s ... 5 s. It is
// shortened at random so that 300 nodes do not reconnect at the same moment.
func backOff(attempts int) time.Duration {
	d := 200 * time.Millisecond << min(attempts, 5)
	d = min(d, 5*time.Second)
	return d - rand.N(d/4)
}
