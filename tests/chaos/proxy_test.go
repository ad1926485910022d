// SPDX-License-Identifier: MIT

package chaos

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A way is a direction of a proxy's connections.
type way int

const (
	up   way = 1 << iota // from the agent to the hub
	down                 // back
)

// A proxy is the network between agent and hub. cut closes its connections and refuses others;
// freeze lets no byte through in some directions, and closes nothing. heal ends both.
type proxy struct {
	listen net.Listener
	to     string

	mu     sync.Mutex
	change sync.Cond
	frozen way
	closed bool // connections are refused
	conns  map[net.Conn]bool
	ended  int // connections that have
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listen: l, to: to, conns: map[net.Conn]bool{}}
	p.change.L = &p.mu
	t.Cleanup(func() { l.Close(); p.cut(); p.heal() })
	go p.accept()
	return p
}

func (p *proxy) accept() {
	for {
		c, err := p.listen.Accept()
		if err != nil {
			return
		}
		go p.serve(c)
	}
}

func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	h, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer h.Close()
	if !p.add(c, h) {
		return
	}
	defer p.remove(c, h)
	var both sync.WaitGroup
	both.Go(func() { p.pass(h, c, up) })
	both.Go(func() { p.pass(c, h, down) })
	both.Wait()
}

func (p *proxy) add(list ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range list {
		p.conns[c] = true
	}
	return !p.closed
}

func (p *proxy) remove(list ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range list {
		delete(p.conns, c)
	}
	p.ended++
}

func (p *proxy) countEnded() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// pass copies one direction until one end closes, and then closes both.
func (p *proxy) pass(to, from net.Conn, w way) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		p.mu.Lock()
		for p.frozen&w != 0 {
			p.change.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				to.(*net.TCPConn).SetLinger(0) // a cut is no end of file
			}
			return
		}
	}
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.conns {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
}

func (p *proxy) freeze(w way) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = w
}

func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.frozen = false, 0
	p.change.Broadcast()
}
