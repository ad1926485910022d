// SPDX-License-Identifier: MIT

package uapi

// Numbers of o2g_status.h.
const (
	O2GStatusMagic    = 0x54473253
	O2GStatusRevision = 4
)

// O2GStatus is the status page of an open endpoint (struct o2g_status).
type O2GStatus struct {
	Magic, Revision, PID, Zero uint32
	Opened                     uint64
	Name                       [40]byte
	Engine                     [16]byte
	Program                    [64]byte
	Named, Connected           uint32
	Unreachable, Refused       uint32
	Sent, SentBytes            uint64
	Received, ReceivedBytes    uint64
	Expected, Unexpected       uint64
	Requested, Waited, Self    uint64
	FramesIn, FramesOut        uint64
	Unmatched, UnmatchedBytes  uint64
	Posted                     uint64
	SoftirqBytes, WorkerBytes  uint64
	OverBudget, DirectBytes    uint64
	SlabPages, StoppedReading  uint64
	Wakes, Sleeps              uint64
	RefusedMemory              uint64
	Known, Links               uint32
	Resent                     uint64
}

// Numbers of o2g_device.h.
const (
	O2GDeviceRevision = 5
	O2GDeviceOpenCall = 0xc0483200 // O2G_IOC_OPEN
)

// O2GDeviceOpen is the argument that opens an endpoint of the kernel engine (struct
// o2g_device_open).
type O2GDeviceOpen struct {
	Revision             uint32
	SQEntries, CQEntries uint32
	Postings, Peers      uint32
	SlabMessage          uint32
	Unexpected, WriteOff uint64
	AreaSize, Invited    uint64
	Zero                 [2]uint64
}
