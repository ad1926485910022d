// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"fmt"
	"os"
	"testing"
	"time"

	"skep/lab"
	"skep/tests/vmtest"
	"skep/tests/vmtest/report"
)

// plantedVar selects the planted test that TestLabPlanted runs in another process, because a test
// that must fail cannot be counted itself.
const plantedVar = "SKEP_PLANTED"

func TestLabPlanted(t *testing.T) {
	if name := os.Getenv(plantedVar); name != "" {
		planted[name](t)
		return
	}
	used := map[string]bool{"killed": true, "orphaned": true}
	for _, g := range guards {
		used[g.name] = true
	}
	for name := range planted {
		if !used[name] {
			t.Errorf("no guard is shown %q", name)
		}
		delete(used, name)
	}
	for name := range used {
		t.Errorf("no test called %q is planted", name)
	}
}

// planted holds tests that a developer could write, most of them faulty. Their machines are called
// "planted-" and their name.
var planted = map[string]func(*testing.T){
	"undeclared": func(t *testing.T) {
		vm := bootPlanted(t, "undeclared", 0)
		// The report must be found after a program's output on the console.
		vm.Output(shellProgram("yes 'WARNING: this is a program' | head -c 300000 >/dev/console"))
		vm.Output(plantProgram("warn"))
	},
	"declared": func(t *testing.T) {
		vm := bootPlanted(t, "declared", 1)
		vm.Expect(report.Warning, "plant_warn", 1)
		vm.Expect(report.Bug, "plant_bug", 1)
		vm.Expect(report.Oops, "plant_null", 1)
		vm.Expect(report.Bug, "", 1) // its function depends on what the compiler inlined
		for _, word := range []string{"warn", "bug", "null", "atomic"} {
			vm.Output(shellProgram("(echo " + word + " >/proc/skep_planted); true"))
		}
	},
	"absent": func(t *testing.T) {
		vm := bootPlanted(t, "absent", 0)
		vm.Expect(report.Warning, "plant_warn", 2)
		vm.Expect(report.Bug, "plant_bug", 1)
		vm.Output(plantProgram("warn"))
	},
	"panic": func(t *testing.T) {
		vm := bootPlanted(t, "panic", 0)
		vm.Run(shellProgram("echo ok 1 - before it; sleep 1; echo panic >/proc/skep_planted"), 1)
	},
	"hang": func(t *testing.T) {
		vm := bootPlanted(t, "hang", 1)
		vm.Allow(6 * time.Second)
		vm.Run(shellProgram("echo 1..2; echo ok 1 - before it; sleep 1; echo spin >/proc/skep_planted"), 1)
	},
	"reports": func(t *testing.T) {
		vm := bootPlanted(t, "reports", 0)
		vm.Run(shellProgram("echo ok 1 - without a plan"), 1)
		vm.Run(shellProgram("echo ok 1 - left out '# SKIP no reason at all'; echo 1..1"), 1)
		vm.Run(shellProgram("echo ok 1 - one; echo ok 2 - two; echo 1..2"), 3)
		vm.Run(shellProgram("echo ok 1 - fine; echo 1..1; exit 3"), 1)
		vm.Run(shellProgram("head -c 100000 /dev/urandom"), 1)
	},
	"killed": func(t *testing.T) {
		vm := bootPlanted(t, "killed", 0)
		fmt.Println(upLine)
		vm.Run(shellProgram("echo ok 1 - before it; sleep 300"), 1)
	},
	"orphaned": func(t *testing.T) {
		vm := bootPlanted(t, "orphaned", 1)
		fmt.Println(upLine)
		vm.Output(shellProgram("sleep 300"))
	},
}

// upLine reports to the guard that the planted test's machine runs.
const upLine = "planted: up"

func bootPlanted(t *testing.T, name string, kernel int) *vmtest.VM {
	t.Helper()
	return vmtest.Boot(t, lab.Machine{
		Name: "planted-" + name, Kernel: lab.Series()[kernel], Memory: 512,
		Modules: []string{"planted"},
	})
}

func shellProgram(script string) lab.Program {
	return lab.Program{Args: []string{"/bin/sh", "-c", script}}
}

func plantProgram(word string) lab.Program {
	return shellProgram("echo " + word + " >/proc/skep_planted")
}
