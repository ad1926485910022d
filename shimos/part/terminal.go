// SPDX-License-Identifier: MIT

package part

import (
	"context"
	"io"
)

// A Terminal is the other end of a kernel's console. One goroutine calls it.
type Terminal interface {
	Room() int                    // how many bytes of output it wants; at the kernel's end it gets all
	Write(p []byte) (int, error)  // output
	Typed(p []byte) int           // moves input to p, if there is any
	Size() (rows, columns uint16) // 0: not known
}

// endOfInput is what is typed at the end of input, as by a user: Ctrl-D ends a line that is
// not complete, and then the input.
func endOfInput(last byte) []byte {
	const end = 4
	if last == '\n' || last == '\r' {
		return []byte{end}
	}
	return []byte{end, end}
}

// Streams are a Terminal of this process.
type Streams struct {
	Output io.Writer
	Window func() (rows, columns uint16) // nil: there is none
	typed  <-chan []byte
	rest   []byte
}

// NewStreams returns a Terminal that reads input as the kernel takes it; a nil one is empty.
// A read that waits outlives ctx.
func NewStreams(ctx context.Context, input io.Reader, output io.Writer) *Streams {
	return &Streams{Output: output, typed: readInput(ctx, input)}
}

// Room is a Terminal's.
func (s *Streams) Room() int { return mostBacklog }

// Write is a Terminal's.
func (s *Streams) Write(p []byte) (int, error) { return s.Output.Write(p) }

// Size is a Terminal's.
func (s *Streams) Size() (rows, columns uint16) {
	if s.Window == nil {
		return 0, 0
	}
	return s.Window()
}

// Typed is a Terminal's.
func (s *Streams) Typed(p []byte) int {
	if len(s.rest) == 0 {
		select {
		case s.rest = <-s.typed:
		default:
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n
}

// readInput returns what is typed, in pieces, and its end.
func readInput(ctx context.Context, input io.Reader) <-chan []byte {
	typed := make(chan []byte)
	if input == nil {
		return typed
	}
	send := func(b []byte) bool {
		select {
		case typed <- b:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		for last := byte('\n'); ; {
			b := make([]byte, 512)
			n, err := input.Read(b)
			if n > 0 {
				last = b[n-1]
				if !send(b[:n]) {
					return
				}
			}
			if err != nil {
				send(endOfInput(last))
				return
			}
		}
	}()
	return typed
}

// escapes finds what is meant for the command and not for the kernel, as ssh does: ~. at
// the beginning of a line leaves the console, and ~~ is ~.
type escapes struct{ tilde, inLine bool }

// filter returns what is for the kernel, and whether the user leaves; nothing behind that
// counts.
func (e *escapes) filter(p []byte) (out []byte, leaves bool) {
	for _, b := range p {
		switch {
		case e.tilde && b == '.':
			return out, true
		case e.tilde:
			e.tilde, e.inLine = false, true
			if b != '~' {
				out = append(out, '~')
			}
		case !e.inLine && b == '~':
			e.tilde = true
			continue
		}
		out = append(out, b)
		e.inLine = b != '\r' && b != '\n'
	}
	return out, false
}
