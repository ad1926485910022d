// SPDX-License-Identifier: MIT

package compat

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/tests/watch"
	"skep/tests/wine/wineserver"
)

// The first start of Wine creates a whole prefix.
const wineTime = 2 * time.Minute

// namesThisComputer lists the programs that call a node by this computer's name, which
// the node under Wine does not have.
var namesThisComputer = map[string]bool{"exec-master": true, "gridrpc-master": true}

// All programs but these run on a node whose workers are under bee in Wine, which stands
// for Windows.
func TestWine(t *testing.T) {
	shim := os.Getenv("SHIM")
	if shim == "" {
		t.Skip("SHIM names no library for Wine: make test T=compat-wine does")
	}
	dir, all := buildAll(t)
	var masters []string
	for _, m := range all {
		if !namesThisComputer[m] {
			masters = append(masters, m)
		}
	}
	state := filepath.Join(dir, "hub")
	startNode(t, dir, state, shim)
	runMasters(t, dir, masters, "--state", state)
}

// startNode starts a hub, and a node of Wine as its only one.
func startNode(t *testing.T, dir, state, shim string) {
	t.Helper()
	s, err := watch.NewStage("compat")
	if err != nil {
		t.Fatal(err)
	}
	// A prefix of the build folder remains for the next run.
	prefix := filepath.Join(filepath.Dir(filepath.Dir(skepPath(t))), "wine-compat")
	env := append(os.Environ(), wineserver.Env(prefix)...)
	t.Cleanup(func() {
		s.Close(func(a *watch.Actor) { a.End(10 * time.Second) })
		wineserver.Stop(wineserver.Env(prefix))
	})
	if err := os.MkdirAll(prefix, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := wineserver.Start(wineserver.Env(prefix)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(shim)
	if err == nil {
		err = os.WriteFile(filepath.Join(prefix, "drive_c/windows/system32/bcryptprimitives.dll"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	hub, err := s.Start("hub", exec.Command(skepPath(t), "up", "--state", state, "--listen", "127.0.0.1:0", "--no-agent"))
	if err != nil {
		t.Fatal(err)
	}
	words, err := hub.WaitForLine(t.Context(), `SKEP_TOKEN=(skep1\.\S+) skep join (\S+)`, wineTime)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("wine", skepPath(t)+".exe", "join", words[2], "--slots", "2", "--name", "pc",
		"--state", "Z:"+strings.ReplaceAll(filepath.Join(dir, "pc"), "/", `\`))
	cmd.Env = append(env, words[0][:strings.IndexByte(words[0], ' ')])
	pc, err := s.Start("pc", cmd)
	if err == nil {
		err = pc.Poll(t.Context(), wineTime, func() error {
			out, err := exec.Command(skepPath(t), "nodes", "--state", state).CombinedOutput()
			if err == nil && !strings.Contains(string(out), "bee") {
				return errors.New("the node is not up")
			}
			return err
		})
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, s.LastOutput())
	}
}
