// SPDX-License-Identifier: MIT

package hub

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"skep/grid/move"
	"skep/grid/proto"
)

// A jobRig is a job that runs on a node and has a checkpoint.
type jobRig struct {
	*world
	job *job
	leg *leg
}

func newJobRig(t *testing.T, image string) *jobRig {
	w := newWorld(t, nil)
	client, theirs := net.Pipe()
	go io.Copy(io.Discard, theirs)
	t.Cleanup(func() { client.Close() })
	rules := move.DefaultRules
	rules.Every = time.Hour
	j := &job{hub: w.hub, name: "1", client: client, over: make(chan struct{}), answer: make(chan string, 1),
		legs: map[move.Leg]*leg{}, images: map[string]savedImage{}, why: proto.ExecGone}
	j.more = sync.NewCond(&j.mu)
	l := &leg{job: j, number: 1, node: "a"}
	j.machine, _ = move.New(time.Now(), rules, "a")
	j.legs[1] = l
	r := &jobRig{w, j, l}
	j.machine.Ready(time.Now(), 1)
	j.machine.Started(time.Now(), 1)
	j.machine.Checkpoint(time.Now())
	r.save(1, image)
	if state, _, _ := j.machine.State(); state != move.Running || j.machine.Image() == "" {
		t.Fatalf("it is %v and has no checkpoint", state)
	}
	return r
}

// save sends an image as its node does.
func (r *jobRig) save(serial int, image string) {
	r.t.Helper()
	for part := []byte(image); len(part) > 0; part = part[min(len(part), proto.ExecFrameMax):] {
		if err := r.leg.takeImage(part[:min(len(part), proto.ExecFrameMax)]); err != nil {
			r.t.Error(err)
		}
	}
	sum := sha256.Sum256([]byte(image))
	end, err := json.Marshal(proto.ExecImageEnd{Serial: serial, Digest: hex.EncodeToString(sum[:])})
	if err == nil {
		err = r.leg.takeSaved(end)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// pinned reports whether the hub keeps an image.
func (r *jobRig) pinned(image string) bool {
	sum := sha256.Sum256([]byte(image))
	return slices.Contains(r.hub.blobs.List(), hex.EncodeToString(sum[:]))
}

// An image that comes too late is forgotten, and the checkpoint is not, even if it has the same
// bytes: a node sends what it likes.
func TestLateImage(t *testing.T) {
	r := newJobRig(t, "registers")
	for _, late := range []string{"others", "registers"} {
		r.save(1, late)
		if !r.pinned("registers") || r.pinned("others") || len(r.job.images) != 1 {
			t.Fatalf("after %q: the checkpoint is kept: %t, the late image: %t; %d images", late, r.pinned("registers"), r.pinned("others"), len(r.job.images))
		}
		if i := r.job.images[r.job.machine.Image()]; i.digest == "" {
			t.Fatalf("after %q: the checkpoint has no bytes", late)
		}
	}
	r.job.machine.Checkpoint(time.Now())
	r.save(2, "registers")
	r.save(2, "registers")
	if !r.pinned("registers") || len(r.job.images) != 1 {
		t.Errorf("a checkpoint with the bytes of the one before: %t, %d images", r.pinned("registers"), len(r.job.images))
	}
}

// An image that comes when the program is over is not kept.
func TestImageOfEndedProgram(t *testing.T) {
	r := newJobRig(t, "registers")
	r.job.happen(func(time.Time) []move.Action { return r.job.machine.Stop() })
	r.save(1, "others")
	if r.pinned("registers") || r.pinned("others") {
		t.Errorf("the checkpoint is kept: %t, the late image: %t", r.pinned("registers"), r.pinned("others"))
	}
}

// readEnd takes what a job tells its command line, until the job has ended.
func readEnd(c net.Conn) <-chan string {
	end := make(chan string, 1)
	go func() {
		buf := make([]byte, proto.ExecFrameMax)
		for {
			kind, p, err := proto.ReadExec(c, buf)
			if err != nil || kind >= proto.ExecExit && kind <= proto.ExecGone {
				end <- fmt.Sprint(kind, " ", string(p), err)
				return
			}
		}
	}()
	return end
}

// A program whose image the node or the hub refuses does not stay on a computer that its owner
// needs: its user gets the reason, or it goes on from its checkpoint.
func TestRefusedImageLeavesOwner(t *testing.T) {
	for _, byHub := range []bool{false, true} {
		for _, saved := range []bool{false, true} {
			r := newJobRig(t, "registers")
			client, theirs := net.Pipe()
			end := readEnd(theirs)
			r.job.client = client
			if !saved {
				r.job.machine, _ = move.New(time.Now(), move.DefaultRules, "a")
				r.job.machine.Ready(time.Now(), 1)
				r.job.machine.Started(time.Now(), 1)
			}
			node, agent := net.Pipe()
			r.leg.conn = node
			other := &leg{job: r.job, number: 2, node: "b"}
			r.job.legs[2] = other
			r.job.machine.Leave(time.Now(), "b", move.OwnerNeeds)
			serial := int(r.job.machine.Ready(time.Now(), 2)[0].Serial)
			go io.Copy(io.Discard, agent)
			if byHub {
				r.leg.takeImage([]byte("part"))
				r.leg.image.CloseWithError(errors.New("no space left"))
				b, _ := json.Marshal(proto.ExecImageEnd{Serial: serial})
				r.leg.take(proto.ExecSaved, b)
			} else {
				b, _ := json.Marshal(proto.ExecWhy{Serial: serial, Text: "descriptor 3 is a socket"})
				r.leg.take(proto.ExecUnsaved, b)
			}
			if !r.leg.dead {
				t.Errorf("by the hub: %t, with a checkpoint: %t: its process goes on", byHub, saved)
			}
			state, number, _ := r.job.machine.State()
			if saved {
				if state != move.Starting || number != 2 || other.dead {
					t.Errorf("by the hub: %t: it is %v, leg %d", byHub, state, number)
				}
				continue
			}
			want := "the owner of its node needs the computer, and it cannot be saved now: descriptor 3 is a socket"
			if byHub {
				want = "the owner of its node needs the computer, and it cannot be saved now: the hub cannot store it: no space left"
			}
			if state != move.Ended {
				t.Errorf("by the hub: %t: it is %v", byHub, state)
			} else if got := <-end; !strings.Contains(got, want) {
				t.Errorf("by the hub: %t: its user got %q", byHub, got)
			}
		}
	}
}
