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

const wineTime = 2 * time.Minute

// namesThisComputer lists the programs that call a node by this computer's name, which
// the node under Wine does not have.
var namesThisComputer = map[string]bool{"exec-master": true, "gridrpc-master": true}

// All programs but these run on a node whose workers are under bee in Wine, which stands
// for Windows.
func TestWine(t *testing.T) {
	prefix := os.Getenv("WINEPREFIX")
	if prefix == "" {
		t.Skip("WINEPREFIX names no prefix: make test T=compat-wine does")
	}
	dir, all := buildAll(t)
	var masters []string
	for _, m := range all {
		if !namesThisComputer[m] {
			masters = append(masters, m)
		}
	}
	state := filepath.Join(dir, "hub")
	startNode(t, dir, state, prefix)
	runMasters(t, dir, masters, "--state", state)
}

// startNode starts a hub, and a node of Wine as its only one.
func startNode(t *testing.T, dir, state, prefix string) {
	t.Helper()
	s, err := watch.NewStage("compat")
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), wineserver.Env(prefix)...)
	t.Cleanup(func() {
		s.Close(func(a *watch.Actor) { a.End(10 * time.Second) })
		wineserver.Stop(wineserver.Env(prefix))
	})
	if err := wineserver.Start(wineserver.Env(prefix)); err != nil {
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
