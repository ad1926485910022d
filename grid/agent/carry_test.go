// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"skep/grid/proto"
)

// giveCarried enters a lease of a client's call as if the call ran.
func (a *Agent) giveCarried(fence uint64, session string) *lease {
	a.giveLease(fence, session)
	l := a.leases[fence]
	l.Client, l.Call = fence+100, fence+200
	return l
}

func carriedAs(fence uint64, session string) proto.Carried {
	return proto.Carried{Session: session, Client: fence + 100, Call: fence + 200, Fence: fence}
}

// The hello names the leases that run and those that ended, in their order; a lease that no
// client numbered means nothing to another hub.
func TestCarriedLeases(t *testing.T) {
	a, h := newIdleAgent(t)
	h.results = map[uint64][]byte{}
	if list := a.listCarried(); len(list) != 0 {
		t.Errorf("%+v", list)
	}
	for _, fence := range []uint64{5, 3, 9, 1} {
		a.giveCarried(fence, "s")
	}
	a.giveLease(7, "s")
	a.reportEnd(a.leases[5], proto.VerbDone, &proto.Done{Call: 205, Fence: 5, Inline: true}, []byte("five"), true)
	a.reportEnd(a.leases[1], proto.VerbDone, &proto.Done{Call: 201, Fence: 1}, nil, false)
	a.reportEnd(a.leases[7], proto.VerbFailed, proto.Failed{Call: 7, Fence: 7}, nil, true)
	if len(a.leases) != 2 || len(h.done) != 2 || len(h.failed) != 1 || string(h.results[205]) != "five" {
		t.Errorf("%d leases, %v, %v, %v", len(a.leases), h.done, h.failed, h.results)
	}
	want := []proto.Carried{carriedAs(3, "s"), carriedAs(5, "s"), carriedAs(9, "s")}
	if list := a.listCarried(); !slices.Equal(list, want) {
		t.Errorf("%+v, want %+v", list, want)
	}
}

// The hub that came back asks for the end of one lease; one that runs has none yet.
func TestResumedLease(t *testing.T) {
	a, h := newIdleAgent(t)
	h.results = map[uint64][]byte{}
	for fence := range uint64(3) {
		a.giveCarried(fence, "s")
	}
	for fence := range uint64(2) {
		a.reportEnd(a.leases[fence], proto.VerbDone, &proto.Done{Call: 200 + fence, Fence: fence, Inline: true}, fmt.Append(nil, "result ", fence), true)
	}
	clear(h.done)
	clear(h.results)
	resume := func(fence uint64) {
		t.Helper()
		if err := a.handleMessage(t.Context(), proto.VerbResume, encodeMessage(t, proto.Resume{Fence: fence})); err != nil {
			t.Fatal(err)
		}
	}
	resume(1)
	resume(2)
	resume(77)
	if len(h.done) != 1 || h.done[201].Fence != 1 || string(h.results[201]) != "result 1" {
		t.Errorf("%v, %v", h.done, h.results)
	}
	if err := a.handleMessage(t.Context(), proto.VerbResume, []byte{0xff}); err == nil {
		t.Error("an unreadable message was taken")
	}
	clear(h.done)
	a.cancel(1) // nobody asks for it again
	resume(1)
	if resume(0); len(h.done) != 1 || h.done[200].Fence != 0 {
		t.Errorf("after the cancellation of one: %v", h.done)
	}
	clear(h.done)
	a.releaseSession("t")
	if resume(0); len(h.done) != 1 {
		t.Error("another session's release took it away")
	}
	clear(h.done)
	a.releaseSession("s")
	a.running.Wait()
	if resume(0); len(h.done) != 0 || a.ends.bytes != 0 || len(a.ends.list) != 0 {
		t.Errorf("kept after its session: %v, %d bytes", h.done, a.ends.bytes)
	}
}

// Ends are kept up to a number and up to a size, the newest ones.
func TestKeptEndsHaveLimits(t *testing.T) {
	var e ends
	for fence := range uint64(proto.CarriedMax/2 + 3) {
		e.add(&end{lease: proto.Carried{Fence: fence}, raw: []byte("12")})
	}
	if len(e.list) != proto.CarriedMax/2 || e.list[0].lease.Fence != 3 || e.bytes != proto.CarriedMax {
		t.Errorf("%d from %d on, %d bytes", len(e.list), e.list[0].lease.Fence, e.bytes)
	}
	e.drop(func(v proto.Carried) bool { return v.Fence%2 == 0 })
	if len(e.list) != proto.CarriedMax/4 || e.bytes != proto.CarriedMax/2 {
		t.Errorf("%d, %d bytes", len(e.list), e.bytes)
	}
	e = ends{}
	half := bytes.Repeat([]byte{1}, endBytesMax/2)
	for fence := range uint64(2) {
		e.add(&end{lease: proto.Carried{Fence: fence}, raw: half})
	}
	if len(e.list) != 2 || e.bytes != endBytesMax {
		t.Errorf("%d, %d bytes: less is kept than there is room for", len(e.list), e.bytes)
	}
	e.add(&end{lease: proto.Carried{Fence: 2}, raw: []byte{1}})
	if len(e.list) != 2 || e.list[0].lease.Fence != 1 || e.bytes != endBytesMax/2+1 {
		t.Errorf("%d, %d bytes", len(e.list), e.bytes)
	}
}

// A hello names no more leases than a hub reads; the oldest are left out.
func TestCarriedLeasesHaveALimit(t *testing.T) {
	a, _ := newIdleAgent(t)
	for fence := range uint64(proto.CarriedMax + 2) {
		l := &lease{Lease: proto.Lease{Session: "s", Client: fence + 100, Call: fence + 200, Fence: fence}}
		a.leases[fence] = l
	}
	list := a.listCarried()
	if len(list) != proto.CarriedMax || list[0].Fence != 2 || list[len(list)-1].Fence != proto.CarriedMax+1 {
		t.Errorf("%d, from %d", len(list), list[0].Fence)
	}
}
