// SPDX-License-Identifier: MIT

package hub

import (
	"errors"

	"skep/grid/session"
)

var errTransferCancelled = errors.New("the master took the transfer back")

// incoming is a transfer from the master: arguments, or data of a module's
// Initialize. Data of a call that has already ended is dropped.
type incoming struct {
	to   *spool // nil: the bytes are dropped
	left uint64
	done func() // the last byte arrived
	fail func(error)
}

// handleData takes a part of a transfer.
func (m *master) handleData(f *session.Frame) error {
	in := m.incoming[f.Call]
	n := uint64(len(f.Payload))
	switch {
	case in == nil:
		return protocolError("DATA for call %d, which expects none", f.Call)
	case n > in.left, f.Last() && n != in.left:
		return protocolError("call %d has %d bytes to come and got %d", f.Call, in.left, n)
	}
	in.left -= n
	if in.to != nil {
		_, err := in.to.Write(f.Payload)
		if err == nil && f.Last() {
			err = in.to.finish()
		}
		if err != nil {
			in.fail(err)
			in.discard(err)
		}
	}
	if f.Last() {
		delete(m.incoming, f.Call)
		if in.to != nil {
			in.done()
			in.discard(nil)
		}
	}
	return nil
}

// discard releases a transfer's bytes; later bytes are dropped.
func (in *incoming) discard(err error) {
	if in.to == nil {
		return
	}
	if err != nil {
		in.to.abort(err)
	}
	in.to.put()
	in.to = nil
}
