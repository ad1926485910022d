// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"io"
	"os"
)

// Near is a hub in this process. Bytes of calls pass between the two as they are: no
// connection, no TLS, no digest of the way. Messages go over the network as with other hubs,
// so that leases, fences and restarts are the same.
type Near interface {
	// NearArgs opens the arguments of a call that a node has a lease for.
	NearArgs(ctx context.Context, node string, call, fence uint64) (io.ReadCloser, error)
	// NearResult takes n bytes of a result; `done` commits them.
	NearResult(ctx context.Context, node string, call, fence, n uint64, body io.Reader) error
}

// A fileSource has its next n bytes in a file: hub.nearArgs. Without one they are read.
type fileSource interface {
	NextFile(n int64) (file *os.File, at int64, let func(), err error)
}

func (l *link) args(ctx context.Context, call, fence, length uint64) (io.ReadCloser, error) {
	if l.near == nil {
		return l.client.args(ctx, call, fence, length)
	}
	return l.near.NearArgs(ctx, l.node.ID(), call, fence)
}

func (l *link) result(ctx context.Context, call, fence, n uint64, body io.Reader, sum func() string) error {
	if l.near == nil {
		return l.client.result(ctx, call, fence, n, body, sum)
	}
	return l.near.NearResult(ctx, l.node.ID(), call, fence, n, body)
}
