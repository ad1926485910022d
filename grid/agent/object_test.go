// SPDX-License-Identifier: MIT

package agent

import (
	"context"
	"strings"
	"testing"

	"skep/grid/proto"
)

// method sends a lease of an object's method, which counts the calls of its process.
func (r *rig) method(object uint64, first bool) uint64 {
	r.t.Helper()
	l := r.makeLease(fnCount, nil)
	inline.Store(l.Digest, []byte(nil))
	l.Worker.Object, l.First = object, first
	return r.send(l)
}

// count returns the first word of what a call of fnCount answers.
func (r *rig) count(call uint64) string {
	r.t.Helper()
	got, _ := r.mustSucceed(call)
	word, _, _ := strings.Cut(string(got), " ")
	return word
}

func (r *rig) forget(object uint64) {
	r.t.Helper()
	message, err := proto.Encode(proto.Forget{Session: "s", Object: object}, nil)
	if err == nil {
		err = r.handleMessage(context.Background(), proto.VerbForget, message)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// home returns the worker of an object that runs no method.
func (r *rig) home(object uint64) *worker {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	for _, w := range r.pool.homes {
		if w.id.Object == object {
			return w
		}
	}
	return nil
}

const lostObject = "the object's worker has ended, and its state with it"

// Each object has a worker of its own, which only its first method starts.
func TestObjectsHaveWorkers(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		for i, want := range []string{"1", "1", "2", "1", "2", "3", "2"} {
			object := []uint64{1, 2, 1, 0, 2, 1, 0}[i]
			if got := r.count(r.method(object, i < 2)); got != want {
				t.Errorf("call %d, of object %d, counts %s, not %s", i, object, got, want)
			}
		}
		if free, idle := r.pool.snapshot(); free != 1 || len(idle) != 1 || r.countWorkers() != 3 {
			t.Errorf("%d slots are free, idle are %v of %d", free, idle, r.countWorkers())
		}
		other := r.makeLease(fnCount, nil)
		other.Session, other.Worker.Object = "other", 1
		r.mustFail(r.send(other), proto.ReasonNode, lostObject)
		w := r.home(2)
		w.killAndWait()
		r.mustFail(r.method(2, false), proto.ReasonNode, lostObject)
		r.mustFail(r.method(2, false), proto.ReasonNode, lostObject)
		if got := r.count(r.method(1, false)); got != "4" {
			t.Errorf("the object that nobody ended counts %s", got)
		}
		w = r.home(1)
		r.forget(2)
		r.forget(1)
		<-w.process.done
		r.mustFail(r.method(1, false), proto.ReasonNode, lostObject)
		waitUntil(t, "one worker that is left", func() bool { return r.countWorkers() == 1 })
	})
}

// A method that fails with an error of its own leaves the object, one that ends the worker does not.
func TestFailedMethods(t *testing.T) {
	runOnSubstrates(t, 1, func(t *testing.T, r *rig) {
		send := func(function uint32, first bool) uint64 {
			l := r.makeLease(function, nil)
			l.Worker.Object, l.First = 1, first
			return r.send(l)
		}
		r.mustFail(send(fnFail, true), proto.ReasonError, "")
		if got := r.count(r.method(1, false)); got != "1" {
			t.Errorf("it counts %s", got)
		}
		r.mustFail(send(fnExit, false), proto.ReasonDied, "")
		r.mustFail(r.method(1, false), proto.ReasonNode, lostObject)
	})
}

// Workers of objects are not ended for others, but for the computer's owner and with the session.
func TestWhoEndsObjects(t *testing.T) {
	p := newPool(1)
	for i, session := range []string{"a", "a", "b"} {
		l := &proto.Lease{Session: session, Worker: proto.Worker{Object: uint64(i + 1)}, Fence: 1}
		p.open(l)
		w, evicted, err := p.acquire(t.Context(), l)
		if w != nil || evicted != nil || err != nil {
			t.Fatal(w, evicted, err)
		}
		w = &worker{session: session, id: l.Worker}
		p.addWorker(w)
		if !p.finishLease(l, w) {
			t.Fatal("it is not kept")
		}
	}
	if list := p.takeSpare(p.homes[2].since.Add(spareFor)); len(list) != 0 || p.countHomes() != 3 {
		t.Errorf("%d of %d workers end for others", len(list), p.countHomes())
	}
	if list := p.releaseSession("b"); len(list) != 1 {
		t.Errorf("%d workers end with the session", len(list))
	}
	if list := p.takeIdle(); len(list) != 3 || len(p.homes) != 0 {
		t.Errorf("%d workers end for the owner", len(list))
	}
}

func TestNodeIsFullOfObjects(t *testing.T) {
	r := newRig(t, beeOrNone(t), 1)
	for i := range objectsMax {
		r.pool.all[&worker{session: "s", id: proto.Worker{Object: uint64(i + 1)}}] = true
	}
	r.mustFail(r.method(objectsMax+1, true), proto.ReasonNode, "the node has 256 objects, which is the most")
	clear(r.pool.all)
}
