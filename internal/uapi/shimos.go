// SPDX-License-Identifier: MIT

package uapi

// Numbers of shimos.h.
const (
	ShimosRevision = 1
	ShimosNodes    = 64
	ShimosCPUs     = 4096
	ShimosDevice   = "/dev/shimos"
	ShimosNobody   = ^uint32(0) // group of an allowance: only root
	ShimosSplit    = 1          // flag: leave the other half of a core to Linux
	ShimosFile     = 2          // flag: released when the creating file is closed
	ShimosAlign    = 2 << 20    // memory is lent in multiples of it

	ShimosWaitAny = ^uint32(0)
	ShimosMapMail = 0 // offsets for mmap
	ShimosMapPool = 0x100000000

	ShimosIocAllow   = 0xc4c83300
	ShimosIocCreate  = 0xc4f03301
	ShimosIocRelease = 0xc0c83302
	ShimosIocInfo    = 0xc3303303
	ShimosIocOpen    = 0xc0d83304
	ShimosIocLoad    = 0xc0d03305
	ShimosIocStart   = 0xc0c03306
	ShimosIocWait    = 0xc0103307
	ShimosIocStop    = 0x3309
	ShimosIocAllowed = 0x84c8330a
)

// A ShimosState is one of enum shimos_state.
type ShimosState uint32

// States of a partition.
const (
	ShimosLent ShimosState = iota + 1
	ShimosIdle
	ShimosRunning
	ShimosStopping
)

var shimosStates = [...]string{"unknown", "lent", "idle", "running", "stopping"}

func (s ShimosState) String() string {
	if s > ShimosStopping {
		s = 0
	}
	return shimosStates[s]
}

// ShimosAllow is struct shimos_allow: what users other than root may lend together.
type ShimosAllow struct {
	Revision, GID uint32
	CPUs          [ShimosCPUs / 64]uint64
	Bytes         [ShimosNodes]uint64
	Why           [192]byte
}

// ShimosCreate is struct shimos_create.
type ShimosCreate struct {
	Revision, ID, Flags, Zero uint32
	CPUs                      [ShimosCPUs / 64]uint64
	Bytes                     [ShimosNodes]uint64
	Name                      [32]byte
	Why                       [192]byte
}

// ShimosRelease is struct shimos_release.
type ShimosRelease struct {
	ID, Zero uint32
	Why      [192]byte
}

// ShimosOpen is struct shimos_open.
type ShimosOpen struct {
	ID, Cores  uint32
	Pool, Mail uint64
	Why        [192]byte
}

// ShimosLoad is struct shimos_load.
type ShimosLoad struct {
	Address, Length uint64
	Why             [192]byte
}

// ShimosStart is struct shimos_start.
type ShimosStart struct {
	Why [192]byte
}

// ShimosWait is struct shimos_wait.
type ShimosWait struct {
	Seen, MS, Core, Reasons uint32
}

// ShimosInfo is struct shimos_info.
type ShimosInfo struct {
	ID                 uint32
	State              ShimosState
	UID, Cores         uint32
	CPUs               [ShimosCPUs / 64]uint64
	Pool, Mail, Kernel uint64
	Runs               uint64
	Proxy              int32
	Zero               uint32
	Name               [32]byte
	Image              [24]byte
	End                [192]byte
}

// Text returns a string of a contract up to its first zero byte.
func Text(b []byte) string { return textOf(b) }
