// SPDX-License-Identifier: MIT

package hub

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"skep/grid/move"
	"skep/grid/proto"
)

// runJob has a movable program run on a node that takes part in nothing. end gets how it ended.
func (w *world) runJob(id string) (j *job, end <-chan string) {
	client, theirs := net.Pipe()
	w.t.Cleanup(func() { client.Close() })
	j = &job{hub: w.hub, name: "1", client: client, over: make(chan struct{}), answer: make(chan string, 1),
		legs: map[move.Leg]*leg{}, images: map[string]savedImage{}, why: proto.ExecGone}
	j.more = sync.NewCond(&j.mu)
	j.legs[1] = &leg{job: j, number: 1, node: id}
	j.machine, _ = move.New(time.Now(), move.DefaultRules, id)
	j.machine.Ready(time.Now(), 1)
	j.machine.Started(time.Now(), 1)
	w.hub.mu.Lock()
	w.hub.jobs[j.name] = j
	w.hub.mu.Unlock()
	return j, readEnd(theirs)
}

func (j *job) stateNow() (state move.State, node string, dead map[move.Leg]bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	dead = map[move.Leg]bool{}
	for number, l := range j.legs {
		dead[number] = l.dead
	}
	state, _, node = j.machine.State()
	return state, node, dead
}

// leave says that a node shuts down, and returns how long the hub took to answer.
func (a *fakeAgent) leave(v *proto.Leave) (took time.Duration, err error) {
	var b []byte
	if v != nil {
		if b, err = proto.Encode(v, nil); err != nil {
			return 0, err
		}
	}
	began := time.Now()
	_, err = a.nats.Request(proto.FromNode(a.node.ID(), proto.VerbLeave), b, testTimeout)
	return time.Since(began), err
}

// startMover returns an agent that says that it runs movable programs, and answers no request
// for one.
func (w *world) startMover() *fakeAgent {
	a := w.join()
	a.connect()
	v := a.helloWith(proto.Hello{Revision: proto.Revision, Name: "x", OS: "linux", Substrate: "linux", CPUs: 1, Memory: 1 << 40, Slots: 1, Boot: "b", Apart: true, Moves: true})
	if v.Problem != nil {
		w.t.Fatal(v.Problem)
	}
	return a
}

// An agent of the release before, and one that does not wait for its programs, is answered at
// once, and no program is asked to move. Then its connection ends, and so does the program.
func TestLeaveWithoutMoves(t *testing.T) {
	for _, v := range []*proto.Leave{nil, {}, {Wait: -1}} {
		w := newWorld(t, nil)
		a, b := w.startMover(), w.startMover()
		j, _ := w.runJob(a.node.ID())
		if took, err := a.leave(v); err != nil || took > testTimeout/2 {
			t.Errorf("%+v: %v, after %v", v, err, took)
		}
		if state, node, dead := j.stateNow(); state != move.Running || node != a.node.ID() || dead[1] || len(b.execs) != 0 {
			t.Errorf("%+v: it is %v, dead: %v; the other node was asked %d times", v, state, dead, len(b.execs))
		}
	}
}

// A program that was not moved in time, or that no node takes, ends with that reason, and the
// node is answered then. It is answered once, whatever it asks.
func TestLeaveIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.startMover(), w.startMover()
	j, end := w.runJob(a.node.ID())
	again := make(chan error, 1)
	go func() {
		receiveFrom(t, "the question to the other node", b.execs)
		bytes, _ := proto.Encode(proto.Leave{}, nil)
		_, err := a.nats.Request(proto.FromNode(a.node.ID(), proto.VerbLeave), bytes, 50*time.Millisecond)
		again <- err
	}()
	if took, err := a.leave(&proto.Leave{Wait: 1}); err != nil || took < time.Second || took > testTimeout/2 {
		t.Errorf("%v, after %v", err, took)
	}
	if err := <-again; err == nil {
		t.Error("a node that leaves again is answered before its programs have gone")
	}
	if got := receiveFrom(t, "its end", end); !strings.Contains(got, "its node is shut down, and it was not moved within 1s") {
		t.Errorf("its user got %q", got)
	}
	if _, _, dead := j.stateNow(); !dead[1] || !dead[2] {
		t.Errorf("its processes go on: %v", dead)
	}
	j, end = w.runJob(b.node.ID())
	if took, err := b.leave(&proto.Leave{Wait: 1e300}); err != nil || took > testTimeout/2 {
		t.Errorf("%v, after %v", err, took)
	}
	if got := receiveFrom(t, "its end", end); !strings.Contains(got, "there is no other node that is up and takes it: "+MovesNeed) {
		t.Errorf("its user got %q", got)
	}
	if _, _, dead := j.stateNow(); !dead[1] {
		t.Error("its process goes on")
	}
}

// A node that shuts down takes no program: one that is about to move there stays where it is. And
// each other node is asked, not only the first.
func TestLeaveOfATarget(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.startMover(), w.startMover()
	j, _ := w.runJob(b.node.ID())
	go io.Copy(io.Discard, j.client)
	j.happen(func(now time.Time) []move.Action { return j.machine.Move(now, a.node.ID()) })
	receiveFrom(t, "the question to the target", a.execs)
	if took, err := a.leave(&proto.Leave{Wait: 20}); err != nil || took > testTimeout/2 {
		t.Errorf("%v, after %v", err, took)
	}
	if state, node, dead := j.stateNow(); state != move.Running || node != b.node.ID() || dead[1] || !dead[2] {
		t.Errorf("it is %v, dead: %v", state, dead)
	}
	c, d := w.startMover(), w.startMover()
	left := make(chan error, 1)
	go func() {
		_, err := b.leave(&proto.Leave{Wait: 20})
		left <- err
	}()
	for range 2 {
		asked := c
		select {
		case <-c.execs:
		case <-d.execs:
			asked = d
		case <-time.After(testTimeout):
			t.Fatal("nobody is asked")
		}
		j.happen(func(now time.Time) []move.Action {
			for number, l := range j.legs {
				if l.node == asked.node.ID() {
					return j.machine.Refused(now, number, "this CPU lacks avx2")
				}
			}
			return nil
		})
	}
	if err := <-left; err != nil {
		t.Error(err)
	}
	if state, _, _ := j.stateNow(); state != move.Ended || len(a.execs)+len(c.execs)+len(d.execs) != 0 {
		t.Errorf("it is %v", state)
	}
}

// A hub that closes waits until nobody moves the programs of a node that shuts down.
func TestCloseDuringALeave(t *testing.T) {
	w := newWorld(t, nil)
	a, _ := w.startMover(), w.startMover()
	j, _ := w.runJob(a.node.ID())
	j.mu.Lock() // holds up what moves it
	go a.leave(&proto.Leave{Wait: 20})
	waitUntil(t, "the leave", func() bool {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		return w.hub.nodes[a.node.ID()].leaving != nil
	})
	closed := make(chan struct{})
	go func() { w.hub.Close(); close(closed) }()
	<-w.hub.stop
	select {
	case <-closed:
		t.Error("the hub closed while a program was to be moved")
	case <-time.After(500 * time.Millisecond):
	}
	j.mu.Unlock()
	<-closed
}
