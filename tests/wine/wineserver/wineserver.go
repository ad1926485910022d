// SPDX-License-Identifier: MIT

// Package wineserver starts and stops the server of one Wine prefix, for all tests that run programs
// under Wine.
package wineserver

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Env returns the variables that select a prefix and keep Wine silent and without a display.
func Env(prefix string) []string {
	return []string{"WINEPREFIX=" + prefix, "WINEDEBUG=-all", "DISPLAY="}
}

const timeZones = `HKLM\Software\Microsoft\Windows NT\CurrentVersion\Time Zones`

// mountManager is a service that wineboot registers late, when it makes a prefix. A prefix whose
// making was cut has none: programs run, but Wine asks its server for it at each fstat.
const mountManager = `HKLM\System\CurrentControlSet\Services\MountMgr`

// Start starts one server for all programs of the prefix that env names: Debian's Wine
// ends it with each program otherwise, and its start takes seconds. It starts the services too,
// so that none of them keeps the pipes of a later program open. Each process asks the registry
// about all time zones until it finds its own, which is half of the questions of its start; so
// Start removes them. A prefix that is not whole is completed.
func Start(env []string) error {
	boot := []string{"wine", "wineboot", "-u"}
	whole := []string{"wine", "reg", "query", mountManager}
	_ = runTool(env, "wineserver", "-k") // it fails if no server runs
	list := [][]string{{"wineserver", "-p"}, boot}
	for _, words := range list {
		if err := runTool(env, words...); err != nil {
			return fmt.Errorf("%s: %w", strings.Join(words, " "), err)
		}
	}
	list = [][]string{{"wine", "reg", "delete", timeZones, "/f"}}
	if runTool(env, whole...) != nil {
		list = append([][]string{boot, whole}, list...)
	}
	for _, words := range list {
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
