// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"skep/tests/watch"
)

// A cluster is a hub with its own agent, called "here", and a second agent, called "second",
// on Linux or under Wine.
type cluster struct {
	s       *stage
	wine    bool
	state   string // of the hub
	address string
	hub     *watch.Actor
	second  *watch.Actor
}

const joinLine = `SKEP_TOKEN=(skep1\.\S+) skep join (\S+)`

// startCluster starts the hub and waits for its join line.
func (s *stage) startCluster(args ...string) (*cluster, string, error) {
	c := &cluster{s: s, wine: s.o.on == "wine", state: s.path("hub")}
	token, err := c.startHub("127.0.0.1:0", args...)
	return c, token, err
}

// startHub starts the hub, or restarts it, and returns the token of the join command.
func (c *cluster) startHub(listen string, args ...string) (token string, err error) {
	argv := append([]string{c.s.skepPath(), "up", "--state", c.state, "--listen", listen, "--name", "here"}, args...)
	if c.hub, err = c.s.start("hub", nil, argv...); err != nil {
		return "", err
	}
	words, err := c.hub.WaitForLine(context.Background(), joinLine, soon)
	if err != nil {
		return "", err
	}
	c.address = words[2]
	return words[1], nil
}

// agentCommand returns the command line of an agent on this cluster's kind of machine.
func (c *cluster) agentCommand(args ...string) (argv, env []string) {
	if !c.wine {
		return append([]string{c.s.skepPath(), "join"}, args...), nil
	}
	argv = append([]string{"wine", filepath.Join(c.s.o.bin, "skep.exe"), "join"}, args...)
	return argv, wineEnv(c.s.o)
}

func (c *cluster) stateOf(name string) string {
	dir := c.s.path(name)
	if c.wine {
		return windowsPath(dir)
	}
	return dir
}

// join starts the second agent; token may be empty when it has joined before.
func (c *cluster) join(name, token string) (*watch.Actor, error) {
	args := []string{c.address, "--state", c.stateOf(name), "--name", name, "--slots", "2"}
	argv, env := c.agentCommand(args...)
	if token != "" {
		env = append(env, "SKEP_TOKEN="+token)
	}
	return c.s.start(name, env, argv...)
}

// A node holds the fields of `skep nodes --json` that the tests read.
type node struct {
	Name, OS, Substrate, System, State string
	CPUs, Slots                        int
}

func (c *cluster) listNodes() ([]node, error) {
	o, err := c.s.run(nil, c.s.skepPath(), "nodes", "--state", c.state, "--json")
	if err != nil {
		return nil, err
	}
	var list []node
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil || o.code != 0 {
		return nil, fmt.Errorf("nodes --json: %v: %v", err, o)
	}
	return list, nil
}

// waitForNodes waits until exactly the named nodes are up.
func (c *cluster) waitForNodes(names ...string) error {
	return watch.Poll(later, func() error {
		list, err := c.listNodes()
		if err != nil {
			return err
		}
		var up []string
		for _, n := range list {
			if n.State == "up" {
				up = append(up, n.Name)
			}
		}
		slices.Sort(up)
		if !slices.Equal(up, names) {
			return fmt.Errorf("nodes that are up: %q, wanted %q; all: %+v", up, names, list)
		}
		return nil
	})
}

// exec runs a program on the nodes selected by on.
func (c *cluster) exec(stdin, on string, program ...string) (outcome, error) {
	argv := append([]string{c.s.skepPath(), "exec", "--state", c.state, "--on", on, "--"}, program...)
	return c.s.run(strings.NewReader(stdin), argv...)
}

// wantExec runs exec and checks its exit code and output.
func (c *cluster) wantExec(on string, code int, stdout string, program ...string) error {
	o, err := c.exec("", on, program...)
	if err != nil {
		return err
	}
	return o.checkOutcome(code, stdout)
}

// startPair starts a hub and the second agent. Most journeys begin so.
func (s *stage) startPair() *cluster {
	var c *cluster
	s.mustStep("a hub comes up and prints a join line", func() (err error) {
		var token string
		if c, token, err = s.startCluster(); err != nil {
			return err
		}
		c.second, err = c.join("second", token)
		return err
	})
	s.mustStep("the nodes are listed as up", func() error { return c.waitForNodes("here", "second") })
	return c
}

// stopActor stops an actor as a service manager would: it ends by itself with status 0.
func (s *stage) stopActor(a *watch.Actor) error {
	a.Signal(syscall.SIGTERM)
	code, err := a.WaitForExit(soon)
	if err == nil && code != 0 {
		err = fmt.Errorf("%s ends with %d", a.Name, code)
	}
	return err
}
