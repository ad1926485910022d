// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"skep/grid/proto"
	"skep/grid/sched"
	"skep/grid/session"
	"skep/internal/uapi"
)

// A reader that is too slow misses events, and the next one that it gets says how many.
func TestSlowReaderLearnsWhatItMissed(t *testing.T) {
	w := newWorld(t, nil)
	slow, stop := w.hub.watchEvents("")
	defer stop()
	emit := func(n int) {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		for range n {
			w.hub.emit(Event{Type: "log"})
		}
	}
	emit(watchDepth + 3)
	if n := w.hub.missedBy(slow); n != 3 {
		t.Errorf("%d are missed", n)
	}
	for range watchDepth {
		if e := <-slow.events; e.Missed != 0 || e.Time.IsZero() {
			t.Fatalf("%+v", e)
		}
	}
	emit(2)
	if e := <-slow.events; e.Missed != 3 {
		t.Errorf("%+v", e)
	}
	if e := <-slow.events; e.Missed != 0 || w.hub.missedBy(slow) != 0 {
		t.Errorf("%+v", e)
	}
	stop()
	if emit(1); len(slow.events) != 0 || len(w.hub.watchers) != 0 {
		t.Error("a stopped watcher gets events")
	}
}

// The events of a run are those of its sessions, also of released ones, and those of nodes.
func TestEventsOfARun(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startMaster()
	waitUntil(t, "the session", func() bool { return w.hub.Status().Sessions == 1 })
	r := w.onlyRun()
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	key := ""
	for _, m := range r.masters {
		key = m.key
	}
	w.hub.releases["late"] = &release{run: r}
	w.hub.releases["foreign"] = &release{run: &run{key: "other"}}
	for _, c := range []struct {
		event Event
		mine  bool
	}{
		{Event{Type: "log", Session: key}, true}, {Event{Type: "call", Session: key}, true}, {Event{Type: "log", Session: "late"}, true},
		{Event{Type: "log", Session: "foreign"}, false}, {Event{Type: "log"}, false}, {Event{Type: "call", Session: "x"}, false},
		{Event{Type: "session", Text: r.key}, true}, {Event{Type: "session", Text: "x", Session: key}, false},
	} {
		if got := w.hub.runOf(&c.event); (got == r.key) != c.mine {
			t.Errorf("%+v is of run %q", c.event, got)
		}
	}
	delete(w.hub.releases, "late")
	delete(w.hub.releases, "foreign")
	_ = m
}

// A run's stream begins with its socket and gets events of its own sessions and of all nodes.
func TestStreamOfARun(t *testing.T) {
	w := newWorld(t, nil)
	m, other := w.startMaster(), w.startMaster()
	a := w.startAgent(1)
	other.bindModule()
	other.call(5, nil)
	a.sendDone(a.nextLease(), nil)
	other.readResult(5)
	a.askLeases(1)
	m.bindModule()
	m.call(6, nil)
	a.sendDone(a.nextLease(), nil)
	m.readResult(6)
	nodes, calls := 0, map[string]int{}
	m.waitForEvent("the end of the call", func(e Event) bool {
		switch e.Type {
		case "node":
			nodes++
		case "call":
			calls[e.Session]++
		}
		return e.State == CallDone
	})
	if nodes != 1 || len(calls) != 1 {
		t.Errorf("%d nodes, calls %v", nodes, calls)
	}
}

// Events of a run are written before its stream ends, and how many were missed as well.
func TestEventsBeforeTheEnd(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startMaster()
	waitUntil(t, "the session", func() bool { return w.hub.Status().Sessions == 1 })
	r := w.onlyRun()
	w.hub.mu.Lock()
	for range watchDepth * 3 {
		w.hub.emit(Event{Type: "session", State: "x", Text: r.key})
	}
	r.endEvents()
	w.hub.mu.Unlock()
	seen, missed, others := 0, 0, 0 // others: the session's begin may still be in the queue
	for {
		e, err := m.events.Next()
		if err != nil {
			break
		}
		switch missed += e.Missed; {
		case e.State == "x":
			seen++
		case e.Missed == 0:
			others++
		}
	}
	if seen+others < watchDepth || seen+missed != watchDepth*3 {
		t.Errorf("%d came and %d were missed of %d", seen, missed, watchDepth*3)
	}
}

