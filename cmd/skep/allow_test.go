// SPDX-License-Identifier: MIT

package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"skep/grid/agent"
	"skep/grid/hub"
	"skep/internal/cli"
)

// The hub's user cannot allow anything on nodes.
func TestOnlyOwnerAllows(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(cli.StateVariable, dir+"/own")
	h, err := hub.Open(hub.Config{State: hubState(dir), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, option := range []string{"--allow /usr", "--allow-write /usr", "--allow-network"} {
		line := "run --state " + dir + " " + option + " -- /bin/true"
		code, text := cli.ExitCode(dispatch(t.Context(), strings.Fields(line)))
		if code != cli.Usage || !strings.Contains(text, "a hub runs here") {
			t.Errorf("%s: %d %q", option, code, text)
		}
		line = "exec --state " + dir + " " + option + " -- /bin/true"
		if code, _ := cli.ExitCode(dispatch(t.Context(), strings.Fields(line))); code != cli.Usage {
			t.Errorf("exec %s: %d", option, code)
		}
	}
	a := allowances{read: []string{"/a"}, write: []string{"/b"}, network: true}
	var c agent.Config
	a.apply(&c, dir)
	if !slices.Equal(c.Read, a.read) || !slices.Equal(c.Write, a.write) || !c.Network || !slices.Equal(c.Hide, []string{dir, dir + "/own"}) {
		t.Errorf("%+v", c)
	}
}
