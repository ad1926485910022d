// SPDX-License-Identifier: MIT

//go:build linux

package update

import (
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"skep/dynamos/update/source"
	"skep/internal/uapi"
)

// programsAre lets the kernel have programs of these numbers, each a descriptor of a file.
func programsAre(t *testing.T, known ...uint32) (opened map[int]uint32) {
	t.Helper()
	opened = map[int]uint32{}
	real := bpf
	bpf = func(command uintptr, attr unsafe.Pointer, _ uintptr) (int, unix.Errno) {
		id := *(*uint32)(attr)
		for _, one := range known {
			if command == unix.BPF_PROG_GET_FD_BY_ID && one == id {
				fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					t.Fatal(err)
				}
				opened[fd] = id
				return fd, 0
			}
		}
		return -1, unix.ENOENT
	}
	t.Cleanup(func() { bpf = real })
	return opened
}

func programRules(ids ...int32) (p uapi.DynamosPolicy) {
	for _, id := range ids {
		p.Rule[p.Rules] = uapi.DynamosRule{Terms: uapi.DynamosProgram, Choice: 1, PID: id}
		p.Rules++
	}
	p.Rule[p.Rules] = uapi.DynamosRule{Terms: uapi.DynamosPID, PID: 7}
	p.Rules++
	return p
}

// The module gets a descriptor for each program, which is closed afterwards, and the caller
// keeps the numbers.
func TestProgramsAreDescriptors(t *testing.T) {
	opened := programsAre(t, 7, 9)
	p := programRules(9, 7)
	calls := 0
	err := withPrograms(&p, func() error {
		calls++
		if opened[int(p.Rule[0].PID)] != 9 || opened[int(p.Rule[1].PID)] != 7 || p.Rule[2].PID != 7 {
			t.Errorf("%v, %d, %d, %d", opened, p.Rule[0].PID, p.Rule[1].PID, p.Rule[2].PID)
		}
		return nil
	})
	if err != nil || calls != 1 || p != programRules(9, 7) {
		t.Errorf("%v, %d calls, %+v", err, calls, p.Rule[:3])
	}
	for fd := range opened {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
			t.Errorf("descriptor %d is open: %v", fd, err)
		}
	}
	p = programRules(7, 8)
	if err := withPrograms(&p, func() error { t.Error("a policy is set without its program"); return nil }); !isRefused(err, "no BPF program 8 any more") || p != programRules(7, 8) {
		t.Errorf("%v, %+v", err, p.Rule[:3])
	}
	if name := ProgramName(8); name != "" {
		t.Errorf("%q", name)
	}
}

// A descriptor of what is no program would have its number among the programs.
func TestOnlyProgramsAreAsked(t *testing.T) {
	programsAre(t, 7)
	if name := ProgramName(7); name != "" {
		t.Errorf("%q", name)
	}
	fd, err := programByID(7)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := programInfo(fd); !isRefused(err, "not a program") {
		t.Error(err)
	}
}

// A module from before there were programs refuses the term.
func TestModuleWithoutPrograms(t *testing.T) {
	p := programRules(7)
	why := refusef("rule 1: its term is unknown to this revision")
	if err := knowsPolicy(&p, why); !errors.Is(err, errFormer) {
		t.Error(err)
	}
	p.Rule[0].Terms = uapi.DynamosUID
	if err := knowsPolicy(&p, why); !errors.Is(err, why) {
		t.Error(err)
	}
}

// What the scheduler, NMIs or BPF run through asks no program.
func TestFilesWithoutPrograms(t *testing.T) {
	for path, want := range map[string]bool{"kernel/sched/fair.c": true, "kernel/bpf/helpers.c": true, "kernel/rcu/tree.c": true, "kernel/locking/mutex.c": true, "kernel/trace/trace.c": true,
		"kernel/events/core.c": true, "arch/x86/entry/common.c": true, "arch/x86/kernel/nmi.c": true, "arch/x86/kernel/process.c": false, "kernel/fork.c": false, "fs/pipe.c": false, "net/sched/sch_api.c": false} {
		if got := refusesPrograms(source.Unit{Path: path}); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
