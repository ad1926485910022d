// SPDX-License-Identifier: MIT

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The ledger is one permanent stream. It is never deleted: deleting the last stream and
// creating another races inside the server (error 10049).
const (
	streamName    = "CALLS"
	streamSubject = "skep.v1.ledger."
	streamBytes   = 256 << 20 // beyond it the oldest entries are dropped
	streamAge     = 90 * 24 * time.Hour
	openWithin    = 15 * time.Second
	errStoreRace  = 10049
	errStorage    = 10047 // the disk has less free space than streamBytes
)

// An Entry is one change of the state of a call, or of an object.
type Entry struct {
	Time    time.Time `json:"time"`
	Session string    `json:"session,omitempty"`
	Call    uint64    `json:"call"`             // 0: it is about an object
	Object  uint64    `json:"object,omitempty"` // or whose method the call is; a number of its session
	Fence   uint64    `json:"fence,omitempty"`
	State   State     `json:"state"`
	Node    string    `json:"node,omitempty"`
	Name    string    `json:"name,omitempty"` // of the node; not stored, because it may change
	Text    string    `json:"text,omitempty"` // function, or cause of the failure
	User    string    `json:"user,omitempty"` // id of whose call it is; empty for the hub's own user

	Data    []string `json:"data,omitempty"`    // digests of stored data that are its arguments
	Kept    []string `json:"kept,omitempty"`    // Done: digests of data that its result left in the hub
	Fetched uint64   `json:"fetched,omitempty"` // Done: bytes of programs and data that its node fetched for it
	Near    uint64   `json:"near,omitempty"`    // Done: bytes of arguments and result between the hub and the agent in its process, without a connection
}

// A State of a call or an object.
type State string

// States that the ledger knows.
const (
	Queued   State = "queued"
	Leased   State = "leased"
	Requeued State = "requeued" // a lease was lost; Text says why
	Done     State = "done"
	Failed   State = "failed"

	Made  State = "made"  // an object; Text is its class
	Lost  State = "lost"  // an object; Text says why
	Ended State = "ended" // an object; Text is its class
)

type ledger struct {
	js     jetstream.JetStream
	stream jetstream.Stream
}

func (l *ledger) open(c *nats.Conn) error {
	js, err := jetstream.New(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openWithin)
	defer cancel()
	for {
		l.stream, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: streamName, Subjects: []string{streamSubject + "*"}, Storage: jetstream.FileStorage,
			Retention: jetstream.LimitsPolicy, MaxBytes: streamBytes, MaxAge: streamAge,
			Discard: jetstream.DiscardOld, DenyDelete: true,
		})
		if !hasCode(err, errStoreRace) {
			break
		}
	}
	l.js = js
	return explainOpen(err)
}

// hasCode reports whether the server answered with this error.
func hasCode(err error, code jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == code
}

// explainOpen adds what the hub's owner can do.
func explainOpen(err error) error {
	if hasCode(err, errStorage) {
		// The server uses three quarters of the free space.
		return fmt.Errorf("the hub's disk has too little room for its ledger: free %d MiB, or give another --state", streamBytes*4/3>>20+1)
	}
	if err != nil {
		return fmt.Errorf("the ledger cannot be opened: %w", err)
	}
	return nil
}

// Record adds entries and waits until all are stored (and, with Config.Sync, on
// the disk).
func (e *Engine) Record(ctx context.Context, entries ...Entry) error {
	acks := make([]jetstream.PubAckFuture, 0, len(entries))
	for _, v := range entries {
		switch v.State {
		case Queued, Leased, Requeued, Done, Failed, Made, Lost, Ended:
		default:
			return fmt.Errorf("%q is not a state of a call or an object", v.State)
		}
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		ack, err := e.ledger.js.PublishAsync(streamSubject+string(v.State), b)
		if err != nil {
			return fmt.Errorf("the ledger takes no entry: %w", err)
		}
		acks = append(acks, ack)
	}
	for _, ack := range acks {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return fmt.Errorf("the ledger lost an entry: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Entries returns the last n entries, the oldest of them first.
func (e *Engine) Entries(ctx context.Context, n int) ([]Entry, error) {
	info, err := e.ledger.stream.Info(ctx)
	if err != nil {
		return nil, err
	}
	first, last := info.State.FirstSeq, info.State.LastSeq
	if n <= 0 || info.State.Msgs == 0 {
		return nil, nil
	}
	if last-first >= uint64(n) {
		first = last - uint64(n) + 1
	}
	list := make([]Entry, 0, last-first+1)
	for seq := first; seq <= last; seq++ {
		m, err := e.ledger.stream.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // dropped meanwhile
		}
		if err != nil {
			return nil, err
		}
		var v Entry
		if err := json.Unmarshal(m.Data, &v); err != nil {
			return nil, fmt.Errorf("ledger entry %d cannot be read: %w", seq, err)
		}
		list = append(list, v)
	}
	return list, nil
}

const partEntries = 1000 // of one part of All

// All calls f with the entries that are stored now, the oldest first, in parts. Those that are
// recorded meanwhile may be missing.
func (e *Engine) All(ctx context.Context, f func([]Entry) error) error {
	info, err := e.ledger.stream.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return err
	}
	c, err := e.ledger.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return err
	}
	messages, err := c.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	list := make([]Entry, 0, partEntries)
	for last, seq := info.State.LastSeq, uint64(0); seq < last; {
		m, err := messages.Next(jetstream.NextMaxWait(openWithin))
		if err != nil {
			return fmt.Errorf("the ledger cannot be read: %w", err)
		}
		about, err := m.Metadata()
		if err != nil {
			return err
		}
		seq = about.Sequence.Stream
		var v Entry
		if err := json.Unmarshal(m.Data(), &v); err != nil {
			return fmt.Errorf("ledger entry %d cannot be read: %w", seq, err)
		}
		if list = append(list, v); len(list) == partEntries || seq >= last {
			if err := f(list); err != nil {
				return err
			}
			list = list[:0]
		}
	}
	return nil
}
