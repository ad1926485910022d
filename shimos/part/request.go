// SPDX-License-Identifier: MIT

// Package part makes partitions: cores and memory that a running Linux lends to
// a compute kernel through the module shimos. docs/design/shimos.md describes
// what they are.
package part

import (
	"fmt"
	"math/bits"
	"sort"
	"strconv"
	"strings"

	"skep/internal/uapi"
)

// A CPUs is a set of processors, by Linux's numbers.
type CPUs [uapi.ShimosCPUs / 64]uint64

// ParseCPUs reads what taskset and the kernel write: 1-3,6.
func ParseCPUs(text string) (c CPUs, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if errA != nil || errB != nil || a > b || b >= uapi.ShimosCPUs {
			return CPUs{}, fmt.Errorf("%q is not a list of CPUs: write 2, 2-3 or 1,4-7, each below %d", part, uapi.ShimosCPUs)
		}
		for ; a <= b; a++ {
			c[a/64] |= 1 << (a % 64)
		}
	}
	return c, nil
}

// List returns the numbers in order.
func (c CPUs) List() (list []int) {
	for i, word := range c {
		for ; word != 0; word &= word - 1 {
			list = append(list, i*64+bits.TrailingZeros64(word))
		}
	}
	return list
}

func (c CPUs) String() string {
	var out []string
	list := c.List()
	for i := 0; i < len(list); i++ {
		first := list[i]
		for i+1 < len(list) && list[i+1] == list[i]+1 {
			i++
		}
		if first == list[i] {
			out = append(out, strconv.Itoa(first))
		} else {
			out = append(out, fmt.Sprintf("%d-%d", first, list[i]))
		}
	}
	return strings.Join(out, ",")
}

// A Memory is a number of bytes on each NUMA node.
type Memory [uapi.ShimosNodes]uint64

// ParseMemory reads 512M, which is divided among the nodes of the CPUs, or
// 0=256M,1=256M. The parser of one size is the caller's.
func ParseMemory(text string, nodes []int, size func(string) (uint64, error)) (m Memory, err error) {
	if !strings.Contains(text, "=") {
		bytes, err := size(text)
		if err != nil {
			return m, err
		}
		return spreadBytes(bytes, nodes), nil
	}
	for part := range strings.SplitSeq(text, ",") {
		node, amount, _ := strings.Cut(part, "=")
		n, err := strconv.ParseUint(strings.TrimSpace(node), 10, 64)
		if err != nil || n >= uapi.ShimosNodes {
			return m, fmt.Errorf("%q is not a list of nodes: write 0=256M,1=256M", part)
		}
		if m[n] != 0 {
			return m, fmt.Errorf("node %d appears twice in %q", n, text)
		}
		if m[n], err = size(strings.TrimSpace(amount)); err != nil {
			return m, err
		}
	}
	return m, nil
}

// spreadBytes divides bytes among nodes in whole steps; the first ones get what
// is left over. The module refuses a size that is no multiple.
func spreadBytes(bytes uint64, nodes []int) (m Memory) {
	sort.Ints(nodes)
	n := uint64(len(nodes))
	steps, rest := bytes/uapi.ShimosAlign, bytes%uapi.ShimosAlign
	for i, node := range nodes {
		share := steps / n
		if uint64(i) < steps%n {
			share++
		}
		m[node] = share * uapi.ShimosAlign
	}
	m[nodes[0]] += rest
	return m
}

// A Request describes the partition to make.
type Request struct {
	Name   string
	CPUs   CPUs
	Memory Memory
	Split  bool // the other half of a core may stay with Linux
}

// An Info describes a partition that is there.
type Info struct {
	ID     uint32 `json:"id"`
	Name   string `json:"name,omitempty"`
	State  string `json:"state"`
	UID    uint32 `json:"uid"`
	CPUs   string `json:"cpus"`
	Pool   uint64 `json:"pool"`   // bytes for the program
	Mail   uint64 `json:"mail"`   // bytes between image and Linux
	Kernel uint64 `json:"kernel"` // bytes for the image
	Runs   uint64 `json:"runs"`
	PID    int32  `json:"pid,omitempty"` // of the process that drives it
	Image  string `json:"image,omitempty"`
	End    string `json:"end,omitempty"` // of the last run, if not by itself
}

// An Allowance is what users of one group may have together.
type Allowance struct {
	Group  uint32 // uapi.ShimosNobody: root alone
	CPUs   CPUs
	Memory Memory
}

// A RefusedError is a request that the module refused, with its message.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }
