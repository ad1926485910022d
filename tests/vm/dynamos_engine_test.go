// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"skep/lab"
	"skep/tests/vmtest"
)

// engineVar names the parts of TestDynamosEngine to run, for work on one of
// them: SKEP_ENGINE_PARTS="life together".
const engineVar = "SKEP_ENGINE_PARTS"

// engineParts run in this order, all in one machine of each kernel. A number is a count of cycles
// under load, which soakVar overrides. Parts of the long form take long, and run on one kernel
// unless all is wanted.
var engineParts = []struct {
	name  string
	floor int
	long  bool
}{
	{"refusals", 8, false},
	{"unauthorized", 3, false},
	{"life", 26, false},
	{"balance", 11, false},
	{"10", 3, true},
	{"sleepers", 19, false},
	{"supersede", 42, false},
	{"together", 21, true},
	{"straight", 14, true},
	{"ends", 19, false},
	{"loop", 48, false},
	{"hooks", 18, false},
	{"hostile", 6, false},
}

// handModule returns the module of an update written by hand.
func handModule(t *testing.T, kernel, name string) string {
	t.Helper()
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(build, "kmod", kernel, name, name+".ko")
}

// Updates written by hand are applied, counted and reverted.
func TestDynamosEngine(t *testing.T) {
	chosen := strings.Fields(os.Getenv(engineVar))
	vmtest.Each(t, func(t *testing.T, kernel string) {
		limit, cycles := 8*time.Minute, os.Getenv(soakVar)
		if cycles != "" {
			limit = time.Hour
		}
		vm := vmtest.Boot(t, lab.Machine{Kernel: kernel, CPUs: 4, InTurns: true, Modules: []string{"dynamos"}}, vmtest.Limit(limit))
		for _, p := range engineParts {
			named := slices.Contains(chosen, p.name)
			if !named && (len(chosen) > 0 || p.long && !vmtest.IsLong(kernel, "6.12") && cycles == "") {
				continue
			}
			began, name := time.Now(), p.name
			if name == "10" && cycles != "" {
				name = cycles
			}
			vm.Run(lab.Program{Args: []string{toolPath(t, "dynamos_engine"), handModule(t, kernel, "dynamos_hand"),
				handModule(t, kernel, "dynamos_next"), handModule(t, kernel, "dynamos_try"), name}}, p.floor)
			t.Logf("%s took %v", name, time.Since(began).Round(time.Second))
		}
		engineUnloads(t, vm, 100)
		vm.Output(shellProgram("insmod " + handModule(t, kernel, "dynamos")))
		vm.Run(lab.Program{Args: []string{toolPath(t, "dynamos_program"), handModule(t, kernel, "dynamos_try")}}, 50)
		// The update of this program stays for ever.
		vm.Run(lab.Program{Args: []string{toolPath(t, "dynamos_held"), handModule(t, kernel, "dynamos_hand")}}, 16)
	})
}

// rmmodEngine tries to unload the module for a number of tenths of a second: a slot stays until
// all calls of the kernel's own function have returned.
func rmmodEngine(tenths int) string {
	return fmt.Sprintf("i=0; until rmmod dynamos || [ $i = %d ]; do i=$((i+1)); sleep 0.1; done 2>/dev/null; ", tenths)
}

func engineUnloads(t *testing.T, vm *vmtest.VM, tenths int) {
	t.Helper()
	text := vm.Output(shellProgram(rmmodEngine(tenths) + "! grep -q ^dynamos /proc/modules && echo gone"))
	checkGuest(t, "the engine unloads", strings.HasSuffix(text, "gone\n"), "it says %q", text)
}