// The end of a hub ends the streams of its events.
func TestEventsEndWithTheHub(t *testing.T) {
	w := newWorld(t, nil)
	events, err := w.cli.Events(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	w.hub.Close()
	for err == nil {
		_, err = events.Next()
	}
	if _, err := w.cli.Status(t.Context()); !errors.Is(err, ErrNoHub) {
		t.Error(err)
	}
}

// Nodes that are silent are marked once, lose their releases, and are up again when they
// are heard.
func TestSilentNodeIsHeard(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	for name, say := range map[string]func(){
		"a beat":      func() { a.sendVerb(proto.VerbBeat, proto.Beat{}, nil) },
		"a request":   func() { a.askLeases(1) },
		"a release":   func() { a.sendVerb(proto.VerbReleased, proto.Released{Session: "s"}, nil) },
		"a failure":   func() { a.sendVerb(proto.VerbFailed, proto.Failed{}, nil) },
		"a completed": func() { a.sendVerb(proto.VerbDone, proto.Done{}, nil) },
	} {
		w.clock.advance(13 * time.Second)
		waitUntil(t, "silence before "+name, func() bool { return w.nodeOf(a).State == NodeSilent })
		say()
		waitUntil(t, "a node that is up after "+name, func() bool { return w.nodeOf(a).State == NodeUp })
		a.sendVerb(proto.VerbBeat, proto.Beat{}, nil)
	}
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.hub.handleEvent(sched.Woken{})
	w.hub.perform(sched.MarkSilent{Node: "gone"}) // a node that was removed meanwhile
}

// The state of a session whose stream is cut is kept for the grace period. A stream for a
// session that is over is refused.
func TestStreamOfAnEndedSession(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startMaster()
	m.send(uapi.TypePing, 0, nil)
	m.bindModule() // behind the PING, which changes nothing
	m.send(uapi.TypeBye, 0, nil)
	w.endOfMasters()
	c, err := session.Open(m.dial(), m.id)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Abort(nil)
	waitUntil(t, "a session of its own", func() bool { return w.hub.Status().Sessions == 1 })
}

// Connections to a run's socket that say nothing end with the run.
func TestSilentConnectionEndsWithItsRun(t *testing.T) {
	w := newWorld(t, nil)
	m := w.startMaster()
	c := m.dial()
	defer c.Close()
	m.events.Close()
	c.SetReadDeadline(time.Now().Add(testTimeout))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("it was read: %v", err)
	}
}

// An outbox gives what it cannot send back, also what is added after its end.
func TestOutboxReleasesWhatItHolds(t *testing.T) {
	p := &spooler{dir: t.TempDir(), limit: 1 << 20}
	here, there := net.Pipe()
	opened := make(chan *session.Conn, 1)
	go func() { c, _, _ := session.Accept(there, nil); opened <- c }()
	conn, err := session.Open(here, session.NewID())
	if err != nil {
		t.Fatal(err)
	}
	defer receiveFrom(t, "the other side", opened).Abort(nil)
	o := newOutbox(conn)
	spools := make([]*spool, 4)
	for i := range spools {
		if spools[i], err = p.newSpool(1); err != nil { // whose byte never comes
			t.Fatal(err)
		}
	}
	for _, s := range spools[:3] {
		o.add(outgoing{client: 1, result: &uapi.Result{}, data: s})
	}
	waitUntil(t, "the first on its way", func() bool { return o.countWaiting() == 2 })
	o.close()
	o.close()
	o.add(outgoing{client: 1, result: &uapi.Result{}, data: spools[3]})
	o.add(outgoing{client: 1, kind: uapi.TypeDone})
	conn.Abort(nil)
	o.done.Wait()
	if n := o.countWaiting(); n != 0 || p.used.Load() != 0 {
		t.Errorf("%d frames and %d bytes are left", n, p.used.Load())
	}
}

