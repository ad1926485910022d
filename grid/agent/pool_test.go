// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"skep/grid/proto"
	"skep/internal/lockdep"
)

func init() { lockdep.Enabled = true }

func TestHelloNamesSessions(t *testing.T) {
	r := newRig(t, beeOrNone(t), 1)
	if h := r.Agent.hello(); len(h.Sessions) != 0 {
		t.Fatalf("a fresh agent has %v", h.Sessions)
	}
	r.mustSucceed(r.start(fnEcho, nil))
	if h := r.Agent.hello(); !slices.Equal(h.Sessions, []string{"s"}) {
		t.Fatalf("after a call: %v", h.Sessions)
	}
	workers := r.pool.releaseSession("")
	r.handleWelcome(proto.Welcome{Ended: []string{"s"}})
	if h := r.Agent.hello(); len(workers) != 1 || len(h.Sessions) != 0 {
		t.Fatalf("%d workers, then %v", len(workers), h.Sessions)
	}
	<-workers[0].process.done
}

// An askHub checks that no report of free slots can overtake another.
type askHub struct {
	hub
	agent *Agent
	asks  int
	loose bool
}

func (h *askHub) publish(verb proto.Verb, v any, raw []byte) error {
	if verb == proto.VerbAsk {
		h.asks++
		if h.agent.asking.TryLock() {
			h.agent.asking.Unlock()
			h.loose = true
		}
	}
	return nil
}

// If an older report came last, the hub would believe for ever that no slot is free.
func TestAsksStayInOrder(t *testing.T) {
	r := newRig(t, beeOrNone(t), 1)
	h := &askHub{hub: r.Agent.hub, agent: r.Agent}
	r.Agent.hub = h
	r.Agent.sendAsk()
	if h.asks != 1 || h.loose {
		t.Errorf("%d reports; a report may be overtaken: %v", h.asks, h.loose)
	}
}

func beeOrNone(t *testing.T) string {
	if systemIsWindows {
		return beeProgram(t)
	}
	return ""
}

// A lease that the hub granted for the slot of another lease waits for that one even if a slot is
// free. In the free slot it would have to end an idle worker that another session needs.
func TestSlotGoesToItsSession(t *testing.T) {
	p := newPool(2)
	a1, a2 := &proto.Lease{Session: "a", Fence: 1}, &proto.Lease{Session: "a", Fence: 3, After: 1}
	b1, b2 := &proto.Lease{Session: "b", Fence: 2}, &proto.Lease{Session: "b", Fence: 4, After: 2}
	own := map[string]*worker{"a": {session: "a"}, "b": {session: "b"}}
	for _, l := range []*proto.Lease{a1, b1, a2, b2} {
		p.open(l)
	}
	for _, l := range []*proto.Lease{a1, b1} {
		if w, evicted, err := p.acquire(t.Context(), l); w != nil || evicted != nil || err != nil {
			t.Fatal(w, evicted, err)
		}
	}
	sessions := make(chan string, 2)
	for _, l := range []*proto.Lease{a2, b2} {
		go func() {
			w, evicted, err := p.acquire(t.Context(), l)
			if w != own[l.Session] || evicted != nil || err != nil {
				t.Errorf("%s got %p and evicted %p (%v)", l.Session, w, evicted, err)
			}
			sessions <- l.Session
		}()
	}
	waitUntil(t, "both in line", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.waiting) == 2
	})
	for _, l := range []*proto.Lease{b1, a1} {
		p.finishLease(l, own[l.Session])
		if got := <-sessions; got != l.Session {
			t.Errorf("%s came when a call of %s had ended", got, l.Session)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := p.acquire(ctx, &proto.Lease{Session: "a", Fence: 9}); err == nil || len(p.waiting) != 0 {
		t.Errorf("a cancelled lease waits on (%v)", err)
	}
}

// The hub hears of idle workers, the one that was used last first, and of the slots that are
// permitted and not taken.
// A lease in place of a call that waits for it begins when no slot is free, and changes none.
func TestExtraLeaseTakesNoSlot(t *testing.T) {
	p := newPool(1)
	plain := &proto.Lease{Session: "s", Fence: 1}
	extra := &proto.Lease{Session: "s", Fence: 2, Extra: true}
	for _, l := range []*proto.Lease{plain, extra} {
		p.open(l)
		if w, evicted, err := p.acquire(t.Context(), l); w != nil || evicted != nil || err != nil {
			t.Fatalf("%v, %v, %v", w, evicted, err)
		}
	}
	w := &worker{session: "s"}
	if !p.finishLease(extra, w) {
		t.Error("its worker is not kept")
	}
	if free, idle := p.snapshot(); free != 0 || len(idle) != 1 {
		t.Errorf("%d slots are free, with %d idle workers", free, len(idle))
	}
	again := &proto.Lease{Session: "s", Fence: 3, Extra: true}
	p.open(again)
	if got, _, _ := p.acquire(t.Context(), again); got != w {
		t.Error("it does not get the idle worker")
	}
	p.finishLease(again, nil)
	p.finishLease(plain, nil)
	if free, idle := p.snapshot(); free != 1 || len(idle) != 0 {
		t.Errorf("%d slots are free, with %d idle workers", free, len(idle))
	}
}

func TestIdleWorkersAreReported(t *testing.T) {
	p := newPool(3)
	p.taken = 2
	p.idle = []*worker{{session: "a", id: proto.Worker{Module: "m1"}}, {session: "b", id: proto.Worker{Module: "m2"}}}
	free, idle := p.snapshot()
	want := []proto.Idle{{Session: "b", Worker: proto.Worker{Module: "m2"}}, {Session: "a", Worker: proto.Worker{Module: "m1"}}}
	if free != 1 || !reflect.DeepEqual(idle, want) {
		t.Errorf("%d free, %+v", free, idle)
	}
	p.setSlots(1) // fewer than run
	if free, _ := p.snapshot(); free != 0 {
		t.Errorf("%d free", free)
	}
	if list := p.takeIdle(); len(list) != 2 || len(p.idle) != 0 {
		t.Errorf("%d of 2 idle workers were taken, %d are left", len(list), len(p.idle))
	}
}
