// SPDX-License-Identifier: MIT

//go:build linux

// Package vmtest has Go tests boot machines of the lab: one machine (or pair)
// at a time in a build folder, its TAP as subtests, its console judged, its
// hangs named before `go test` would give up, and nothing left of it but the
// logs of a failure.
//
// It needs what `make vm` builds: kernels, modules and process 1.
package vmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"skep/internal/load"
	"skep/lab"
	"skep/tests/vmtest/report"
)

// margin is what remains of a test's time for saying what went wrong.
const margin = 15 * time.Second

// Each runs f as a subtest for every kernel that VM tests run on.
func Each(t *testing.T, f func(t *testing.T, kernel string)) {
	t.Helper()
	for _, kernel := range lab.Series() {
		t.Run(kernel, func(t *testing.T) { f(t, kernel) })
	}
}

// An Option changes how a machine is tested.
type Option func(*VM)

// Limit is how long the machine may live on an idle computer, two minutes if it
// is not given; Reboot starts it again.
func Limit(d time.Duration) Option { return func(vm *VM) { vm.limit = d } }

// Alone is what the first machine of a pair does before the second one boots.
func Alone(f func(first *VM)) Option { return func(vm *VM) { vm.alone = f } }

// A VM is a machine that belongs to a test. Its methods fail the test where
// the machine does not do what it should.
type VM struct {
	t        *testing.T
	guest    *lab.Guest
	limit    time.Duration
	allowed  time.Duration // of it, with the computer's load and go test's time
	alone    func(*VM)
	deadline time.Time
	expected []report.Report
	dead     bool // its end has been reported
	ordered  bool // it has turned itself off
}

// Boot starts m for this test and waits until no other test has a machine. A
// machine without a name is called after the test. When the test ends, it is
// turned off and its console compared with what Expect declared; the folder
// goes unless the test failed.
func Boot(t *testing.T, m lab.Machine, options ...Option) *VM {
	t.Helper()
	lockMachine(t)
	vm := newVM(t, options)
	if m.Name == "" {
		m.Name = nameOf(t.Name())
	}
	vm.start(m)
	return vm
}

// Pair starts two machines that are joined by one wire, one after the other.
func Pair(t *testing.T, a, b lab.Machine, options ...Option) (*VM, *VM) {
	t.Helper()
	lockMachine(t)
	if err := lab.Join(&a, &b); err != nil {
		t.Fatal(err)
	}
	defer a.Wire.Close()
	defer b.Wire.Close()
	first := newVM(t, options)
	first.start(a)
	if first.alone != nil {
		first.alone(first)
	}
	second := newVM(t, options)
	second.start(b)
	first.setDeadline()
	return first, second
}

// start boots the machine, which from then on ends with the test.
func (vm *VM) start(m lab.Machine) {
	vm.t.Helper()
	ctx, cancel := vm.context()
	defer cancel()
	var err error
	if vm.guest, err = lab.Start(ctx, m); err != nil {
		vm.t.Fatal(err)
	}
	vm.adoptGuest()
}

func newVM(t *testing.T, options []Option) *VM {
	t.Helper()
	watchParent()
	vm := &VM{t: t, limit: 2 * time.Minute}
	for _, o := range options {
		o(vm)
	}
	vm.setDeadline()
	return vm
}

// setDeadline sets the deadline: the machine's own, or what `go test` leaves.
func (vm *VM) setDeadline() {
	vm.t.Helper()
	now := time.Now()
	end, ok := vm.t.Deadline()
	vm.deadline = deadlineOf(now, vm.limit, load.Scale(), end, ok)
	vm.allowed = vm.deadline.Sub(now).Round(time.Second / 10)
	if !vm.deadline.After(now) {
		vm.t.Fatalf("no time is left for a machine: go test's deadline is less than %v away; give it a longer -timeout", margin)
	}
}

// deadlineOf returns a machine's deadline: before that of `go test`.
func deadlineOf(now time.Time, limit time.Duration, scale float64, end time.Time, ends bool) time.Time {
	own := now.Add(time.Duration(float64(limit) * scale))
	if last := end.Add(-margin); ends && last.Before(own) {
		return last
	}
	return own
}

// Allow returns the machine this much time from now on, instead of what is left
// of its limit.
func (vm *VM) Allow(d time.Duration) {
	vm.t.Helper()
	vm.limit = d
	vm.setDeadline()
}

// context ends with the machine's time.
func (vm *VM) context() (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(context.Background(), vm.deadline,
		fmt.Errorf("the machine's time of %v is over", vm.allowed))
}

