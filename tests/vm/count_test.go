// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"debug/elf"
	"strings"
	"testing"

	"skep/lab"
	"skep/tests/vmtest"
)

// A static program makes known numbers of calls and instructions between its marks, on each
// kernel. The counter must give exactly these numbers. The intervals are those of
// guest/count.c. The same machine counts what an idle partition executes: nothing.
func TestCount(t *testing.T) {
	program := toolPath(t, "count")
	at := symbolsOf(t, program)
	vmtest.EachLong(t, "6.1", func(t *testing.T, kernel string) {
		count := &lab.Count{
			Ranges: []lab.Range{
				{Name: "plain", Low: at("plain_loop"), High: at("plain_end")},
				{Name: "string", Low: at("string_copy"), High: at("string_end")},
				{Name: "atomic", Low: at("atomic_loop"), High: at("atomic_end")},
				{Name: "all", Low: at("plain_loop"), High: at("atomic_end")},
			},
			At: []uint64{at("plain_head"), at("plain_end")},
		}
		m := bootLending(t, lab.Machine{Kernel: kernel, InTurns: true, Count: count})
		vm := m.vm
		vm.Output(lab.Program{Args: []string{program}})
		kallsyms := vm.Output(lab.Program{Args: []string{"/bin/cat", "/proc/kallsyms"}})
		symbols, err := lab.ReadSymbols(strings.NewReader(kallsyms))
		if err != nil {
			t.Fatal(err)
		}
		counts, err := lab.ReadCounts(m.counts)
		if err != nil {
			t.Fatal(err)
		}
		c := counted{counts, symbols}
		t.Run("system calls", c.checkCalls)
		t.Run("instructions", c.checkInstructions)
		t.Run("nested intervals", c.checkNested)
		t.Run("an idle partition", m.testIdle)
	})
}

// symbolsOf returns the symbol addresses of a program that is linked to fixed addresses.
func symbolsOf(t *testing.T, path string) func(name string) uint64 {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) uint64 {
		for _, s := range list {
			if s.Name == name {
				return s.Value
			}
		}
		t.Fatalf("%s has no symbol %s", path, name)
		return 0
	}
}

type counted struct {
	counts  lab.Counts
	symbols lab.Symbols
}

func (c counted) figuresOf(t *testing.T, number int) lab.Figures {
	t.Helper()
	f, err := c.counts.Of(number)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// countEntered counts how often a kernel function was the first of an entry. All other entries of the kernel are reported by name.
func (c counted) countEntered(t *testing.T, f lab.Figures, function string) uint64 {
	t.Helper()
	address, err := c.symbols.Address(function)
	if err != nil {
		t.Fatal(err)
	}
	for at, n := range f.Entry {
		if at != address {
			t.Logf("%d entries at %s", n, c.symbols.Name(at))
		}
	}
	if f.EntryOther != 0 {
		t.Errorf("%d entries at addresses that nobody kept", f.EntryOther)
	}
	return f.Entry[address]
}

// checkCalls checks that N calls are N entries, that marks are no entries, and that one more
// call is counted.
func (c counted) checkCalls(t *testing.T) {
	for number, want := range []uint64{0, 1, 1000, 1001} {
		f := c.figuresOf(t, number)
		if got := c.countEntered(t, f, "entry_SYSCALL_64"); got != want {
			t.Errorf("interval %d: %d entries by a system call, not %d", number, got, want)
		}
		if want > 0 && f.Kernel < 20*want {
			t.Errorf("interval %d: %d calls took %d instructions in the kernel", number, want, f.Kernel)
		}
	}
}

// countExecuted returns how many instructions of a range were executed. An interrupt between an
// instruction's start and its execution makes it start again, which does not count twice. It
// can only happen with an entry into the kernel.
func countExecuted(t *testing.T, f lab.Figures, name string) uint64 {
	t.Helper()
	if f.Again[name] > f.Entries {
		t.Errorf("%d restarts in the range of %s after %d entries", f.Again[name], name, f.Entries)
	}
	return f.Range[name] - f.Again[name]
}

func (c counted) checkInstructions(t *testing.T) {
	for _, want := range []struct {
		number int
		name   string
		n      uint64
	}{{4, "plain", 1 + 2*1000000}, {5, "string", 4}, {6, "atomic", 2 + 3*1000}} {
		f := c.figuresOf(t, want.number)
		if f.User-f.Restarts < want.n {
			t.Errorf("%s: %d instructions in user space, %d of them again; want at least %d",
				want.name, f.User, f.Restarts, want.n)
		}
		if len(f.Range) != 4 {
			t.Errorf("%s: figures of %d ranges, not 4", want.name, len(f.Range))
		}
		for other := range f.Range {
			n := countExecuted(t, f, other)
			if inside := other == want.name || other == "all"; inside != (n == want.n) || !inside && n != 0 {
				t.Errorf("%s: %d instructions in the range of %s, begun again %d times; want %d inside",
					want.name, n, other, f.Again[other], want.n)
			}
		}
		if n := c.countEntered(t, f, "entry_SYSCALL_64"); n != 0 {
			t.Errorf("%s: %d system calls", want.name, n)
		}
	}
	at := c.figuresOf(t, 4).At
	if len(at) != 2 {
		t.Fatalf("counts at %d addresses, not 2", len(at))
	}
	for address, n := range at {
		if n != 0 && n != 1000000 {
			t.Errorf("%#x was executed %d times", address, n)
		}
	}
	var sum uint64
	for _, n := range at {
		sum += n
	}
	if sum != 1000000 {
		t.Errorf("the head of the loop and what follows its end were executed %d times", sum)
	}
}

// checkNested checks an interval in two parts inside another one.
func (c counted) checkNested(t *testing.T) {
	outer, inner := c.figuresOf(t, 8), c.figuresOf(t, 9)
	if outer.Times != 1 || inner.Times != 2 {
		t.Errorf("the outer interval ended %d times, the inner %d times", outer.Times, inner.Times)
	}
	for _, f := range []lab.Figures{outer, inner} {
		if n := c.countEntered(t, f, "entry_SYSCALL_64"); n != 7 {
			t.Errorf("%d system calls, not 7", n)
		}
	}
	if outer.User < inner.User {
		t.Errorf("%d user instructions outside, %d inside", outer.User, inner.User)
	}
}
