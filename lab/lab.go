// SPDX-License-Identifier: MIT

// Package lab boots stock Debian kernels in QEMU, as test machines that may crash and as
// throw-away machines for users. A machine sees this computer's root file system
// read-only, below an overlay in the machine's memory. So every program of this computer
// runs there, and its changes are lost when the machine ends. The guest's root cannot read
// files that the user who starts the machine cannot read.
//
// docs/design/lab.md describes a machine's states and the channels to it.
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
	// InTurns makes the emulator run one CPU at a time. Tests need it that change
	// the kernel's text while other CPUs may run it, or that interrupt a CPU which
	// waits for SIPI (docs/design/lab.md). KVM always runs all CPUs in parallel.
	InTurns bool
	Memory  int    // MiB, of all NUMA nodes together; default 1024
	NUMA    int    // NUMA nodes that share CPUs and memory evenly; default 1
	Disks   []Disk // /dev/vda, /dev/vdb, ... in this order

	// Wire joins two guests by one Ethernet link; nil means no network.
	Wire *Wire
	// Nodes is the number of network namespaces node1, node2, ... on one bridge.
	// Node N has the address 10.77.0.N and its name in /etc/hosts.
	Nodes int
	// Delay is added to each packet that a node sends, and Loss (0 to 1) is the
	// share of these packets that is dropped; both by netem.
	Delay time.Duration
	Loss  float64

	// Modules are loaded in this order before any program runs: our modules by
	// their names in build/kmod, the kernel's own by their names.
	Modules []string
	// Append is added to the kernel's command line.
	Append string
	// Build is the build folder; the default is the one that BuildDir finds. It
	// holds kernels, modules and the program of process 1. The machines' folders
	// are in its folder lab.
	Build string
	// Count makes QEMU count the guest's instructions; see Counts.
	Count *Count
}

// A Disk is an empty disk that is removed with its guest, or with its Pair.
type Disk struct {
	MiB  int
	Swap bool // the guest uses it as swap space
}

// A Program is what to run in a guest.
type Program struct {
	// Args[0] is a path on this computer or a name in PATH. The guest has a /tmp
	// and a /run of its own; this computer's are below /host.
	Args []string
	Env  []string // added to the guest's own
	Dir  string   // default "/"
	// User runs it as an ordinary user (1000). Every program has the limits
	// of an ordinary Debian session: 1,024 open files, up to 524,288 on
	// demand, 8 MiB of locked memory, 8 MiB of stack.
	User bool
	Node int // network namespace to run in; 0 is the guest's own
}

// A Size of a terminal.
type Size = wire.Size
