// SPDX-License-Identifier: MIT

package proto

import (
	"encoding/binary"
	"fmt"
	"io"
)

// An ExecType is the type of a frame of an exec stream.
type ExecType byte

// Frames of an exec stream. To the program: STDIN (empty: end of file) and SIGNAL (one
// byte). From the program: STDOUT, STDERR and at last EXIT (status, 4 bytes) or one of
// FAILED (it did not start), REFUSED (by a safety check) and GONE (the node was lost;
// sent by the hub), each with a sentence. RESIZE gives a program in a lab's guest the
// size of its terminal; nodes and hubs refuse it.
const (
	ExecStdin ExecType = iota + 1
	ExecSignal
	ExecStdout
	ExecStderr
	ExecExit
	ExecFailed
	ExecRefused
	ExecGone
	ExecResize
)

// ExecFrameMax bounds the payload of an exec frame.
const ExecFrameMax = 64 << 10

// WriteExec writes one frame in a single Write. Callers that share w must not write at the same time.
func WriteExec(w io.Writer, t ExecType, payload []byte) error {
	if len(payload) > ExecFrameMax {
		return fmt.Errorf("an exec frame of %d bytes, at most %d", len(payload), ExecFrameMax)
	}
	b := make([]byte, 5+len(payload))
	b[0] = byte(t)
	binary.LittleEndian.PutUint32(b[1:], uint32(len(payload)))
	copy(b[5:], payload)
	_, err := w.Write(b)
	return err
}

// ReadExec reads one frame into buf, which has ExecFrameMax bytes.
func ReadExec(r io.Reader, buf []byte) (ExecType, []byte, error) {
	var h [5]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	t, n := ExecType(h[0]), binary.LittleEndian.Uint32(h[1:])
	if t < ExecStdin || t > ExecResize || n > ExecFrameMax || int(n) > len(buf) {
		return 0, nil, fmt.Errorf("an exec frame of type %d with %d bytes", t, n)
	}
	if _, err := io.ReadFull(r, buf[:n]); err != nil {
		return 0, nil, fmt.Errorf("the exec stream ended inside a frame: %w", err)
	}
	return t, buf[:n], nil
}
