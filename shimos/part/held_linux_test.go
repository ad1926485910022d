// SPDX-License-Identifier: MIT

package part

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
)

// An attached console that reads slowly makes the kernel wait instead of losing anything.
func TestSlowConsoleIsWaitedFor(t *testing.T) {
	h, dir := newHolder(t, 1, "")
	c, err := FindConsole(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := writeFrame(c.conn, frameAttach, nil); err != nil {
		t.Fatal(err)
	}
	await(t, "a console", h.Attached)
	total := 0
	for h.Room() > 0 {
		n, _ := h.Write(make([]byte, min(h.Room(), 1000)))
		total += n
	}
	if total != mostBacklog {
		t.Errorf("%d bytes were taken", total)
	}
	sent := 0
	for sent < mostUnread { // and no more
		kind, data, err := readFrame(c.conn)
		if err != nil || kind != frameData && kind != frameTaken {
			t.Fatalf("%c, %v", kind, err)
		}
		if kind == frameData {
			sent += len(data)
		}
	}
	if err := writeFrame(c.conn, frameTaken, numberBytes(1000)); err != nil {
		t.Fatal(err)
	}
	await(t, "room", func() bool { return h.Room() == 1000 })
	if kind, data, err := readFrame(c.conn); kind != frameData || len(data) != 1000 || err != nil {
		t.Errorf("%c, %d, %v", kind, len(data), err)
	}
	c.Close()
	awaitFree(t, h)
	if h.Room() != mostBacklog {
		t.Error("without a console it waits")
	}
}

// The kernel takes no input: what is typed waits, within bounds, and ~. still leaves.
func TestInputThatTheKernelDoesNotTake(t *testing.T) {
	h, dir := newHolder(t, 1, "")
	v := newView(t, dir, "")
	line := strings.Repeat("x", 999) + "\n"
	for range 100 {
		io.WriteString(v.keys, line)
	}
	io.WriteString(v.keys, "~.")
	v.wait()
	var left *LeftError
	if !errors.As(v.err, &left) || left.Untaken != 100*1000-mostUnread {
		t.Fatalf("%+v, %v", left, v.err)
	}
	awaitFree(t, h)
	if len(h.typed) != mostUnread {
		t.Errorf("%d bytes were typed", len(h.typed))
	}
	again := newView(t, dir, "")
	io.WriteString(again.keys, "en")
	io.WriteString(again.keys, "d\n")
	again.sizes <- [2]uint16{1, 2}
	await(t, "the size", func() bool { rows, _ := h.Size(); return rows == 1 })
	if len(h.typed) != mostUnread {
		t.Errorf("%d bytes wait for the kernel", len(h.typed))
	}
	awaitTyped(t, h, strings.Repeat(line, 100)[:mostUnread]+"end\n")
}

// Whoever does what no console does is no console any more.
func TestWildConsoles(t *testing.T) {
	h, dir := newHolder(t, 1, "")
	h.Write([]byte("text"))
	for what, frame := range map[string]struct {
		kind byte
		data string
	}{
		"too much input":             {frameData, strings.Repeat("x", mostFrame)},
		"an unknown kind":            {'?', ""},
		"more than it may":           {frameTaken, string(numberBytes(1 << 40))},
		"nothing shown":              {frameTaken, string(numberBytes(0))},
		"a short number":             {frameTaken, "x"},
		"no size":                    {frameSize, "x"},
		"no data":                    {frameData, ""},
		"an end that it cannot know": {frameSeen, ""},
		"attached twice":             {frameAttach, ""},
	} {
		c, err := FindConsole(dir, "")
		if err != nil || c == nil {
			t.Fatal(err)
		}
		writeFrame(c.conn, frameAttach, nil)
		if len(frame.data) > 8 { // this much may be typed
			writeFrame(c.conn, frameData, make([]byte, mostFrame))
			writeFrame(c.conn, frameData, make([]byte, mostFrame))
		}
		writeFrame(c.conn, frame.kind, []byte(frame.data)) // the holder may be faster
		if _, err := io.Copy(io.Discard, c.conn); err != nil && !errors.Is(err, net.ErrClosed) {
			var reset *net.OpError
			if !errors.As(err, &reset) {
				t.Errorf("%s: %v", what, err)
			}
		}
		c.Close()
		awaitFree(t, h)
	}
	v := newView(t, dir, "")
	v.await("text")
}

func TestConsolesAreFound(t *testing.T) {
	h, dir := newHolder(t, 10, "ten")
	if c, err := FindConsole(dir, "none"); c != nil || err != nil {
		t.Errorf("%v, %v", c, err)
	}
	two, err := Hold(dir, 2, "two")
	if err != nil {
		t.Fatal(err)
	}
	for word, id := range map[string]uint32{"10": 10, "ten": 10, "2": 2, "two": 2} {
		c, err := FindConsole(dir, word)
		if err != nil || c.ID != id {
			t.Fatalf("%s: %v, %v", word, c, err)
		}
		c.Close()
	}
	if c, err := FindConsole(dir, ""); c != nil || !isRefused(err, "there are kernels on partitions 2, 10: say whose console") {
		t.Errorf("%v, %v", c, err)
	}
	if _, err := Hold(dir, 2, ""); !isRefused(err, "nobody has read how the last kernel on partition 2 ended: 'skep part console 2' shows it") {
		t.Errorf("%v", err)
	}
	// as after a SIGKILL, which leaves the socket
	two.socket.l.Close()
	if c, err := FindConsole(dir, ""); err != nil || c.ID != 10 {
		t.Errorf("%v, %v", c, err)
	} else {
		c.Close()
	}
	var killed *KilledError
	two.socket.l, _ = net.ListenUnix("unix", &net.UnixAddr{Name: two.socket.path, Net: "unix"})
	two.socket.l.SetUnlinkOnClose(false)
	two.socket.l.Close()
	if c, err := FindConsole(dir, "2"); c != nil || !errors.As(err, &killed) || killed.ID != 2 {
		t.Errorf("%v, %v", c, err)
	}
	if c, err := FindConsole(dir, "2"); c != nil || err != nil {
		t.Errorf("it is told twice: %v, %v", c, err)
	}
	again, err := Hold(dir, 2, "")
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	two.cancel()
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 || h.Held().Name != "ten" {
		t.Errorf("the folder is %v, %v", info, err)
	}
}

// The console hears of a holder that is killed.
func TestKilledHolder(t *testing.T) {
	h, dir := newHolder(t, 6, "")
	v := newView(t, dir, "")
	await(t, "a console", h.Attached)
	h.socket.l.Close()
	h.cancel() // closes the connection
	v.wait()
	var killed *KilledError
	if !errors.As(v.err, &killed) || killed.ID != 6 || v.end != nil {
		t.Errorf("%v, %v", v.end, v.err)
	}
}

// All output comes before the end, also what is more than a console may have at once.
func TestEndIsSeenOnce(t *testing.T) {
	h, dir := newHolder(t, 1, "")
	text := bytes.Repeat([]byte("x"), mostBacklog)
	h.Write(text)
	h.Finish(End{Code: 1, Text: "it panicked"})
	ended, end := context.WithCancel(t.Context())
	end()
	h.Wait(ended) // returns
	v := newView(t, dir, "")
	h.Wait(t.Context())
	if c, err := FindConsole(dir, "1"); err != nil || c == nil {
		t.Errorf("it is gone before it is closed: %v", err)
	} else {
		c.Close()
	}
	h.Close()
	v.wait()
	if c, err := FindConsole(dir, "1"); c != nil || err != nil {
		t.Errorf("%v, %v", c, err)
	}
	if v.err != nil || *v.end != (End{Code: 1, Text: "it panicked"}) || v.out.String() != string(text) {
		t.Errorf("%v, %v, %d bytes", v.end, v.err, len(v.out.String()))
	}
}

func TestEscapes(t *testing.T) {
	for _, c := range []struct {
		in, want string
		leaves   bool
	}{
		{"~.", "", true}, {"a~.", "a~.", false}, {"a\n~.b", "a\n", true}, {"a\r~.", "a\r", true},
		{"~~.", "~.", false}, {"~a", "~a", false}, {"~\n~.", "~\n", true}, {"~a~.", "~a~.", false}, {"~~~.", "~~.", false},
	} {
		for cut := range len(c.in) + 1 {
			var e escapes
			got, leaves := e.filter([]byte(c.in[:cut]))
			if !leaves {
				var more []byte
				more, leaves = e.filter([]byte(c.in[cut:]))
				got = append(got, more...)
			}
			if string(got) != c.want || leaves != c.leaves {
				t.Errorf("%q cut at %d: %q, %v", c.in, cut, got, leaves)
			}
		}
	}
}

// Any frames of a console, with any output before.
func FuzzHolder(f *testing.F) {
	f.Add([]byte("t\x08\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00d\x02\x00\x00\x00hi"), uint16(100))
	f.Add([]byte("s\x04\x00\x00\x00\x01\x00\x02\x00f\x00\x00\x00\x00k\x00\x00\x00\x00"), uint16(0))
	f.Fuzz(func(t *testing.T, frames []byte, output uint16) {
		h := &Holder{last: '\n'}
		h.changed = sync.NewCond(&h.mu)
		h.Write(make([]byte, output))
		s := &session{}
		if err := h.attach(s); err != nil {
			t.Fatal(err)
		}
		typed := 0
		for r := bytes.NewReader(frames); ; {
			for kind, _ := h.next(s); kind != 0; kind, _ = h.next(s) {
			}
			kind, data, err := readFrame(r)
			if err != nil || h.handle(s, kind, data) != nil {
				break
			}
			if kind == frameData {
				typed += len(data)
			}
		}
		if typed > mostUnread || len(h.typed) > 2*mostUnread+2 || s.sent > len(h.backlog.bytes) || s.sent > mostUnread || h.seen {
			t.Errorf("typed %d, %d, sent %d of %d, %v", typed, len(h.typed), s.sent, len(h.backlog.bytes), h.seen)
		}
	})
}
