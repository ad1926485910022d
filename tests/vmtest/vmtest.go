// SPDX-License-Identifier: MIT

//go:build linux

// Package vmtest lets Go tests boot machines of the lab, one machine or pair at a time in a build
// folder. Lines of TAP become subtests. Kernel reports on the console fail the test. A hang is
// reported before the time limit of `go test`. After the test only the logs of a failure remain.
//
// It needs the kernels, modules and process 1 that `make vm` builds.
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

// margin is the part of a test's time that is reserved for reporting a failure.
const margin = 15 * time.Second

// BothVar asks for the long form of each test on each kernel, as `make test-full T=vm-both` does.
const BothVar = "SKEP_VM_BOTH"

// Both reports whether it is set.
var Both = os.Getenv(BothVar) != ""

// IsLong reports whether a test runs in its long form on this kernel. `make test` runs the long
// form on one kernel. On the other it runs a short one: what depends on the kernel's version.
func IsLong(kernel, on string) bool { return kernel == on || Both }

// Full in place of a kernel says that a test has a long form only: `make test` leaves it out.
const Full = ""

// Each runs f as a subtest for every kernel that VM tests run on.
func Each(t *testing.T, f func(t *testing.T, kernel string)) {
	t.Helper()
	for _, kernel := range lab.Series() {
		t.Run(kernel, func(t *testing.T) { f(t, kernel) })
	}
}

// EachLong runs f as a subtest for the kernel of the long form, or for every one that a long form
// is wanted for: such a test has no short form.
func EachLong(t *testing.T, on string, f func(t *testing.T, kernel string)) {
	t.Helper()
	for _, kernel := range lab.Series() {
		if IsLong(kernel, on) {
			t.Run(kernel, func(t *testing.T) { f(t, kernel) })
		}
	}
}

// An Option changes how a machine is tested.
type Option func(*VM)

// Limit sets how long the machine may run on an idle computer; the default is two minutes.
// Reboot restarts the time.
func Limit(d time.Duration) Option { return func(vm *VM) { vm.limit = d } }

// Alone sets a function that runs on the first machine of a pair before the second one boots.
func Alone(f func(first *VM)) Option { return func(vm *VM) { vm.alone = f } }

// A VM is a machine that belongs to a test. Its methods fail the test if the machine does not
// behave as expected.
type VM struct {
	t        *testing.T
	guest    *lab.Guest
	limit    time.Duration
	allowed  time.Duration // the limit, adapted to the load and to go test's time limit
	alone    func(*VM)
	deadline time.Time
	expected []report.Report
	dead     bool // its end has been reported
	ordered  bool // it has turned itself off
}

// Boot waits until no other test has a machine, and starts m for this test. A machine without a
// name gets that of the test. At the end of the test the machine is turned off, and the reports
// on its console are compared with those that Expect declared. The folder is removed unless the
// test failed.
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

// Pair starts two machines, one after the other, that are connected by one wire.
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

// start boots the machine, which ends with the test.
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

// setDeadline sets the deadline to the machine's own, or to that of `go test` if it is earlier.
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

// Allow gives the machine this much time from now on, in place of the rest of its limit.
func (vm *VM) Allow(d time.Duration) {
	vm.t.Helper()
	vm.limit = d
	vm.setDeadline()
}

// context returns a context that ends at the machine's deadline.
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

// Guest returns the machine itself.
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

// File returns the contents of the guest's /out/name.
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

// ExpectPanic says that this boot ends with a panic, after which RebootAfterPanic boots the
// guest again. The panic's report must be declared by Expect.
func (vm *VM) ExpectPanic() { vm.guest.ExpectPanic() }

// RebootAfterPanic waits for the panic that was expected, and boots the guest again with the
// same disks.
func (vm *VM) RebootAfterPanic() {
	vm.t.Helper()
	vm.setDeadline()
	ctx, cancel := vm.context()
	defer cancel()
	if err := vm.guest.RebootAfterPanic(ctx); err != nil {
		vm.dead = true
		vm.t.Fatalf("boot after a panic: %v; console: %s", err, vm.path("console.log"))
	}
}

// PowerOff turns the guest off, for a test that continues without it. Its console is still
// checked at the end of the test.
func (vm *VM) PowerOff() {
	vm.t.Helper()
	vm.shutDown()
}

// shutDown ends the guest. The guest gets some time to end in order even if the test has used
// all of its time, because its last messages are checked too.
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

// toTheEnd reports whether a console has the last line of a kernel that turned the machine off.
// QEMU silently drops what it cannot write.
func toTheEnd(console string) bool {
	end, err := endOf(console)
	return err == nil && bytes.Contains(end, []byte("reboot: Power down"))
}

// judgeConsole compares the reports on the console with the expected ones.
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

// nameOf converts a test's name to a machine's name.
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

// isDead reports whether an error says that the machine has ended, rather than a program.
func isDead(err error) bool {
	var dead *lab.DeadError
	return errors.As(err, &dead)
}
