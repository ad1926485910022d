// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"skep/grid/policy"
	"skep/grid/proto"
)

// What the hub does not give ends a call or a program with a sentence that says what it was,
// and the node continues.
func TestWhatTheHubDoesNotGive(t *testing.T) {
	t.Parallel()
	logged := make(chan string, 100)
	r := newRig(t, beeOrNone(t), 1)
	r.config.Log = func(format string, args ...any) { logged <- fmt.Sprintf(format, args...) }
	r.fake.argErr = errors.New("they are gone")
	r.mustFail(r.start(fnEcho, make([]byte, proto.InlineMax+1)), proto.ReasonTransfer, "the arguments did not arrive: the hub did not give them: they are gone")
	if n := r.countWorkers(); n != 0 {
		t.Errorf("%d workers are left", n)
	}
	r.fake.argErr, r.fake.lost = nil, errors.New("it is gone")
	r.mustFail(r.start(fnEcho, nil), proto.ReasonTransfer, "a blob that the call needs was not received: it is gone")
	if got := r.execute([]byte("x"), ""); got.failed != "the program was not received: it is gone" {
		t.Errorf("%+v", got)
	}
	r.fake.lost = nil
	none := strings.Repeat("0", 64) // the system's words about it differ
	if got := r.execAndWait(proto.Exec{ID: "2", Program: none}, ""); !strings.Contains(got.failed, none) {
		t.Errorf("%+v", got)
	}
	r.fake.cut = errors.New("the cable is cut")
	if err := r.handleMessage(t.Context(), proto.VerbExec, encodeMessage(t, proto.Exec{ID: "3", Name: "sh"})); err != nil {
		t.Fatal(err)
	}
	want := "exec 3 of sh: its streams cannot be opened: the cable is cut"
	for got := ""; got != want; {
		select {
		case got = <-logged:
		case <-time.After(testTimeout):
			t.Fatalf("the log does not say %q", want)
		}
	}
	r.fake.cut = nil
	l := r.makeLease(fnEcho, nil)
	l.Digest = strings.Repeat("0", 64)
	r.mustFail(r.send(l), proto.ReasonTransfer, "")
	if got, _ := r.mustSucceed(r.start(fnEcho, []byte("on"))); string(got) != "on" {
		t.Errorf("%q", got)
	}
}

// A state directory is used by one agent, which needs it and says so.
func TestStateDirectories(t *testing.T) {
	dir, bee := tempDir(t), beeOrNone(t)
	first, err := newAgent(Config{State: dir, Bee: bee})
	if err != nil {
		t.Fatal(err)
	}
	_, err = newAgent(Config{State: dir, Bee: bee})
	checkText(t, "a second agent", err, "another agent uses "+dir+": stop it, or give this one another --state")
	first.unlock()
	_, err = newAgent(Config{Bee: bee})
	checkText(t, "no directory", err, "the agent needs a state directory: give --state DIR")
	_, err = newAgent(Config{State: dir, Bee: dir})
	checkText(t, "a folder as bee", err, dir+" is missing: workers run under bee only, put it beside skep")
	_, err = newAgent(Config{State: dir, Bee: dir + "/bee"})
	checkText(t, "no bee", err, "is missing: workers run under bee only")
	for _, name := range []string{"work", "logs"} {
		damaged := tempDir(t)
		if err := os.WriteFile(filepath.Join(damaged, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if a, err := newAgent(Config{State: damaged, Bee: bee}); err == nil {
			a.unlock()
			t.Errorf("a file is used as the folder %s", name)
		}
	}
	for _, name := range []string{"work/tmp/w1", "reports/r1"} { // of an agent that was killed
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	again, err := newAgent(Config{State: dir, Bee: bee})
	if err != nil {
		t.Fatal(err)
	}
	again.unlock()
	for _, name := range []string{"work/tmp/w1", "reports/r1"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is left", name)
		}
	}
}

// Run refuses a node that did not join, and Join what is no token.
func TestNodesWithoutAHub(t *testing.T) {
	dir := tempDir(t)
	if err := Run(t.Context(), Config{State: dir, Bee: beeOrNone(t)}); err == nil || !strings.Contains(err.Error(), "join") {
		t.Errorf("a node that did not join: %v", err)
	}
	if err := Run(t.Context(), Config{}); err == nil {
		t.Error("a node without a directory runs")
	}
	if err := Join(t.Context(), Config{State: dir}, "127.0.0.1:1", "no token"); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("what is no token: %v", err)
	}
}

// A node that left says so, and one that was stopped does not.
func TestEndsOfANode(t *testing.T) {
	for cause, want := range map[error]error{ErrLeft: ErrLeft, errors.New("stopped"): nil} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if got := leftError(ctx); got != want {
			t.Errorf("%v: %v", cause, got)
		}
	}
}

