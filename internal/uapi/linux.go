// SPDX-License-Identifier: MIT

package uapi

// Numbers of skep/linux.h.
const (
	SkepLinuxMail     = 0x1000
	SkepLinuxMagic    = 0x58554e4c
	SkepLinuxRevision = 3
	SkepLinuxCommand  = 2048
	SkepLinuxRing     = 0x10000
	SkepLinuxRanges   = 126
	SkepLinuxDevices  = 8
	SkepLinuxQueues   = 2
	SkepLinuxConfig   = 64
	SkepLinuxTag      = "skep"

	SkepLinuxAddressWord = "skep.address="
)

// A SkepLinuxState is one of enum skep_linux_state.
type SkepLinuxState uint32

// States of a Linux kernel on a partition. From LinuxRefused on it does nothing more.
const (
	LinuxNone SkepLinuxState = iota
	LinuxBooting
	LinuxUp
	LinuxRefused
	LinuxRestart
	LinuxPowerOff
	LinuxHalt
	LinuxPanic
	LinuxExit
)

// SkepLinuxCounters is struct skep_linux_ring.
type SkepLinuxCounters struct {
	Put   uint32
	Zero  [15]uint32
	Take  uint32
	Zero2 [15]uint32
}

// SkepLinuxRange is struct skep_linux_range.
type SkepLinuxRange struct{ Start, Length, Offset uint64 }

// SkepLinuxQueue is struct skep_linux_queue.
type SkepLinuxQueue struct {
	Descriptors, Available, Used uint64
	Size, Zero                   uint32
}

// SkepLinuxDevice is struct skep_linux_device.
type SkepLinuxDevice struct {
	Kind, Queues  uint32
	Features      uint64
	Ready, Served uint32
	Zero          [2]uint32
	Config        [SkepLinuxConfig]byte
	Queue         [SkepLinuxQueues]SkepLinuxQueue
}

// SkepLinux is struct skep_linux, in the mailbox of a partition.
type SkepLinux struct {
	Magic, Revision      uint32
	Kernel, KernelLength uint64
	Initrd, InitrdLength uint64
	State                SkepLinuxState
	Code, Ranges         uint32
	Size                 uint32
	Zero                 [18]uint32
	Command              [SkepLinuxCommand]byte
	Why                  [192]byte
	Zero2                [64]byte
	Out, In              SkepLinuxCounters
	OutBytes, InBytes    [SkepLinuxRing]byte
	Device               [SkepLinuxDevices]SkepLinuxDevice
	Range                [SkepLinuxRanges]SkepLinuxRange
}
