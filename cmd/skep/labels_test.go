// SPDX-License-Identifier: MIT

//go:build linux

package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/grid/hub"
	"skep/internal/cli"
)

// runNode runs a command that makes this machine a node, until the test ends.
func runNode(t *testing.T, line string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- dispatch(ctx, strings.Fields(line)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", line, err)
		}
	})
}

// openHub opens a hub without nodes, until the test ends.
func openHub(t *testing.T, state string) (c *hub.Client, address string) {
	t.Helper()
	h, err := hub.Open(hub.Config{State: hubState(state), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return hub.NewClient(h.ControlSocket()), h.Address().String()
}

// awaitNode waits for a node that a selector chooses.
func awaitNode(t *testing.T, c *hub.Client, on string) hub.NodeInfo {
	t.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for end := time.After(copiedTimeout); ; {
		list, err := c.Nodes(t.Context(), on)
		if err == nil && len(list) == 1 {
			return list[0]
		}
		select {
		case <-poll.C:
		case <-end:
			t.Fatalf("%s: %d nodes, %v", on, len(list), err)
		}
	}
}

// The labels of skep join and skep up reach the hub, and choose the node.
func TestLabelsOfNodes(t *testing.T) {
	dir, err := os.MkdirTemp("", "label") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	runNode(t, "up --listen 127.0.0.1:0 --no-token --name here --label room=a --slots 1 --state "+filepath.Join(dir, "up"))
	c := hub.NewClient(hub.ControlSocket(hubState(filepath.Join(dir, "up"))))
	if n := awaitNode(t, c, "room=a"); n.Name != "here" || !slices.Equal(n.Labels, []string{"room=a"}) {
		t.Errorf("the node of up is %+v", n)
	}
	c, address := openHub(t, filepath.Join(dir, "hub"))
	token, err := c.Token(t.Context(), hub.TokenRequest{Uses: 1, Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	runNode(t, "join "+address+" --token "+token.Token+" --name pc --slots 1 --label room=b --label gpu=a30 --label room=b --state "+filepath.Join(dir, "pc"))
	if n := awaitNode(t, c, "room=b,gpu=a30"); n.Name != "pc" || len(n.Labels) != 2 {
		t.Errorf("the node of join is %+v", n)
	}
	for on, want := range map[string]bool{"": true, "gpu=a30": true, "os=linux": true, "gpu=h100": false, "node=p": false} {
		if r := (&run{terms: hub.RunRequest{On: on}}); r.findsNode(t.Context(), c) != want {
			t.Errorf("a run on %q finds a node: %v", on, !want)
		}
	}
}

func TestLabelsRefused(t *testing.T) {
	t.Setenv(cli.StateVariable, t.TempDir())
	for line, want := range map[string]string{
		"join h:1 --label room": "no label", "up --label os=plan9": "has os by itself", "up --label a=b=c": "no label", "run --on frob -- x": "not a selector",
		"run --deadline 0 -- x": "want a time", "run --deadline x -- x": "want a time", "run --attempts 0 -- x": "from 1 to 100", "run --attempts 101 -- x": "from 1 to 100",
		"run --on cpus=4 -- x": "compared by >=", "exec --on os=linux, -- x": "not a selector",
	} {
		if code, text := cli.ExitCode(dispatch(t.Context(), strings.Fields(line))); code != cli.Usage || !strings.Contains(text, want) {
			t.Errorf("%s: %d %q, want %q", line, code, text, want)
		}
	}
}
