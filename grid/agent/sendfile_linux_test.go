// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"skep/internal/uapi"
)

// filed is a source whose bytes from `at` on are in a file, or in a reader where there is none.
type filed struct {
	io.Reader
	file *os.File
	at   int64
	let  int
	err  error
}

func (f *filed) NextFile(n int64) (*os.File, int64, func(), error) {
	at := f.at
	f.at += n
	return f.file, at, func() { f.let++ }, f.err
}

func fileOf(t *testing.T, b []byte) *os.File {
	t.Helper()
	name := t.TempDir() + "/file"
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// Arguments of a file and of a reader arrive as the same frames, over a socket that has not
// room for one of them and over other writers.
func TestDataOfAFile(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789abcde"), 50000)
	for name, from := range map[string]*filed{
		"a file":   {file: fileOf(t, append([]byte("xyz"), data...)), at: 3},
		"a reader": {Reader: bytes.NewReader(data)},
	} {
		ours, theirs, err := socketPair("test", unix.SOCK_STREAM)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := ours.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 1) })
		sent := make(chan error, 1)
		go func() { sent <- newWire(ours).sendData(7, from, uint64(len(data))) }()
		in, read := newWire(theirs), []byte(nil)
		for last := false; !last; {
			f, err := in.readFrame(nil)
			if err != nil || f.Type != uapi.TypeData || f.Call != 7 {
				t.Fatalf("%s: %+v, %v", name, f.Frame, err)
			}
			read, last = append(read, f.payload...), f.Flags&uapi.FlagLast != 0
		}
		if err = <-sent; err != nil || !bytes.Equal(read, data) {
			t.Errorf("%s: %d bytes, %v", name, len(read), err)
		}
		if from.file != nil && from.let != (len(data)+dataPart-1)/dataPart {
			t.Errorf("%s: it was let go of %d times", name, from.let)
		}
		ours.Close()
		theirs.Close()
	}
	var b bytes.Buffer
	if err := sendFile(&b, fileOf(t, data), 15, 30); err != nil || b.String() != "0123456789abcde0123456789abcde" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

// A file that is too short is an error, as is a source that fails.
func TestDataOfAFileFails(t *testing.T) {
	ours, theirs, err := socketPair("test", unix.SOCK_STREAM)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	defer ours.Close()
	if err := newWire(ours).sendData(7, &filed{file: fileOf(t, []byte("short"))}, 6); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	gone := errors.New("gone")
	var source *sourceError
	if err := newWire(ours).sendData(7, &filed{err: gone}, 6); !errors.As(err, &source) || !errors.Is(err, gone) {
		t.Error(err)
	}
}

// A frame is one write, so that it wakes the worker once.
func TestFrameIsOneWrite(t *testing.T) {
	s := &counting{}
	w := newWire(s)
	if err := w.write(uapi.Frame{Type: uapi.TypeCall}, []byte("payload")); err != nil || s.writes != 1 {
		t.Errorf("%d writes, %v", s.writes, err)
	}
	if err := w.sendData(7, bytes.NewReader([]byte("data")), 4); err != nil || s.writes != 2 {
		t.Errorf("%d writes, %v", s.writes, err)
	}
}

type counting struct {
	stream
	writes int
}

func (c *counting) Write(b []byte) (int, error) {
	c.writes++
	return len(b), nil
}
