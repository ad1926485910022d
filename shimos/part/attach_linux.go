// SPDX-License-Identifier: MIT

package part

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// A LeftError says that the user left a console by ~.
type LeftError struct{ Untaken int } // bytes that were typed before, and are lost

func (e *LeftError) Error() string { return "the console was left" }

// A Screen is where a console is shown.
type Screen struct {
	Input   io.Reader
	Output  io.Writer
	Sizes   <-chan [2]uint16   // rows and columns; nil: it is no terminal
	Escapes bool               // ~. leaves
	Dropped func(bytes uint64) // that are lost before what comes next
}

// typedPiece is what a read of the input gave.
type typedPiece struct {
	bytes         []byte
	leaves, ended bool
}

// A viewer is the state of one Attach. lock guards writes to the connection.
type viewer struct {
	c       *Console
	screen  Screen
	lock    sync.Mutex
	credit  chan uint64
	over    chan error // how reading ended
	end     *End
	pending []byte
	window  uint64
	ended   bool // the input
	told    bool // the holder, of that
}

// Attach shows the console until its kernel ends, the user leaves (LeftError) or ctx ends.
// A read of the input that waits outlives it.
func (c *Console) Attach(ctx context.Context, s Screen) (*End, error) {
	v := &viewer{c: c, screen: s, credit: make(chan uint64), over: make(chan error, 1)}
	if err := v.write(frameAttach, nil); err != nil {
		return nil, &KilledError{c.ID}
	}
	both, stop := context.WithCancel(ctx)
	defer stop()
	go func() { v.over <- v.receive(both) }()
	return v.run(ctx, readPieces(both, s.Input, s.Escapes))
}

func (v *viewer) write(kind byte, data []byte) error {
	v.lock.Lock()
	defer v.lock.Unlock()
	return writeFrame(v.c.conn, kind, data)
}

// run handles what happens here. It reads no more input than the holder takes soon.
func (v *viewer) run(ctx context.Context, typed <-chan typedPiece) (*End, error) {
	for {
		pieces := typed
		if len(v.pending) > mostUnread || v.ended {
			pieces = nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case err := <-v.over:
			return v.end, err
		case n := <-v.credit:
			v.window += n
		case size := <-v.screen.Sizes:
			b := binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(nil, size[0]), size[1])
			v.write(frameSize, b) // whoever reads sees that the holder is gone
		case p := <-pieces:
			v.pending, v.ended = append(v.pending, p.bytes...), p.ended
			if p.leaves {
				v.flush()
				return nil, &LeftError{len(v.pending)}
			}
		}
		v.flush()
	}
}

// flush sends what was typed, as far as it is taken.
func (v *viewer) flush() {
	for len(v.pending) > 0 && v.window > 0 {
		n := min(len(v.pending), int(min(v.window, mostFrame)))
		v.write(frameData, v.pending[:n])
		v.pending, v.window = v.pending[n:], v.window-uint64(n)
	}
	if v.ended && len(v.pending) == 0 && !v.told {
		v.told = true
		v.write(frameFinished, nil)
	}
}

// receive shows what comes, until the end.
func (v *viewer) receive(ctx context.Context) error {
	for {
		kind, data, err := readFrame(v.c.conn)
		switch {
		case errors.Is(err, errFrame):
			return err
		case err != nil:
			return &KilledError{v.c.ID}
		case kind == frameEnd:
			v.end = new(End)
			if json.Unmarshal(data, v.end) != nil {
				return errFrame
			}
			v.write(frameSeen, nil)
			io.Copy(io.Discard, v.c.conn) // until nobody finds the console any more
			return nil
		}
		if err := v.handle(ctx, kind, data); err != nil {
			return err
		}
	}
}

func (v *viewer) handle(ctx context.Context, kind byte, data []byte) error {
	switch kind {
	case frameRefused:
		return &RefusedError{string(data)}
	case frameData:
		if _, err := v.screen.Output.Write(data); err != nil {
			return fmt.Errorf("the output: %w", err)
		}
		v.write(frameTaken, numberBytes(uint64(len(data)))) // if it fails, there may be an end to read
		return nil
	case frameDropped:
		n, err := numberOf(data)
		if err == nil {
			v.screen.Dropped(n)
		}
		return err
	case frameTaken:
		n, err := numberOf(data)
		if err != nil {
			return err
		}
		select {
		case v.credit <- n:
		case <-ctx.Done():
		}
		return nil
	}
	return errFrame
}

// readPieces reads input until its end, or until the user leaves.
func readPieces(ctx context.Context, input io.Reader, escaped bool) <-chan typedPiece {
	pieces := make(chan typedPiece)
	go func() {
		var e escapes
		for {
			var p typedPiece
			b := make([]byte, 512)
			n, err := input.Read(b)
			p.bytes, p.ended = b[:n], err != nil
			if escaped {
				p.bytes, p.leaves = e.filter(p.bytes)
			}
			select {
			case pieces <- p:
			case <-ctx.Done():
				return
			}
			if p.leaves || p.ended {
				return
			}
		}
	}()
	return pieces
}
