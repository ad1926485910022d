// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skep/grid/proto"
	"skep/internal/uapi"
)

// A worker that failed has one reason: what ended it goes before how it ended.
func TestReasonsOfAFailedWorker(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	memory := &excess{proto.LimitMemory, 2 << 20, 1 << 20}
	broken := errors.New("the stream broke")
	for _, c := range []struct {
		name   string
		ctx    context.Context
		err    error
		bee    beeLoader
		change func(w *worker)
		want   string
		status int
	}{
		{"its own", t.Context(), failf(proto.ReasonError, 1, "own"), "", nil, "error: own", 0},
		{"the arguments", ended, &sourceError{broken}, "", nil, "transfer: the arguments did not arrive: the stream broke", 0},
		{"a cancelled call", ended, broken, "", func(w *worker) { w.deaf.Store(true) }, "cancelled: the call was cancelled", 0},
		{"a limit of this process", t.Context(), broken, "", func(w *worker) { w.over.Store(memory); w.mute.Store(1) }, "limit: it exceeded its limit: it used 2 MiB of memory", 0},
		{"a limit of the guard", t.Context(), broken, "", func(w *worker) { w.process.exit.Over = memory }, "limit: it exceeded its limit: it used 2 MiB of memory", 0},
		{"deaf", t.Context(), broken, "", func(w *worker) { w.mute.Store(int64(time.Minute)); w.deaf.Store(true) }, "mute: the worker read nothing for 1m0s and was killed", 0},
		{"mute", t.Context(), broken, "", func(w *worker) { w.mute.Store(int64(time.Minute)) }, "mute: the worker sent nothing for 1m0s and was killed", 0},
		{"a lie", t.Context(), broken, "", func(w *worker) { w.flushed = make(chan struct{}) }, "died: the worker was killed: the stream broke", 0},
		{"its end", t.Context(), broken, "", func(w *worker) { w.process.exit.Code = 3 }, "died: the worker died: it ended with exit status 3", 3},
		{"a signal", t.Context(), broken, "", func(w *worker) { w.process.exit.Signal = 11 }, "died: the worker died: it was ended by signal 11 (SIGSEGV)", 139},
		{"a guest's signal", t.Context(), broken, "bee", func(w *worker) { w.process.exit.Code = 139 }, "died: the worker died: it was ended by signal 11 (SIGSEGV)", 139},
		{"bee's refusal", t.Context(), broken, "bee", func(w *worker) {
			w.process.exit.Code = beeRefused
			io.WriteString(w.output, "bee: it is not a program\n")
		}, "died: bee: it is not a program", beeRefused},
		{"bee's refusal without a word", t.Context(), broken, "bee", func(w *worker) { w.process.exit.Code = beeRefused }, "died: the worker died: it ended with exit status", beeRefused},
	} {
		synctest.Test(t, func(t *testing.T) {
			a, _ := newIdleAgent(t)
			a.bee = c.bee
			w := &worker{agent: a, process: &process{}, output: newLines(func(string) {}), flushed: make(chan struct{})}
			close(w.flushed)
			if c.change != nil {
				c.change(w)
			}
			kills := 0
			w.process.kill = func() {
				kills++
				select {
				case <-w.flushed:
				default:
					close(w.flushed)
				}
			}
			began := time.Now()
			f := asFailure(t.Context(), w.failureReason(c.ctx, c.err))
			got := fmt.Sprintf("%s: %s", f.reason, f.text)
			if !strings.HasPrefix(got, c.want) || f.status != c.status || kills != 1 {
				t.Errorf("%s: %q, status %d, killed %d times; want %q", c.name, got, f.status, kills, c.want)
			}
			if waited := time.Since(began); waited != 0 && c.name != "a lie" || waited > 2*time.Second {
				t.Errorf("%s: waited %v", c.name, waited)
			}
		})
	}
}

// A result that was not sent is the hub's fault while the worker lives and the call is wanted.
func TestReasonsOfAResultThatWasNotSent(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	why := errors.New("refused")
	a, _ := newIdleAgent(t)
	lives := &worker{process: &process{done: make(chan struct{})}}
	died := &worker{process: &process{done: make(chan struct{})}}
	close(died.process.done)
	if err := a.resultError(t.Context(), died, why); err != why {
		t.Errorf("of a worker that died: %v", err)
	}
	if err := a.resultError(ended, lives, why); err != why {
		t.Errorf("of a cancelled call: %v", err)
	}
	var f *failure
	if err := a.resultError(t.Context(), lives, why); !errors.As(err, &f) || f.reason != proto.ReasonTransfer || f.text != "the result could not be sent: refused" {
		t.Errorf("of the hub: %v", err)
	}
}

