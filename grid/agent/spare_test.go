// SPDX-License-Identifier: MIT

package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"skep/grid/proto"
)

// take runs a lease on a pool, and returns the sessions of workers that ended and were started.
func (p *pool) take(t *testing.T, session string, id proto.Worker) (ended, started string) {
	t.Helper()
	l := &proto.Lease{Session: session, Worker: id, Fence: 1}
	p.open(l)
	w, evicted, err := p.acquire(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if evicted != nil {
		ended = evicted.session
		p.removeWorker(evicted)
	}
	if w == nil {
		w, started = &worker{session: session, id: id}, session
		p.addWorker(w)
	}
	if !p.finishLease(l, w) {
		t.Fatalf("the worker of %s was not kept", session)
	}
	return ended, started
}

// takeTurns runs a lease of each session.
func (p *pool) takeTurns(t *testing.T, sessions string) (ended, started string) {
	t.Helper()
	for _, session := range strings.Split(sessions, "") {
		e, s := p.take(t, session, proto.Worker{})
		ended, started = ended+e, started+s
	}
	return ended, started
}

// Sessions that take turns at a slot find their workers again, as long as there is room for them.
func TestSpareWorkers(t *testing.T) {
	p, spare := newPool(1), 2
	p.spare = func() int { return spare }
	for _, c := range []struct {
		spare                    int
		turns                    string
		ended, started, thenIdle string
	}{
		{2, "abcabcabc", "", "abc", "abc"},
		{2, "da", "ab", "da", "cda"}, // the longest idle ends
		{2, "cda", "", "", "cda"},
		{0, "e", "c", "e", "dae"},
		{0, "ae", "", "", "dae"},
		{0, "f", "d", "f", "aef"},
	} {
		spare = c.spare
		if ended, started := p.takeTurns(t, c.turns); ended != c.ended || started != c.started || p.idleSessions() != c.thenIdle {
			t.Errorf("turns of %s: %q ended, %q started, %q are idle; want %+v", c.turns, ended, started, p.idleSessions(), c)
		}
	}
	p.spare = nil
	if ended, started := p.takeTurns(t, "g"); ended != "a" || started != "g" {
		t.Errorf("without spare workers: %q ended, %q started", ended, started)
	}
	if ended, _ := newPool(1).takeTurns(t, "ab"); ended != "a" {
		t.Errorf("one more than the slots: %q ended", ended)
	}
}

// A worker with the data of a former Initialize is not kept in vain.
func TestFormerWorkersEndFirst(t *testing.T) {
	p := newPool(1)
	p.spare = func() int { return 3 }
	for _, c := range []struct{ session, module, init, ended, thenIdle string }{
		{"a", "m", "1", "", "a"},
		{"a", "n", "2", "", "aa"},
		{"b", "m", "1", "", "aab"},
		{"b", "m", "2", "b", "aab"},
		{"c", "m", "2", "", "aabc"},
		{"c", "n", "2", "a", "abcc"}, // the longest idle
		{"a", "n", "3", "a", "bcca"},
	} {
		if ended, _ := p.take(t, c.session, proto.Worker{Module: c.module, Init: c.init}); ended != c.ended || p.idleSessions() != c.thenIdle {
			t.Errorf("%+v: %q ended, %q are idle", c, ended, p.idleSessions())
		}
	}
	p = newPool(2)
	p.take(t, "a", proto.Worker{Init: "1"})
	if ended, _ := p.take(t, "a", proto.Worker{Init: "2"}); ended != "" {
		t.Error("a worker ended although a slot is left")
	}
}

func (p *pool) idleSessions() (s string) {
	for _, w := range p.idle {
		s += w.session
	}
	return s
}

// Workers that nobody needed for long end, but not those of the slots; without room all others do.
func TestSpareWorkersEnd(t *testing.T) {
	p, spare := newPool(2), 8
	p.spare = func() int { return spare }
	p.takeTurns(t, "abcde")
	now := time.Now()
	for i, age := range []time.Duration{9, 8, 3, 2, 1} {
		p.idle[i].since = now.Add(-age * time.Second)
	}
	end := func(before time.Time) (s string) {
		for _, w := range p.takeSpare(before) {
			s += w.session
		}
		return s
	}
	if s := end(now.Add(-8 * time.Second)); s != "a" {
		t.Errorf("%q end, only a is older than 8 s", s)
	}
	p.taken = 1
	if s := end(now.Add(-9 * time.Second)); s != "" {
		t.Errorf("%q end too early", s)
	}
	spare = 1
	if s := end(now.Add(-9 * time.Second)); s != "bc" || p.idleSessions() != "de" {
		t.Errorf("%q end, one more than the slots has room", s)
	}
	spare, p.taken = 0, 0
	if s := end(now.Add(time.Second)); s != "" || p.idleSessions() != "de" {
		t.Errorf("%q of the slots end", s)
	}
	p.spare = nil
	p.idle = slices.Insert(p.idle, 0, &worker{session: "f"})
	if s := end(now.Add(-9 * time.Second)); s != "f" {
		t.Errorf("without spare workers %q end", s)
	}
}

// A report names as many idle workers as a hub reads, those that were used last.
func TestReportOfSpareWorkers(t *testing.T) {
	p := newPool(1)
	for range proto.IdleMax {
		p.idle = append(p.idle, &worker{session: "s"})
	}
	p.idle[0].session = "longest idle"
	p.idle = append(p.idle, &worker{session: "last"})
	if _, idle := p.snapshot(); len(idle) != proto.IdleMax || idle[0].Session != "last" || idle[proto.IdleMax-1].Session != "s" {
		t.Errorf("%d workers, from %q", len(idle), idle[0].Session)
	}
}

// Spare workers are kept only where memory and disk are not short.
func TestSpareWorkersNeedRoom(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		room room
		disk uint64
		want int
	}{
		{room{total: 8 * gib, memory: 4 * gib, disk: 3 * gib}, 4 * gib, spareMax},
		{room{total: 8 * gib, memory: 4*gib - 1, disk: 3 * gib}, 4 * gib, 0},
		{room{total: 8 * gib, memory: 4 * gib, disk: 3*gib - 1}, 4 * gib, 0},
	} {
		a := &Agent{disk: c.disk, room: freeRoom{last: c.room, at: time.Now().Add(time.Hour)}}
		if n := a.spareWorkers(); n != c.want {
			t.Errorf("%+v: %d", c.room, n)
		}
	}
}

