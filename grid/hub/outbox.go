// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"sync"

	"skep/grid/session"
	"skep/internal/uapi"
)

// outgoing is one answer to a master: an error, a result with its data, or
// another frame.
type outgoing struct {
	client  uint64
	err     *uapi.Error
	result  *uapi.Result
	data    *spool
	kind    uapi.FrameType
	payload []byte
}

// An outbox sends frames to a master. One goroutine sends results, whose data may take
// long, and another one all else, between the frames of results. add never waits: a
// goroutine that reads from a master, or holds the hub's lock, must not wait for that
// master to read. The lock guards the lists.
type outbox struct {
	conn *session.Conn

	mu      sync.Mutex
	more    sync.Cond
	results []outgoing
	rest    []outgoing
	closed  bool
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

func newOutbox(conn *session.Conn) *outbox {
	o := &outbox{conn: conn}
	o.more.L = &o.mu
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel = cancel
	o.done.Add(2)
	go o.send(ctx, &o.results)
	go o.send(ctx, &o.rest)
	return o
}

func (o *outbox) add(v outgoing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		v.discard()
		return
	}
	if v.result != nil {
		o.results = append(o.results, v)
	} else {
		o.rest = append(o.rest, v)
	}
	o.more.Broadcast()
}

// countWaiting counts frames that are not being sent yet, because the master reads slowly.
func (o *outbox) countWaiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.results) + len(o.rest)
}

func (v *outgoing) discard() {
	if v.data != nil {
		v.data.put()
	}
}

// next waits for the first of list. It returns false if the outbox was closed.
func (o *outbox) next(list *[]outgoing) (outgoing, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(*list) == 0 && !o.closed {
		o.more.Wait()
	}
	if o.closed {
		return outgoing{}, false
	}
	v := (*list)[0]
	(*list)[0] = outgoing{}
	*list = (*list)[1:]
	return v, true
}

func (o *outbox) send(ctx context.Context, list *[]outgoing) {
	defer o.done.Done()
	for {
		v, ok := o.next(list)
		if !ok {
			return
		}
		err := v.send(ctx, o.conn)
		if err == nil && v.data != nil && v.data.name != "" {
			o.holdUntilTaken(ctx, v.data)
		} else {
			v.discard()
		}
		if err != nil {
			return // the session is over; its reader knows as well
		}
	}
}

// holdUntilTaken keeps a result that outlives the hub until the master has all of it.
func (o *outbox) holdUntilTaken(ctx context.Context, data *spool) {
	end := o.conn.DataEnd()
	o.done.Go(func() {
		defer data.put()
		o.conn.AwaitAck(ctx, end)
	})
}

func (v *outgoing) send(ctx context.Context, conn *session.Conn) error {
	switch {
	case v.err != nil:
		return conn.SendError(v.client, v.err)
	case v.result == nil:
		return conn.Send(v.kind, v.client, v.payload)
	}
	if err := conn.Send(uapi.TypeResult, v.client, uapi.Append(nil, *v.result)); err != nil {
		return err
	}
	err := conn.SendData(ctx, v.client, v.data.reader(ctx), v.data.want)
	if err != nil && conn.Ended() == nil && ctx.Err() == nil {
		return conn.SendError(v.client, uapi.Errorf(uapi.EInternal, "the result cannot be read back: %v", err))
	}
	return err
}

// close drops what was not sent. The session must be about to end, because only that wakes a
// sender that waits for the session's window.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.closed = true
	o.cancel()
	for _, list := range [][]outgoing{o.results, o.rest} {
		for i := range list {
			list[i].discard()
		}
	}
	o.results, o.rest = nil, nil
	o.more.Broadcast()
}
