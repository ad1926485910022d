// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"skep/grid/ident"
	"skep/grid/lasting"
	"skep/grid/proto"
	"skep/grid/session"
)

// What a user's command line has open for long at a hub on another machine goes over lasting
// streams: its run, its masters and its programs. A connection that breaks ends none of them. Its
// owner makes another one within the time for which runs are kept, and nobody else can.

const (
	pathStreams  = "/v1/streams"
	headerStream = "Skep-Stream" // the name of a new stream
	streamsMax   = runsMax + mastersMax + 128
	peerGoneIn   = 30 * time.Second // a machine that does not answer is away
	farewells    = 2 * time.Second  // for what was written last
)

// A userStream is a lasting stream of a user, who uses it like a connection over TLS.
type userStream struct {
	*lasting.Conn
	id   string
	user string               // the account's id
	peer string               // the id in the certificate: of one of the user's machines
	tls  *tls.ConnectionState // of the connection that it began on
}

// A streams is the open streams. The lock guards all.
type streams struct {
	mu   sync.Mutex
	byID map[string]*userStream
}

var errNoStream = errors.New("this stream is over: its run was not kept for longer, or the hub was started again")

// reserve names a stream that is about to begin.
func (l *streams) reserve(s *userStream) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, other := range l.byID {
		if other.user == s.user {
			n++
		}
	}
	if n >= streamsMax {
		return fmt.Errorf("%d connections of yours are open: end a run first", n)
	}
	if l.byID == nil {
		l.byID = map[string]*userStream{}
	}
	s.id = session.NewID().String()
	l.byID[s.id] = s
	return nil
}

func (l *streams) begin(s *userStream, c *lasting.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Conn = c
}

func (l *streams) remove(s *userStream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byID, s.id)
}

// find returns the stream of this name, if the machine that asks began it. Each has one account.
func (l *streams) find(id, peer string) *userStream {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.byID[id]; s != nil && s.Conn != nil && s.peer == peer {
		return s
	}
	return nil
}

// close lets what was written last arrive, and ends all.
func (l *streams) close() {
	l.mu.Lock()
	var list []*userStream
	for _, s := range l.byID {
		if s.Conn != nil {
			list = append(list, s)
		}
	}
	l.mu.Unlock()
	var done sync.WaitGroup
	for _, s := range list {
		done.Go(func() {
			s.Flush(farewells)
			s.Fail(errStops)
		})
	}
	done.Wait()
}

func (h *Hub) streamLimits() lasting.Limits {
	l := streamTimes
	// The kernel says when the machine is away. A program there that is stopped keeps its run.
	l.Silence, l.Keep = 0, h.cfg.Hold
	return l
}

type streamKey struct{}

// withStream has a request know the stream that it came over.
func withStream(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, streamKey{}, c)
}

// fromStream serves a request that came over a stream as if over the connection under it.
func fromStream(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s, ok := r.Context().Value(streamKey{}).(*userStream); ok {
			r.TLS = s.tls
			next.ServeHTTP(w, r)
		}
	})
}

// openStream begins a lasting stream.
func (h *Hub) openStream(w http.ResponseWriter, r *http.Request, u *account) {
	if r.Context().Value(streamKey{}) != nil {
		writeProblem(w, http.StatusBadRequest, proto.ProblemRequest, "a lasting stream carries no other one")
		return
	}
	peer, _ := ident.PeerUser(*r.TLS)
	s := &userStream{user: u.ID, peer: peer, tls: r.TLS}
	if err := h.streams.reserve(s); err != nil {
		writeProblem(w, http.StatusConflict, proto.ProblemFull, "%v", err)
		return
	}
	c, err := hijackPeer(w, fmt.Sprintf("%s: %s\r\n%s: %d\r\n", headerStream, s.id, proto.HeaderKeep, h.cfg.Hold.Milliseconds()))
	if err != nil {
		h.streams.remove(s)
		writeProblem(w, http.StatusInternalServerError, proto.ProblemInternal, "%v", err)
		return
	}
	h.streams.begin(s, lasting.Accept(h.streamLimits(), c, func() { h.streams.remove(s) }))
	h.linked.put(s)
}

