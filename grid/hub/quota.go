// SPDX-License-Identifier: MIT

package hub

import (
	"cmp"
	"fmt"
	"math"
	"sync/atomic"

	"skep/internal/cli"
)

// A quota bounds the bytes that the hub stores for one owner: arguments and results,
// from their announcement until they are passed on, and the data of Initialize while
// its session lasts.
type quota struct {
	whose string // "the hub", for people
	raise string // what raises it, or empty
	flag  string // of `skep up`, that raises it
	most  int64
	set   atomic.Int64 // in place of most, unless it is 0; it may change
	used  atomic.Int64
}

// A quotaError names the quota that is too small.
type quotaError struct {
	quota *quota
	want  uint64
	ever  bool // even if everything else were dropped
}

func (e *quotaError) Error() string {
	cure := cmp.Or(e.quota.raise, "start the hub with a larger "+e.quota.flag)
	if !e.ever {
		cure = "wait for some calls first, or " + cure
	}
	return fmt.Sprintf("%s is more than the quota of %s leaves, which is %s in all: %s",
		cli.FormatBytes(e.want), e.quota.whose, cli.FormatBytes(uint64(e.quota.limit())), cure)
}

// reserve takes n bytes, all of them or none.
func (q *quota) reserve(n uint64) error {
	if n > uint64(q.limit()) {
		return &quotaError{q, n, true}
	}
	if q.used.Add(int64(n)) > q.limit() {
		q.release(int64(n))
		return &quotaError{q, n, false}
	}
	return nil
}

func (q *quota) limit() int64 { return cmp.Or(q.set.Load(), q.most) }

func (q *quota) release(n int64) { q.used.Add(-n) }

// reserveAll takes n bytes of each quota, or of none.
func reserveAll(quotas []*quota, n uint64) error {
	for i, q := range quotas {
		if err := q.reserve(n); err != nil {
			for _, taken := range quotas[:i] {
				taken.release(int64(n))
			}
			return err
		}
	}
	return nil
}

// Quotas are the most bytes that the hub holds at a time; 0 stands for a part
// of what is free on the disk of its spool when it starts.
type Quotas struct {
	Hub     uint64 // for all together (nine tenths)
	Session uint64 // for one master (as for the hub)
	Node    uint64 // of results that one node sends (three quarters of the hub's)
}

// setDefaults sets the limits that are not given.
func (q *Quotas) setDefaults(free uint64) {
	if q.Hub == 0 {
		q.Hub = free / 10 * 9
	}
	if q.Session == 0 {
		q.Session = q.Hub
	}
	if q.Node == 0 {
		q.Node = q.Hub / 4 * 3
	}
	for _, n := range []*uint64{&q.Hub, &q.Session, &q.Node} {
		*n = min(*n, math.MaxInt64/2) // sums of two stay numbers
	}
}

func (q *Quotas) ofHub() *quota {
	return &quota{whose: "the hub", flag: "--quota-hub", most: int64(q.Hub)}
}

func (q *Quotas) ofSession() *quota {
	return &quota{whose: "this session", flag: "--quota-session", most: int64(q.Session)}
}

func (q *Quotas) ofNode(name string) *quota {
	return &quota{whose: "node " + name, flag: "--quota-node", most: int64(q.Node)}
}
