// SPDX-License-Identifier: MIT

package lab

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// bootTries is how many times a machine is booted if a fault of the emulator stops the
// boot.
const bootTries = 3

// staleText reports whether a fault of QEMU's emulator stopped the boot. A kernel that
// patches its text first writes a breakpoint. Other processors of the emulator may still
// execute the breakpoint when it is already replaced (QEMU 7.2, about one boot of 6.12 in
// 100). A stock kernel that panics because of a breakpoint before any module was loaded
// has this fault; no other failure is ignored.
func (g *Guest) staleText() bool {
	if g == nil || g.accel != "tcg" {
		return false
	}
	console, err := os.Open(filepath.Join(g.Dir(), consoleFile))
	if err != nil {
		return false
	}
	defer console.Close()
	return staleText(console)
}

func staleText(console io.Reader) bool {
	stale := false
	in := bufio.NewScanner(io.LimitReader(console, logMax))
	for in.Scan() {
		stale = stale || strings.Contains(in.Text(), "int3: 0000 [#1]")
		_, modules, found := strings.Cut(in.Text(), "Modules linked in:")
		if found && strings.TrimSpace(modules) != "" {
			return false
		}
	}
	return stale && in.Err() == nil
}
