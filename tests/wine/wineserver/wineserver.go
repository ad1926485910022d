// SPDX-License-Identifier: MIT

// Package wineserver starts and stops the server of one Wine prefix, for all tests that run programs
// under Wine.
package wineserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Env returns the variables that select a prefix and keep Wine silent and without a display.
func Env(prefix string) []string {
	return []string{"WINEPREFIX=" + prefix, "WINEDEBUG=-all", "DISPLAY="}
}

// Check returns an error with advice if there is no such prefix: make makes them, as copies of one.
func Check(prefix string) error {
	if _, err := os.Stat(filepath.Join(prefix, "system.reg")); err != nil {
		return fmt.Errorf("no Wine prefix in %s; make it by: sh tests/wine/prefix.sh build/wine-fresh %[1]s", prefix)
	}
	return nil
}

// Start starts one server for all programs of the prefix that env names: Debian's Wine
// ends it with each program otherwise, and its start takes seconds. It starts the services too,
// so that none of them keeps the pipes of a later program open.
func Start(env []string) error {
	_ = runTool(env, "wineserver", "-k") // it fails if no server runs
	for _, words := range [][]string{{"wineserver", "-p"}, {"wine", "wineboot", "-i"}} {
		if err := runTool(env, words...); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
		}
	}
	return nil
}

// Stop ends the server of the prefix that env names, and waits until the server and its
// services have ended. It does nothing if no server runs.
func Stop(env []string) {
	_ = runTool(env, "wineserver", "-k") // it fails if no server runs
	_ = runTool(env, "wineserver", "-w")
}

// runTool runs a program of Wine with our environment and env, but without our streams.
func runTool(env []string, words ...string) error {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), env...)
	return cmd.Run()
}
