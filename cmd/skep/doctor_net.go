// SPDX-License-Identifier: MIT

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"skep/grid/hub"
	"skep/grid/ident"
	"skep/internal/cli"
)

const netTimeout = 5 * time.Second

// checkHub checks the hub of this machine, if there is one.
func checkHub(ctx context.Context, state string) check {
	ctx, cancel := context.WithTimeout(ctx, netTimeout)
	defer cancel()
	s, err := hub.NewClient(hub.ControlSocket(hubState(state))).Status(ctx)
	switch {
	case errors.Is(err, hub.ErrNoHub):
		if _, err := os.Stat(filepath.Join(hubState(state), "ca.crt")); err == nil {
			return passed("hub", "the hub of %s does not run", state).withState(checkNote, "skep up"+stateOption(state)+", if this machine is to serve as hub")
		}
		return passed("hub", "none runs here")
	case err != nil:
		return passed("hub", "it does not answer: %v", err).withState(checkBad, "stop `skep up` here and start it again")
	}
	return passed("hub", "process %d, address %s, %d nodes up", s.PID, s.Address, s.Nodes)
}

// stateOption returns the option that selects a state directory, unless it is the default.
func stateOption(state string) string {
	if own, err := cli.StateDir(); err == nil && own == state {
		return ""
	}
	return " --state " + state
}

// checkNode checks the identity of an earlier join, and that its hub answers.
func checkNode(ctx context.Context, state string) []check {
	text, err := os.ReadFile(filepath.Join(agentState(state), "node", "admission.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return []check{passed("node", "has not joined a hub")}
	}
	var a ident.Admission
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		return []check{passed("node", "%v", err).withState(checkBad, "delete "+agentState(state)+" and join again")}
	}
	c := passed("node", "joined %s as %s", a.Hub, a.Name)
	var d net.Dialer
	ctx, cancel := context.WithTimeout(ctx, netTimeout)
	defer cancel()
	conn, err := d.DialContext(ctx, "tcp", a.Hub)
	if err != nil {
		return []check{c, passed("way", "%v", err).withState(checkBad, "start the hub, or let this machine reach "+a.Hub)}
	}
	conn.Close()
	return []check{c, passed("way", "%s can be reached", a.Hub)}
}
