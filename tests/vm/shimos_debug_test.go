// SPDX-License-Identifier: MIT

//go:build linux && debugkernel

package vm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/lab"
	"skep/tests/vmtest"
)

// A debug kernel finds no fault in locks, objects and accesses of the module. make soak
// ROOM=shimos-debug runs this.
func TestShimosDebug(t *testing.T) {
	kernel := os.Getenv("SKEP_DEBUG_KERNEL")
	if kernel == "" {
		t.Skip("SKEP_DEBUG_KERNEL is not set: run make soak ROOM=shimos-debug")
	}
	m := lendingMachine(kernel)
	m.Memory, m.Append = 2048, m.Append+" loglevel=7" // kmemleak speaks softly
	vm := vmtest.Boot(t, m, vmtest.Limit(100*time.Minute))
	chosen := strings.Fields(os.Getenv(lendingVar))
	skipped := func(part string) bool { return len(chosen) > 0 && !slices.Contains(chosen, part) }
	if !skipped("programs") { // on partition 1: first
		onLent(t, vm)
	}
	for _, p := range lendingParts {
		if skipped(p.name) {
			continue
		}
		began := time.Now()
		args := append([]string{toolPath(t, "lend_"+p.name), toolPath(t, "image")}, p.brief...)
		floor := p.floor
		if p.name == "rules" {
			floor-- // this kernel cannot sleep, which is then skipped
		}
		vm.Run(lab.Program{Args: args}, floor)
		t.Logf("%s took %v", p.name, time.Since(began).Round(time.Second))
	}
	if !skipped("wild") {
		vm.Run(lab.Program{Args: []string{toolPath(t, "lend_wild"), toolPath(t, "image"), "500"}}, 4)
	}
	if !skipped("bound") {
		t.Run("bound", func(t *testing.T) { testBoundThread(t, vm) })
	}
	nothingLeaked(t, vm)
}

// onLent runs programs on sms, for what the module does for them.
func onLent(t *testing.T, vm *vmtest.VM) {
	m := &smsMachine{vm: vm, bin: filepath.Dir(skepOf(t))}
	m.runShell(t, `install -o 0 -g 0 -m 644 $B/sms.image /run/sms.image
		echo /run/sms.image >/sys/module/shimos/parameters/image
		$B/skep part create --cpus 2-3 --mem 128M --name p`)
	t.Run("hello", m.testHello)
	t.Run("threads", m.testThreads)
	t.Run("signals", m.testSignals)
	t.Run("blocking", m.testBlocking)
	t.Run("faults", m.testFaults)
	t.Run("killed", m.testKilled)
	m.runShell(t, "$B/skep part release p && echo >/sys/module/shimos/parameters/image") // the rules begin without
}
