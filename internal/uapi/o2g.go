// SPDX-License-Identifier: MIT

package uapi

// Numbers of o2g_status.h.
const (
	O2GStatusMagic    = 0x54473253
	O2GStatusRevision = 2
)

// O2GStatus is what an open endpoint shows of itself (struct o2g_status).
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
	Held, HeldBytes            uint64
	Posted                     uint64
}
