// SPDX-License-Identifier: MIT

package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// The longest message, and one byte more, on both sides.
func TestMessagesAtTheirBound(t *testing.T) {
	for n, ok := range map[int]bool{MessageMax: true, MessageMax + 1: false} {
		text := strings.Repeat("x", n-2) // quotes are two more
		var b bytes.Buffer
		err := Write(&b, text)
		if (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "pass fewer or shorter arguments") {
			t.Errorf("writing %d bytes: %v", n, err)
		}
		if !ok {
			b.Reset()
			b.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
			fmt.Fprintf(&b, "%q", text)
		}
		var got string
		if err := Read(&b, &got); (err == nil) != ok || ok && got != text || err != nil && !strings.Contains(err.Error(), "at most 1048576") {
			t.Errorf("reading %d bytes: %v", n, err)
		}
	}
	for text, want := range map[string]error{"": io.EOF, "\x01": io.ErrUnexpectedEOF, "\x05\x00\x00\x00\"ab\"": io.EOF} {
		var got string
		if err := Read(strings.NewReader(text), &got); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	if err := Write(io.Discard, func() {}); err == nil {
		t.Error("a function is a message")
	}
}

func TestPayloadsOfFailures(t *testing.T) {
	for status, err := range map[int]error{StatusCannot: errors.New("no"), StatusMissing: fmt.Errorf("no: %w", os.ErrNotExist)} {
		if got, reason, failed := ParseFailure(Failure(err)); got != status || reason != err.Error() || failed != nil {
			t.Errorf("%v: %d, %q, %v", err, got, reason, failed)
		}
	}
	for _, bad := range []string{"", "\x7dno", "\x80no", "\x00"} {
		if _, _, err := ParseFailure([]byte(bad)); err == nil {
			t.Errorf("%q is a failure", bad)
		}
	}
	for n := range 6 {
		if size, err := ParseSize(make([]byte, n)); (err == nil) != (n == 4) || size != (Size{}) {
			t.Errorf("%d bytes: %v, %v", n, size, err)
		}
	}
	if size, err := ParseSize(Size{24, 80}.Bytes()); err != nil || size != (Size{24, 80}) {
		t.Errorf("%v, %v", size, err)
	}
}

// frameOf is the header of one frame of yamux.
func frameOf(version, kind byte, flags uint16, length uint32) []byte {
	b := append([]byte{version, kind}, binary.BigEndian.AppendUint16(nil, flags)...)
	b = binary.BigEndian.AppendUint32(b, 1)
	return binary.BigEndian.AppendUint32(b, length)
}

// Frames at the bounds of what our guest sends, in pieces of each length.
func TestFramesAtTheirBounds(t *testing.T) {
	data := make([]byte, windowBytes)
	for name, c := range map[string]struct {
		frames []byte
		why    string
	}{
		"a full window":              {append(append(frameOf(0, typeData, 0, windowBytes), data...), frameOf(0, typeWindow, 0, 1)...), ""},
		"more than a window":         {frameOf(0, typeData, 0, windowBytes+1), "a frame of 262145 bytes"},
		"any number in an update":    {frameOf(0, typeWindow, 0, 1<<32-1), ""},
		"a ping":                     {frameOf(0, typePing, 0, 0), "a ping"},
		"the end":                    {frameOf(0, typeGoAway, 0, 0), ""},
		"an unknown type":            {frameOf(0, typeGoAway+1, 0, 0), "version 0 and type 4"},
		"another version":            {frameOf(1, typeData, 0, 0), "version 1 and type 0"},
		"one stream":                 {append(frameOf(0, typeWindow, flagSYN, 0), frameOf(0, typeWindow, 2, 0)...), ""},
		"two streams":                {append(frameOf(0, typeWindow, flagSYN, 0), frameOf(0, typeData, flagSYN|4, 0)...), "a second stream"},
		"data that looks like pings": {append(frameOf(0, typeData, 0, frameSize), frameOf(0, typePing, 0, 0)...), ""},
		"a ping behind data":         {append(append(frameOf(0, typeData, 0, 3), 1, 1, 1), frameOf(0, typePing, 0, 0)...), "a ping"},
	} {
		for _, piece := range []int{1, 5, frameSize, frameSize + 1, len(c.frames)} {
			g := &guard{}
			var err error
			for at := 0; at < len(c.frames) && err == nil; at += piece {
				err = g.checkBytes(c.frames[at:min(at+piece, len(c.frames))])
			}
			if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s in pieces of %d: %v, want %q", name, piece, err, c.why)
			}
		}
	}
}
