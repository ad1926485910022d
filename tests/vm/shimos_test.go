// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"testing"
	"time"

	"skep/internal/lab"
	"skep/internal/lab/vmtest"
)

// lending boots a machine that can lend CPUs 1 to 3. Linux clears no memory
// there by itself, so that the module must.
func lending(t *testing.T, kernel string) *vmtest.VM {
	t.Helper()
	return vmtest.Boot(t, lab.Machine{
		Kernel: kernel, CPUs: 4, Modules: []string{"shimos"}, Append: "init_on_alloc=0",
	}, vmtest.Limit(6*time.Minute))
}

// Cores and memory come and go, and the machine is whole afterwards.
func TestShimosCycle(t *testing.T) {
	vmtest.Each(t, func(t *testing.T, kernel string) {
		vm := lending(t, kernel)
		vm.Run(lab.Program{Args: []string{tool(t, "lend_cycle"), tool(t, "image"), "25", "100"}}, 4)
	})
}

// Who may have what, and what the machine must not do meanwhile.
func TestShimosRules(t *testing.T) {
	vmtest.Each(t, func(t *testing.T, kernel string) {
		vm := lending(t, kernel)
		vm.Run(lab.Program{Args: []string{tool(t, "lend_rules"), tool(t, "image")}}, 64)
	})
}

// Stops that nobody helps with, and memory that tells nothing.
func TestShimosForce(t *testing.T) {
	vmtest.Each(t, func(t *testing.T, kernel string) {
		vm := lending(t, kernel)
		vm.Run(lab.Program{Args: []string{tool(t, "lend_force"), tool(t, "image")}}, 48)
	})
}

// Nothing is lost while Linux interrupts, hotplugs and swaps for all it can.
func TestShimosStorm(t *testing.T) {
	vmtest.Each(t, func(t *testing.T, kernel string) {
		vm := lending(t, kernel)
		vm.Run(lab.Program{Args: []string{tool(t, "lend_storm"), tool(t, "image"), "4"}}, 6)
	})
}
