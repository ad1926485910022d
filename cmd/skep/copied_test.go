// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/grid/agent"
	"skep/grid/hub"
	"skep/grid/proto"
)

const copiedTimeout = time.Minute

// An agentRun is a running agent.Run and its log.
type agentRun struct {
	stop  context.CancelFunc
	lines chan string
	ended chan error
}

func startAgent(t *testing.T, state string) *agentRun {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &agentRun{stop: cancel, lines: make(chan string, 1000), ended: make(chan error, 1)}
	gone := make(chan struct{})
	c := agent.Config{State: state, Slots: 1, Log: func(format string, args ...any) { r.lines <- fmt.Sprintf(format, args...) }}
	go func() {
		defer close(gone)
		r.ended <- agent.Run(ctx, c)
	}()
	t.Cleanup(func() { cancel(); <-gone })
	return r
}

// waitForLine waits for a line.
func (r *agentRun) waitForLine(t *testing.T, words string) {
	t.Helper()
	for end := time.After(copiedTimeout); ; {
		select {
		case line := <-r.lines:
			t.Log(line)
			if strings.Contains(line, words) {
				return
			}
		case err := <-r.ended:
			t.Fatalf("the agent ended (%v) and never said %q", err, words)
		case <-end:
			t.Fatalf("the agent never said %q", words)
		}
	}
}

// endsAlone waits for the agent's end and fails if first logs something meanwhile.
func (r *agentRun) endsAlone(t *testing.T, first *agentRun) error {
	t.Helper()
	for end := time.After(copiedTimeout); ; {
		select {
		case line := <-first.lines:
			t.Fatalf("the first agent was disturbed: %s", line)
		case line := <-r.lines:
			if strings.Contains(line, "connect") {
				t.Fatalf("the second agent said: %s", line)
			}
		case err := <-r.ended:
			return err
		case <-end:
			t.Fatal("the second agent does not end")
		}
	}
}

// If two agents have the same identity, the second is refused by name and the first is
// not disturbed. The second may connect when the first has ended.
func TestCopiedState(t *testing.T) {
	dir, err := os.MkdirTemp("", "copied") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	h, err := hub.Open(hub.Config{State: hubState(dir), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	state, twin := filepath.Join(dir, "first"), filepath.Join(dir, "twin")
	c := agent.Config{State: state, Name: "pc"}
	if err := joinHere(t.Context(), h, &c); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(twin, os.DirFS(state)); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(twin, 0o700); err != nil {
		t.Fatal(err)
	}
	first := startAgent(t, state)
	first.waitForLine(t, "connected to the hub")
	var p *proto.Problem
	err = startAgent(t, twin).endsAlone(t, first)
	if !errors.As(err, &p) || p.Code != proto.ProblemIdentity {
		t.Fatalf("the second agent ended with: %v", err)
	}
	for _, words := range []string{"node pc at 127.0.0.1", "another --state", "skep token"} {
		if !strings.Contains(p.Text, words) {
			t.Errorf("no %q in: %s", words, p.Text)
		}
	}
	if nodes, err := hub.SelectNodes(h.Nodes(), "node=pc"); err != nil || len(nodes) != 1 {
		t.Errorf("the first node: %v, %v", nodes, err)
	}
	first.stop()
	if err := <-first.ended; err != nil {
		t.Errorf("the first agent ended with: %v", err)
	}
	startAgent(t, twin).waitForLine(t, "connected to the hub")
}
