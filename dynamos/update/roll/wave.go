// SPDX-License-Identifier: MIT

package roll

import (
	"fmt"
	"strconv"
	"strings"
)

// A Wave is how many nodes run an update, at most: a number, or a share of all.
type Wave struct {
	Count   int
	Percent int // if not 0
}

// wavesMax bounds a plan.
const wavesMax = 32

// ParseWaves reads "1,5%,25%,all". Waves must not shrink, and the last is all nodes.
func ParseWaves(text string) (list []Wave, err error) {
	for part := range strings.SplitSeq(text, ",") {
		var w Wave
		number, percent := strings.CutSuffix(part, "%")
		n, err := strconv.Atoi(number)
		switch {
		case part == "all":
			w.Percent = 100
		case err != nil || n < 1 || percent && n > 100 || strconv.Itoa(n) != number:
			return nil, fmt.Errorf("%.40q is not a number of nodes, a percentage or all", part)
		case percent:
			w.Percent = n
		default:
			w.Count = n
		}
		list = append(list, w)
	}
	if last := list[len(list)-1]; last.Percent != 100 || len(list) > wavesMax {
		return nil, fmt.Errorf("at most %d waves are expected, and the last is all", wavesMax)
	}
	for i := 1; i < len(list); i++ {
		if list[i].Percent > 0 && list[i].Percent <= list[i-1].Percent || list[i].Count > 0 && (list[i-1].Percent > 0 || list[i].Count <= list[i-1].Count) {
			return nil, fmt.Errorf("each wave must be larger than the one before it, and percentages follow numbers")
		}
	}
	return list, nil
}

// Size returns the number of nodes of a wave among n. Every wave has a node.
func (w Wave) Size(n int) int {
	size := w.Count
	if w.Percent > 0 {
		size = w.Percent * n / 100
	}
	return min(max(size, 1), n)
}
