// SPDX-License-Identifier: MIT

package part

import (
	"encoding/binary"
	"errors"
	"io"
)

// Between the process that holds a kernel's console and the command that shows it: frames
// of a kind, a length and that many bytes. Each side sends at most mostUnread bytes of data
// that the other one has not confirmed.
const (
	frameInfo     = 'i' // to the command, first: a Held
	frameAttach   = 'a' // to the holder: this command shows the console now
	frameRefused  = 'r' // to the command: why not
	frameDropped  = 'l' // to the command, before data: a number of bytes that are lost
	frameData     = 'd' // both: output, and what is typed
	frameTaken    = 't' // both: a number of bytes of data that are confirmed
	frameSize     = 's' // to the holder: rows and columns of the terminal
	frameFinished = 'f' // to the holder: the input's end
	frameEnd      = 'e' // to the command, after all data: an End
	frameSeen     = 'k' // to the holder: the user knows of the end

	frameHead   = 5
	mostFrame   = 32 << 10
	mostUnread  = 64 << 10
	heldVersion = 1
)

var errFrame = errors.New("the other side of the console sent what no skep of this version sends")

// writeFrame sends one frame at once.
func writeFrame(w io.Writer, kind byte, data []byte) error {
	b := make([]byte, frameHead, frameHead+len(data))
	b[0] = kind
	binary.LittleEndian.PutUint32(b[1:], uint32(len(data)))
	_, err := w.Write(append(b, data...))
	return err
}

func readFrame(r io.Reader) (kind byte, data []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[1:])
	if n > mostFrame {
		return 0, nil, errFrame
	}
	data = make([]byte, n)
	_, err = io.ReadFull(r, data)
	return head[0], data, err
}

// numberOf returns the number in a frame.
func numberOf(data []byte) (uint64, error) {
	if len(data) != 8 {
		return 0, errFrame
	}
	return binary.LittleEndian.Uint64(data), nil
}

func numberBytes(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }
