// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"slices"
	"testing"
)

func TestThinOut(t *testing.T) {
	var large, small []string
	for i := range 41 {
		large = append(large, fmt.Sprintf("large/%02d", i))
	}
	for i := range 16 {
		small = append(small, fmt.Sprintf("small/%02d", i))
	}
	all := append(slices.Clone(small), large...)
	slices.Reverse(all)
	left := thinOut(all, 4)
	for i, want := range []string{"large/00", "large/04", "large/08"} {
		if left[i] != want {
			t.Errorf("program %d is %s, want %s", i, left[i], want)
		}
	}
	if len(left) != 11+16 || !slices.Equal(left[11:], small) {
		t.Errorf("left are %v", left)
	}
	if left := thinOut(all, 1); len(left) != len(all) {
		t.Errorf("of one in 1 left are %v", left)
	}
}
