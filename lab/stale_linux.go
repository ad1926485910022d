// SPDX-License-Identifier: MIT

package lab

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// bootTries is how often a machine is booted that the emulator's own fault
// stopped.
const bootTries = 3

// staleText reports whether the boot was stopped by a fault of QEMU's emulator.
// A kernel that changes its text puts a breakpoint there first, and other
// processors of the emulator may still run it when it is gone (QEMU 7.2, about
// one boot of 6.12 in 100). A stock kernel that dies of a breakpoint before any
// module was there, ours least of all, is that; nothing else is passed over.
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
