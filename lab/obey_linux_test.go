// SPDX-License-Identifier: MIT

package lab

import (
	"errors"
	"io"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/hashicorp/yamux"

	"skep/lab/wire"
)

// A guest that ends before the request to end is written has obeyed it, if it ended in order.
func TestGuestThatEndsBeforeItIsAsked(t *testing.T) {
	failed, good := exec.Command("false"), exec.Command("true")
	broken := failed.Run()
	if err := good.Run(); err != nil || broken == nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		end  ending
		qemu *exec.Cmd
		err  error // of QEMU
		obey bool
	}{
		"turned off": {turningOff, good, nil, true}, "restarts": {restarting, good, nil, true}, "breaks": {turningOff, failed, broken, false},
	} {
		ours, theirs := net.Pipe()
		session, err := yamux.Client(ours, wire.Yamux(io.Discard))
		if err != nil {
			t.Fatal(err)
		}
		v := &vm{process: &process{cmd: c.qemu, done: make(chan struct{}), err: c.err}, said: &lastLine{}, session: session, gone: make(chan struct{})}
		g := &Guest{machine: Machine{Name: "quick", Build: t.TempDir()}, done: make(chan struct{}), vm: v}
		go func() {
			io.ReadFull(theirs, make([]byte, 12)) // the head of a new stream
			poll := time.NewTicker(time.Millisecond)
			defer poll.Stop()
			for wanted := ending(0); wanted != c.end; <-poll.C {
				g.mu.Lock()
				wanted = g.end
				g.mu.Unlock()
			}
			theirs.Close()
			g.judgeEnd(v)
		}()
		got, err := g.requestEnd(t.Context(), c.end, wire.PowerOff)
		var dead *DeadError
		if got != v || (err == nil) != c.obey || err != nil && !errors.As(err, &dead) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
