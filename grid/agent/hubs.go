// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"skep/grid/ident"
	"skep/grid/proto"
)

// A hub may have a standby, which may take over: docs/design/standby.md.

// hubsEvery is how often a node asks where else the hub may be, in case that the standby took over
// and this node's hub does not know.
const hubsEvery = 15 * time.Second

// chooseHub returns the address at which the hub answers. With one address there is no choice, and
// the connection itself finds out.
func (a *Agent) chooseHub(ctx context.Context, node *ident.Node, config *tls.Config) (string, error) {
	if a.config.Near != nil { // its hub is in this process
		return a.config.Hub, nil
	}
	list := node.Hubs()
	if a.config.Hub != "" && !slices.Contains(list, a.config.Hub) { // it takes the place of the one that it joined at
		list[slices.Index(list, node.Admission().Hub)] = a.config.Hub
	}
	if len(list) == 1 {
		return list[0], nil
	}
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		return newClient(address, config).dial(ctx)
	}
	c, address, err := ident.DialAny(ctx, list, dial, func(address string, err error) { a.tellFormer(ctx, node, address, err) })
	if err != nil {
		return "", err
	}
	c.Close()
	if err := node.UseHub(address); err != nil {
		a.config.Log("the hub's address was not stored: %v", err)
	}
	return address, nil
}

// tellFormer proves to a hub that is not in charge any more that it is not. It may have slept.
func (a *Agent) tellFormer(ctx context.Context, node *ident.Node, address string, why error) {
	if !errors.Is(why, ident.ErrFormerHub) {
		return
	}
	_, proof := node.Epoch()
	config, err := node.FormerTLS(proto.ALPNHTTP)
	if err == nil {
		c := newClient(address, config)
		defer c.http.CloseIdleConnections()
		var nothing struct{}
		err = c.post(ctx, proto.PathEpoch, proto.Epoch{Proof: proof}, &nothing)
	}
	if err != nil {
		a.config.Log("the hub at %s does not know that its standby took over: %v", address, err)
	}
}

// noteHubs stores the addresses that the hub named.
func (a *Agent) noteHubs(node *ident.Node, list []string) {
	for _, address := range list {
		if err := node.AddHub(address); err != nil {
			a.config.Log("the address of the hub's standby was not stored: %v", err)
		}
	}
}

func (a *Agent) readHubs(node *ident.Node, message []byte) {
	var v proto.Hubs
	if _, err := proto.Decode(message, &v); err != nil {
		a.config.Log("a message of the hub was dropped: %v", err)
		return
	}
	a.noteHubs(node, v.Addresses)
}

// watchHubs ends a connection when another hub took over from the one at its end, also if that
// one does not know.
func (a *Agent) watchHubs(life context.Context, l *link, end func(error)) {
	tick := time.NewTicker(hubsEvery)
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-tick.C:
		}
		if err := l.lookAround(life); err != nil {
			end(err)
			return
		}
	}
}

// lookAround connects to the other addresses of the hub. The handshake notes a greater epoch.
func (l *link) lookAround(ctx context.Context) error {
	for _, address := range l.node.Hubs() {
		if address == l.address {
			continue
		}
		if c, err := newClient(address, l.tls).dial(ctx); err == nil {
			c.Close()
		}
	}
	if epoch, _ := l.node.Epoch(); epoch > l.epoch {
		return fmt.Errorf("%w, at another address", ident.ErrFormerHub)
	}
	return nil
}
