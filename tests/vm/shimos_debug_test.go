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
// make vm-debug-test runs this.
func TestDebugKernelShimos(t *testing.T) {
	kernel := os.Getenv("SKEP_DEBUG_KERNEL")
	if kernel == "" {
		t.Skip("SKEP_DEBUG_KERNEL is not set: run make vm-debug-test")
	}
	m := lending(kernel)
	m.Memory, m.Append = 2048, "loglevel=7" // kmemleak speaks softly
	vm := vmtest.Boot(t, m, vmtest.Limit(20*time.Minute))
	vm.Run(lab.Program{Args: []string{tool(t, "lend_rules"), tool(t, "image")}}, 63)
	vm.Run(lab.Program{Args: []string{tool(t, "lend_cycle"), tool(t, "image"), "3", "3"}}, 4)
	leaks := vm.Output(shell(`
		leaks=/sys/kernel/debug/kmemleak
		[ -e $leaks ] || mount -t debugfs none /sys/kernel/debug
		sleep 6; echo scan >$leaks; echo scan >$leaks; cat $leaks`))
	if leaks != "" {
		t.Errorf("kmemleak:\n%s", leaks)
	}
}
