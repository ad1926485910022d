// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"net"
	"testing"

	"skep/grid/proto"
)

// execSleep begins a program of the operator that runs until its stream is closed, and returns
// when it has said so.
func (r *rig) execSleep(id string) (conn net.Conn) {
	r.t.Helper()
	ours, theirs := net.Pipe()
	r.fake.mu.Lock()
	r.fake.execs[id] = theirs
	r.fake.mu.Unlock()
	e := proto.Exec{ID: id, Program: r.cache.put(r.t, readBusybox(r.t)), Name: "busybox", Args: []string{"sh", "-c", "echo on; cat"}}
	message, err := proto.Encode(e, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.handleMessage(context.Background(), proto.VerbExec, message); err != nil {
		r.t.Fatal(err)
	}
	buf := make([]byte, proto.ExecFrameMax)
	for {
		kind, b, err := proto.ReadExec(ours, buf)
		if err != nil {
			r.t.Fatal(err)
		}
		if kind == proto.ExecStdout && string(b) == "on\n" {
			return ours
		}
	}
}

func (r *rig) lastAsk() proto.Ask {
	r.fake.mu.Lock()
	defer r.fake.mu.Unlock()
	return r.fake.asks[len(r.fake.asks)-1]
}

// A program without a lease begins at once, also where no slot is free, and counts as one of the
// slots' until it ends. A call that it left no slot goes back to the hub and counts no attempt.
func TestOperatorsProgramTakesASlot(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		a := r.execSleep("a")
		if v := r.lastAsk(); v.Free != 0 {
			t.Errorf("%d slots are free beside a program", v.Free)
		}
		f := r.mustFail(r.start(fnEcho, nil), proto.ReasonCancelled, "the operator's program took the slot")
		if r.listCarried() != nil {
			t.Errorf("the hub would hear of %+v again", f)
		}
		b := r.execSleep("b")
		a.Close()
		waitUntil(t, "the end of the first", func() bool { return r.programs() == 1 })
		if v := r.lastAsk(); v.Free != 0 {
			t.Errorf("%d slots are free beside the second program", v.Free)
		}
		r.mustFail(r.start(fnEcho, nil), proto.ReasonCancelled, "took the slot")
		b.Close()
		waitUntil(t, "the free slot", func() bool { return r.lastAsk().Free == 1 })
		if got, _ := r.mustSucceed(r.start(fnEcho, []byte("on"))); string(got) != "on" {
			t.Errorf("%q", got)
		}
		defer r.takeSlot(&proto.Exec{Logs: true})() // they are no program
		if n := r.programs(); n != 0 {
			t.Errorf("%d programs are counted", n)
		}
	})
}

func (r *rig) programs() int {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	return r.pool.begun
}

// Calls that run when a program begins go on, and those that wait for their slots go back as soon
// as the slot is the program's.
func TestCallsBesideAProgram(t *testing.T) {
	p := newPool(2)
	leases := []*proto.Lease{{Session: "a", Fence: 1}, {Session: "a", Fence: 2}, {Session: "a", Fence: 3, After: 1}, {Session: "a", Fence: 4, After: 2}}
	got := make(chan error, len(leases))
	for i, l := range leases {
		p.open(l)
		if i < 2 {
			if _, _, err := p.acquire(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			continue
		}
		go func() {
			_, _, err := p.acquire(t.Context(), l)
			got <- err
		}()
	}
	waitUntil(t, "both in line", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.waiting) == 2
	})
	p.countPrograms(1)
	if free, _ := p.snapshot(); free != 0 || len(p.waiting) != 2 {
		t.Errorf("%d free, %d of 2 wait", free, len(p.waiting))
	}
	p.finishLease(leases[0], nil)
	if err := <-got; err != errTaken {
		t.Errorf("the call after the first: %v", err)
	}
	p.close(leases[2])
	p.finishLease(leases[1], nil)
	if err := <-got; err != nil {
		t.Errorf("the call after the second: %v", err)
	}
	p.finishLease(leases[3], nil)
	if free, _ := p.snapshot(); free != 1 {
		t.Errorf("%d slots are free beside a program on two", free)
	}
	p.countPrograms(-1)
	if free, _ := p.snapshot(); free != 2 || p.begun != 0 {
		t.Errorf("%d slots are free, %d programs", free, p.begun)
	}
}
