// SPDX-License-Identifier: MIT

package engine

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"skep/internal/load"
)

const id = "aaaabbbbccccdddd"

func startEngine(t *testing.T, dir string) *Engine {
	t.Helper()
	e, err := Start(Config{Dir: dir, Sync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func makeKeyPair(t *testing.T) (nkeys.KeyPair, string) {
	t.Helper()
	k, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	p, _ := k.PublicKey()
	return k, p
}

// dialEngine connects a node through pipes served by e; wrong receives refusals.
func dialEngine(e *Engine, key nkeys.KeyPair, jwt string, wrong func(error)) (*nats.Conn, error) {
	return Dial(DialConfig{
		ID: id, JWT: func() (string, error) { return jwt, nil }, Sign: key.Sign, Wrong: wrong,
		Dial: func() (net.Conn, error) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, err
			}
			defer l.Close()
			accepted := make(chan struct{})
			go func() {
				c, err := l.Accept()
				close(accepted)
				if err == nil {
					e.ServeConn(c)
				}
			}()
			c, err := net.Dial("tcp", l.Addr().String())
			if err == nil {
				<-accepted
			}
			return c, err
		},
	})
}

func TestNodeTalksToHub(t *testing.T) {
	e := startEngine(t, t.TempDir())
	key, pub := makeKeyPair(t)
	jwt, err := e.UserJWT(id, pub)
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Conn().Subscribe("skep.v1.node.*.hello", func(m *nats.Msg) { m.Respond(append([]byte("welcome "), m.Data...)) })
	if err != nil {
		t.Fatal(err)
	}
	c, err := dialEngine(e, key, jwt, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	big := strings.Repeat("x", 900<<10)
	m, err := c.Request("skep.v1.node."+id+".hello", []byte(big), 5*time.Second)
	if err != nil || string(m.Data) != "welcome "+big {
		t.Fatalf("answer of %d bytes, %v", len(m.Data), err)
	}
	got := make(chan string, 1)
	if _, err := c.Subscribe("skep.v1.to."+id+".*", func(m *nats.Msg) { got <- m.Subject }); err != nil {
		t.Fatal(err)
	}
	if err := c.FlushTimeout(load.Stretch(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	e.Conn().Publish("skep.v1.to."+id+".lease", nil)
	select {
	case <-got:
	case <-time.After(load.Stretch(5 * time.Second)):
		t.Fatal("the lease did not come")
	}
}

func TestNodeIsConfined(t *testing.T) {
	e := startEngine(t, t.TempDir())
	key, pub := makeKeyPair(t)
	jwt, _ := e.UserJWT(id, pub)
	wrong := make(chan error, 10)
	c, err := dialEngine(e, key, jwt, func(err error) { wrong <- err })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	refused := func(what string) {
		t.Helper()
		c.Flush()
		select {
		case err := <-wrong:
			if !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
				t.Fatalf("%s: %v", what, err)
			}
		case <-time.After(load.Stretch(5 * time.Second)):
			t.Fatalf("%s was not refused", what)
		}
	}
	for _, s := range []string{"skep.v1.node.other.done", "skep.v1.to." + id + ".lease", "skep.v1.ledger.done", "$JS.API.STREAM.PURGE.CALLS"} {
		c.Publish(s, nil)
		refused("publishing " + s)
	}
	for _, s := range []string{"skep.v1.to.*.lease", ">", "skep.v1.ledger.*", "_INBOX.>"} {
		c.SubscribeSync(s)
		refused("subscribing " + s)
	}
	if e.Conn().Status() != nats.CONNECTED {
		t.Fatal("the hub lost its connection")
	}
}

func TestWrongKeyIsRefused(t *testing.T) {
	e := startEngine(t, t.TempDir())
	_, pub := makeKeyPair(t)
	jwt, _ := e.UserJWT(id, pub)
	other, otherPub := makeKeyPair(t)
	if c, err := dialEngine(e, other, jwt, nil); err == nil {
		c.Close()
		t.Fatal("a key that is not the JWT's was taken")
	}
	foreign := startEngine(t, t.TempDir())
	jwt, _ = foreign.UserJWT(id, otherPub)
	if c, err := dialEngine(e, other, jwt, nil); err == nil {
		c.Close()
		t.Fatal("another hub's JWT was taken")
	}
	if _, err := e.UserJWT("a.b", pub); err == nil {
		t.Fatal("an id with a dot was taken")
	}
	if _, err := e.UserJWT(id, "garbage"); err == nil {
		t.Fatal("a key that is none was taken")
	}
}

func TestRestartKeepsLedgerAndNodes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "engine")
	e := startEngine(t, dir)
	key, pub := makeKeyPair(t)
	jwt, _ := e.UserJWT(id, pub)
	ctx, cancel := load.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for i := range 5 {
		if err := e.Record(ctx, Entry{Time: time.Now(), Call: uint64(i), State: Queued}, Entry{Call: uint64(i), State: Done, Node: id}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Record(ctx, Entry{State: "no such"}); err == nil {
		t.Fatal("an unknown state was recorded")
	}
	e.Close()
	if err := e.ServeConn(&net.TCPConn{}); err != ErrClosed {
		t.Fatalf("a closed engine says %v", err)
	}
	e = startEngine(t, dir)
	list, err := e.Entries(ctx, 3)
	if err != nil || len(list) != 3 || list[2].Call != 4 || list[2].State != Done || list[0].Call != 3 {
		t.Fatalf("after a restart: %+v, %v", list, err)
	}
	c, err := dialEngine(e, key, jwt, nil)
	if err != nil {
		t.Fatalf("the node's JWT is worth nothing after a restart: %v", err)
	}
	c.Close()
}

func TestBrokenConnectionEndsServeConn(t *testing.T) {
	e := startEngine(t, t.TempDir())
	ours, theirs := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- e.ServeConn(theirs) }()
	b := make([]byte, 4)
	if _, err := ours.Read(b); err != nil || string(b) != "INFO" {
		t.Fatalf("%q, %v", b, err)
	}
	ours.Close()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("a node that leaves is no error: %v", err)
		}
	case <-time.After(load.Stretch(5 * time.Second)):
		t.Fatal("ServeConn still runs")
	}
}

