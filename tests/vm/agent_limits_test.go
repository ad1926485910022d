// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"cmp"
	"os"
	"strings"
	"testing"
	"time"

	"skep/lab"
	"skep/tests/vmtest"
	"skep/tests/vmtest/report"
)

// Control groups hold programs to their limits, also those that outrun the agent's measurements.
// This computer may have no controllers to give, so the agent's tests run in a guest.
func TestAgentLimits(t *testing.T) {
	kernel := cmp.Or(os.Getenv(walkVar), walkKernel)
	vm := vmtest.Boot(t, lab.Machine{Kernel: kernel, CPUs: 2, InTurns: true, Memory: 1024}, vmtest.Limit(8*time.Minute))
	vm.Expect(report.Unexpected, "oom_kill_process", 2)
	out := vm.Output(lab.Program{
		Args: []string{toolPath(t, "agent.test"), "-test.v", "-test.run", "^TestGuest"},
		Env:  []string{"AGENT_TEST_WORKER=" + toolPath(t, "../agent/worker"), "PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
	})
	for _, name := range []string{"TestGuestKernelEnforces", "TestGuestKernelIsNamed", "TestGuestDelegated", "TestGuestControllersAreTaken", "TestGuestLimits"} {
		checkGuest(t, name, strings.Contains(out, "--- PASS: "+name+" "), "%s", out)
	}
	g := newGangs(t, vm)
	g.turns()
	g.groups()
}
