// SPDX-License-Identifier: MIT

package proto

import "cmp"

// Limits are those of one program of exec, or of one call. For a call, memory, processes
// and disk are limits of its worker; the times are its own. 0 means no limit.
type Limits struct {
	Memory    uint64  `json:"memory,omitempty"`    // bytes
	CPU       float64 `json:"cpu,omitempty"`       // processor seconds, of all its threads
	Wall      float64 `json:"wall,omitempty"`      // seconds
	Processes uint64  `json:"processes,omitempty"` // processes and threads
	Disk      uint64  `json:"disk,omitempty"`      // bytes in its directory
}

// A Limit is the name of a limit.
type Limit string

// Names of limits, as in the options of skep exec.
const (
	LimitMemory    Limit = "memory"
	LimitCPU       Limit = "cpu-time"
	LimitWall      Limit = "wall-time"
	LimitProcesses Limit = "processes"
	LimitDisk      Limit = "disk"
)

// Of returns a limit by its name.
func (l Limits) Of(name Limit) float64 {
	switch name {
	case LimitMemory:
		return float64(l.Memory)
	case LimitCPU:
		return l.CPU
	case LimitWall:
		return l.Wall
	case LimitProcesses:
		return float64(l.Processes)
	case LimitDisk:
		return float64(l.Disk)
	}
	return 0
}

// Within returns the smaller of each of two limits.
func (l Limits) Within(o Limits) Limits {
	return Limits{least(l.Memory, o.Memory), least(l.CPU, o.CPU), least(l.Wall, o.Wall),
		least(l.Processes, o.Processes), least(l.Disk, o.Disk)}
}

// Or returns l, with the limits of o where l has none.
func (l Limits) Or(o Limits) Limits {
	return Limits{cmp.Or(l.Memory, o.Memory), cmp.Or(l.CPU, o.CPU), cmp.Or(l.Wall, o.Wall),
		cmp.Or(l.Processes, o.Processes), cmp.Or(l.Disk, o.Disk)}
}

func least[T uint64 | float64](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Check reports whether all numbers are valid.
func (l Limits) Check() bool { return l.CPU >= 0 && l.Wall >= 0 && l.CPU < 1e12 && l.Wall < 1e12 }
