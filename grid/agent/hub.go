// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"io"
	"net"
	"time"

	"skep/grid/proto"
)

// A hub is the connection to the hub. Every method may be called by many goroutines.
type hub interface {
	// exchangeHello registers this node; the error is the reason of a refusal.
	exchangeHello(ctx context.Context, h proto.Hello) (proto.Welcome, error)
	// publish sends a message, which is lost while the connection is down.
	publish(verb proto.Verb, v any, raw []byte) error
	// args opens a call's arguments; the reader fails at the end if their digest differs from the hub's.
	args(ctx context.Context, call, fence, length uint64) (io.ReadCloser, error)
	// result sends n bytes and then the digest that sum gives.
	result(ctx context.Context, call, fence, n uint64, body io.Reader, sum func() string) error
	// callback sends the payload of CALLBACK for a lease, and returns that of RETURN when the
	// master's function has returned.
	callback(ctx context.Context, call, fence uint64, payload []byte) ([]byte, error)
	// exec opens the standard streams of a program. fence is that of its lease, or 0. If has is not
	// nil, they may outlive their connection: this side has so many bytes of the hub's.
	exec(ctx context.Context, id string, fence uint64, has *uint64) (execConn, error)
	// fetch brings a blob into a store and continues a partial download.
	fetch(ctx context.Context, digest string, into store) (bytes uint64, err error)
}

// An execConn carries the standard streams of a program.
type execConn struct {
	net.Conn
	// keep is for how long the hub keeps them without a connection; 0: they end with this one.
	keep time.Duration
	has  uint64 // so many bytes of this side's it has
}

// A store is the cache of blobs.
type store interface {
	Path(digest string) (string, error) // a file that is never changed
	List() []string                     // the latest used first
	Pin(digest, owner string)
	Unpin(owner string)
	UnpinOne(digest, owner string)
	Discard(owner string) // unpins, and removes what nobody else pins
	Put(r io.Reader, owner string) (digest string, n int64, err error)
	Bytes() int64       // of all blobs
	Trim(limit int64)   // removes blobs that nobody pins, the least recently used first
	Drop(digest string) // its digest does not match its name: fetch it again
}
