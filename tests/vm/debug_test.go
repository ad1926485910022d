// SPDX-License-Identifier: MIT

//go:build linux && debugkernel

package vm

import (
	"os"
	"testing"
	"time"

	"skep/lab"
	"skep/tests/vmtest"
	"skep/tests/vmtest/report"
)

// The debug kernel finds what its checks are for: each planted fault, and
// nothing in a machine that has our modules, a disk and nodes. make
// vm-debug-test runs this; it is not part of make test.
func TestDebugKernel(t *testing.T) {
	kernel := os.Getenv("SKEP_DEBUG_KERNEL")
	if kernel == "" {
		t.Skip("SKEP_DEBUG_KERNEL is not set: run make vm-debug-test")
	}
	vm := vmtest.Boot(t, lab.Machine{
		Kernel: kernel, Memory: 2048, Nodes: 2,
		Disks:   []lab.Disk{{MiB: 64, Swap: true}},
		Modules: []string{"trivial", "planted"},
		Append:  "loglevel=7", // kmemleak speaks softly
	}, vmtest.Limit(20*time.Minute))
	vm.Output(shell("rmmod trivial && modprobe -n -v ext4 >/dev/null"))

	// Whatever shakes the kernel's belief in itself ends lockdep: it is first.
	vm.Expect(report.Lockdep, "plant_lockorder", 1)
	vm.Output(plant("lockorder"))
	vm.Expect(report.UBSAN, "plant_ubsan", 1)
	vm.Output(plant("ubsan"))
	vm.Expect(report.KASAN, "plant_uaf", 1)
	vm.Output(plant("uaf"))

	// An object is a leak once it is five seconds old and two scans found no
	// pointer to it.
	vm.Expect(report.Leak, "", 1)
	vm.Output(plant("leak"))
	found := vm.Output(shell(`
		leaks=/sys/kernel/debug/kmemleak
		[ -e $leaks ] || mount -t debugfs none /sys/kernel/debug
		end=$(($(date +%s) + 300))
		while [ $(date +%s) -lt $end ]; do
			echo scan >$leaks
			if grep plant_leak $leaks; then exit 0; fi
		done
		cat $leaks >&2`))
	if found == "" {
		t.Error("kmemleak did not find what plant_leak lost")
	}
}

// nothingLeaked: nothing that is older than a whole scan is without a pointer
// to it.
func nothingLeaked(t *testing.T, vm *vmtest.VM) {
	t.Helper()
	text := vm.Output(shell(`
		leaks=/sys/kernel/debug/kmemleak
		[ -e $leaks ] || mount -t debugfs none /sys/kernel/debug
		sleep 6; echo scan >$leaks; echo scan >$leaks
		cat $leaks; echo scanned`))
	claim(t, "nothing leaked", text == "scanned\n", "kmemleak:\n%s", text)
}
