// SPDX-License-Identifier: MIT

package walk

import (
	"os"
	"testing"

	"skep/tests/wine/wineserver"
)

// Wine stands for the PC.
func TestWindowsPCs(t *testing.T) {
	build, prefix := buildDir(t), os.Getenv("WINEPREFIX")
	if prefix == "" {
		t.Skip("WINEPREFIX names no prefix: make test T=walk-wine does")
	}
	// Wine's server opens the sockets of its programs, so one in another network namespace must
	// not remain.
	wineserver.Stop(wineserver.Env(prefix))
	s := Start(t, build, map[string]string{"examples": sourcePath(t, "examples")})
	s.Wine = []string{"WINEPREFIX=" + prefix, "WINEDEBUG=-all", "DISPLAY=", "wine"}
	s.runGood("export WINEPREFIX='" + prefix + "' WINEDEBUG=-all DISPLAY=")
	s.Lines(root, "README.md", "wine build/bin/bee.exe ")
	s.Page(root, "docs/walks/windows.md")
}
