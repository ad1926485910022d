// SPDX-License-Identifier: MIT

package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"path/filepath"
	"testing"
	"time"

	"skep/grid/proto"
)

// The end of a snapshot, without which nothing starts, stays in the gate until it is opened.
func TestGate(t *testing.T) {
	all := bytes.Repeat([]byte("snapshot"), 100)
	for _, step := range []int{1, 7, gateHeld, gateHeld + 1, len(all)} {
		var got bytes.Buffer
		g := &gate{w: &got}
		for at := 0; at < len(all); at += step {
			if n, err := g.Write(all[at:min(at+step, len(all))]); err != nil || n != min(step, len(all)-at) {
				t.Fatal(n, err)
			}
		}
		if got.Len() != len(all)-gateHeld {
			t.Errorf("in steps of %d: %d of %d bytes have passed", step, got.Len(), len(all))
		}
		if err := g.open(); err != nil || !bytes.Equal(got.Bytes(), all) {
			t.Errorf("in steps of %d: %d bytes, %v", step, got.Len(), err)
		}
	}
}

// newLeg has an agent prepare a leg of a shell that answers to a line of input with what.
func newLeg(t *testing.T, base *rig, id, what string) *movableRig {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close() })
	r := &movableRig{base, ours}
	e := proto.Exec{ID: id, Movable: true, Program: r.cache.put(t, readBusybox(t)), Name: "busybox",
		Args: []string{"sh", "-c", "read line; echo " + what + "; read line"}, CPU: r.mover.cpu}
	r.fake.mu.Lock()
	r.fake.execs[id] = theirs
	r.fake.mu.Unlock()
	message, err := proto.Encode(e, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.handleMessage(context.Background(), proto.VerbExec, message); err != nil {
		t.Fatal(err)
	}
	var v proto.ExecCPU
	if err := json.Unmarshal(r.await(proto.ExecReady), &v); err != nil || !v.Early {
		t.Fatalf("%+v, %v", v, err)
	}
	return r
}

// sendImage sends the parts of an image as the hub passes them on.
func (r *movableRig) sendImage(image []byte) {
	r.t.Helper()
	for len(image) > 0 {
		n := min(len(image), proto.ExecFrameMax)
		if err := proto.WriteExec(r.conn, proto.ExecImage, image[:n]); err != nil {
			r.t.Fatal(err)
		}
		image = image[n:]
	}
}

// restore has the leg go on from an image, and checks that it does.
func (r *movableRig) restore(digest string) {
	r.t.Helper()
	if err := proto.WriteExec(r.conn, proto.ExecRestore, []byte(digest)); err != nil {
		r.t.Fatal(err)
	}
	r.await(proto.ExecStarted)
	go proto.WriteExec(r.conn, proto.ExecStdin, []byte("hello\n"))
	if got := r.await(proto.ExecStdout); string(got) != "hello\n" {
		r.t.Errorf("it wrote %q", got)
	}
}

// takeSaved starts a program, and returns the image that it is saved to, and its digest.
func (r *movableRig) takeSaved() (image []byte, digest string) {
	r.t.Helper()
	r.send(proto.ExecBegin, nil)
	r.await(proto.ExecStarted)
	r.send(proto.ExecFreeze, proto.ExecSave{Serial: 1, Hold: true})
	r.conn.SetReadDeadline(time.Now().Add(testTimeout))
	buf := make([]byte, proto.ExecFrameMax)
	for {
		kind, p, err := proto.ReadExec(r.conn, buf)
		if err != nil {
			r.t.Fatal(err)
		}
		switch kind {
		case proto.ExecImage:
			image = append(image, p...)
		case proto.ExecSaved:
			var end proto.ExecImageEnd
			if err := json.Unmarshal(p, &end); err != nil {
				r.t.Fatal(err)
			}
			return image, end.Digest
		case proto.ExecUnsaved:
			r.t.Fatalf("%s", p)
		}
	}
}

// folders counts what programs have on this node.
func (r *movableRig) folders() int {
	list, err := filepath.Glob(r.work + "/tmp/*")
	if err != nil || r.tmp != r.work+"/tmp" {
		r.t.Fatal(r.tmp, err)
	}
	return len(list)
}

// A program goes on from an image that came before it was to, without asking for it; if another
// image counts, from that one; and what came in vain leaves nothing.
func TestEarlyImage(t *testing.T) {
	base := newRig(t, beeProgram(t), 1)
	base.needMover()
	source := newLeg(t, base, "source", "$line")
	image, digest := source.takeSaved()
	foreign, _ := newLeg(t, base, "foreign", "other").takeSaved()
	target := newLeg(t, base, "target", "$line")
	target.sendImage(image)
	target.restore(digest) // there is no such blob
	for id, early := range map[string][]byte{"no image": []byte("no image"), "a part": image[:len(image)/2], "too much": append(bytes.Clone(image), 0), "another one": foreign} {
		other := newLeg(t, base, id, "$line")
		other.sendImage(early)
		base.fake.origin.Store(digest, image)
		other.restore(digest)
	}
	before := target.folders()
	vain := newLeg(t, base, "in vain", "$line")
	vain.sendImage(image)
	vain.awaitFolders("its process is prepared", func(n int) bool { return n > before })
	vain.conn.Close()
	vain.awaitFolders("nothing of it is left", func(n int) bool { return n == before })
}

func (r *movableRig) awaitFolders(what string, f func(n int) bool) {
	r.t.Helper()
	late, tick := time.NewTimer(testTimeout), time.NewTicker(10*time.Millisecond)
	defer late.Stop()
	defer tick.Stop()
	for !f(r.folders()) {
		select {
		case <-tick.C:
		case <-late.C:
			r.t.Fatalf("with %d folders in vain waited until %s", r.folders(), what)
		}
	}
}
