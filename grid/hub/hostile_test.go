// SPDX-License-Identifier: MIT

package hub

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"skep/grid/ident"
	"skep/grid/proto"
	"skep/grid/session"
	"skep/internal/uapi"
)

// dialUnauthenticated connects without a certificate.
func (w *world) dialUnauthenticated() net.Conn {
	w.t.Helper()
	token, err := ident.ParseToken(w.createToken(1, time.Hour))
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := tls.Dial("tcp", w.hub.Address().String(), ident.JoinTLS(token, proto.ALPNHTTP))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(testTimeout))
	return c
}

func TestOldestUnauthenticatedPeerIsClosed(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.unauthenticated = 2 })
	first := w.dialUnauthenticated()
	for range 2 {
		w.dialUnauthenticated()
	}
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the oldest stranger is still there: %v", err)
	}
	w.join()
}

func TestHandshakesMakeRoom(t *testing.T) {
	w := newWorld(t, nil)
	for range handshakes + 8 {
		c, err := net.Dial("tcp", w.hub.Address().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	begin := time.Now()
	w.join()
	if took := time.Since(begin); took > handshakeIn/2 {
		t.Errorf("a join among silent connections took %v", took)
	}
}

func TestBodiesThatNeverCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.bodyIn = time.Second })
	for _, path := range []string{"/nothing", proto.PathJoin, proto.PathRenew, proto.PathResult(1, 1)} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			c := w.dialUnauthenticated()
			method := "POST"
			if path == proto.PathResult(1, 1) {
				method = "PUT"
			}
			fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: hub\r\nContent-Length: 100\r\n\r\n{", method, path)
			if _, err := io.Copy(io.Discard, c); err != nil {
				t.Errorf("the connection did not end: %v", err)
			}
		})
	}
}

func TestHostileHTTP(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.bodyIn = time.Second })
	a := w.join()
	for name, text := range map[string]string{
		"no HTTP":       "\x00\xff\x16\x03garbage\r\n\r\n",
		"long header":   "GET / HTTP/1.1\r\nHost: hub\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"long line":     "GET /" + strings.Repeat("x", 1<<20) + " HTTP/1.1\r\n\r\n",
		"large join":    fmt.Sprintf("POST %s HTTP/1.1\r\nHost: hub\r\nContent-Length: %d\r\n\r\n%s", proto.PathJoin, 1<<20, strings.Repeat("x", 1<<20)),
		"endless chunk": "POST " + proto.PathJoin + " HTTP/1.1\r\nHost: hub\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx",
		"two lengths":   "POST " + proto.PathJoin + " HTTP/1.1\r\nHost: hub\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
	} {
		t.Run(name, func(t *testing.T) {
			c := w.dialUnauthenticated()
			io.WriteString(c, text) // fails if the hub has closed the connection
			b, _ := io.ReadAll(c)
			if len(b) > 0 && !strings.HasPrefix(string(b), "HTTP/1.1 4") {
				t.Errorf("the hub said %.60q", b)
			}
		})
	}
	for _, path := range []string{"../../ca.key", "..%2f..%2fca.key", "%00", strings.Repeat("a", 63), strings.Repeat("G", 64), strings.Repeat("a", 65)} {
		resp, _ := a.request(http.MethodGet, proto.PathBlob(path), nil)
		if resp.StatusCode/100 != 4 {
			t.Errorf("%.20q: %s", path, resp.Status)
		}
	}
}

// startReadlessMaster opens a session whose other end sends only.
func (w *world) startReadlessMaster() *fakeMaster {
	w.t.Helper()
	socket, events, err := w.cli.Run(w.t.Context(), RunRequest{Name: "test", Dirs: []string{w.dirs}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { events.Close() })
	m := &fakeMaster{t: w.t, id: session.NewID(), socket: socket}
	m.raw = m.dial()
	if m.conn, err = session.Open(m.raw, m.id); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { m.conn.Abort(nil) })
	return m
}

func (w *world) endOfMasters() {
	w.t.Helper()
	waitUntil(w.t, "the end of the session", func() bool { return w.hub.Status().Sessions == 0 })
}

func TestMasterThatReadsNothing(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.unread = 50 })
	m := w.startReadlessMaster()
	waitUntil(t, "the session", func() bool { return w.hub.Status().Sessions == 1 })
	for i := range 20000 {
		if m.conn.Send(uapi.TypeBind, uint64(i+1), []byte("nothing")) != nil || w.hub.Status().Sessions == 0 {
			break
		}
	}
	w.endOfMasters()
}

