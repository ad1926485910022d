// SPDX-License-Identifier: MIT

package part

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"skep/internal/load"
)

// await polls until it is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	limit, tick := time.After(load.Stretch(20*time.Second)), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-limit:
			t.Fatalf("%s: in vain", what)
		case <-tick.C:
		}
	}
}

// newHolder holds the console of a kernel that the test plays.
func newHolder(t *testing.T, id uint32, name string) (h *Holder, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "held")
	h, err := Hold(dir, id, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if h.ctx.Err() != nil {
			return // the test did
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, dir
}

// A shown is the output of a console.
type shown struct {
	mu   sync.Mutex
	text []byte
	full error // of a disk
}

func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.full != nil {
		return 0, s.full
	}
	s.text = append(s.text, p...)
	return len(p), nil
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}

// A view is a console that shows a Holder's output.
type view struct {
	t       *testing.T
	console *Console
	out     shown
	keys    *io.PipeWriter
	sizes   chan [2]uint16
	dropped uint64
	stop    context.CancelFunc
	over    chan struct{}
	end     *End
	err     error
}

func newView(t *testing.T, dir, word string) *view {
	t.Helper()
	c, err := FindConsole(dir, word)
	if err != nil || c == nil {
		t.Fatalf("%v, %v", c, err)
	}
	return attachView(t, c, nil)
}

func attachView(t *testing.T, c *Console, full error) *view {
	in, keys := io.Pipe()
	v := &view{t: t, console: c, keys: keys, sizes: make(chan [2]uint16), over: make(chan struct{})}
	v.out.full = full
	ctx, stop := context.WithCancel(t.Context())
	v.stop = stop
	go func() {
		defer close(v.over)
		v.end, v.err = c.Attach(ctx, Screen{Input: in, Output: &v.out, Sizes: v.sizes, Escapes: true, Dropped: func(n uint64) { v.dropped += n }})
		c.Close()
	}()
	t.Cleanup(func() { stop(); keys.Close(); <-v.over })
	return v
}

func (v *view) await(want string) {
	v.t.Helper()
	await(v.t, "the output "+want, func() bool { return strings.HasSuffix(v.out.String(), want) })
}

func (v *view) wait() {
	v.t.Helper()
	await(v.t, "the end of a console", func() bool {
		select {
		case <-v.over:
			return true
		default:
			return false
		}
	})
}

// awaitTyped reads as the kernel does.
func awaitTyped(t *testing.T, h *Holder, want string) {
	t.Helper()
	var got []byte
	await(t, "what was typed", func() bool {
		b := make([]byte, 1000)
		got = append(got, b[:h.Typed(b)]...)
		return len(got) >= len(want)
	})
	if string(got) != want {
		t.Fatalf("typed %q, want %q", got, want)
	}
}

func awaitFree(t *testing.T, h *Holder) {
	t.Helper()
	await(t, "a free console", func() bool { return !h.Attached() })
}

func (v *view) put(h *Holder, text string) {
	if n, err := h.Write([]byte(text)); n != len(text) || err != nil {
		v.t.Errorf("%d, %v", n, err)
	}
}

func TestHeldConsoleInBothDirections(t *testing.T) {
	h, dir := newHolder(t, 7, "seven")
	h.Write([]byte("before "))
	v := newView(t, dir, "seven")
	v.await("before ")
	v.put(h, "after")
	v.await("before after")
	io.WriteString(v.keys, "a line\r~~x")
	awaitTyped(t, h, "a line\r~x")
	v.sizes <- [2]uint16{50, 132}
	await(t, "the size", func() bool { rows, columns := h.Size(); return rows == 50 && columns == 132 })
	h.Finish(End{Code: 3, Note: "it ended"})
	h.Wait(t.Context()) // it was seen
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	v.wait()
	if v.err != nil || *v.end != (End{Code: 3, Note: "it ended"}) || v.out.String() != "before after" || v.dropped != 0 {
		t.Errorf("%v, %v, %q", v.end, v.err, v.out.String())
	}
}

