// SPDX-License-Identifier: MIT

//go:build linux

package vm

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"skep/lab"
	"skep/tests/vmtest"
)

// A small machine is started first, so that its program gives the first output. Then a second one
// starts with another kernel. They send each other some MiB, before and after one of them reboots.
func TestLabPair(t *testing.T) {
	kernels := lab.Series()
	a, b := vmtest.Pair(t,
		lab.Machine{Name: "lab-one", Kernel: kernels[0], Memory: 512, Modules: []string{"trivial"}},
		lab.Machine{Name: "lab-two", Kernel: kernels[1], Memory: 512, InTurns: true, Disks: []lab.Disk{{MiB: 16}}},
		vmtest.Alone(func(one *vmtest.VM) { one.Run(checkProgram(t, one, 0), checks) }))
	one, two := a.Guest().Hello().Release, b.Guest().Hello().Release
	checkGuest(t, "their kernels differ", one != two, "both run %s", one)
	stopA, stopB := startPeer(t, a, 0), startPeer(t, b, 0)
	defer stopA()
	defer stopB()
	a.Run(lab.Program{Args: []string{toolPath(t, "peer"), "bytes", "lab-two", "8"}}, 2)
	b.Run(lab.Program{Args: []string{toolPath(t, "peer"), "bytes", "lab-one", "8"}}, 2)
	stopB()
	checkReboot(t, b)
	b.Run(lab.Program{Args: []string{toolPath(t, "peer"), "bytes", "lab-one", "1"}}, 2)
}

// One machine uses every feature that a machine can have.
func TestLabMachine(t *testing.T) {
	vmtest.EachLong(t, "6.1", func(t *testing.T, kernel string) {
		vm := vmtest.Boot(t, lab.Machine{
			Kernel: kernel, CPUs: 4, NUMA: 2, Memory: 1024,
			Disks:   []lab.Disk{{MiB: 16}, {MiB: 64, Swap: true}},
			Nodes:   3,
			Delay:   20 * time.Millisecond,
			Loss:    0.2,
			Modules: []string{"trivial"},
		})
		runPrograms(t, vm, kernel)
		checkNodes(t, vm)
		checkFileBack(t, vm)
		unloadModule(t, vm)
		if kernel == lab.Series()[0] { // the pair reboots the other
			checkReboot(t, vm)
			vm.Run(checkProgram(t, vm, 0), checks)
		}
	})
}

// checkGuest checks a result of the guest, as a named subtest.
func checkGuest(t *testing.T, name string, ok bool, format string, args ...any) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Helper()
		if !ok {
			t.Errorf(format, args...)
		}
	})
}

// runPrograms runs a C program as root and as the ordinary user.
func runPrograms(t *testing.T, vm *vmtest.VM, kernel string) {
	hello := vm.Guest().Hello()
	checkGuest(t, "the guest reports its kernel, CPUs and nodes", strings.HasPrefix(hello.Release, kernel+".") && hello.CPUs == 4 && len(hello.Nodes) == 2,
		"it says %+v", hello)
	for _, user := range []int{0, 1000} {
		vm.Run(checkProgram(t, vm, user), checks)
	}
}

// checks is the number of checks in guest/check.c.
const checks = 12

// checkProgram returns the C program that compares a guest with its configuration.
func checkProgram(t *testing.T, vm *vmtest.VM, user int) lab.Program {
	m := vm.Guest().Machine()
	swap, devices := 0, 0
	for _, d := range m.Disks {
		if d.Swap {
			swap += d.MiB
		}
	}
	if m.Wire != nil {
		devices = 1
	}
	args := []string{toolPath(t, "check"), vm.Guest().Hello().Release}
	for _, n := range []int{user, m.CPUs, m.NUMA, m.Memory, swap, devices} {
		args = append(args, strconv.Itoa(n))
	}
	return lab.Program{Args: args, User: user != 0}
}

// checkNodes runs a Go program in one node that communicates with another: delay and loss apply in
// both directions.
func checkNodes(t *testing.T, vm *vmtest.VM) {
	stop := startPeer(t, vm, 2)
	defer stop()
	vm.Run(lab.Program{Args: []string{toolPath(t, "peer"), "delay", "node2"}, Node: 3, User: true}, 3)
	text := vm.Output(lab.Program{Args: []string{"/bin/sh", "-c", "cat /proc/net/dev"}, Node: 1})
	checkGuest(t, "a node has lo and one interface of its own", strings.Count(text, ":") == 2, "it has\n%s", text)
}

// startPeer starts the other side in a node, 0 for the guest itself, and returns a function that
// ends it.
func startPeer(t *testing.T, vm *vmtest.VM, node int) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		status, err := vm.Guest().Run(ctx, lab.Program{Args: []string{toolPath(t, "peer"), "serve"}, Node: node}, lab.Streams{})
		if ctx.Err() == nil {
			t.Errorf("the server ended: status %d, %v", status, err)
		}
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-done
	})
}

// checkFileBack compares a file with the copy that the guest returns.
func checkFileBack(t *testing.T, vm *vmtest.VM) {
	digest := strings.Fields(vm.Output(lab.Program{Args: []string{"/bin/sh", "-c",
		"head -c 3000001 /dev/urandom >/out/blob && sha256sum </out/blob"}}))
	own := sha256.Sum256(vm.File("blob"))
	checkGuest(t, "a file brought back is the guest's", len(digest) > 0 && digest[0] == hex.EncodeToString(own[:]),
		"digest %x, the guest says %q", own, digest)
}

// checkReboot checks that a reboot keeps the disk and nothing else.
func checkReboot(t *testing.T, vm *vmtest.VM) {
	mark := rand.Text()
	first := vm.Output(lab.Program{Args: []string{"/bin/sh", "-c",
		"echo " + mark + " >/root/mark && echo " + mark + " >/dev/vda && sync && cat /proc/sys/kernel/random/boot_id"}})
	vm.Reboot()
	text := vm.Output(lab.Program{Args: []string{"/bin/sh", "-c",
		"cat /proc/sys/kernel/random/boot_id; head -n 1 /dev/vda; test ! -e /root/mark; echo $?"}})
	lines := strings.Fields(text)
	checkGuest(t, "a reboot keeps the disk and nothing else",
		len(lines) == 3 && lines[0] != strings.TrimSpace(first) && lines[1] == mark && lines[2] == "0",
		"boot %q wrote %s; after a reboot: boot, disk and status of the old file's absence are %q", first, mark, lines)
}

// unloadModule unloads our module.
func unloadModule(t *testing.T, vm *vmtest.VM) {
	text := vm.Output(lab.Program{Args: []string{"/bin/sh", "-c",
		"rmmod trivial && ! grep trivial /proc/modules && test ! -e /proc/skep_trivial && echo gone"}})
	checkGuest(t, "our module unloads", text == "gone\n", "after rmmod: %q", text)
}