func TestNodeComesBack(t *testing.T) {
	e := startEngine(t, t.TempDir())
	key, pub := makeKeyPair(t)
	jwt, _ := e.UserJWT(id, pub)
	up, down := make(chan struct{}, 10), make(chan struct{}, 10)
	streams := make(chan net.Conn, 10)
	c, err := Dial(DialConfig{
		ID: id, JWT: func() (string, error) { return jwt, nil }, Sign: key.Sign,
		Up: func() { up <- struct{}{} }, Down: func(error) { down <- struct{}{} },
		Dial: func() (net.Conn, error) {
			ours, theirs := net.Pipe()
			go e.ServeConn(theirs)
			streams <- ours
			return ours, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	(<-streams).Close()
	for name, said := range map[string]chan struct{}{"down": down, "up": up} {
		select {
		case <-said:
		case <-time.After(load.Stretch(20 * time.Second)):
			t.Fatalf("nobody was told that the connection is %s", name)
		}
	}
}

func TestNodesComeBackApart(t *testing.T) {
	for attempts := range 40 {
		most := min(200*time.Millisecond<<min(attempts, 5), 5*time.Second)
		least := most
		for range 2000 {
			d := backOff(attempts)
			if d > most || d < most*3/4 {
				t.Fatalf("attempt %d after %v, want %v or a quarter less", attempts, d, most)
			}
			least = min(least, d)
		}
		if least > most*77/100 {
			t.Errorf("attempt %d: all come after %v", attempts, least)
		}
	}
}

func TestUnreadableEntryIsNamed(t *testing.T) {
	e := startEngine(t, t.TempDir())
	if _, err := e.Conn().Request(streamSubject+string(Done), []byte("no entry"), 20*time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Entries(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "ledger entry 1 cannot be read") {
		t.Errorf("%v", err)
	}
}
