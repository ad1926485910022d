// SPDX-License-Identifier: MIT

package lab

import (
	"strings"
	"testing"
)

// Only a breakpoint as the first report and without a module is ignored; everything else
// is a failure.
func TestStaleText(t *testing.T) {
	tests := []struct {
		name, console string
		want          bool
	}{
		{"a breakpoint at boot", "[    3.66] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI\n[    3.67] Modules linked in:\n[    3.68] Oops: int3: 0000 [#2] PREEMPT\n[    3.69] Kernel panic - not syncing\n", true},
		{"as 6.1 says it", "[    2.60] int3: 0000 [#1] PREEMPT SMP NOPTI\n[    2.61] Modules linked in: \n", true},
		{"with a module", "[    9.66] Oops: int3: 0000 [#1] PREEMPT SMP NOPTI\n[    9.67] Modules linked in: o2g(OE)\n", false},
		{"a second report", "[    2.60] BUG: kernel NULL pointer dereference\n[    2.61] Oops: 0000 [#1] PREEMPT\n[    2.62] Modules linked in:\n[    2.63] int3: 0000 [#2] PREEMPT\n", false},
		{"another trap", "[    2.60] invalid opcode: 0000 [#1] PREEMPT SMP\n[    2.61] Modules linked in:\n", false},
		{"nothing", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := staleText(strings.NewReader(tt.console)); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
	var none *Guest
	if none.staleText() || (&Guest{accel: "kvm"}).staleText() {
		t.Error("a machine that was not emulated was passed over")
	}
}
