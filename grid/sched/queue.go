// SPDX-License-Identifier: MIT

package sched

import (
	"slices"
	"sort"
)

// queue holds waiting calls in the order of their submission, so that a requeued call
// regains its place. Calls are mostly removed at the front.
type queue struct {
	calls []*call
	front int
}

func (q *queue) all() []*call { return slices.Clone(q.calls[q.front:]) }

func (q *queue) len() int { return len(q.calls) - q.front }

func (q *queue) at(i int) *call { return q.calls[q.front+i] }

func (q *queue) position(c *call) int {
	live := q.calls[q.front:]
	return q.front + sort.Search(len(live), func(i int) bool {
		return live[i].order >= c.order
	})
}

// add does nothing for a call that is there already.
func (q *queue) add(c *call) {
	at := q.position(c)
	if at < len(q.calls) && q.calls[at] == c {
		return
	}
	if at == q.front && q.front > 0 {
		q.front--
		q.calls[q.front] = c
		return
	}
	q.calls = slices.Insert(q.calls, at, c)
}

func (q *queue) remove(c *call) {
	at := q.position(c)
	if at == len(q.calls) || q.calls[at] != c {
		return
	}
	if at > q.front {
		q.calls = slices.Delete(q.calls, at, at+1)
		return
	}
	q.calls[at] = nil
	q.front++
	if q.front > 64 && q.front > len(q.calls)/2 {
		q.calls = slices.Delete(q.calls, 0, q.front)
		q.front = 0
	}
}