// A spool that cannot have its file holds nothing.
func TestSpoolWithoutFile(t *testing.T) {
	q := &quota{whose: "the hub", most: 4 << 20}
	p := &spooler{dir: filepath.Join(t.TempDir(), "missing"), limit: 1 << 20, filesMax: 1}
	for range 3 { // the file that was not made is not counted
		if s, err := p.newSpool(2<<20, q); s != nil || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v", err)
		}
	}
	if q.used.Load() != 0 || p.files.Load() != 0 {
		t.Errorf("%d bytes and %d files are held", q.used.Load(), p.files.Load())
	}
	for n, good := range map[uint64]bool{1 << 48: true, 1<<48 + 1: false} {
		_, err := p.newUnbounded(n)
		if strings.Contains(err.Error(), "limit of a transfer") == good {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// Of several quotas all are taken, or none. The last byte may be taken.
func TestQuotasAreTakenTogether(t *testing.T) {
	large, small := &quota{whose: "the hub", flag: "--h", most: 100}, &quota{whose: "it", flag: "--i", most: 10}
	list := []*quota{large, small}
	if err := reserveAll(list, 10); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[uint64]string{1: "wait for some calls first, or start the hub with a larger --i", 11: "in all: start the hub with a larger --i"} {
		if err := reserveAll(list, n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d more: %v", n, err)
		}
		if large.used.Load() != 10 || small.used.Load() != 10 {
			t.Errorf("%d and %d are taken", large.used.Load(), small.used.Load())
		}
	}
	if small.release(4); reserveAll(list, 4) != nil || reserveAll(list, 1) == nil {
		t.Error("what was released cannot be taken")
	}
}

// A node's name is its own; one that is taken gets a number. What is not stored is forgotten.
func TestNamesInTheRoster(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "nodes.json")
	r, err := openRoster(file)
	if err != nil {
		t.Fatal(err)
	}
	add := func(id, key, want, name string) {
		t.Helper()
		if got, err := r.add(id, key, want); got != name || (err == nil) != (name != "") {
			t.Errorf("%s as %q: %q, %v", id, want, got, err)
		}
	}
	add("1", "k1", "pc", "pc")
	add("2", "k2", "pc", "pc-2")
	add("3", "k3", "pc", "pc-3")
	add("2", "k2", "pc", "pc-2") // it joins again
	add("2", "other", "pc", "")
	if _, err := r.remove("pc"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.remove("2"); err != nil { // by its id
		t.Fatal(err)
	}
	add("1", "k1", "pc", "") // removed for good
	add("4", "k4", "pc", "pc")
	r.file = filepath.Join(dir, "missing", "nodes.json")
	add("5", "k5", "new", "")
	if r.isKnown("5") || r.name("5") != "" {
		t.Error("a node that was not stored is known")
	}
	if add("3", "k3", "renamed", ""); r.name("3") != "pc-3" {
		t.Errorf("its name is %q", r.name("3"))
	}
	if _, err := r.remove("pc-3"); err == nil || !r.isKnown("3") || r.isRemoved("3") {
		t.Errorf("a removal that was not stored: %v", err)
	}
	again, err := openRoster(file)
	if err != nil || !again.isRemoved("1") || !again.isRemoved("2") || again.isKnown("5") || again.name("4") != "pc" || again.name("3") != "pc-3" {
		t.Errorf("what is stored: %+v, %v", again, err)
	}
	if _, err := r.remove("nobody"); !errors.Is(err, errNoNode) || !strings.Contains(err.Error(), `"nobody"`) {
		t.Error(err)
	}
}

// The reader of arguments learns of the end of its request.
func TestClaimEndsWithItsRequest(t *testing.T) {
	w := newWorld(t, nil)
	a := w.startAgent(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if other := w.hub.otherAgent(ctx, a.node.ID(), "another boot"); other != "" {
		t.Errorf("%q holds the identity", other)
	}
	if resp, b := a.request("POST", proto.PathClaim, strings.NewReader("{")); resp.StatusCode != 400 {
		t.Errorf("%s %s", resp.Status, b)
	}
}

// A countedWriter counts how often what was written is sent.
type countedWriter struct {
	*httptest.ResponseRecorder
	sends int
}

func (w *countedWriter) Flush() { w.sends++ }

// Events that come one soon after the other are sent together, and none waits for long.
func TestEventsAreSentTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{watchers: map[string]map[*watcher]bool{}, stop: make(chan struct{}), cfg: Config{Now: time.Now}}
		w := &countedWriter{ResponseRecorder: httptest.NewRecorder()}
		go h.streamEvents(w, httptest.NewRequest("GET", "/v1/events", nil), nil, nil)
		synctest.Wait()
		for _, want := range []int{1, 2} {
			for range 50 {
				h.mu.Lock()
				h.emit(Event{Type: "log"})
				h.mu.Unlock()
				synctest.Wait()
			}
			if w.sends != want {
				t.Errorf("%d sends, not %d", w.sends, want)
			}
			<-time.After(eventsIn)
			synctest.Wait()
			if lines := strings.Count(w.Body.String(), "\n"); w.sends != want+1 || lines != 50*want {
				t.Errorf("%d lines after %d sends", lines, w.sends)
			}
		}
		close(h.stop)
		synctest.Wait()
	})
}

// A command line on the hub's machine that reads nothing, because it or its terminal was stopped,
// keeps its run. Who watches all events and reads nothing is dropped.
func TestRunThatDoesNotRead(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.stall = 10 * time.Millisecond })
	m := w.startBoundMaster()
	write := func(text string) {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		w.hub.emit(Event{Type: "session", Text: m.events.key, Name: text})
	}
	for range 2 { // after the second, the run's stream has been stuck for that long too
		all, err := w.cli.Events(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer all.Close()
		waitUntil(t, "a watcher that is dropped", func() bool {
			for range 100 {
				write(strings.Repeat("x", 1000))
			}
			w.hub.mu.Lock()
			defer w.hub.mu.Unlock()
			return len(w.hub.watchers[""]) == 0
		})
	}
	go func() {
		for w.t.Context().Err() == nil { // its queue may be full
			write("last")
			<-time.After(time.Millisecond)
		}
	}()
	nextEvent(t, m.events, "the last", func(e Event) bool { return e.Name == "last" })
}