// The owner looks at the machine as soon as the node starts, until it ends. A state that
// cannot be written down is logged, and what is permitted holds all the same.
func TestOwnerOfANode(t *testing.T) {
	p, err := policy.Parse([]byte("use 1 slot"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	text := ""
	dir := tempDir(t)
	a, err := newAgent(Config{State: dir, Slots: 3, Bee: beeOrNone(t), Policy: p, PolicyName: "mine", Log: func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		text += fmt.Sprintf(format, args...) + "\n"
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.unlock()
	if err := os.Mkdir(filepath.Join(dir, OwnerFile), 0o700); err != nil {
		t.Fatal(err)
	}
	stop := a.startOwner(t.Context())
	waitUntil(t, "a first look", func() bool { free, _ := a.pool.snapshot(); return free == 1 })
	stop()
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(text, "the owner's policy permits 1 of 3 slots") || !strings.Contains(text, "what the owner's policy permits cannot be written down: ") {
		t.Error(text)
	}
}

// A program that starts while it is paused is stopped at once.
func TestOwnerPausesWhatStarts(t *testing.T) {
	p, err := policy.Parse([]byte("use none"))
	if err != nil {
		t.Fatal(err)
	}
	a, _ := newIdleAgent(t)
	a.config.Slots = 1
	o := newOwner(a, "none", p)
	now := time.Now()
	o.machine.Step(now, &policy.Facts{Time: now})
	var orders []bool
	q := &process{stop: func(on bool) { orders = append(orders, on) }}
	held := o.begin(true, nil)
	if !held.paused {
		t.Fatal("nothing is permitted, and a program runs")
	}
	held.attach(q)
	if q.paused.since.IsZero() {
		t.Error("its process is not stopped")
	}
	first := q.pausedFor()
	waitUntil(t, "a longer pause", func() bool { return q.pausedFor() > first })
	since := q.paused.since
	q.setPaused(true)
	if q.paused.since != since {
		t.Error("a second order began the pause anew")
	}
	if o.beatText() == "" || !o.governs() {
		t.Errorf("%q, governs a program: %v", o.beatText(), o.governs())
	}
	held.end()
	if !q.paused.since.IsZero() || o.governs() || !slices.Equal(orders, []bool{true, false}) {
		t.Errorf("a program that ended is paused; orders %v", orders)
	}
}

// A time limit counts the time in which the program ran. The clock is synctest's.
func TestWallTimerSkipsPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{stop: func(bool) {}, done: make(chan struct{})}
		late, never := p.wallTimer(10*time.Second), p.wallTimer(0)
		isLate := func(after time.Duration) bool {
			<-time.After(after)
			synctest.Wait()
			select {
			case <-never:
				t.Error("no limit was exceeded")
			case <-late:
				return true
			default:
			}
			return false
		}
		if isLate(4 * time.Second) {
			t.Error("late after 4 s of 10")
		}
		p.setPaused(true)
		if isLate(time.Hour) || p.pausedFor() != time.Hour || !p.isPaused() {
			t.Errorf("late in a pause of %v", p.pausedFor())
		}
		p.setPaused(false)
		if isLate(5*time.Second) || p.pausedFor() != time.Hour || p.isPaused() {
			t.Errorf("late after 9 s of 10, paused for %v", p.pausedFor())
		}
		if !isLate(1010 * time.Millisecond) {
			t.Error("not late after 10 s of 10")
		}
		ended := p.wallTimer(time.Minute)
		close(p.done)
		<-time.After(time.Hour)
		select {
		case <-ended:
			t.Error("a program that had ended exceeded its limit")
		default:
		}
	})
}