// An agent keeps the processes of several sessions on one slot, and ends those that it should not.
func TestSpareWorkersOfAnAgent(t *testing.T) {
	r := newRig(t, beeOrNone(t), 1)
	total, _ := memoryInfo()
	r.room = freeRoom{last: room{total: total, memory: total, disk: r.disk}, at: time.Now().Add(time.Hour)}
	call := func(session string) {
		l := r.makeLease(fnEcho, nil)
		l.Session = session
		r.mustSucceed(r.send(l))
	}
	call("s")
	call("t")
	call("s")
	call("t")
	r.pool.mu.Lock()
	workers, idle := len(r.pool.all), slices.Clone(r.pool.idle)
	r.pool.mu.Unlock()
	if workers != 2 || len(idle) != 2 || idle[0].session != "s" || idle[1].session != "t" {
		t.Fatalf("%d workers, %d idle", workers, len(idle))
	}
	r.endSpare(time.Now())
	r.endSpare(idle[0].since.Add(spareFor))
	if list := r.pool.takeSpare(idle[0].since); len(list) != 0 || idle[0].hasEnded() || len(r.pool.idle) != 2 {
		t.Fatal("a worker ended that was needed just before")
	}
	r.pool.mu.Lock()
	idle[0].since = time.Now().Add(-spareFor - 1)
	r.pool.mu.Unlock()
	r.sendBeat()
	<-idle[0].process.done
	if idle[1].hasEnded() {
		t.Error("the worker of the slot ended")
	}
}

func (w *worker) hasEnded() bool {
	select {
	case <-w.process.done:
		return true
	default:
		return false
	}
}
