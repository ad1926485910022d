// SPDX-License-Identifier: MIT

package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/yamux"
)

func TestMessage_roundTrip(t *testing.T) {
	want := Request{Op: Run, Program: Program{Args: []string{"a", "b"}, Node: 2, User: true}, Terminal: &Size{24, 80}}
	var b bytes.Buffer
	if err := Write(&b, want); err != nil {
		t.Fatal(err)
	}
	var got Request
	if err := Read(&b, &got); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if b.Len() != 0 {
		t.Errorf("%d bytes of the stream behind the message were taken", b.Len())
	}
}

func makeMessage(n uint32, text string) io.Reader {
	return bytes.NewReader(append(binary.LittleEndian.AppendUint32(nil, n), text...))
}

func TestMessage_refused(t *testing.T) {
	for _, c := range []struct {
		name string
		r    io.Reader
		why  string
	}{
		{"too long", makeMessage(MessageMax+1, ""), "at most"},
		{"cut off", makeMessage(10, "{}"), "inside a message"},
		{"no JSON", makeMessage(2, "xx"), "not a message"},
		{"unknown field", makeMessage(8, `{"Oh":1}`), "not a message"},
		{"wrong type", makeMessage(8, `{"Op":1}`), "not a message"},
	} {
		if err := Read(c.r, new(Request)); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", c.name, err, c.why)
		}
	}
	if err := Write(io.Discard, strings.Repeat("x", MessageMax)); err == nil {
		t.Error("a message that is too long is written")
	}
}

func TestRequest_check(t *testing.T) {
	ok := Program{Args: []string{"true"}}
	for _, c := range []struct {
		r    Request
		good bool
	}{
		{Request{Op: Run, Program: ok}, true},
		{Request{Op: PowerOff}, true},
		{Request{Op: Reboot}, true},
		{Request{Op: Run, Program: ok, Terminal: &Size{1, 1}}, true},
		{Request{Op: Run, Program: ok, Terminal: &Size{1, 1}, Results: true}, false},
		{Request{Op: Run}, false},
		{Request{Op: Run, Program: Program{Args: []string{""}}}, false},
		{Request{Op: "burn"}, false},
		{Request{}, false},
	} {
		if err := c.r.Check(); (err == nil) != c.good {
			t.Errorf("%+v: %v", c.r, err)
		}
	}
}

func TestSize(t *testing.T) {
	want := Size{Rows: 50, Columns: 400}
	if got, err := ParseSize(want.Bytes()); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ParseSize([]byte{1, 2, 3}); err == nil {
		t.Error("three bytes are a size")
	}
}

func FuzzRead(f *testing.F) {
	for _, v := range []any{Request{Op: Run, Program: Program{Args: []string{"x"}}}, Hello{Release: "6.1", Nodes: []NUMA{{"0", 1}}}} {
		var b bytes.Buffer
		Write(&b, v)
		f.Add(b.Bytes())
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Request
		if Read(bytes.NewReader(b), &r) == nil && r.Check() == nil && r.Op == Run && len(r.Program.Args) == 0 {
			t.Error("a program without a name passes")
		}
		Read(bytes.NewReader(b), new(Hello))
	})
}

func makeFrame(kind byte, flags uint16, stream, length uint32, data string) []byte {
	b := []byte{0, kind}
	b = binary.BigEndian.AppendUint16(b, flags)
	b = binary.BigEndian.AppendUint32(b, stream)
	return append(binary.BigEndian.AppendUint32(b, length), data...)
}

type channel struct {
	io.Reader
	closed bool
}

func (c *channel) Write(b []byte) (int, error) { return len(b), nil }
func (c *channel) Close() error                { c.closed = true; return nil }

// slowly returns one byte per Read, because a frame may arrive in pieces of any size.
type slowly struct{ r io.Reader }

func (s slowly) Read(b []byte) (int, error) { return s.r.Read(b[:min(1, len(b))]) }

func TestGuard(t *testing.T) {
	syn := makeFrame(typeWindow, flagSYN, 2, 0, "")
	for _, c := range []struct {
		name string
		in   [][]byte
		why  string // expected error; empty: none
	}{
		{"a stream and its data", [][]byte{syn, makeFrame(typeData, 0, 2, 3, "abc"), makeFrame(typeWindow, 0, 2, 9, "")}, ""},
		{"the guest ends its stream", [][]byte{syn, makeFrame(typeWindow, 4, 2, 0, "")}, ""},
		{"a farewell", [][]byte{makeFrame(typeGoAway, 0, 0, 0, "")}, ""},
		{"two streams", [][]byte{syn, syn}, "second stream"},
		{"a ping", [][]byte{makeFrame(typePing, 1, 0, 7, "")}, "ping"},
		{"another version", [][]byte{{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, "version 1"},
		{"a type that is none", [][]byte{makeFrame(4, 0, 0, 0, "")}, "type 4"},
		{"data of a whole window", [][]byte{syn, makeFrame(typeData, 0, 2, 256<<10, strings.Repeat("x", 256<<10))}, ""},
		{"data beyond the window", [][]byte{syn, makeFrame(typeData, 0, 2, 256<<10+1, "")}, "bytes"},
	} {
		in := bytes.Join(c.in, nil)
		for _, r := range []io.Reader{bytes.NewReader(in), slowly{bytes.NewReader(in)}} {
			ch := &channel{Reader: r}
			got, err := io.ReadAll(Guard(ch))
			if c.why == "" && (err != nil || !bytes.Equal(got, in) || ch.closed) {
				t.Errorf("%s: %v after %d bytes, closed %v", c.name, err, len(got), ch.closed)
			}
			if c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why) || !ch.closed) {
				t.Errorf("%s: %v, closed %v, want %q", c.name, err, ch.closed, c.why)
			}
		}
	}
}

// The guard passes the frames of our guest program, whatever its streams carry.
func TestGuard_yamux(t *testing.T) {
	host, guest := net.Pipe()
	server, err := yamux.Server(guest, Yamux(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := yamux.Client(Guard(host), Yamux(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	sent := bytes.Repeat([]byte("0123456789"), 200<<10)
	go func() {
		if s, err := server.Open(); err == nil {
			Write(s, Hello{Release: "x"})
			s.Close()
		}
		for {
			s, err := server.Accept()
			if err != nil {
				return
			}
			s.Write(sent)
			s.Close()
		}
	}()
	first, err := client.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var h Hello
	if err := Read(first, &h); err != nil || h.Release != "x" {
		t.Fatalf("hello %+v, %v", h, err)
	}
	first.Close()
	for range 3 {
		s, err := client.Open()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(s)
		if err != nil || !bytes.Equal(got, sent) {
			t.Fatalf("%d of %d bytes, %v", len(got), len(sent), err)
		}
		s.Close()
	}
}

func FuzzGuard(f *testing.F) {
	f.Add(makeFrame(typeWindow, flagSYN, 2, 0, ""))
	f.Add(append(makeFrame(typeWindow, flagSYN, 2, 0, ""), makeFrame(typeData, 0, 2, 3, "abc")...))
	f.Add(makeFrame(typePing, 1, 0, 7, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		once, err := io.ReadAll(Guard(&channel{Reader: bytes.NewReader(b)}))
		pieces, err2 := io.ReadAll(Guard(&channel{Reader: slowly{bytes.NewReader(b)}}))
		if (err == nil) != (err2 == nil) || err == nil && !bytes.Equal(once, pieces) {
			t.Errorf("whole %v, in pieces %v", err, err2)
		}
		if err != nil && errors.Is(err, io.EOF) {
			t.Error("the end of the channel counts as an error")
		}
	})
}
