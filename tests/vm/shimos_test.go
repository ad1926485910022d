// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"testing"
	"time"

	"skep/internal/lab"
	"skep/internal/lab/vmtest"
)

// lending boots a machine that can lend CPUs 1 to 3.
func lending(t *testing.T, kernel string) *vmtest.VM {
	t.Helper()
	return vmtest.Boot(t, lab.Machine{Kernel: kernel, CPUs: 4, Modules: []string{"shimos"}}, vmtest.Limit(5*time.Minute))
}

// Cores and memory come and go, and the machine is whole afterwards.
func TestShimosCycle(t *testing.T) {
	vmtest.Each(t, func(t *testing.T, kernel string) {
		vm := lending(t, kernel)
		vm.Run(lab.Program{Args: []string{tool(t, "lend_cycle"), tool(t, "image"), "25", "100"}}, 4)
	})
}
