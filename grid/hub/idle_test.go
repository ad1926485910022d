// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"errors"
	"testing"

	"skep/grid/proto"
)

// A hub that is to close when it is idle serves all that runs, and takes more, until
// nothing is left.
func TestCloseIdle(t *testing.T) {
	w, m, a := newTrio(t, nil, 1)
	ctx, cancel := context.WithCancel(t.Context())
	waits, closed := make(chan struct{}), make(chan bool, 1)
	closeIdle := func() { closed <- w.hub.CloseIdle(ctx, func() { waits <- struct{}{} }) }
	go closeIdle()
	receiveFrom(t, "a hub that waits", waits)
	cancel()
	if receiveFrom(t, "the end of the wait", closed) {
		t.Error("the hub closed when it should wait no longer")
	}

	ctx = t.Context()
	go closeIdle()
	receiveFrom(t, "a hub that waits again", waits)
	m.call(1, []byte("work"))
	a.sendDone(a.nextLease(), []byte("result"))
	if _, b := m.readResult(1); string(b) != "result" {
		t.Errorf("%q", b)
	}
	exec := w.exec(a, "")
	e := receiveFrom(t, "an exec", a.execs)
	m.events.Close()
	waitUntil(t, "the end of the run", func() bool {
		w.hub.mu.Lock()
		defer w.hub.mu.Unlock()
		return len(w.hub.runs) == 0
	})
	c, _, _ := a.openStream(e.ID, 0)
	if w.hub.close(true) {
		t.Fatal("the hub closed below a program")
	}
	proto.WriteExec(c, proto.ExecExit, []byte{7, 0, 0, 0})
	if end := receiveFrom(t, "the end of the program", exec); end.status != 7 || end.err != nil {
		t.Errorf("%+v", end)
	}
	if !receiveFrom(t, "the end of the hub", closed) {
		t.Error("an idle hub did not close")
	}
	if _, err := w.hub.openRun(RunRequest{Dirs: []string{w.dirs}}, operator); !errors.Is(err, errStops) {
		t.Errorf("a run of a closed hub: %v", err)
	}
	if _, err := w.hub.newExec("x", ExecRequest{Node: a.node.ID()}, operator); !errors.Is(err, errStops) {
		t.Errorf("a program of a closed hub: %v", err)
	}
}
