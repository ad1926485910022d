// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// call runs a lease to its end and reports the result to the hub.
func (a *Agent) call(ctx context.Context, l *lease) {
	began := time.Now()
	done, result, err := a.tryCall(ctx, l)
	a.pool.close(&l.Lease)
	if err != nil {
		f := asFailure(ctx, err)
		if f.reason == proto.ReasonRefused {
			a.config.Log("call %d of %s: %s", l.Call, l.Name, f.text)
		}
		if f.reason == proto.ReasonTransfer && a.wasCut(l) {
			f = failf(proto.ReasonCancelled, uapi.ECancelled, "the connection to the hub broke")
		}
		a.reportEnd(l, proto.VerbFailed, proto.Failed{Call: l.Call, Fence: l.Fence, Reason: f.reason,
			Code: f.code, Text: failedText(f), Status: f.status}, nil, f.reason != proto.ReasonCancelled)
	} else {
		done.Wall = time.Since(began).Seconds()
		a.reportEnd(l, proto.VerbDone, done, result, true)
	}
	a.sendAsk()
}

// wasCut reports whether the connection over which a lease came has ended.
func (a *Agent) wasCut(l *lease) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return l.epoch != a.epoch
}

// tryCall returns the message that completes a lease, with an inline result.
func (a *Agent) tryCall(ctx context.Context, l *lease) (*proto.Done, []byte, error) {
	if err := l.check(); err != nil {
		return nil, nil, err
	}
	area, err := a.areaOf(l.User)
	if err != nil {
		return nil, nil, failf(proto.ReasonNode, uapi.EInternal, "the user's folders cannot be used: %v", err)
	}
	l.area = area
	if l.Exec != nil {
		return a.tryProgram(ctx, l)
	}
	fetched, err := a.fetchBlobs(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	w, err := a.acquireWorker(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	done, result, err := a.callWorker(ctx, w, l)
	var f *failure
	// A function that was stopped while it called the master does not go on.
	reusable := errors.As(err, &f) && f.reason == proto.ReasonError && !l.Callbacks
	if err != nil && !reusable {
		err = w.failureReason(ctx, err)
		a.pool.removeWorker(w)
		w = nil
	}
	if w != nil && !a.finishLease(l, w) {
		w.killAndWait()
		a.pool.removeWorker(w)
	} else if w == nil {
		a.finishLease(l, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	done.Fetched = fetched
	return done, result, nil
}

// partsMax is the hub's limit of stored data of a call, too: a container has many parts.
const partsMax = 2 * uapi.ParamsMax

// check refuses invalid leases.
func (l *lease) check() error {
	if l.Inline {
		sum := sha256.Sum256(l.args)
		if uint64(len(l.args)) != l.Length || hex.EncodeToString(sum[:]) != l.Digest {
			return failf(proto.ReasonTransfer, uapi.EInternal, "the lease's arguments are damaged")
		}
	}
	if l.Length > proto.DataMax || len(l.Data) > partsMax || !inOrder(l.Data, l.Total()) {
		return failf(proto.ReasonNode, uapi.EInternal, "the lease's data lies outside of its arguments")
	}
	if len(l.Keep) > partsMax || !inOrder(l.Keep, math.MaxUint64) {
		return failf(proto.ReasonNode, uapi.EInternal, "the lease keeps parts that are in no order")
	}
	if l.Session == "" || len(l.Worker.Module) != 2*sha256.Size {
		return failf(proto.ReasonNode, uapi.EInternal, "the lease names no session or no module")
	}
	return nil
}

// inOrder reports whether the parts are in ascending order, apart, and within that many bytes.
func inOrder(parts []proto.Part, within uint64) bool {
	places := proto.Places{Within: within}
	return !slices.ContainsFunc(parts, func(p proto.Part) bool { return !places.Next(p.Offset, p.Length) })
}

// fetchBlobs fetches the blobs that the call needs before it takes a slot, so that transfers overlap with other calls.
func (a *Agent) fetchBlobs(ctx context.Context, l *lease) (uint64, error) {
	digests := []string{l.Worker.Module}
	if l.Init != nil {
		digests = append(digests, l.Init.Blob)
	}
	for _, p := range l.Data {
		digests = append(digests, p.Blob)
	}
	var all uint64
	for _, digest := range digests {
		l.area.store.Pin(digest, l.Session)
		n, err := a.fetchInto(ctx, l.area, digest)
		all += n
		if err != nil {
			return all, failf(proto.ReasonTransfer, uapi.EInternal, "a blob that the call needs was not received: %v", err)
		}
	}
	return all, nil
}

// acquireWorker takes an idle worker or starts one.
func (a *Agent) acquireWorker(ctx context.Context, l *lease) (*worker, error) {
	for {
		w, evicted, err := a.pool.acquire(ctx, &l.Lease)
		if err != nil {
			return nil, err
		}
		l.begun.Store(true)
		l.program = a.owner.begin(true, l.giveBack)
		if evicted != nil {
			evicted.sendBye()
			a.pool.removeWorker(evicted)
		}
		if w == nil {
			break
		}
		select {
		case <-w.process.done: // it died while it was idle: no fault of this call
			a.pool.removeWorker(w)
			a.finishLease(l, nil)
			continue
		default:
			w.busy.Store(l.Call)
			l.program.attach(w.process)
			return w, nil
		}
	}
	if err := a.mayStart(&l.Lease); err != nil {
		a.finishLease(l, nil)
		return nil, err
	}
	w, err := a.startWorker(ctx, l)
	for range 2 { // the program and the data of Initialize
		if !a.refetchBlob(ctx, l.area, err) {
			break
		}
		w, err = a.startWorker(ctx, l)
	}
	if err != nil {
		a.finishLease(l, nil)
		return nil, err
	}
	if !a.pool.addWorker(w) {
		w.killAndWait()
		a.pool.removeWorker(w)
		a.finishLease(l, nil)
		return nil, failf(proto.ReasonCancelled, uapi.ECancelled, "the session was released")
	}
	return w, nil
}

// finishLease ends a lease that had a slot; see pool.finishLease.
func (a *Agent) finishLease(l *lease, w *worker) (keep bool) {
	l.program.end() // before another lease gets the worker
	return a.pool.finishLease(&l.Lease, w)
}

// refetchBlob fetches a blob again whose file another process changed.
func (a *Agent) refetchBlob(ctx context.Context, p *area, err error) bool {
	var f *failure
	if !errors.As(err, &f) || f.changed == "" {
		return false
	}
	a.config.Log("%s: it is fetched again", f.text)
	p.store.Drop(f.changed)
	if _, err := a.fetchInto(ctx, p, f.changed); err != nil {
		return false
	}
	_, err = p.store.Path(f.changed)
	return err == nil
}

// callWorker runs the call on a ready worker.
func (a *Agent) callWorker(ctx context.Context, w *worker, l *lease) (*proto.Done, []byte, error) {
	limits := a.limitsFor(l.Limits)
	if limits.CPU > 0 {
		w.process.begin(limits.CPU)
	}
	defer w.watchLimits(ctx, a.muteLimit, seconds(limits.Wall))()
	defer w.wire.idle.Store(0)
	defer w.busy.Store(0)
	args, err := a.openArguments(ctx, l)
	if err != nil {
		return nil, nil, &sourceError{err}
	}
	defer args.Close()
	answer, err := w.run(ctx, &l.Lease, args)
	if err != nil {
		return nil, nil, err
	}
	d := &proto.Done{Call: l.Call, Fence: l.Fence, Length: answer.Length, ExecNS: answer.ExecNS,
		Program: w.id.Module, Substrate: a.substrate().String(), Nonce: answer.Proof.Nonce,
		Calls: answer.Proof.Calls, Inline: answer.Length <= proto.InlineMax}
	from, end := a.keepParts(l, answer)
	defer end()
	if d.Inline {
		result, err := io.ReadAll(from)
		d.Digest = answer.digestHex()
		return d, result, err
	}
	w.awaitHub()
	err = a.toHub().result(ctx, l.Call, l.Fence, answer.Length, from, answer.digestHex)
	if err != nil {
		return nil, nil, a.resultError(ctx, w, err)
	}
	d.Digest = answer.digestHex()
	return d, nil, nil
}

// resultError distinguishes a worker that failed while its result was read from a hub that refused the result.
func (a *Agent) resultError(ctx context.Context, w *worker, err error) error {
	select {
	case <-w.process.done:
		return err
	default:
	}
	if ctx.Err() != nil {
		return err
	}
	return failf(proto.ReasonTransfer, uapi.EInternal, "the result could not be sent: %v", err)
}

func (a *Agent) openArguments(ctx context.Context, l *lease) (io.ReadCloser, error) {
	r, err := a.openInline(ctx, l)
	if err != nil || len(l.Data) == 0 {
		return r, err
	}
	return &merged{own: r, store: l.area.store, parts: l.Data, left: l.Total()}, nil
}

// openInline opens the arguments that are not blobs.
func (a *Agent) openInline(ctx context.Context, l *lease) (io.ReadCloser, error) {
	if l.Inline || l.Length == 0 {
		return io.NopCloser(bytes.NewReader(l.args)), nil
	}
	r, err := a.toHub().args(ctx, l.Call, l.Fence, l.Length)
	if err != nil {
		return nil, fmt.Errorf("the hub did not give them: %w", err)
	}
	return r, nil
}