// The end of input is what a user types: once behind a whole line.
func TestHeldConsoleHasAnEndOfInput(t *testing.T) {
	for typed, want := range map[string]string{"": "\x04", "a\n": "a\n\x04", "a\r": "a\r\x04", "ab": "ab\x04\x04"} {
		h, dir := newHolder(t, 1, "")
		v := newView(t, dir, "")
		io.WriteString(v.keys, typed)
		v.keys.Close()
		awaitTyped(t, h, want)
		s := NewStreams(t.Context(), strings.NewReader(typed), io.Discard)
		var got []byte
		await(t, "streams", func() bool {
			b := make([]byte, 1)
			got = append(got, b[:s.Typed(b)]...)
			return len(got) >= len(want)
		})
		if string(got) != want {
			t.Errorf("of streams: %q, want %q", got, want)
		}
	}
}

func TestUserLeavesAndComesBack(t *testing.T) {
	h, dir := newHolder(t, 1, "")
	v := newView(t, dir, "1")
	io.WriteString(v.keys, "x~.\n")
	awaitTyped(t, h, "x~.\n")
	io.WriteString(v.keys, "y\n~.z")
	awaitTyped(t, h, "y\n")
	v.wait()
	var left *LeftError
	if !errors.As(v.err, &left) || left.Untaken != 0 || v.end != nil {
		t.Fatalf("%v, %v", v.end, v.err)
	}
	awaitFree(t, h)
	h.Write([]byte("meanwhile"))
	again := newView(t, dir, "1")
	again.await("meanwhile")
}

// The second one is told who has it, and the first one does not notice.
func TestOneConsoleAtATime(t *testing.T) {
	h, dir := newHolder(t, 4, "")
	first := newView(t, dir, "")
	await(t, "a console", h.Attached)
	second := newView(t, dir, "")
	second.wait()
	if !isRefused(second.err, "shows the console of partition 4, and one at a time can") {
		t.Errorf("%v", second.err)
	}
	first.put(h, "still")
	first.await("still")
}

// Without a console the newest output stays; the next console hears how much is lost.
func TestFloodWithoutAConsole(t *testing.T) {
	h, dir := newHolder(t, 1, "")
	flood := bytes.Repeat([]byte("0123456789abcdef"), 3*mostBacklog/16)
	for rest := flood; len(rest) > 0; {
		n := min(len(rest), h.Room(), 30001)
		h.Write(rest[:n])
		rest = rest[n:]
	}
	h.Write([]byte("the end"))
	v := newView(t, dir, "")
	v.await("the end")
	if want := string(flood[len(flood)-mostBacklog+7:]) + "the end"; v.out.String() != want {
		t.Errorf("%d bytes, want %d", len(v.out.String()), len(want))
	}
	v.stop()
	v.wait()
	if v.dropped != 2*mostBacklog+7 {
		t.Errorf("%d bytes are lost", v.dropped)
	}
	awaitFree(t, h)
	again := newView(t, dir, "")
	again.put(h, "more")
	again.await("more")
	again.stop()
	again.wait()
	if again.dropped != 0 || again.out.String() != "more" {
		t.Errorf("again: %d bytes are lost, %q", again.dropped, again.out.String())
	}
}

// A console that cannot show its output, because of a full disk or its death, loses none.
func TestNextConsoleShowsWhatOneDidNot(t *testing.T) {
	h, dir := newHolder(t, 1, "")
	c, err := FindConsole(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	h.Write(make([]byte, mostBacklog+5))
	v := attachView(t, c, errors.New("no space left on device"))
	v.wait()
	if v.err == nil || v.err.Error() != "the output: no space left on device" {
		t.Errorf("%v", v.err)
	}
	awaitFree(t, h)
	h.Write([]byte("x"))
	next := newView(t, dir, "")
	next.await("x")
	next.stop()
	next.wait()
	if len(next.out.String()) != mostBacklog || next.dropped != 6 {
		t.Errorf("%d bytes, %d are lost", len(next.out.String()), next.dropped)
	}
}
