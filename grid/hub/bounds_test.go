// SPDX-License-Identifier: MIT

package hub

import (
	"encoding/hex"
	"errors"
	"math"
	"net/http"
	"os"
	"strings"
	"testing"

	"skep/grid/proto"
)

// Messages of nodes are accepted up to a limit and refused beyond it.
func TestNodesStayInBounds(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.nodes[a.node.ID()]
	for _, c := range []struct {
		ask  proto.Ask
		good bool
	}{
		{proto.Ask{Free: 0}, true}, {proto.Ask{Free: -1}, false},
		{proto.Ask{Digests: make([]string, 256)}, true}, {proto.Ask{Digests: make([]string, 257)}, false},
		{proto.Ask{Idle: make([]proto.Idle, 4096)}, true}, {proto.Ask{Idle: make([]proto.Idle, 4097)}, false},
	} {
		if err := h.handleAsk(n, &c.ask); (err == nil) != c.good {
			t.Errorf("a request for %d, %d digests, %d idle workers: %v", c.ask.Free, len(c.ask.Digests), len(c.ask.Idle), err)
		}
	}
	for running, good := range map[int]bool{4 * 4096: true, 4*4096 + 1: false} {
		if err := h.handleBeat(n, &proto.Beat{Running: make([]uint64, running)}); (err == nil) != good {
			t.Errorf("a heartbeat with %d leases: %v", running, err)
		}
	}
	for said, want := range map[int]int{-1: 0, 0: 0, 7: 7, 4096: 4096, 5000: 4096} {
		h.handleBeat(n, &proto.Beat{Free: said})
		if n.info.Free != want {
			t.Errorf("%d free slots count as %d", said, n.info.Free)
		}
		if said < 0 {
			continue
		}
		if h.handleAsk(n, &proto.Ask{Free: said}); n.info.Free != want {
			t.Errorf("%d slots to give count as %d", said, n.info.Free)
		}
	}
	for _, c := range []struct {
		hello proto.Hello
		good  bool
	}{
		{proto.Hello{}, true}, {proto.Hello{Slots: -1}, false}, {proto.Hello{CPUs: -1}, false},
		{proto.Hello{Slots: 4096}, true}, {proto.Hello{Slots: 4097}, false},
		{proto.Hello{Name: strings.Repeat("n", 63)}, true}, {proto.Hello{Name: strings.Repeat("n", 64)}, false},
	} {
		c.hello.Revision = proto.Revision
		if p := h.admitNode(n, "pc", &c.hello); (p == nil) != c.good {
			t.Errorf("%+v: %v", c.hello, p)
		}
	}
}

