// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"skep/grid/lasting"
	"skep/grid/proto"
)

// A way is the network between a user and the hub, in which things go wrong.
type way struct {
	to     string
	listen net.Listener

	mu    sync.Mutex
	conns []*wayConn
	down  string // how it treats new connections; "": it carries them
}

// A wayConn carries the bytes of one connection, until it swallows them.
type wayConn struct {
	ends     [2]net.Conn
	mu       sync.Mutex
	swallows bool
}

func newWay(t *testing.T, to net.Addr) *way {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &way{to: to.String(), listen: l}
	t.Cleanup(func() { l.Close(); p.cut("closed") })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.carry(c)
		}
	}()
	return p
}

func (p *way) carry(near net.Conn) {
	far, err := net.Dial("tcp", p.to)
	if err != nil {
		near.Close()
		return
	}
	c := &wayConn{ends: [2]net.Conn{near, far}}
	p.mu.Lock()
	p.conns = append(p.conns, c)
	down := p.down
	p.mu.Unlock()
	if down != "" {
		c.cut(down)
	}
	for i := range c.ends {
		go c.copy(c.ends[i], c.ends[1-i])
	}
}

func (c *wayConn) copy(from, to net.Conn) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		c.mu.Lock()
		swallows := c.swallows
		c.mu.Unlock()
		if err == nil && !swallows {
			_, err = to.Write(b[:n])
		}
		if err != nil {
			if !swallows {
				to.Close()
			}
			return
		}
	}
}

// cut ends a connection: both ends learn it, by a FIN or a reset, or neither does.
func (c *wayConn) cut(how string) {
	if how == "swallowed" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.swallows = true
		return
	}
	for _, end := range c.ends {
		if how == "reset" {
			end.(*net.TCPConn).SetLinger(0)
		}
		end.Close()
	}
}

// cut ends all connections, and until it is mended the new ones too.
func (p *way) cut(how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = how
	for _, c := range p.conns {
		c.cut(how)
	}
}

func (p *way) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = ""
}

// over has a user reach the hub over a way.
func (u *fakeUser) over(p *way) *fakeUser {
	u.w.t.Helper()
	a := u.node.Admission()
	a.Hub = p.listen.Addr().String()
	if err := u.node.Admit(a); err != nil {
		u.w.t.Fatal(err)
	}
	u.cli = NewUserClient(u.node)
	return u
}

// shortenStreams has a silent connection be noticed soon.
func shortenStreams(t *testing.T) {
	before := streamTimes
	streamTimes = lasting.Limits{Beat: 50 * time.Millisecond, Silence: 600 * time.Millisecond, Poll: 10 * time.Millisecond, Try: 15 * time.Second, Tell: 3 * time.Second}
	t.Cleanup(func() { streamTimes = before })
}

// watch passes the events of a master's run on.
func (m *fakeMaster) watch() <-chan Event {
	events := make(chan Event, 1000)
	go func() {
		defer close(events)
		for {
			e, err := m.events.Next()
			if err != nil {
				return
			}
			events <- e
		}
	}()
	return events
}

// A run, its masters and its calls outlive each connection that breaks, for longer than the grace
// of a master on the hub's machine: calls go on, none runs twice, and results and events arrive.
func TestRunOutlivesItsConnections(t *testing.T) {
	for _, how := range []string{"closed", "reset", "swallowed"} {
		t.Run(how, func(t *testing.T) {
			shortenStreams(t)
			w := newWorld(t, func(c *Config) { c.Hold = time.Hour })
			p := newWay(t, w.hub.Address())
			ada := w.addUser("ada", Terms{}).over(p)
			a := w.startAgent(2)
			m := w.startMasterBy(ada.cli, RunRequest{Name: "theirs", Dirs: []string{w.dirs}})
			events := m.watch()
			m.bindModule()
			m.call(9, []byte("arguments"))
			l := a.nextLease()
			for round := range uint64(3) {
				p.cut(how)
				if how == "swallowed" {
					p.mend() // for new connections
				}
				if round == 0 {
					<-time.After(2 * w.hub.cfg.Grace)
				}
				large := randomBytes(3<<20 + int(round))
				m.sendHeader(20+round, len(large))
				go m.conn.SendData(t.Context(), 20+round, bytes.NewReader(large), int64(len(large)))
				if round == 0 {
					a.sendDone(l, []byte("result"))
				}
				p.mend()
				if round == 0 {
					if _, b := m.readResult(9); string(b) != "result" {
						t.Errorf("%q", b)
					}
				}
				next := a.nextLease()
				if next.Client != 20+round {
					t.Fatalf("call %d runs again: %+v", l.Client, next.Lease)
				}
				if _, b := a.request(http.MethodGet, proto.PathArgs(next.Call, next.Fence), nil); !bytes.Equal(b, large) {
					t.Error("long arguments differ")
				}
				a.sendDone(next, large[:proto.InlineMax])
				if _, b := m.readResult(20 + round); !bytes.Equal(b, large[:proto.InlineMax]) {
					t.Error("a result differs")
				}
				a.askLeases(1)
			}
			if len(a.leases)+len(a.cancels)+len(a.releases) > 0 {
				t.Error("a call runs twice, or was cancelled")
			}
			for done := 0; done < 4; {
				if e := receiveFrom(t, "an event", events); e.Type == "call" && e.State == CallDone {
					done++
				}
			}
			if s := w.hub.Status(); s.Sessions != 1 {
				t.Errorf("%d sessions are open", s.Sessions)
			}
			if err := m.events.End(t.Context()); err != nil {
				t.Error(err)
			}
			receiveFrom(t, "the end of the master", m.ended)
			waitUntil(t, "the end of the events", func() bool {
				select {
				case _, more := <-events:
					return !more
				default:
					return false
				}
			})
		})
	}
}

