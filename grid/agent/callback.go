// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"errors"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// callbackPoll is how long an agent waits until it repeats a callback for which it got no answer.
const callbackPoll = 200 * time.Millisecond

// passCallback passes a CALLBACK of the worker to the hub, and the answer back. The worker may
// send nothing but PING meanwhile, and its silence does not count.
func (w *worker) passCallback(ctx context.Context, l *proto.Lease, number uint64, payload []byte) error {
	c, _, err := uapi.ParseCallback(payload)
	if err != nil {
		return err
	}
	if c.Number != number {
		return failf(proto.ReasonError, uapi.EWorker, "the worker called its master with the number %d where %d was due", c.Number, number)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-w.process.done: // nobody takes the answer
			cancel()
		case <-ctx.Done():
		}
	}()
	var answer []byte
	w.called.start()
	w.wire.pauseSilence(func() { answer, err = w.agent.askMaster(ctx, l, payload) })
	w.called.stop()
	if err == nil {
		err = checkReturn(c, answer)
	}
	if err != nil {
		return err
	}
	return w.wire.write(uapi.Frame{Type: uapi.TypeReturn, Call: l.Call}, answer)
}

// checkReturn refuses an answer to another callback.
func checkReturn(c uapi.Callback, answer []byte) error {
	r, _, err := uapi.ParseCallback(answer)
	if err == nil && (r.Number != c.Number || r.Param != c.Param) {
		err = errors.New("the hub answered another callback")
	}
	if err != nil {
		return failf(proto.ReasonError, uapi.EProtocol, "the answer of the master cannot be read: %v", err)
	}
	return nil
}

// askMaster asks the hub until there is an answer. A hub that already knows the callback by its
// number does not ask its master again.
func (a *Agent) askMaster(ctx context.Context, l *proto.Lease, payload []byte) ([]byte, error) {
	for {
		answer, err := a.toHub().callback(ctx, l.Call, l.Fence, payload)
		var p *proto.Problem
		switch {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &p) && p.Code == proto.ProblemCallback:
			return nil, failf(proto.ReasonError, uapi.EWorker, "%s", p.Text)
		}
		// The lease may not be known yet to a hub that was started again. If it is gone, the
		// hub cancels it.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(callbackPoll):
		}
	}
}
