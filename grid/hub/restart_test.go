// SPDX-License-Identifier: MIT

package hub

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Commands wait for a hub that closed to be started again, until it listens.
func TestRestart(t *testing.T) {
	w := newWorld(t, nil)
	c := NewClient(w.hub.ControlSocket())
	if !w.hub.CloseIdle(t.Context(), func() {}) {
		t.Fatal("the hub is not idle")
	}
	opened := make(chan error, 1)
	go func() {
		_, events, err := c.Run(t.Context(), RunRequest{Name: "test", Dirs: []string{w.dirs}})
		if err == nil {
			events.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(3 * restartPoll): // it may be slow, which shows less
	}
	next, err := Open(w.hub.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := receiveFrom(t, "a run of the next hub", opened); err != nil {
		t.Error(err)
	}
}

// Nobody waits for a hub that was stopped, or longer than for one that starts.
func TestRestart_bounded(t *testing.T) {
	w := newWorld(t, nil)
	c := NewClient(w.hub.ControlSocket())
	wait := restartWait
	restartWait = 2 * restartPoll
	t.Cleanup(func() { restartWait = wait })
	w.hub.markRestart(true)
	w.hub.Close()
	if _, err := c.Status(t.Context()); !errors.Is(err, ErrNoHub) || strings.Contains(err.Error(), "started again") {
		t.Errorf("a hub that was stopped: %v", err)
	}
	w.hub.markRestart(true)
	if _, err := c.Status(t.Context()); !errors.Is(err, ErrNoHub) || !strings.Contains(err.Error(), "was not within") {
		t.Errorf("a hub that does not come: %v", err)
	}
}

// Who gives up while a hub starts again gets no connection, and the reason.
func TestRestart_givenUp(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, restartFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(restartPoll/2, cancel) // in its wait, or before
	if conn, err := NewClient(filepath.Join(dir, "hub.sock")).dial(ctx); conn != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", conn, err)
	}
}

// A request that reaches a hub as it closes is sent again to the next one.
func TestRestart_refused(t *testing.T) {
	w := newWorld(t, nil)
	w.hub.mu.Lock()
	w.hub.closed = true
	w.hub.mu.Unlock()
	c := NewClient(w.hub.ControlSocket())
	run := func() error {
		_, _, err := c.Run(t.Context(), RunRequest{Name: "test", Dirs: []string{w.dirs}})
		return err
	}
	if err := run(); !errors.Is(err, errStops) {
		t.Errorf("a hub that stops: %v", err)
	}
	w.hub.markRestart(true)
	opened := make(chan error, 1)
	go func() { opened <- run() }()
	select {
	case err := <-opened:
		t.Fatalf("it was not sent again: %v", err)
	case <-time.After(3 * restartPoll):
	}
	w.hub.mu.Lock()
	w.hub.closed = false
	w.hub.mu.Unlock()
	if err := receiveFrom(t, "a run that was sent again", opened); err != nil {
		t.Error(err)
	}
}
