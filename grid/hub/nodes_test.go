// SPDX-License-Identifier: MIT

package hub

import (
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"skep/grid/engine"
	"skep/grid/proto"
	"skep/grid/sched"
)

// A hello is answered to its node alone, and says what is wrong if it cannot be read.
func TestAnswersToHello(t *testing.T) {
	w := newWorld(t, nil)
	a := w.join()
	a.connect()
	subject := proto.FromNode(a.node.ID(), proto.VerbHello)
	good, _ := proto.Encode(proto.Hello{Revision: proto.Revision, Slots: 1}, nil)
	stolen := make(chan *nats.Msg, 10)
	for _, inbox := range []string{"other", engine.InboxPrefix("other") + ".1", engine.InboxPrefix(a.node.ID()) + "x"} {
		if _, err := w.hub.nats.ChanSubscribe(inbox, stolen); err != nil {
			t.Fatal(err)
		}
		if err := w.hub.nats.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := a.nats.PublishRequest(subject, inbox, good); err != nil {
			t.Fatal(err)
		}
	}
	m, err := a.nats.Request(subject, []byte{0xff}, testTimeout)
	if err != nil {
		t.Fatal(err)
	}
	var v proto.Welcome
	if _, err := proto.Decode(m.Data, &v); err != nil || v.Problem == nil || v.Problem.Code != proto.ProblemRequest || !strings.Contains(v.Problem.Text, "cannot read this node's hello") {
		t.Errorf("an unreadable hello: %+v, %v", v, err)
	}
	if n := w.nodeOf(a); n.State == NodeUp {
		t.Error("it took the node in")
	}
	if v := a.helloWith(proto.Hello{Revision: proto.Revision, Slots: 1}); v.Problem != nil || v.Revision != proto.Revision || v.Version != "test" {
		t.Errorf("%+v", v)
	}
	if len(stolen) != 0 {
		t.Errorf("%d answers went elsewhere", len(stolen))
	}
}

// Until a node has said hello, and after its connection ended, its messages are dropped.
func TestMessagesBeforeHello(t *testing.T) {
	var log logBuffer
	w := newWorld(t, log.config)
	a := w.join()
	a.connect()
	events, err := w.cli.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	a.sendVerb(proto.VerbLog, proto.Log{Session: "s", Text: "early"}, nil)
	a.sendHello(1)
	a.sendVerb(proto.VerbLog, proto.Log{Session: strings.Repeat("s", keyMax+1), Text: "long"}, nil)
	a.sendVerb(proto.VerbReleased, proto.Released{Session: strings.Repeat("s", keyMax+1)}, nil)
	a.sendVerb("nonsense", proto.Log{}, nil)
	a.sendVerb(proto.VerbLog, proto.Log{Session: strings.Repeat("s", keyMax), Call: 7, Text: "late"}, nil)
	e := nextEvent(t, events, "a line", func(e Event) bool { return e.Type == "log" })
	if e.Text != "late" || e.Call != 7 || e.Node != a.node.ID() || e.Name != "pc" || len(e.Session) != keyMax {
		t.Errorf("%+v", e)
	}
	for _, line := range []string{"the verb is unknown", "verb=log error=\"a session's name of 65 bytes", "verb=released error=\"a session's name of 65 bytes"} {
		if !log.contains(line) {
			t.Errorf("no line says: %s", line)
		}
	}
}

// The newest connection of a node counts; an older one is closed and its end means nothing.
func TestNewestConnectionCounts(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	first := a.nats
	first.Opts.AllowReconnect = false
	a.connect()
	waitUntil(t, "the end of the older one", func() bool { return !first.IsConnected() })
	a.sendHello(1)
	if n := w.nodeOf(a); n.State != NodeUp {
		t.Errorf("%+v", n)
	}
	w.hub.mu.Lock()
	n := w.hub.nodes[a.node.ID()]
	conn := n.conn
	w.hub.mu.Unlock()
	if conn == nil {
		t.Error("it has no connection")
	}
}

// A hub takes so many nodes and closes the connections of more.
func TestNodesAreBounded(t *testing.T) {
	w := newWorld(t, nil)
	for i := range nodesMax - 1 {
		w.hub.nodes[fmt.Sprint(i)] = &node{}
	}
	a, b := w.join(), w.join()
	a.connect()
	a.sendHello(1)
	conf, err := b.node.TLS(proto.ALPNNats)
	if err != nil {
		t.Fatal(err)
	}
	_, err = engine.Dial(engine.DialConfig{ID: b.node.ID(), Sign: b.node.Sign,
		JWT:  func() (string, error) { return b.node.Admission().UserJWT, nil },
		Dial: func() (net.Conn, error) { return tls.Dial("tcp", w.hub.Address().String(), conf) }})
	if err == nil {
		t.Error("one more was taken")
	}
	a.sendHello(1)
	if n := len(w.hub.Nodes()); n != nodesMax {
		t.Errorf("%d nodes", n)
	}
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	for id, n := range w.hub.nodes { // so that the hub can close
		if n.conn == nil {
			delete(w.hub.nodes, id)
		}
	}
}

