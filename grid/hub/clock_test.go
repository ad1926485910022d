// SPDX-License-Identifier: MIT

package hub

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"
	"time"

	"skep/grid/ident"
	"skep/grid/proto"
)

// What leases, silences and deadlines are counted from keeps the monotonic reading of its time, so
// that a step of the machine's clock moves none.
func TestHubCountsByTheMonotonicClock(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Now = nil })
	a := w.startAgent(1)
	m := w.startBoundMaster()
	m.call(1, nil)
	a.nextLease()
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	times := map[string]time.Time{"the hub": w.hub.started}
	for _, n := range w.hub.nodes {
		times["a node"] = n.info.LastSeen
	}
	for _, c := range w.hub.calls {
		times["a call"] = c.began
	}
	for what, at := range times {
		if !strings.Contains(at.String(), " m=") {
			t.Errorf("%s counts from %v", what, at)
		}
	}
	if len(times) != 3 {
		t.Errorf("%v: nothing was tested", times)
	}
}

// A clock that is wrong on either side is named, and is no other hub.
func TestUserClocks(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.addUser("ada", Terms{})
	later := func() time.Time { return time.Now().AddDate(2, 0, 0) }
	conf, err := w.hub.ca.HubTLS(proto.ALPNHTTP)
	if err != nil {
		t.Fatal(err)
	}
	conf.Time = later
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	for what, c := range map[string]*Client{
		"this machine's": newFarClient(w.hub.Address().String(), func() (*tls.Config, error) {
			conf, err := ada.node.TLS(proto.ALPNHTTP)
			if err == nil {
				conf.Time = later
			}
			return conf, err
		}),
		"the hub's": newFarClient(l.Addr().String(), func() (*tls.Config, error) { return ada.node.TLS(proto.ALPNHTTP) }),
	} {
		if _, err := c.Nodes(t.Context(), ""); !errors.Is(err, ident.ErrClock) || errors.Is(err, ident.ErrOtherHub) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
