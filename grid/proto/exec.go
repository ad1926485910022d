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

	// Of movable programs only (Exec.Movable). From the hub:
	ExecBegin   // start the program
	ExecRestore // start it from an image: its digest, in hex
	ExecFreeze  // save it: ExecSave
	ExecResume  // a program that is held goes on: ExecSave
	// From the node:
	ExecReady   // it can take the program: ExecCPU
	ExecStarted // the program runs
	ExecTaken   // how much input the program's pipe has taken since it began: 8 bytes
	ExecFrozen  // all output until then was sent: ExecSave
	ExecImage   // the next bytes of the image; from the hub: of the one that RESTORE will name, perhaps
	ExecSaved   // the image is complete: ExecImageEnd
	ExecUnsaved // it is not saved and goes on: ExecWhy
	ExecLeave   // the owner of the node needs it: the program is to be moved
	ExecFits    // the target has the same files; from the hub, to the source: it does. With Exec.Fits only
	execEnd
)

// ExecCPU says what a program may see of a node's CPU; only bee reads it.
type ExecCPU struct {
	CPU   string `json:"cpu"`
	Early bool   `json:"early,omitempty"` // it takes IMAGE before RESTORE
	Fits  bool   `json:"fits,omitempty"`  // it knows FITS
}

// ExecSave names one of the times that a program is saved.
type ExecSave struct {
	Serial int  `json:"serial"`
	Hold   bool `json:"hold,omitempty"`  // it does not go on before Resume
	Await  bool `json:"await,omitempty"` // it does not stop before FITS
}

// ExecImageEnd follows the bytes of an image.
type ExecImageEnd struct {
	Serial int    `json:"serial"`
	Digest string `json:"digest"` // SHA-256 of the image, hex
	Bytes  int64  `json:"bytes"`
	Input  uint64 `json:"input"`    // bytes of input that the program had read
	Pause  int64  `json:"pause_ns"` // it stood still, up to now if it is held

	Account ExecAccount `json:"account,omitzero"`
}

// An ExecAccount says where the time went in which a program stood still, and how much it was for.
// The hub adds the last two times of a move.
type ExecAccount struct {
	Early  uint64 `json:"early_bytes"` // of bee's part, written before
	Frozen uint64 `json:"frozen_bytes"`
	Pages  uint64 `json:"frozen_pages"` // whose contents were read
	Rest   int64  `json:"rest_ns"`      // until all threads stood still
	Save   int64  `json:"save_ns"`      // until bee had written
	Used   int64  `json:"used_ns"`      // bee's processor time of both
	Pack   int64  `json:"pack_ns"`      // files, and what output was on its way
	Store  int64  `json:"store_ns"`     // the last bytes, until the hub had them
	Start  int64  `json:"start_ns"`     // until it ran at the target
}

// ExecWhy says why a program was not saved.
type ExecWhy struct {
	Serial int    `json:"serial"`
	Text   string `json:"text"`
}

// ExecWindow is how many bytes of input a hub sends before a node has taken them.
const ExecWindow = 1 << 20

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
	if t < ExecStdin || t >= execEnd || n > ExecFrameMax || int(n) > len(buf) {
		return 0, nil, fmt.Errorf("an exec frame of type %d with %d bytes", t, n)
	}
	if _, err := io.ReadFull(r, buf[:n]); err != nil {
		return 0, nil, fmt.Errorf("the exec stream ended inside a frame: %w", err)
	}
	return t, buf[:n], nil
}