// An owner who says goodbye ends the run at once, however long runs are kept; without that word
// it ends when it was kept for that time, on the nodes too.
func TestOwnerGoes(t *testing.T) {
	for what, c := range map[string]struct {
		keep time.Duration
		how  func(*way, *fakeMaster)
	}{
		"goodbye": {time.Hour, func(_ *way, m *fakeMaster) { m.events.Close() }},
		"killed":  {50 * time.Millisecond, func(p *way, _ *fakeMaster) { p.cut("closed") }},
		"reset":   {50 * time.Millisecond, func(p *way, _ *fakeMaster) { p.cut("reset") }},
	} {
		t.Run(what, func(t *testing.T) {
			shortenStreams(t)
			w := newWorld(t, func(cfg *Config) { cfg.Hold = c.keep })
			p := newWay(t, w.hub.Address())
			ada := w.addUser("ada", Terms{}).over(p)
			a := w.startAgent(1)
			m := ada.startMaster()
			m.call(9, nil)
			session := a.nextLease().Session
			c.how(p, m)
			if v := receiveFrom(t, "the end of its workers", a.releases); v.Session != session {
				t.Errorf("the node ends session %s of %s", v.Session, session)
			}
			waitUntil(t, "the end of the run", func() bool { return w.hub.Status().Sessions == 0 && onlyRun(w) == "" })
			p.mend()
			if _, err := ada.cli.RunAgain(t.Context(), m.events); err == nil || !strings.Contains(err.Error(), "no run has this name") {
				t.Errorf("a run that is over came back: %v", err)
			}
			waitUntil(t, "the end of its streams", func() bool {
				w.hub.streams.mu.Lock()
				defer w.hub.streams.mu.Unlock()
				return len(w.hub.streams.byID) <= 1 // that of the last request
			})
		})
	}
}

func (l *streams) list() (list []*userStream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.byID {
		list = append(list, s)
	}
	return list
}

