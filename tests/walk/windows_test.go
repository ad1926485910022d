// SPDX-License-Identifier: MIT

package walk

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"skep/tests/wine/wineserver"
)

// Wine stands for the PC. SHIM is a library that Windows has and Wine 8 lacks.
func TestWindowsPCs(t *testing.T) {
	build, shim := buildDir(t), os.Getenv("SHIM")
	if shim == "" {
		t.Skip("SHIM names no library for Wine: make test T=walk-wine does")
	}
	s := Start(t, build, map[string]string{"examples": sourcePath(t, "examples")})
	prefix := filepath.Join(build, "wine-walk")
	if err := prepareWine(prefix, shim); err != nil {
		t.Fatal(err)
	}
	s.Wine = []string{"WINEPREFIX=" + prefix, "WINEDEBUG=-all", "DISPLAY=", "wine"}
	s.runGood("export WINEPREFIX='" + prefix + "' WINEDEBUG=-all DISPLAY=")
	s.Lines(root, "README.md", "wine build/bin/bee.exe ")
	s.Page(root, "docs/walks/windows.md")
}

// prepareWine creates a prefix. Wine's server opens the sockets of its programs, so a server in
// another network namespace must not remain.
func prepareWine(prefix, shim string) error {
	defer wineserver.Stop(wineserver.Env(prefix))
	wineserver.Stop(wineserver.Env(prefix))
	if _, err := os.Stat(filepath.Join(prefix, "system.reg")); err != nil {
		if err := os.MkdirAll(prefix, 0o755); err != nil {
			return err
		}
		if err := wineCommand(prefix, "wine", "wineboot", "-i").Run(); err != nil {
			return err
		}
	}
	text, err := os.ReadFile(shim)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(prefix, "drive_c/windows/system32/bcryptprimitives.dll"), text, 0o644)
}

func wineCommand(prefix, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), wineserver.Env(prefix)...)
	return c
}