// resumeStream goes on with a stream on another connection of its owner.
func (h *Hub) resumeStream(w http.ResponseWriter, r *http.Request, _ *account) {
	peer, _ := ident.PeerUser(*r.TLS)
	s := h.streams.find(r.PathValue("stream"), peer)
	if s == nil || r.Context().Value(streamKey{}) != nil {
		writeProblem(w, http.StatusNotFound, proto.ProblemGone, "%v", errNoStream)
		return
	}
	attachStream(w, r, s.Conn, errNoStream.Error())
}

// attachStream goes on with a stream on the connection of a request that its owner sent.
func attachStream(w http.ResponseWriter, r *http.Request, s *lasting.Conn, over string) {
	theirs, err := strconv.ParseUint(r.Header.Get(proto.HeaderHas), 10, 64)
	taken := false
	if err == nil {
		err = s.Attach(theirs, func(ours uint64) (net.Conn, error) {
			c, err := hijackPeer(w, fmt.Sprintf("%s: %d\r\n", proto.HeaderHas, ours))
			if taken = err == nil; !taken {
				return nil, err
			}
			return c, nil
		})
	}
	if err != nil && !taken {
		writeProblem(w, http.StatusNotFound, proto.ProblemGone, "%s (%v)", over, err)
	}
}

// hijackPeer is hijackConn for a peer whose machine may go away without a word.
func hijackPeer(w http.ResponseWriter, headers string) (*hijacked, error) {
	c, err := hijackWith(w, headers)
	if err != nil {
		return nil, err
	}
	if t, ok := c.Conn.(*tls.Conn); ok {
		if tcp, ok := t.NetConn().(*net.TCPConn); ok {
			tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: peerGoneIn / 3, Interval: peerGoneIn / 6, Count: 4})
			boundUnsent(tcp, peerGoneIn)
		}
	}
	return c, nil
}

// streamTimes are those of both sides. Tests shorten them.
var streamTimes = lasting.Default

// dialLasting connects to the hub over a stream that lasts, if the hub is far and knows them.
func (c *Client) dialLasting(ctx context.Context, away func(error)) (net.Conn, error) {
	if c.far == nil {
		return c.dial(ctx)
	}
	name := ""
	d := &lasting.Dialer{Limits: streamTimes, Away: away}
	d.Dial = func(ctx context.Context, ours uint64) (net.Conn, uint64, error) {
		path, first := pathStreams, name == ""
		if !first {
			path += "/" + name
		}
		conn, answer, err := c.upgradeConn(ctx, path, ours)
		if p := (*proto.Problem)(nil); !first && errors.As(err, &p) {
			return nil, 0, fmt.Errorf("%w: %v", lasting.ErrOver, p) // it does not answer the request
		}
		if err != nil {
			return nil, 0, err
		}
		if !first {
			theirs, err := strconv.ParseUint(answer.Get(proto.HeaderHas), 10, 64)
			return conn, theirs, err
		}
		name = answer.Get(headerStream)
		keep, err := strconv.ParseUint(answer.Get(proto.HeaderKeep), 10, 40)
		if d.Keep = time.Duration(keep) * time.Millisecond; err != nil || name == "" {
			conn.Close()
			return nil, 0, errors.New("the hub's answer is not one that begins a stream")
		}
		return conn, 0, nil
	}
	conn, err := d.Open(ctx)
	if p := (*proto.Problem)(nil); errors.As(err, &p) && p.Code == proto.ProblemToken {
		return c.dial(ctx) // a hub of an earlier version, or the request says what is wrong
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// upgradeConn makes a connection and asks for a stream on it.
func (c *Client) upgradeConn(ctx context.Context, path string, ours uint64) (net.Conn, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://hub"+path, nil)
	if err != nil {
		return nil, nil, err
	}
	r.Header.Set(proto.HeaderHas, strconv.FormatUint(ours, 10))
	conn, in, answer, err := c.switchOn(ctx, c.dial, r)
	if err != nil {
		return nil, nil, err
	}
	return &hijacked{conn, in}, answer, nil
}
