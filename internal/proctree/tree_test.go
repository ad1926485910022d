// SPDX-License-Identifier: MIT

package proctree

import (
	"slices"
	"testing"
)

// Each process is listed once, behind its parent.
func TestDescend(t *testing.T) {
	started := map[int]int64{1: 0, 10: 5, 11: 5, 12: 6, 13: 7, 14: 8, 20: 4, 21: 9}
	children := map[int][]int{
		1:  {10, 20},
		10: {11, 12, 20, 30},
		11: {13, 10, 11}, // numbers that go round
		13: {14, 12},
		20: {21},
		30: {21},
	}
	at := func(pid int) int64 {
		if v, ok := started[pid]; ok {
			return v
		}
		return -1
	}
	for root, want := range map[int][]int{
		10: {11, 12, 13, 14}, // 20 is older than 10, and nobody knows 30
		1:  {10, 20, 11, 12, 21, 13, 14},
		14: nil,
		30: nil,
		99: nil,
	} {
		if got := descend(root, children, at); !slices.Equal(got, want) {
			t.Errorf("below %d: %v, want %v", root, got, want)
		}
	}
}