// Text of a node contains no control characters and is short.
func TestNodesTextIsClean(t *testing.T) {
	for text, want := range map[string]string{
		"a ~ é\n": "a ~ é?", "\x1b[2J": "?[2J", "\x7f": "?", "\x1f": "?", "\xff": "?", "\u009b2J": "?2J", "\u0080\u00a0é": "??é",
		strings.Repeat("x", 128): strings.Repeat("x", 128), strings.Repeat("x", 129): strings.Repeat("x", 128),
	} {
		if got := cleanText(text); got != want {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// A result with another digest than its sender says must be sent again.
func TestResultsDigest(t *testing.T) {
	p := &spooler{dir: t.TempDir(), limit: 1 << 20}
	for _, c := range []struct{ name, digest, wanted string }{
		{"its digest", digestOf([]byte("abc")), ""}, {"no digest", "", ""},
		{"another digest", digestOf([]byte("abd")), "another digest"}, {"no hex", "abc", "another digest"},
	} {
		s, err := p.newSpool(3)
		if err != nil {
			t.Fatal(err)
		}
		r := &http.Request{Trailer: http.Header{}}
		r.Trailer.Set(proto.TrailerDigest, c.digest)
		err = receiveSpool(s, strings.NewReader("abc"), r)
		if (err == nil) != (c.wanted == "") || err != nil && !strings.Contains(err.Error(), c.wanted) {
			t.Errorf("%s: %v", c.name, err)
		}
		digest, complete := s.complete()
		if hex.EncodeToString(digest[:]) != digestOf([]byte("abc")) || !complete {
			t.Errorf("%s: the hub has %x", c.name, digest)
		}
		s.put()
	}
	s, err := p.newSpool(4)
	if err != nil {
		t.Fatal(err)
	}
	defer s.put()
	if err := receiveSpool(s, strings.NewReader("abc"), &http.Request{}); err == nil {
		t.Error("a result that is cut was taken")
	}
}

// A result that differs from its node's announcement is refused.
func TestResultsAreWhatWasAnnounced(t *testing.T) {
	p := &spooler{dir: t.TempDir(), limit: 1 << 20}
	digest := digestOf([]byte("abc"))
	failed := errors.New("no room")
	for _, c := range []struct {
		name, sent string
		done       proto.Done
		err        error
		wanted     string
	}{
		{"as announced", "abc", proto.Done{Length: 3, Digest: digest}, nil, ""},
		{"in the message", "abc", proto.Done{Length: 3, Digest: digest, Inline: true}, nil, ""},
		{"another length", "abc", proto.Done{Length: 4, Digest: digest}, nil, "not what the node announced"},
		{"another digest", "abc", proto.Done{Length: 3, Digest: digestOf(nil)}, nil, "not what the node announced"},
		{"not all of it", "ab", proto.Done{Length: 3, Digest: digest}, nil, "not what the node announced"},
		{"nothing", "", proto.Done{Length: 3, Digest: digest}, nil, "announced but not sent"},
		{"no room for it", "abc", proto.Done{Length: 3, Digest: digest, Inline: true}, failed, "no room"},
	} {
		var s *spool
		if c.sent != "" {
			var err error
			if s, err = p.newSpool(3); err != nil {
				t.Fatal(err)
			}
			s.Write([]byte(c.sent))
			s.finish()
		}
		l, r := &lease{}, &inlineResult{err: c.err}
		if l.result = s; c.done.Inline {
			l.result, r.spool = nil, s
		}
		err := l.takeResult(&c.done, r)
		if (err == nil) != (c.wanted == "") || err != nil && !strings.Contains(err.Error(), c.wanted) {
			t.Errorf("%s: %v", c.name, err)
		}
		if l.result != s || r.spool != nil {
			t.Errorf("%s: the lease has another result", c.name)
		}
		if s != nil {
			s.put()
		}
	}
}

// A hub without a log works.
func TestHubWithoutLog(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Log = nil })
	w.startAgent(1)
	if err := w.cli.RemoveNode(t.Context(), "pc"); err != nil {
		t.Error(err)
	}
}

// A node is found by its name, its id, or the first part of its name, in this order. Nodes that
// are not connected are not found.
func TestNodeNamed(t *testing.T) {
	here, _ := os.Hostname()
	h := &Hub{nodes: map[string]*node{}}
	for id, name := range map[string]string{"1": "pc", "2": "pc.lab", "3": "ws.lab", "4": "away", "5": here} {
		h.nodes[id] = &node{ready: name != "away", info: NodeInfo{ID: id, Name: name}}
	}
	for host, want := range map[string]string{"pc": "1", "pc.lab": "2", "2": "2", "ws": "3", "ws.lab": "3", "away": "", "4": "",
		"lab": "", "": "", "localhost": "5", "127.0.0.1": "5", here: "5"} {
		for range 5 { // in any order of the nodes
			id, known := h.nodeNamed(host)
			if id != want || strings.Contains(known, "away") || strings.Count(known, ", ") != 3 {
				t.Errorf("%q is node %q; known are %s", host, id, known)
			}
		}
	}
}

// By default a hub stores up to nine tenths of the free disk, and a node may send three quarters
// of that.
func TestDefaultQuotas(t *testing.T) {
	for _, c := range []struct{ given, want Quotas }{
		{Quotas{}, Quotas{Hub: 9000, Session: 9000, Node: 6750}},
		{Quotas{Hub: 400}, Quotas{Hub: 400, Session: 400, Node: 300}},
		{Quotas{Session: 1, Node: 2}, Quotas{Hub: 9000, Session: 1, Node: 2}},
	} {
		got := c.given
		if got.setDefaults(10000); got != c.want {
			t.Errorf("%+v became %+v", c.given, got)
		}
	}
	large := Quotas{Hub: math.MaxUint64}
	large.setDefaults(0)
	if q := large.ofHub(); q.most <= 0 || q.most+large.ofSession().most <= 0 {
		t.Errorf("two quotas are %d bytes", q.most)
	}
}