// What a node's hello says is in the table, without control characters.
func TestTableOfNodes(t *testing.T) {
	w := newWorld(t, nil)
	a := w.join()
	a.connect()
	a.helloWith(proto.Hello{Revision: proto.Revision, Version: "v\n1", OS: "o\n1", System: "s\n1", Substrate: "b\n1",
		Confined: "c\n1", Open: "p\n1", CPUs: 3, Memory: 1 << 30, Slots: 2})
	n := w.nodeOf(a)
	n.LastSeen = time.Time{}
	want := NodeInfo{ID: a.node.ID(), Name: "pc", State: NodeUp, Version: "v?1", OS: "o?1", System: "s?1", Substrate: "b?1",
		Confined: "c?1", Open: "p?1", CPUs: 3, Memory: 1 << 30, Slots: 2, Free: 2}
	if !reflect.DeepEqual(n, want) {
		t.Errorf("%+v, want %+v", n, want)
	}
}

// A node with an idle worker of the session gets a call before one that has its blobs, and
// this one before others.
func TestNodesThatHaveWhatACallNeeds(t *testing.T) {
	w, m, a := newTrio(t, nil, 0)
	b := w.startAgent(0)
	if a.node.ID() > b.node.ID() { // of equal nodes the first by id gets a call
		a, b = b, a
	}
	module := digestOf(encodeManifest(t))
	worker := proto.Worker{Module: module}
	session := ""
	for i, c := range []struct {
		what   string
		a, b   proto.Ask
		chosen *fakeAgent
	}{
		{"nothing", proto.Ask{}, proto.Ask{}, a},
		{"the oldest grant", proto.Ask{}, proto.Ask{}, b},
		{"blobs", proto.Ask{}, proto.Ask{Digests: []string{"xyz", strings.Repeat("g", 64), module}}, b},
		{"an idle worker", proto.Ask{Digests: []string{module}}, proto.Ask{Idle: []proto.Idle{{Worker: worker}}}, b},
		{"idle workers of no session", proto.Ask{}, proto.Ask{Idle: []proto.Idle{{Session: "gone", Worker: worker}}}, a},
		{"an idle worker of no module", proto.Ask{}, proto.Ask{Idle: []proto.Idle{{Worker: proto.Worker{Module: "x"}}}}, b},
	} {
		for _, v := range []struct {
			agent *fakeAgent
			ask   proto.Ask
		}{{a, c.a}, {b, c.b}} {
			v.agent.sendHello(2)
			v.ask.Free, v.ask.Memory = 1, 1<<40
			for k := range v.ask.Idle {
				if v.ask.Idle[k].Session == "" {
					v.ask.Idle[k].Session = session
				}
			}
			v.agent.sendVerb(proto.VerbAsk, v.ask, nil)
			waitUntil(t, "its slot", func() bool { return w.nodeOf(v.agent).Free == 1 })
		}
		id := uint64(i + 5)
		m.call(id, nil)
		var l fakeLease
		select {
		case l = <-c.chosen.leases:
		case <-time.After(testTimeout):
			t.Fatalf("%s: another node got the call", c.what)
		}
		session = l.Session
		c.chosen.sendDone(l, nil)
		m.readResult(id)
	}
}

// Digests and workers of nodes have to be whole.
func TestDigestsOfNodes(t *testing.T) {
	text := digestOf([]byte("a"))
	sum, _ := hex.DecodeString(text)
	var want sched.Digest
	copy(want[:], sum)
	for s, good := range map[string]bool{text: true, text[:63]: false, text + "0": false, "": false, strings.Replace(text, text[:1], "g", 1): false} {
		if d, ok := parseDigest(s); ok != good || ok && d != want {
			t.Errorf("%q: %x, %v", s, d, ok)
		}
	}
	for _, c := range []struct {
		worker proto.Worker
		want   sched.Worker
		good   bool
	}{
		{proto.Worker{Module: text}, sched.Worker{Module: want}, true},
		{proto.Worker{Module: text, Init: text}, sched.Worker{Module: want, Init: want}, true},
		{proto.Worker{Module: "x"}, sched.Worker{}, false}, {proto.Worker{Module: "x", Init: text}, sched.Worker{}, false},
		{proto.Worker{Module: text, Init: "x"}, sched.Worker{Module: want}, false},
	} {
		if k, ok := schedWorker(c.worker); ok != c.good || ok && k != c.want {
			t.Errorf("%+v: %x, %v", c.worker, k, ok)
		}
	}
}

// Who has no certificate of this hub gets no connection to its engine.
func TestEngineNeedsACertificate(t *testing.T) {
	var log logBuffer
	w := newWorld(t, log.config)
	other := newWorld(t, nil)
	stranger := other.join()
	conf, err := stranger.node.TLS(proto.ALPNNats)
	if err != nil {
		t.Fatal(err)
	}
	conf.InsecureSkipVerify, conf.VerifyConnection, conf.VerifyPeerCertificate = true, nil, nil
	c, err := tls.Dial("tcp", w.hub.Address().String(), conf)
	if err == nil {
		defer c.Close()
		c.SetDeadline(time.Now().Add(testTimeout))
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("it got %d bytes", n)
		}
	}
	a := w.join()
	if _, err := w.hub.roster.remove("pc"); err != nil {
		t.Fatal(err)
	}
	if conf, err = a.node.TLS(proto.ALPNNats); err != nil {
		t.Fatal(err)
	}
	if c, err = tls.Dial("tcp", w.hub.Address().String(), conf); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(testTimeout))
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("a removed node got %d bytes", n)
	}
	waitUntil(t, "the line in the log", func() bool { return log.contains("a connection without a node's certificate was refused") })
	if resp, b := a.request(http.MethodGet, proto.PathBlob(digestOf(nil)), nil); resp.StatusCode != http.StatusForbidden || !strings.Contains(string(b), "removed from the hub") {
		t.Errorf("a removed node: %s %s", resp.Status, b)
	}
}
