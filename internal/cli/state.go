// SPDX-License-Identifier: MIT

package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// StateVariable names the state directory if --state is not given.
const StateVariable = "SKEP_STATE"

// StateDir returns the directory in which this user's hub and agent keep their state.
func StateDir() (string, error) {
	if dir := os.Getenv(StateVariable); dir != "" {
		return filepath.Abs(dir)
	}
	if runtime.GOOS == "windows" {
		if dir := os.Getenv("LOCALAPPDATA"); dir != "" {
			return filepath.Join(dir, "skep"), nil
		}
		return "", fmt.Errorf("LOCALAPPDATA is not set: give --state DIR")
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "skep"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory: give --state DIR or set %s", StateVariable)
	}
	return filepath.Join(home, ".local", "state", "skep"), nil
}
