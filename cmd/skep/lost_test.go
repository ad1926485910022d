// SPDX-License-Identifier: MIT

package main

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"skep/grid/agent"
	"skep/grid/hub"
	"skep/internal/cli"
)

// An agent in a job of a batch system ends some time after its hub did, and not while it has one.
func TestLostHub(t *testing.T) {
	const limit = 500 * time.Millisecond
	dir := t.TempDir()
	h, err := hub.Open(hub.Config{State: hubState(dir), Listen: "127.0.0.1:0", Log: newLogger(false)})
	if err != nil {
		t.Fatal(err)
	}
	connected, ended := make(chan bool, 1), make(chan error, 1)
	c := agent.Config{State: filepath.Join(dir, "agent"), Slots: 1, Log: func(string, ...any) {}, Lost: limit,
		Status: func(string) {
			select {
			case connected <- true:
			default:
			}
		}}
	if err := joinHere(t.Context(), h, &c); err != nil {
		t.Fatal(err)
	}
	if c.Near != agent.Near(h) {
		t.Error("the arguments of the hub's own agent need a connection")
	}
	go func() { ended <- agent.Run(t.Context(), c) }()
	<-connected
	select {
	case err := <-ended:
		t.Fatalf("it ended with its hub there: %v", err)
	case <-time.After(3 * limit):
	}
	closed := time.Now()
	h.Close()
	select {
	case err = <-ended:
	case <-time.After(copiedTimeout):
		t.Fatal("it did not end")
	}
	if !errors.Is(err, agent.ErrLost) || time.Since(closed) < limit {
		t.Errorf("%v after %v", err, time.Since(closed))
	}
	if code, _ := cli.ExitCode(joinError(err)); code != cli.Unreachable {
		t.Errorf("%v has the exit code %d", err, code)
	}
}
