// SPDX-License-Identifier: MIT

//go:build linux && debugkernel

package vm

import (
	"os"
	"testing"
	"time"

	"skep/internal/lab"
	"skep/internal/lab/vmtest"
)

// No lock, object or access of the module is wrong for a kernel that looks;
// make soak ROOM=shimos-debug runs this.
func TestShimosDebug(t *testing.T) {
	kernel := os.Getenv("SKEP_DEBUG_KERNEL")
	if kernel == "" {
		t.Skip("SKEP_DEBUG_KERNEL is not set: run make soak ROOM=shimos-debug")
	}
	m := lending(kernel)
	m.Memory, m.Append = 2048, m.Append+" loglevel=7" // kmemleak speaks softly
	vm := vmtest.Boot(t, m, vmtest.Limit(time.Hour))
	for _, p := range lendingParts {
		began := time.Now()
		args := append([]string{tool(t, "lend_"+p.name), tool(t, "image")}, p.brief...)
		floor := p.floor
		if p.name == "rules" {
			floor-- // this kernel cannot sleep, which is then skipped
		}
		vm.Run(lab.Program{Args: args}, floor)
		t.Logf("%s took %v", p.name, time.Since(began).Round(time.Second))
	}
	leaks := vm.Output(shell(`
		leaks=/sys/kernel/debug/kmemleak
		[ -e $leaks ] || mount -t debugfs none /sys/kernel/debug
		sleep 6; echo scan >$leaks; echo scan >$leaks; cat $leaks`))
	if leaks != "" {
		t.Errorf("kmemleak:\n%s", leaks)
	}
}
