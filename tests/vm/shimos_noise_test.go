// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"testing"

	"skep/internal/lab"
)

// Intervals of the test image's loops: see image/slot.h.
const (
	loopQuiet = 8
	loopNoisy = 9
)

// interrupts shows that the counter which finds nothing on lent cores would
// find interrupts there: all CPUs are Linux's, and CPU 3 is lent once more.
func (m *smsMachine) interrupts(t *testing.T) {
	m.vm.Run(lab.Program{Args: []string{tool(t, "lend_noise"), tool(t, "image")}}, 6)
	counts, err := lab.ReadCounts(m.counts)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		number int
		noise  bool
	}{{loopQuiet, false}, {loopNoisy, true}} {
		f := counts.Figures[lab.Interval{CPU: 3, Number: c.number}]
		if f == nil || f.Times != 1 || f.Open || f.User < 2e6 {
			t.Fatalf("interval %d was not counted: %+v", c.number, f)
		}
		if (f.Kernel > 0) != c.noise || (f.Entries > 0) != c.noise {
			t.Errorf("interrupts are on: %v; %d instructions met %d of the image's handlers and %d entries",
				c.noise, f.User, f.Kernel, f.Entries)
		}
	}
	f := counts.Figures[lab.Interval{CPU: 3, Number: loopNoisy}]
	t.Logf("interrupts on: %d entries, %d instructions of handlers", f.Entries, f.Kernel)
}
