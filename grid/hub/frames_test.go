// SPDX-License-Identifier: MIT

package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"testing"
	"time"

	"skep/grid/move"
	"skep/grid/proto"
)

// Frames leave in their order, none is written twice, and nobody waits for a node but who sends
// more of an image than may wait.
func TestFrameBox(t *testing.T) {
	var b frameBox
	wrote, free := make(chan byte, 200), make(chan bool)
	write := func(_ proto.ExecType, p []byte) error {
		<-free
		wrote <- p[0]
		return nil
	}
	part := make([]byte, passMost/4)
	for i := range byte(5) {
		b.put(proto.ExecImage, append([]byte{i}, part...), write)
	}
	went := make(chan bool)
	go func() { went <- b.await() }()
	free <- true // there are still four parts
	if got := <-wrote; got != 0 {
		t.Errorf("frame %d is the first", got)
	}
	select {
	case <-went:
		t.Fatal("more than may wait was taken")
	default:
	}
	free <- true
	if !<-went {
		t.Error("it is closed")
	}
	close(free)
	for i := byte(1); i < 5; i++ {
		if got := <-wrote; got != i {
			t.Errorf("frame %d in the place of %d", got, i)
		}
	}
}

// A node that is gone keeps nobody waiting.
func TestClosedFrameBox(t *testing.T) {
	for name, end := range map[string]func(b *frameBox, free chan error){
		"it is closed":        func(b *frameBox, _ chan error) { b.close() },
		"a frame has no way":  func(_ *frameBox, free chan error) { free <- errors.New("gone") },
		"it was closed twice": func(b *frameBox, _ chan error) { b.close(); b.close() },
	} {
		var b frameBox
		free := make(chan error, 1)
		b.put(proto.ExecImage, make([]byte, passMost), func(proto.ExecType, []byte) error { return <-free })
		went := make(chan bool)
		go func() { went <- b.await() }()
		end(&b, free)
		if <-went {
			t.Errorf("%s: it takes more", name)
		}
		b.put(proto.ExecImage, nil, func(proto.ExecType, []byte) error { t.Error("a frame is written"); return nil })
		if len(b.frames) != 0 {
			t.Errorf("%s: it keeps %d frames", name, len(b.frames))
		}
		close(free)
	}
}

// The target of a move gets the image as it comes, if it can take it so; then it is told to start
// from it. An image of a checkpoint is sent to nobody.
func TestImageIsPassedOn(t *testing.T) {
	for _, early := range []bool{true, false} {
		r := newJobRig(t, "registers")
		ours, theirs := net.Pipe()
		target := &leg{job: r.job, number: 2, node: "b", conn: ours, early: early}
		r.job.legs[2] = target
		r.job.machine.Checkpoint(time.Now())
		r.save(2, "a checkpoint")
		r.job.machine.Move(time.Now(), "b")
		serial := r.job.machine.Ready(time.Now(), 2)[0].Serial
		if state, _, _ := r.job.machine.State(); state != move.Freezing || r.job.machine.Target() != 2 {
			t.Fatalf("it is %v", state)
		}
		image := bytes.Repeat([]byte("image"), 50000)
		go r.save(int(serial), string(image))
		var got []byte
		buf := make([]byte, proto.ExecFrameMax)
		for {
			kind, p, err := proto.ReadExec(theirs, buf)
			if err != nil {
				t.Fatal(err)
			}
			if kind == proto.ExecRestore {
				break
			}
			if kind != proto.ExecImage {
				t.Fatalf("a frame of type %d", kind)
			}
			got = append(got, p...)
		}
		if want := map[bool][]byte{true: image}[early]; !bytes.Equal(got, want) {
			t.Errorf("early: %t: it got %d bytes of %d", early, len(got), len(image))
		}
	}
}

// A node says whether it takes images early.
func TestReadySaysEarly(t *testing.T) {
	for _, early := range []bool{true, false} {
		r := newJobRig(t, "registers")
		r.leg.take(proto.ExecReady, must(t, proto.ExecCPU{CPU: "00", Early: early}))
		if r.leg.early != early {
			t.Errorf("said %t, and is %t", early, r.leg.early)
		}
	}
}

func must(t *testing.T, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
