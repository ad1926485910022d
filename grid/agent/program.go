// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"skep/grid/lasting"
	"skep/grid/proto"
	"skep/internal/uapi"
)

// tryProgram runs a program of `skep exec` under a lease: in a slot and in the area of its user,
// like a call. Its standard streams are at the hub.
func (a *Agent) tryProgram(ctx context.Context, l *lease) (*proto.Done, []byte, error) {
	fetched, err := a.fetchBlobs(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	_, evicted, err := a.pool.acquire(ctx, &l.Lease) // no worker is of its session
	if err != nil {
		return nil, nil, err
	}
	l.begun.Store(true)
	l.program = a.owner.begin(true, l.giveBack)
	defer a.finishLease(l, nil)
	if evicted != nil {
		evicted.sendBye()
		a.pool.removeWorker(evicted)
	}
	rw, err := a.openStreams(ctx, l)
	if err != nil {
		return nil, nil, failf(proto.ReasonTransfer, uapi.EInternal, "its streams cannot be opened: %v", err)
	}
	defer closeStreams(ctx, rw)
	s := &execStream{rw: rw}
	s.send(proto.ExecStdout, nil) // the hub keeps no stream on which nothing came
	e := proto.Exec{ID: l.Exec.ID, Program: l.Worker.Module, Name: l.Exec.Name, Args: l.Exec.Args, Env: l.Exec.Env, Limits: l.Limits, Update: l.Exec.Update}
	end, err := a.execProgram(ctx, l.cancel, &e, s, l.area, l.program)
	switch {
	case err != nil:
		f := asFailure(ctx, err)
		s.sendEnd(0, f)
		return nil, nil, f
	case end.over != "":
		err = failf(proto.ReasonLimit, uapi.EWorker, "%s", end.over)
	case end.signal:
		err = failf(proto.ReasonError, uapi.EWorker, "a signal ended it (status %d)", end.status)
	}
	if lost := s.sendEnd(end.status, nil); lost != nil && err == nil {
		err = failf(proto.ReasonTransfer, uapi.EInternal, "its exit status was not sent: %v", lost)
	}
	if err != nil {
		return nil, nil, err
	}
	none := sha256.Sum256(nil)
	return &proto.Done{Call: l.Call, Fence: l.Fence, Inline: true, Digest: hex.EncodeToString(none[:]), Fetched: fetched,
		Program: e.Program, Substrate: a.substrate().String(), Nonce: end.proof.nonce, Calls: end.proof.calls}, nil, nil
}

// openStreams connects to the hub for the streams of a program under a lease. They outlive their
// connection, as the lease does, unless the hub is of an earlier version.
func (a *Agent) openStreams(ctx context.Context, l *lease) (io.ReadWriteCloser, error) {
	var has uint64
	first, err := a.toHub().exec(ctx, l.Exec.ID, l.Fence, &has)
	if err != nil || first.keep == 0 {
		return first.Conn, err
	}
	d := &lasting.Dialer{Limits: lasting.Default}
	d.Keep = first.keep
	d.Dial = func(context.Context, uint64) (net.Conn, uint64, error) {
		d.Dial = func(ctx context.Context, ours uint64) (net.Conn, uint64, error) {
			c, err := a.toHub().exec(ctx, l.Exec.ID, l.Fence, &ours)
			if p := (*proto.Problem)(nil); errors.As(err, &p) {
				err = fmt.Errorf("%w: %v", lasting.ErrOver, p)
			}
			return c.Conn, c.has, err
		}
		return first.Conn, 0, nil
	}
	return d.Open(ctx)
}

// streamsEnd is how long a program that was cancelled waits until the hub has read why.
const streamsEnd = time.Second

// closeStreams waits until the hub has all that a program wrote: the end of its lease is said only
// then, since the hub does not wait for the streams of one that failed.
func closeStreams(ctx context.Context, rw io.ReadWriteCloser) {
	defer rw.Close()
	c, lasts := rw.(*lasting.Conn)
	if !lasts {
		return
	}
	defer c.Fail(net.ErrClosed)
	c.CloseWrite()
	late := context.AfterFunc(ctx, func() { time.AfterFunc(streamsEnd, func() { c.Fail(net.ErrClosed) }) })
	defer late()
	c.Flush(lasting.Default.Keep)
}