// adoptGuest ends the guest with the test.
func (vm *VM) adoptGuest() {
	keepGuest(vm.guest)
	firstUp(time.Now())
	vm.t.Cleanup(func() {
		vm.shutDown()
		vm.judgeConsole()
		forgetGuest(vm.guest)
		if vm.t.Failed() {
			vm.t.Logf("console: %s", vm.path("console.log"))
		} else if err := os.RemoveAll(vm.guest.Dir()); err != nil {
			vm.t.Error(err)
		}
	})
}

func (vm *VM) path(name string) string { return filepath.Join(vm.guest.Dir(), name) }

// Guest is the machine itself.
func (vm *VM) Guest() *lab.Guest { return vm.guest }

// Expect declares that the kernel prints count reports of this kind that name
// this function, or any one if it is empty. The test fails if it prints fewer,
// more, or others.
func (vm *VM) Expect(kind report.Kind, function string, count int) {
	vm.t.Helper()
	if count < 1 {
		vm.t.Fatalf("%d reports can't be expected", count)
	}
	vm.expected = append(vm.expected, report.Report{Kind: kind, Function: function, Count: count})
}

// File gives what the guest wrote to /out/name.
func (vm *VM) File(name string) []byte {
	vm.t.Helper()
	root, err := os.OpenRoot(vm.path("out"))
	if err != nil {
		vm.t.Fatal(err)
	}
	defer root.Close()
	data, err := root.ReadFile(name)
	if err != nil {
		vm.t.Fatalf("brought back from the guest: %v", err)
	}
	return data
}

// Reboot turns the guest off and on again, with the same disks.
func (vm *VM) Reboot() {
	vm.t.Helper()
	vm.setDeadline()
	ctx, cancel := vm.context()
	defer cancel()
	if err := vm.guest.Reboot(ctx); err != nil {
		vm.dead = true
		vm.t.Fatalf("reboot: %v; console: %s", err, vm.path("console.log"))
	}
}

// PowerOff ends the guest in order, for a test that goes on without it. What
// its console said is judged at the end of the test all the same.
func (vm *VM) PowerOff() {
	vm.t.Helper()
	vm.shutDown()
}

// shutDown ends the guest. It gets some time to end in order, even if the test used all of its own: its last messages are judged too.
func (vm *VM) shutDown() {
	select {
	case <-vm.guest.Done():
		if err := vm.guest.Err(); err != nil && !vm.dead {
			vm.t.Errorf("the machine died: %v", err)
		}
		return
	default:
	}
	ctx, cancel := context.WithDeadline(context.Background(), laterOf(vm.deadline, time.Now().Add(margin/2)))
	defer cancel()
	if err := vm.guest.PowerOff(ctx); err != nil {
		vm.t.Errorf("power off: %v", err)
		vm.guest.Kill()
		return
	}
	vm.ordered = true
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// toTheEnd reports whether a console has the last line of a kernel that turned
// the machine off. QEMU drops without a word what it cannot write.
func toTheEnd(console string) bool {
	end, err := endOf(console)
	return err == nil && bytes.Contains(end, []byte("reboot: Power down"))
}

// judgeConsole compares the console with what was declared.
func (vm *VM) judgeConsole() {
	if console := vm.path("console.log"); vm.ordered && !toTheEnd(console) {
		vm.t.Errorf("the console lacks the kernel's last line, so reports may be missing too: is the disk full? console: %s", console)
	}
	f, err := os.Open(vm.path("console.log"))
	if err != nil {
		vm.t.Error(err)
		return
	}
	defer f.Close()
	seen, err := report.Scan(f)
	if err != nil {
		vm.t.Error(err)
		return
	}
	missing, extra := report.Compare(vm.expected, seen)
	for _, r := range extra {
		vm.t.Errorf("the kernel reported what was not declared: %v: %s; console: %s", r, r.Line, f.Name())
	}
	for _, r := range missing {
		vm.t.Errorf("declared, but not on the console: %v; console: %s", r, f.Name())
	}
}

// nameOf makes a test's name that of a machine.
func nameOf(test string) string {
	name := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '.', c == '-':
			return c
		case c >= 'A' && c <= 'Z':
			return c - 'A' + 'a'
		}
		return '-'
	}, strings.TrimPrefix(test, "Test"))
	name = strings.Trim(name, "-.")
	if len(name) > 60 {
		name = strings.Trim(name[len(name)-60:], "-.")
	}
	if name == "" {
		return "vm"
	}
	return name
}

// isDead reports whether an error of a dead machine from one of a program.
func isDead(err error) bool {
	var dead *lab.DeadError
	return errors.As(err, &dead)
}
