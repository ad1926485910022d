// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"skep/tests/wine/wineserver"
)

func wineEnv(o options) []string {
	return append(wineserver.Env(o.prefix), "LC_ALL=C.UTF-8")
}

// prepareWine creates the prefix and installs a library that Windows 10 has and Wine 8
// lacks.
func prepareWine(o options) error {
	if _, err := exec.LookPath("wine"); err != nil {
		return fmt.Errorf("no wine here; run: make setup")
	}
	system := filepath.Join(o.prefix, "drive_c/windows/system32")
	if _, err := os.Stat(filepath.Join(o.prefix, "system.reg")); err != nil {
		if err := os.MkdirAll(o.prefix, 0o755); err != nil {
			return err
		}
		boot := exec.Command("wine", "wineboot", "-i")
		boot.Env = append(os.Environ(), wineEnv(o)...)
		if out, err := boot.CombinedOutput(); err != nil {
			return fmt.Errorf("wineboot: %w: %s", err, out)
		}
	}
	shim, err := os.ReadFile(o.shim)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(system, "bcryptprimitives.dll"), shim, 0o755)
}

func stopWine(o options) {
	if o.on != "wine" {
		return
	}
	wineserver.Stop(wineEnv(o))
}

// windowsPath returns the Windows name of a Linux path.
func windowsPath(path string) string { return "Z:" + strings.ReplaceAll(path, "/", `\`) }
