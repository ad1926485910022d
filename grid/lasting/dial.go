// SPDX-License-Identifier: MIT

package lasting

import (
	"context"
	"errors"
	"net"
	"time"

	"skep/internal/patience"
)

// A Dialer makes the connections of one stream, at the side that dials.
type Dialer struct {
	Limits
	// Dial makes a connection, tells the other side how many bytes this side has, and returns
	// how many that has. Its error is ErrOver if the other side does not have the stream.
	Dial func(ctx context.Context, ours uint64) (conn net.Conn, theirs uint64, err error)
	// Away, if not nil, is called when the stream lost its connection for a while, with why,
	// and with nil when it has one again.
	Away func(error)
}

// Open begins a stream.
func (d *Dialer) Open(ctx context.Context) (*Conn, error) {
	conn, _, err := d.Dial(ctx, 0)
	if err != nil {
		return nil, err
	}
	c := newConn(d.Limits, conn.LocalAddr(), conn.RemoteAddr())
	c.redial = func() { d.redial(c) }
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin(conn, 0)
	return c, nil
}

// needs reports whether a stream needs a carrier.
func (c *Conn) needs() (ours uint64, needs bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries++
	return c.received(), c.err == nil
}

// use goes on with another connection.
func (c *Conn) use(conn net.Conn, theirs uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
	case !c.canGoOn(theirs):
		c.fail(ErrProtocol)
	default:
		c.begin(conn, theirs)
		return nil
	}
	conn.Close()
	return c.err
}

// redial looks for another connection for as long as the other side keeps the stream, and a
// little longer, because that may notice the end of the last one later.
func (d *Dialer) redial(c *Conn) {
	said := false
	left := patience.New(d.Keep+d.Try, d.Try+d.Poll)
	for {
		ours, ok := c.needs()
		if !ok {
			return
		}
		began := time.Now()
		err := d.retry(c, ours)
		if err == nil {
			if said {
				d.Away(nil)
			}
			return
		}
		if errors.Is(err, ErrOver) || errors.Is(err, ErrProtocol) {
			c.Fail(err)
			return
		}
		time.Sleep(d.Poll)
		more := left.Spend(began)
		if d.Away != nil && !said && left.Spent() >= d.Tell {
			said = true
			d.Away(err)
		}
		if !more {
			c.Fail(ErrAway)
			return
		}
	}
}

func (d *Dialer) retry(c *Conn, ours uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), d.Try)
	defer cancel()
	conn, theirs, err := d.Dial(ctx, ours)
	if err != nil {
		return err
	}
	return c.use(conn, theirs)
}
