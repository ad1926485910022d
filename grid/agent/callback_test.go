// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

func backPayload(param uint32, number uint64, text string) []byte {
	return append(uapi.Append(nil, uapi.Callback{Param: param, Length: uint32(len(text)), Number: number}), text...)
}

// backWorker returns a worker that has sent these frames, what the agent sends it, and its end.
func backWorker(h *fakeHub, frames ...[]byte) (*worker, *bytes.Buffer, chan struct{}) {
	out, ended := &bytes.Buffer{}, make(chan struct{})
	w := &worker{agent: &Agent{hub: h}, wire: wireOf(frames...), process: &process{done: ended}}
	w.wire.rw = struct {
		io.Reader
		io.Writer
		io.Closer
	}{nil, out, io.NopCloser(nil)}
	return w, out, ended
}

func callbackFrame(call, number uint64, text string) []byte {
	return makeFrame(uapi.TypeCallback, call, 0, backPayload(1, number, text))
}

// Callbacks go to the hub one after another, and their answers to the worker, until its result.
func TestCallbacksOfAWorker(t *testing.T) {
	var asked []string
	h := &fakeHub{master: func(_ context.Context, b []byte) ([]byte, error) {
		asked = append(asked, string(b[16:]))
		copy(b[16:], bytes.ToUpper(b[16:]))
		return b, nil
	}}
	w, out, _ := backWorker(h, callbackFrame(7, 1, "one"), callbackFrame(7, 2, "two"),
		makeFrame(uapi.TypeResult, 7, 0, uapi.Append(nil, uapi.Result{})))
	if _, err := w.run(t.Context(), &proto.Lease{Call: 7, Callbacks: true}, strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	if strings.Join(asked, " ") != "one two" {
		t.Errorf("%q", asked)
	}
	want := append(makeFrame(uapi.TypeReturn, 7, 0, backPayload(1, 1, "ONE")), makeFrame(uapi.TypeReturn, 7, 0, backPayload(1, 2, "TWO"))...)
	if !bytes.HasSuffix(out.Bytes(), want) {
		t.Errorf("the worker got %q", out)
	}
}

// What a worker must not do ends its call; so does a hub that answers something else.
func TestWrongCallbacksOfAWorker(t *testing.T) {
	echo := func(_ context.Context, b []byte) ([]byte, error) { return b, nil }
	for name, c := range map[string]struct {
		frame    []byte
		may      bool
		answer   func(context.Context, []byte) ([]byte, error)
		want     string
		reported proto.Reason
	}{
		"a function without": {callbackFrame(7, 1, ""), false, echo, "where RESULT was due", ""},
		"another call":       {callbackFrame(8, 1, ""), true, echo, "of another call", ""},
		"no head":            {makeFrame(uapi.TypeCallback, 7, 0, []byte("x")), true, echo, "too few", ""},
		"a number too far":   {callbackFrame(7, 2, ""), true, echo, "the number 2 where 1 was due", proto.ReasonError},
		"a wrong number back": {callbackFrame(7, 1, ""), true, func(context.Context, []byte) ([]byte, error) { return backPayload(1, 2, ""), nil },
			"answered another callback", proto.ReasonError},
		"a wrong function back": {callbackFrame(7, 1, ""), true, func(context.Context, []byte) ([]byte, error) { return backPayload(2, 1, ""), nil },
			"answered another callback", proto.ReasonError},
		"no answer": {callbackFrame(7, 1, ""), true, func(context.Context, []byte) ([]byte, error) { return []byte("x"), nil },
			"cannot be read", proto.ReasonError},
		"a refusal": {callbackFrame(7, 1, ""), true, func(context.Context, []byte) ([]byte, error) {
			return nil, &proto.Problem{Code: proto.ProblemCallback, Text: "out of its turn"}
		}, "out of its turn", proto.ReasonError},
	} {
		w, _, _ := backWorker(&fakeHub{master: c.answer}, c.frame)
		_, err := w.run(t.Context(), &proto.Lease{Call: 7, Callbacks: c.may}, strings.NewReader(""))
		checkText(t, name, err, c.want)
		var f *failure
		if errors.As(err, &f) != (c.reported != "") || f != nil && f.reason != c.reported {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An agent repeats its question, the same bytes, until it has an answer: its connection broke,
// or another hub does not know the lease yet.
func TestCallbackIsRepeated(t *testing.T) {
	var asked []string
	h := &fakeHub{master: func(_ context.Context, b []byte) ([]byte, error) {
		asked = append(asked, string(b))
		switch len(asked) {
		case 1:
			return nil, errors.New("the connection broke")
		case 2:
			return nil, &proto.Problem{Code: proto.ProblemFence, Text: "not known"}
		}
		return b, nil
	}}
	w, out, _ := backWorker(h)
	payload := backPayload(1, 1, "x")
	if err := w.passCallback(t.Context(), &proto.Lease{Call: 7}, 1, payload); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 3 || asked[0] != string(payload) || asked[1] != asked[0] || asked[2] != asked[0] {
		t.Errorf("%q", asked)
	}
	if !bytes.HasSuffix(out.Bytes(), payload) {
		t.Errorf("%q", out)
	}
}

// A worker that dies while it waits, and a lease that is cancelled, end the question. The time in
// the master is measured, and the worker's silence does not count.
func TestCallbackEnds(t *testing.T) {
	for _, dies := range []bool{true, false} {
		asks := make(chan struct{})
		h := &fakeHub{master: func(ctx context.Context, _ []byte) ([]byte, error) {
			close(asks)
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		w, _, ended := backWorker(h)
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		go func() { over <- w.passCallback(ctx, &proto.Lease{Call: 7}, 1, backPayload(1, 1, "")) }()
		<-asks
		waitUntil(t, "the time in the master", func() bool { return w.called.read() > 0 })
		if w.wire.idle.Load() != 1 {
			t.Error("the worker's silence counts")
		}
		if dies {
			close(ended)
		} else {
			cancel()
		}
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		was := w.called.read()
		if was <= 0 || w.called.read() != was || w.wire.idle.Load() != 0 {
			t.Errorf("%v, then %v", was, w.called.read())
		}
		cancel()
	}
}

func TestStopwatch(t *testing.T) {
	s := stopwatch{total: time.Hour}
	s.start()
	s.since = s.since.Add(-time.Minute)
	if d := s.read(); d < time.Hour+time.Minute {
		t.Error(d)
	}
	s.stop()
	if d := s.read(); d < time.Hour+time.Minute || d > 2*time.Hour {
		t.Error(d)
	}
}
