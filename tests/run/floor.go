// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

const floorSuite = "floor"

// readFloor reads the number after KEY from FILE:KEY; '#' starts a comment.
func readFloor(spec string) (int, error) {
	path, key, ok := strings.Cut(spec, ":")
	if !ok {
		return 0, fmt.Errorf("-floor %s: want FILE:KEY", spec)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) == 2 && f[0] == key {
			return strconv.Atoi(f[1])
		}
	}
	return 0, fmt.Errorf("%s has no line '%s NUMBER'", path, key)
}

// judgeFloor fails a run in which fewer tests passed than the floor, because missing tests
// are as bad as failed ones. It also fails if the floor is more than 2 % (and ten tests)
// below the passed tests, because then as many could vanish unnoticed.
func judgeFloor(least int, where string, all []result) []result {
	n := countStatus(all, passed)
	reason := fmt.Sprintf("%d passed, %s asks for %d", n, where, least)
	switch {
	case n < least:
	case n > floorCeiling(least) && countStatus(all, failed) == 0:
		reason += fmt.Sprintf(": raise it to %d or so", floorFor(n))
	default:
		return nil
	}
	return []result{{suite: floorSuite, name: "number of passed tests", status: failed, reason: reason}}
}

// floorCeiling returns how many tests may pass before the floor must be raised.
func floorCeiling(least int) int { return least + least/50 + 10 }

// floorFor returns a floor for a number of passed tests.
func floorFor(n int) int { return n - n/100 }
