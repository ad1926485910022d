// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"testing"

	"skep/lab"
)

// Intervals of the test image's loops: see image/slot.h.
const (
	loopQuiet = 8
	loopNoisy = 9
)

// Intervals of the test image that hold a time of idleness: none, a storm's,
// and none with a few instructions more.
const (
	idleBriefly = 10
	idleInStorm = 11
	idleAndMore = 12
)

// idlePark is how many instructions a parked core has between its answer and its halt. Linux sees the answer and sends
// INIT, which may come before them or after them.
const idlePark = 4

// testIdle shows that an idle partition executes no instruction: stop and start
// take as many with a storm on Linux in between as without, but for those of
// idlePark. One instruction for each broadcast would be 30,000. CPU 3 is lent.
func (m *smsMachine) testIdle(t *testing.T) {
	m.vm.Run(lab.Program{Args: []string{toolPath(t, "lend_idle"), toolPath(t, "image")}}, 5)
	counts, err := lab.ReadCounts(m.counts)
	if err != nil {
		t.Fatal(err)
	}
	var n [3]int
	for i := range n {
		f := counts.Figures[lab.Interval{CPU: 3, Number: idleBriefly + i}]
		if f == nil || f.Times != 1 || f.Open {
			t.Fatalf("interval %d was not counted: %+v", idleBriefly+i, f)
		}
		n[i] = int(f.User + f.Kernel)
	}
	if d := n[idleInStorm-idleBriefly] - n[0]; n[0] == 0 || d < -idlePark || d > idlePark {
		t.Errorf("a stop and a start were %d instructions, with a storm in between %d", n[0], n[1])
	}
	if more := n[idleAndMore-idleBriefly] - n[0]; more <= idlePark || more > 100 {
		t.Errorf("a few instructions more were %d", more)
	}
	t.Logf("a stop and a start: %d instructions, with a storm in between %d, with something done %d", n[0], n[1], n[2])
}

// testInterrupts shows that the counter which finds nothing on lent cores would
// find interrupts there: all CPUs are Linux's, and CPU 3 is lent once more.
func (m *smsMachine) testInterrupts(t *testing.T) {
	m.vm.Run(lab.Program{Args: []string{toolPath(t, "lend_noise"), toolPath(t, "image")}}, 6)
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
