// SPDX-License-Identifier: MIT

//go:build linux && debugkernel

package vm

import (
	"os"
	"testing"
	"time"

	"skep/lab"
)

// debugSlowness is by how much slower than Debian's kernel that one is.
const debugSlowness = 10

// TestO2gDebug runs the parts of TestO2gKernel on a kernel with KASAN, lockdep
// and kmemleak, none of which may say a word. make soak ROOM=o2g-debug runs it,
// and with SKEP_O2G_PARTS="device stop" some of the parts, each in any order.
func TestO2gDebug(t *testing.T) {
	kernel := os.Getenv("SKEP_DEBUG_KERNEL")
	if kernel == "" {
		t.Skip("SKEP_DEBUG_KERNEL is not set: run make soak ROOM=o2g-debug")
	}
	g := bootO2g(t, lab.Machine{
		Kernel: kernel, Nodes: 3, Memory: 2048,
		Append: "loglevel=7", // kmemleak speaks softly
	}, 4*time.Hour)
	g.slowness = debugSlowness
	g.runParts(kernel)
	nothingLeaked(t, g.vm)
	g.unload("")
}