// An error of a worker counts only if all arguments were sent; else the worker has not read them.
func TestErrorBeforeAllArguments(t *testing.T) {
	broken := errors.New("the stream broke")
	sent := make(chan error, 1)
	sent <- broken
	if err := (&worker{}).handleError(nil, sent); err != broken {
		t.Errorf("%v", err)
	}
	if got := (&sourceError{broken}).Error(); got != "the stream broke" {
		t.Error(got)
	}
}

// Silence counts from the last byte, and only while this side waits for the worker.
func TestSilenceOfAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWire(&stream{Reader: strings.NewReader("")})
		expect := func(when string, silent, unread time.Duration) {
			t.Helper()
			if w.silentFor() != silent || w.unreadFor() != unread {
				t.Errorf("%s: silent for %v, has not read for %v", when, w.silentFor(), w.unreadFor())
			}
		}
		<-time.After(time.Minute)
		w.stuck.Store(uptime())
		<-time.After(time.Second)
		expect("a silent worker", 61*time.Second, time.Second)
		w.restartSilence()
		expect("after a pause", 0, 0)
		<-time.After(time.Second)
		expect("after the pause", time.Second, time.Second)
		w.stuck.Store(0)
		w.restartSilence()
		<-time.After(time.Second)
		expect("a worker that reads", time.Second, 0)
		w.pauseSilence(func() {
			<-time.After(time.Minute)
			expect("this side is slow", 0, 0)
			<-time.After(time.Minute)
		})
		expect("this side was slow", 0, 0)
		<-time.After(time.Second)
		expect("and is so no more", time.Second, 0)
		if err := w.write(uapi.Frame{Type: uapi.TypeCall}, nil); err != nil {
			t.Fatal(err)
		}
		expect("something was sent", 0, 0)
	})
}

// A worker is killed when it is silent, reads nothing or runs for too long, and when its call is
// cancelled. A pause counts for none of these.
func TestWatchOfAWorker(t *testing.T) {
	const limit, wall = time.Minute, time.Hour
	for name, c := range map[string]struct {
		wall   time.Duration
		run    func(w *worker, cancel func())
		killed time.Duration // after its start, 0: never
		deaf   bool
		over   bool
	}{
		"it is silent":         {wall, func(*worker, func()) {}, limit, false, false},
		"it reads nothing":     {wall, func(w *worker, _ func()) { w.wire.idle.Store(1); w.wire.stuck.Store(uptime()) }, limit, true, false},
		"it runs long":         {wall, func(w *worker, _ func()) { w.wire.idle.Store(1) }, wall, false, true},
		"it may run long":      {0, func(w *worker, _ func()) { w.wire.idle.Store(1) }, 0, false, false},
		"its call is no more":  {wall, func(_ *worker, cancel func()) { <-time.After(time.Second); cancel() }, time.Second, false, false},
		"it was paused":        {wall, func(w *worker, _ func()) { pauseFor(w, 2*limit) }, 3 * limit, false, false},
		"it was paused, reads": {wall, func(w *worker, _ func()) { w.wire.idle.Store(1); pauseFor(w, wall) }, 2 * wall, false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{wire: newWire(&stream{Reader: strings.NewReader("")})}
			ctx, cancel := context.WithCancel(t.Context())
			began, killed := time.Now(), time.Duration(0)
			w.process = &process{stop: func(bool) {}, kill: func() { killed = time.Since(began) }}
			stop := w.watchLimits(ctx, limit, c.wall)
			c.run(w, cancel)
			<-time.After(4 * time.Hour)
			stop()
			cancel()
			over := w.over.Load()
			if c.killed == 0 && killed != 0 || killed < c.killed || killed > c.killed+2*limit/16+c.killed/8 {
				t.Errorf("%s: killed after %v, want %v", name, killed, c.killed)
			}
			if w.deaf.Load() != c.deaf || (over != nil) != c.over || over != nil && (over.Allowed != wall.Seconds() || over.Used < wall.Seconds()) {
				t.Errorf("%s: deaf %v, %+v", name, w.deaf.Load(), over)
			}
			if silent := time.Duration(w.mute.Load()); silent != 0 && silent != limit || (silent != 0) != (c.killed != 0 && !c.over && c.killed != time.Second) {
				t.Errorf("%s: mute for %v", name, silent)
			}
		})
	}
}

func pauseFor(w *worker, d time.Duration) {
	w.process.setPaused(true)
	<-time.After(d)
	w.process.setPaused(false)
}
