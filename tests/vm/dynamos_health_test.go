// SPDX-License-Identifier: MIT

//go:build linux

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
	"skep/tests/vmtest/report"
)

// tryingVar names the parts of TestDynamosHealth to run: SKEP_TRY_PARTS="bad".
const tryingVar = "SKEP_TRY_PARTS"

// trialMachine returns a machine in which updates by hand change functions that others
// call at the same time.
func trialMachine(kernel string) lab.Machine {
	return lab.Machine{Kernel: kernel, CPUs: 4, InTurns: true, Modules: []string{"dynamos"}}
}

// builtModule returns a module of this kernel that is for tests only.
func builtModule(t *testing.T, kernel, name string) string {
	build, err := lab.BuildDir()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(build, "kmod", kernel, name, name+".ko")
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// tryingParts run in this order in one machine; the last one ends with a node
// that is to be rebooted.
var tryingParts = []struct {
	name  string
	floor int
	more  []string // modules after dynamos_try
}{
	{"class", 35, nil},
	{"coexist", 67, []string{"dynamos_rival", "dynamos_hand"}},
	{"bad", 134, nil},
}

// Classes keep their promises, and faulty updates are reverted before they do more harm.
func TestDynamosHealth(t *testing.T) {
	chosen := strings.Fields(os.Getenv(tryingVar))
	vmtest.Each(t, func(t *testing.T, kernel string) {
		vm := vmtest.Boot(t, trialMachine(kernel), vmtest.Limit(4*time.Minute))
		for _, p := range tryingParts {
			named := slices.Contains(chosen, p.name)
			if !named && (len(chosen) > 0 || p.name == "coexist" && !vmtest.IsLong(kernel, "6.1")) {
				continue
			}
			if p.name == "bad" {
				vm.Expect(report.Warning, "try_warn", 1)
				vm.Expect(report.Warning, "try_helper", 1)
				vm.Expect(report.Bug, "try_atomic", 1)
				vm.Expect(report.Bug, "process_one_work", 1) // after try_leak
				vm.Expect(report.Bug, "worker_thread", 1)    // which then sleeps
				vm.Expect(report.Oops, "try_null", 1)
				vm.Expect(report.Oops, "try_mutex", 1)
			}
			began := time.Now()
			args := []string{toolPath(t, "dynamos_"+p.name), builtModule(t, kernel, "dynamos_try")}
			more, floor := p.more, p.floor
			if p.name == "coexist" && kernel == "6.12" && len(chosen) == 0 {
				// On this kernel a livepatch changes the text of each
				// cond_resched(), which takes a minute in the
				// emulator. If this part is selected, all of it runs.
				more, floor = more[:1], floor-26
			}
			for _, m := range more {
				args = append(args, builtModule(t, kernel, m))
			}
			vm.Run(lab.Program{Args: args}, floor)
			t.Logf("%s took %v", p.name, time.Since(began).Round(time.Second))
		}
	})
}