// Only the machine that began a stream goes on with it: no other user, no other machine of this
// user, no node, nobody without an account, and nobody over a stream.
func TestThievesOfAStream(t *testing.T) {
	w := newWorld(t, nil)
	ada, eve := w.addUser("ada", Terms{}), w.addUser("eve", Terms{})
	a := w.startAgent(1)
	m := ada.startMaster()
	answer, err := w.cli.UserToken(t.Context(), UserRequest{Name: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	other := openTestUser(t)
	if err := Login(t.Context(), other, w.hub.Address().String(), answer.Token); err != nil {
		t.Fatal(err)
	}
	list := w.hub.streams.list()
	if len(list) < 2 {
		t.Fatalf("%d streams are open", len(list))
	}
	over := func(ctx context.Context) (net.Conn, error) { return ada.cli.dialLasting(ctx, nil) }
	for _, s := range list {
		path := pathStreams + "/" + s.id
		for who, c := range map[string]*Client{"eve": eve.cli, "another machine": NewUserClient(other)} {
			if _, _, err := c.upgradeConn(t.Context(), path, 0); err == nil || !strings.Contains(err.Error(), "this stream is over") {
				t.Errorf("%s: %v", who, err)
			}
		}
		for _, path := range []string{path, pathStreams} {
			r, _ := http.NewRequest(http.MethodPost, "http://hub"+path, nil)
			r.Header.Set(proto.HeaderHas, "0")
			if _, _, _, err := ada.cli.switchOn(t.Context(), over, r); err == nil || !strings.Contains(err.Error(), "stream") {
				t.Errorf("over a stream: %v", err)
			}
			if resp, _ := a.request(http.MethodPost, path, nil); resp.StatusCode != http.StatusNotFound {
				t.Errorf("a node: %s", resp.Status)
			}
			if _, _, err := w.cli.upgradeConn(t.Context(), path, 0); err == nil {
				t.Error("the control socket has streams")
			}
		}
	}
	if _, _, err := ada.cli.upgradeConn(t.Context(), pathStreams+"/x", 0); err == nil || !strings.Contains(err.Error(), "this stream is over") {
		t.Errorf("an unknown stream: %v", err)
	}
	// None of them broke it.
	m.call(9, nil)
	a.sendDone(a.nextLease(), []byte("right"))
	if _, b := m.readResult(9); string(b) != "right" {
		t.Errorf("%q", b)
	}
	// Numbers that cannot be end a stream of the user that sends them.
	if _, _, err := ada.cli.upgradeConn(t.Context(), pathStreams+"/"+list[0].id, 1<<40); err == nil || !strings.Contains(err.Error(), "broke the protocol") {
		t.Errorf("%v", err)
	}
	if err := w.cli.RemoveUser(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ada.cli.upgradeConn(t.Context(), pathStreams+"/"+list[1].id, 0); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("a removed account: %v", err)
	}
}

// A user who opens too many streams is told so; other users are not in the way.
func TestTooManyStreams(t *testing.T) {
	w := newWorld(t, nil)
	ada, eve := w.addUser("ada", Terms{}), w.addUser("eve", Terms{})
	for range streamsMax {
		if err := w.hub.streams.reserve(&userStream{user: ada.id}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ada.cli.dialLasting(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "end a run first") {
		t.Errorf("%v", err)
	}
	c, err := eve.cli.dialLasting(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// A client of a hub that has no streams uses connections, as before.
func TestHubWithoutStreams(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.addUser("ada", Terms{})
	c := newFarClient(w.hub.Address().String(), func() (*tls.Config, error) { return ada.node.TLS(proto.ALPNHTTP) })
	dial := c.far
	c.far = func(ctx context.Context) (net.Conn, error) {
		conn, err := dial(ctx)
		return &formerHub{conn}, err
	}
	conn, err := c.dialLasting(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, ok := conn.(*formerHub); !ok {
		t.Errorf("%T", conn)
	}
}

// A formerHub has another name for streams, as one that does not know them.
type formerHub struct{ net.Conn }

func (c *formerHub) Write(b []byte) (int, error) {
	_, err := c.Conn.Write(bytes.Replace(b, []byte(pathStreams), []byte("/v1/strangs"), 1))
	return len(b), err
}

// The word of a hub that is stopped arrives, and masters do not look for it.
func TestStoppedHubSaysSo(t *testing.T) {
	w := newWorld(t, nil)
	m := w.addUser("ada", Terms{}).startMaster()
	w.hub.Close()
	receiveFrom(t, "the end of the master", m.ended)
	waitUntil(t, "the end of its streams", func() bool { return len(w.hub.streams.list()) == 0 })
}

// A program of `skep exec` outlives its connections too; what it writes meanwhile arrives.
func TestProgramOutlivesItsConnections(t *testing.T) {
	shortenStreams(t)
	w := newWorld(t, func(c *Config) { c.Hold = time.Hour })
	p := newWay(t, w.hub.Address())
	ada := w.addUser("ada", Terms{}).over(p)
	a := w.startAgent(1)
	x := ada.exec(a, nil)
	l := a.nextLease()
	c, in := a.begin(l)
	if kind, b, err := proto.ReadExec(in, make([]byte, proto.ExecFrameMax)); err != nil || kind != proto.ExecStdin || string(b) != "input" {
		t.Errorf("%d %q %v", kind, b, err)
	}
	p.cut("reset")
	proto.WriteExec(c, proto.ExecStdout, []byte("out"))
	p.mend()
	proto.WriteExec(c, proto.ExecExit, exitFrame(3))
	c.Close()
	a.sendDone(l, nil)
	if v := receiveFrom(t, "the end", x.ended); v != (execEnd{3, nil, "out", ""}) {
		t.Errorf("%+v", v)
	}
	ada.noCalls()
}
