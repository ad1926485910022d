// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// tryProgram runs a program that a user with an account started with `skep exec`: in a slot and
// in the area of its user, like a call. Its standard streams are at the hub.
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
	rw, err := a.toHub().exec(ctx, l.Exec.ID, l.Fence)
	if err != nil {
		return nil, nil, failf(proto.ReasonTransfer, uapi.EInternal, "its streams cannot be opened: %v", err)
	}
	defer rw.Close()
	s := &execStream{rw: rw}
	e := proto.Exec{ID: l.Exec.ID, Program: l.Worker.Module, Name: l.Exec.Name, Args: l.Exec.Args, Env: l.Exec.Env, Limits: l.Limits}
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