func TestTransfersThatDoNotEnd(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.transfers = 50 })
	m := w.startBoundMaster()
	for i := range 60 {
		m.conn.Send(uapi.TypeCall, uint64(i+1), uapi.Append(nil, uapi.Call{Module: m.module, Length: 8}))
	}
	if e := m.readFailure(0); e.Code != uapi.EProtocol || !strings.Contains(e.Text, "not ended") {
		t.Fatalf("%d %s", e.Code, e.Text)
	}
	w.endOfMasters()
}

func TestSpoolFilesAreBounded(t *testing.T) {
	p := &spooler{dir: t.TempDir(), limit: 1 << 20, filesMax: 2}
	var held []*spool
	for range 2 {
		s, err := p.newSpool(spoolMemory + 1)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, s)
	}
	if _, err := p.newSpool(spoolMemory + 1); err == nil || !strings.Contains(err.Error(), "wait for some calls") {
		t.Fatalf("a third file: %v", err)
	}
	held[0].put()
	s, err := p.newSpool(spoolMemory + 1)
	if err != nil {
		t.Fatal(err)
	}
	s.put()
	held[1].put()
	if n := p.files.Load(); n != 0 {
		t.Errorf("%d files are counted after the last", n)
	}
}

func TestHelloLearnsEndedSessions(t *testing.T) {
	_, m, a := newTrio(t, nil, 1)
	m.call(5, []byte("x"))
	live := a.nextLease().Session
	v := a.helloWith(proto.Hello{Revision: proto.Revision, Slots: 1, Boot: "b", Sessions: []string{live, "gone"}})
	if v.Problem != nil || len(v.Ended) != 1 || v.Ended[0] != "gone" {
		t.Fatalf("%+v", v)
	}
}

func TestLogLinesAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	events, err := w.cli.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	a.sendVerb(proto.VerbLog, proto.Log{Session: strings.Repeat("s", 1<<19), Text: "dropped"}, nil)
	a.sendVerb(proto.VerbLog, proto.Log{Session: "s", Text: strings.Repeat("t", 1<<19)}, nil)
	for {
		e, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.Type != "log" {
			continue
		}
		if e.Session != "s" || len(e.Text) != proto.TextMax {
			t.Fatalf("%.20q, %d bytes of text", e.Session, len(e.Text))
		}
		return
	}
}

func TestRemoveNode(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	m.call(5, []byte("x"))
	first := a.nextLease()
	b := w.startAgent(1)
	a.nats.Opts.AllowReconnect = false
	if err := w.cli.RemoveNode(t.Context(), "pc"); err != nil {
		t.Fatal(err)
	}
	if text := receiveFrom(t, "the order to stop", a.stops); text != errRemoved.Error() {
		t.Errorf("it was told %q", text)
	}
	l := b.nextLease() // at once, not when the connection ends
	if l.Call != first.Call {
		t.Fatalf("%+v", l.Lease)
	}
	if resp, b := a.request(http.MethodGet, proto.PathBlob(l.Worker.Module), nil); resp.StatusCode != http.StatusForbidden || !strings.Contains(string(b), errRemoved.Error()) {
		t.Errorf("asked for a blob: %s %s", resp.Status, b)
	}
	waitUntil(t, "the end of its connection", func() bool { return !a.nats.IsConnected() })
	if _, err := w.postJoin(w.createToken(1, time.Hour), a.node, nil); err == nil || err.Error() != errRemoved.Error() {
		t.Errorf("it joined again: %v", err)
	}
	for _, n := range w.hub.Nodes() {
		if n.ID == a.node.ID() {
			t.Error("it is listed")
		}
	}
	if err := w.cli.RemoveNode(t.Context(), "pc"); err == nil || !strings.Contains(err.Error(), "no node is called") {
		t.Errorf("twice: %v", err)
	}
	r, err := openRoster(w.hub.roster.file)
	if err != nil || r.isKnown(a.node.ID()) || !r.isKnown(b.node.ID()) {
		t.Errorf("what is stored: %+v, %v", r, err)
	}
}

func TestHubOfAnotherUser(t *testing.T) {
	_, err := NewClient("x").request(t.Context(), http.MethodGet, "/", nil)
	if !errors.Is(err, ErrNoHub) {
		t.Fatal(err)
	}
	if err := dialError(&net.OpError{Err: os.NewSyscallError("connect", os.ErrPermission)}); errors.Is(err, ErrNoHub) || !strings.Contains(err.Error(), "another user") {
		t.Fatal(err)
	}
}
