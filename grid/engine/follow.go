// SPDX-License-Identifier: MIT

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// headerCopy has the number that an entry has in the ledger from which it was copied.
const headerCopy = "Skep-Copy"

const followPoll = time.Second

// Follow calls f with the entries after number after, and with those that are recorded later,
// until ctx ends or f returns an error. last is the number of the last entry in list.
func (e *Engine) Follow(ctx context.Context, after uint64, f func(last uint64, list []Entry) error) error {
	c, err := e.ledger.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1})
	if err != nil {
		return err
	}
	messages, err := c.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	var list []Entry
	for {
		m, err := messages.Next(jetstream.NextMaxWait(followPoll))
		if errors.Is(err, nats.ErrTimeout) {
			continue
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("the ledger cannot be followed: %w", err)
		}
		about, err := m.Metadata()
		if err != nil {
			return err
		}
		var v Entry
		if err := json.Unmarshal(m.Data(), &v); err != nil {
			return fmt.Errorf("ledger entry %d cannot be read: %w", about.Sequence.Stream, err)
		}
		if list = append(list, v); len(list) == partEntries || about.NumPending == 0 {
			if err := f(about.Sequence.Stream, list); err != nil {
				return err
			}
			list = nil
		}
	}
}

// RecordCopy stores entries of another ledger, of which the last one has this number there, and
// waits until they are stored. An entry that is here already is not stored again.
func (e *Engine) RecordCopy(ctx context.Context, last uint64, list []Entry) error {
	have, err := e.LastCopy(ctx)
	if err != nil {
		return err
	}
	for i, v := range list {
		number := last - uint64(len(list)-1-i)
		if number <= have {
			continue
		}
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		m := nats.NewMsg(streamSubject + string(v.State))
		m.Data = b
		m.Header.Set(headerCopy, strconv.FormatUint(number, 10))
		if _, err := e.ledger.js.PublishMsg(ctx, m); err != nil {
			return fmt.Errorf("the ledger takes no entry: %w", err)
		}
	}
	return nil
}

// LastCopy is the number of the last entry of RecordCopy, or 0.
func (e *Engine) LastCopy(ctx context.Context) (uint64, error) {
	info, err := e.ledger.stream.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return 0, err
	}
	m, err := e.ledger.stream.GetMsg(ctx, info.State.LastSeq)
	if err != nil {
		return 0, err
	}
	n, _ := strconv.ParseUint(m.Header.Get(headerCopy), 10, 64)
	return n, nil
}
