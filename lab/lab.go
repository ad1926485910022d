// SPDX-License-Identifier: MIT

// Package lab boots stock Debian kernels in QEMU, as test machines that may
// crash and as throw-away machines for users. A machine sees this computer's
// root file system read-only, with an overlay in its own memory on top, so
// every program of this computer runs there and nothing it does stays. Files
// that the user who starts the machine cannot read, root of the guest cannot
// read either.
//
// docs/design/lab.md draws a machine's life and the channels to it.
package lab

import (
	"time"

	"skep/lab/wire"
)

// Series lists the kernels that every VM test runs on, oldest first. Each is
// fetched as Debian's package for it and unpacked, never installed.
func Series() []string { return []string{"6.1", "6.12"} }

// A Machine describes a guest. The zero value of a field means its default.
type Machine struct {
	Name   string // a file name; default "vm"
	Kernel string // a series, one with "-debug", or a package's version; default "6.1"
	CPUs   int    // default 2
	// Threads is how many of the CPUs share a core; default 1.
	Threads int
	// InTurns has the emulator run one CPU at a time. Who changes the kernel's
	// text while other CPUs may run it needs that, and who interrupts a CPU
	// that waits for SIPI (docs/design/lab.md). KVM runs all of them at once
	// either way.
	InTurns bool
	Memory  int    // MiB, of all NUMA nodes together; default 1024
	NUMA    int    // NUMA nodes that share CPUs and memory evenly; default 1
	Disks   []Disk // /dev/vda, /dev/vdb, ... in this order

	// Wire joins two guests by one Ethernet link; nil means no network.
	Wire *Wire
	// Nodes network namespaces node1, node2, ... on one bridge, each with
	// the address 10.77.0.N, each name in /etc/hosts; 0 means none.
	Nodes int
	// Delay is added one way to each packet of a node, Loss (0 to 1) is the
	// share that gets lost; both by netem.
	Delay time.Duration
	Loss  float64

	// Modules are loaded in this order before anything runs: ours by their
	// name in build/kmod, the kernel's own by theirs.
	Modules []string
	// Append is added to the kernel's command line.
	Append string
	// Build is the folder that make fills; default: the one that BuildDir
	// finds. It holds kernels, modules and process 1, and takes build/lab.
	Build string
	// Count has QEMU's instruction counter watch the guest; see Counts.
	Count *Count
}

// A Disk is an empty one that vanishes with its guest, or with its Pair.
type Disk struct {
	MiB  int
	Swap bool // the guest swaps to it
}

// A Program is what to run in a guest.
type Program struct {
	// Args[0] is a path on this computer or a name in PATH. This computer's
	// /tmp and /run are covered by fresh ones, and are found below /host.
	Args []string
	Env  []string // added to the guest's own
	Dir  string   // default "/"
	// User runs it as an ordinary user (1000). Every program has the limits
	// of an ordinary Debian session: 1,024 open files, up to 524,288 on
	// demand, 8 MiB of locked memory, 8 MiB of stack.
	User bool
	Node int // in that network namespace; 0 is the guest's own
}

// A Size of a terminal.
type Size = wire.Size
