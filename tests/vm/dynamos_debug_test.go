// SPDX-License-Identifier: MIT

//go:build linux && debugkernel

package vm

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/lab"
	"skep/tests/vmtest"
)

// A debug kernel finds no fault in locks, objects and accesses of the engine. make soak
// ROOM=dynamos-debug runs this; SKEP_ENGINE_PARTS="life" or SKEP_TRY_PARTS="class" selects parts.
func TestDynamosDebug(t *testing.T) {
	kernel := os.Getenv("SKEP_DEBUG_KERNEL")
	if kernel == "" {
		t.Skip("SKEP_DEBUG_KERNEL is not set: run make soak ROOM=dynamos-debug")
	}
	m := trialMachine(kernel)
	m.InTurns = false                       // this kernel is slow
	m.Memory, m.Append = 2048, "loglevel=7" // kmemleak speaks softly
	vm := vmtest.Boot(t, m, vmtest.Limit(2*time.Hour))
	chosen := strings.Fields(os.Getenv(engineVar) + " " + os.Getenv(tryingVar))
	run := func(name string, floor int, args ...string) {
		if len(chosen) > 0 && !slices.Contains(chosen, name) {
			return
		}
		began := time.Now()
		vm.Run(lab.Program{Args: args}, floor)
		t.Logf("%s took %v", name, time.Since(began).Round(time.Second))
	}
	for _, p := range engineParts {
		name := p.name
		if name == "10" {
			name = "5" // this kernel is slow
		}
		run(name, p.floor, toolPath(t, "dynamos_engine"), handModule(t, kernel, "dynamos_hand"),
			handModule(t, kernel, "dynamos_next"), handModule(t, kernel, "dynamos_try"), name)
	}
	// The bad updates are planted faults, which end lockdep. The kernel lacks LSMs and BTF.
	lacks := map[string]int{"class": 16, "coexist": 15}
	for _, p := range tryingParts {
		if p.name == "bad" {
			continue
		}
		args := []string{toolPath(t, "dynamos_"+p.name), builtModule(t, kernel, "dynamos_try")}
		for _, m := range p.more {
			args = append(args, builtModule(t, kernel, m))
		}
		run(p.name, p.floor-lacks[p.name], args...)
	}
	nothingLeaked(t, vm)
	engineUnloads(t, vm, 600)
}
