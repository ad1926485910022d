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

// The debug kernel reports each planted fault, and nothing in a machine that has our modules, a
// disk and nodes. make vm-debug-test runs this; it is not part of make test.
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
	vm.Output(shellProgram("rmmod trivial && modprobe -n -v ext4 >/dev/null"))

	// Other faults turn lockdep off, so its test is the first.
	vm.Expect(report.Lockdep, "plant_lockorder", 1)
	vm.Output(plantProgram("lockorder"))
	vm.Expect(report.UBSAN, "plant_ubsan", 1)
	vm.Output(plantProgram("ubsan"))
	vm.Expect(report.KASAN, "plant_uaf", 1)
	vm.Output(plantProgram("uaf"))

	// An object counts as leaked when it is five seconds old and two scans
	// found no pointer to it.
	vm.Expect(report.Leak, "", 1)
	vm.Output(plantProgram("leak"))
	found := vm.Output(shellProgram(`
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

// nothingLeaked checks that every object that is older than a whole scan has a pointer to it.
func nothingLeaked(t *testing.T, vm *vmtest.VM) {
	t.Helper()
	text := vm.Output(shellProgram(`
		leaks=/sys/kernel/debug/kmemleak
		[ -e $leaks ] || mount -t debugfs none /sys/kernel/debug
		sleep 6; echo scan >$leaks; echo scan >$leaks
		cat $leaks; echo scanned`))
	checkGuest(t, "nothing leaked", text == "scanned\n", "kmemleak:\n%s", text)
}
