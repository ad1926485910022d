// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// Only an answer of the hub that means success counts as such.
func TestAnswersOfTheHub(t *testing.T) {
	for _, c := range []struct {
		status, want int
		good         bool
	}{
		{200, 200, true}, {204, 200, true}, {299, 200, true}, {201, 201, true},
		{300, 200, false}, {404, 200, false}, {500, 200, false}, {100, 200, false}, {200, 206, false}, {204, 206, false},
	} {
		resp := &http.Response{StatusCode: c.status, Status: fmt.Sprint(c.status), Body: io.NopCloser(strings.NewReader("x"))}
		if err := checkResponse(resp, c.want); (err == nil) != c.good {
			t.Errorf("%d where %d is wanted: %v", c.status, c.want, err)
		}
	}
}

// Incomplete or damaged arguments are refused.
func TestArgumentsAreChecked(t *testing.T) {
	const text = "arguments"
	sum := sha256.Sum256([]byte(text))
	good := hex.EncodeToString(sum[:])
	for _, c := range []struct {
		name, body, digest, wrong string
	}{
		{"whole", text, good, ""},
		{"damaged", "Arguments", good, "damaged on the way"},
		{"of another digest", text, strings.Repeat("0", 64), "damaged on the way"},
		{"without a digest", text, "", "damaged on the way"},
		{"longer", text + "x", good, "length differs"},
		{"cut", text[1:], good, "unexpected EOF"},
	} {
		resp := &http.Response{Body: io.NopCloser(strings.NewReader(c.body)), Trailer: http.Header{}}
		resp.Trailer.Set(proto.TrailerDigest, c.digest)
		got, err := io.ReadAll(&checked{resp: resp, sum: sha256.New(), left: uint64(len(text))})
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) || err == nil && string(got) != text {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

// Omitted lines are counted once. If no line was omitted, no message says so.
func TestLinesThatAreLeftOut(t *testing.T) {
	for _, n := range []int{0, 1, 5} {
		var said []string
		l := &lines{say: func(text string) { said = append(said, text) }, dropped: n}
		l.reportDropped()
		l.reportDropped()
		if n == 0 && len(said) != 0 || n > 0 && (len(said) != 1 || !strings.HasPrefix(said[0], fmt.Sprintf("(%d lines", n))) {
			t.Errorf("%d lines: %q", n, said)
		}
	}
}

// When a worker has ended, its output is on disk and the files are closed.
func TestKeptFilesAreClosed(t *testing.T) {
	k, err := newKeeper(tempDir(t), "s")
	if err != nil {
		t.Fatal(err)
	}
	k.add("hello")
	head := k.head
	k.close()
	if _, err := head.WriteString("x"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("its file is open: %v", err)
	}
	if parts, _ := filepath.Glob(k.base + "*"); len(parts) != 1 {
		t.Errorf("kept are %q", parts)
	}
}

// A stream is the worker's side of a stream, with contents written before.
type stream struct {
	io.Reader
	closed bool
}

func (s *stream) Write(b []byte) (int, error) { return len(b), nil }
func (s *stream) Close() error                { s.closed = true; return nil }

// A new stream does not count as silent. A closed stream is closed at both ends.
func TestStreamOfAWorker(t *testing.T) {
	s := &stream{Reader: strings.NewReader("")}
	w := newWire(s)
	if silent := w.silentFor(); silent > time.Hour {
		t.Errorf("a new stream was silent for %v", silent)
	}
	gone := errors.New("gone")
	w.close(gone)
	if err := w.write(uapi.Frame{Type: uapi.TypeCall}, []byte("x")); !s.closed || !errors.Is(err, gone) {
		t.Errorf("closed %v, a call: %v", s.closed, err)
	}
}

// No other frame may come between the parts of a result.
func TestOtherFrameInsideAResultIsRefused(t *testing.T) {
	for name, f := range map[string]uapi.Frame{
		"another frame": {Type: uapi.TypeResult, Call: 7},
		"another call":  {Type: uapi.TypeData, Call: 8, Flags: uapi.FlagLast, Length: 1},
	} {
		var b bytes.Buffer
		out := newWire(struct {
			io.Reader
			io.Writer
			io.Closer
		}{strings.NewReader(""), &b, io.NopCloser(nil)})
		if err := out.write(f, bytes.Repeat([]byte("x"), int(f.Length))); err != nil {
			t.Fatal(err)
		}
		a := &answer{worker: &worker{wire: newWire(&stream{Reader: &b})}, call: 7, digest: sha256.New(), left: 1}
		if got, err := io.ReadAll(a); err == nil || !strings.Contains(err.Error(), "inside a result") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// startClient starts a call with a large result that has a number of its master.
func (r *rig) startClient(client uint64) uint64 {
	r.t.Helper()
	l := r.makeLease(fnEcho, make([]byte, proto.InlineMax+1))
	l.Client = client
	return r.send(l)
}

// A result that cannot be sent twice waits while there is no connection to the hub, and its end is
// kept for the hub.
func TestLargeResultWaitsForTheHub(t *testing.T) {
	t.Parallel()
	r := newRig(t, beeProgram(t), 1)
	r.fake.gone = true
	r.setLinked(false)
	call := r.startClient(1)
	waitUntil(t, "a result that waits", func() bool {
		r.fake.mu.Lock()
		_, failed := r.fake.failed[call]
		r.fake.mu.Unlock()
		r.pool.mu.Lock()
		defer r.pool.mu.Unlock()
		for w := range r.pool.all {
			failed = failed || w.called.runs()
		}
		return failed
	})
	r.fake.mu.Lock()
	r.fake.gone = false
	r.fake.mu.Unlock()
	r.setLinked(true)
	r.mustSucceed(call)
	if list := r.listCarried(); len(list) != 1 || list[0].Call != call {
		t.Errorf("%+v", list)
	}
	r.setLinked(false) // a call that is cancelled does not wait
	call = r.startClient(2)
	waitUntil(t, "a lease", func() bool { return len(r.listCarried()) == 2 })
	for _, l := range r.listCarried() {
		r.Agent.cancel(l.Fence)
	}
	r.mustFail(call, proto.ReasonCancelled, "cancelled")
}

// If the hub refuses a result, the call ends with the hub's message.
func TestRefusedResult(t *testing.T) {
	t.Parallel()
	r := newRig(t, beeProgram(t), 1)
	r.fake.refuses = errors.New("the hub is full")
	r.mustFail(r.start(fnEcho, make([]byte, proto.InlineMax+1)), proto.ReasonTransfer, "the result could not be sent: the hub is full")
	if got, _ := r.mustSucceed(r.start(fnEcho, []byte("on"))); string(got) != "on" {
		t.Errorf("%q", got)
	}
}

// A call's wall time is checked often, even if a worker may be silent for long.
func TestTimeOfACallWithPatience(t *testing.T) {
	t.Parallel()
	r := newRig(t, beeProgram(t), 1)
	r.Agent.muteLimit = 24 * time.Hour
	l := r.makeLease(fnSilent, nil)
	l.Limits.Wall = 0.2
	r.mustFail(r.send(l), proto.ReasonLimit, "ask for more with --wall-time")
}

// An error becomes the failure that it contains, a cancellation, or a fault of this node.
func TestErrorsAsFailures(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx    context.Context
		err    error
		reason proto.Reason
		text   string
	}{
		{t.Context(), io.ErrUnexpectedEOF, proto.ReasonTransfer, "unexpected EOF"},
		{ended, io.ErrUnexpectedEOF, proto.ReasonCancelled, "the call was cancelled"},
		{ended, fmt.Errorf("it: %w", failf(proto.ReasonNode, 1, "own")), proto.ReasonNode, "own"},
	} {
		if f := asFailure(c.ctx, c.err); f.reason != c.reason || f.text != c.text {
			t.Errorf("%v: %s, %s", c.err, f.reason, f.text)
		}
	}
}

// By default the cache holds 8 GiB.
func TestSizeOfCache(t *testing.T) {
	for given, want := range map[uint64]int64{0: 8 << 30, 1: 1, 5 << 40: 5 << 40, math.MaxUint64: math.MaxInt64} {
		c := Config{Cache: given}
		if got := c.cacheLimit(); got != want {
			t.Errorf("%d: %d", given, got)
		}
	}
}
