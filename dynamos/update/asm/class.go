// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"slices"
	"strings"

	"skep/internal/lazy"
)

// pairs are names of functions that come in pairs, or whose effect outlives
// the call: where their order, conditions or arguments change, two versions
// running at once may not agree on who holds what.
var pairs = lazy.Regexp(`(lock|mutex|^_*(up|down)(_|$)|sema?(_|$)|rwsem|rcu_|seqcount|refcount|kref|_get(_|$)|_put(_|$)|^(get|put)_|` +
	`alloc|free|kmem|complet|wait|wake|_work(_|$)|atomic|percpu_ref|preempt_|local_irq|local_bh|irqsave|irqrestore)`)

// userAccess begins functions that copy to or from a program, and take nothing.
var userAccess = []string{"__get_user_", "__put_user_"}

// ProposeClass returns the narrowest class that the changes of an update allow
// without a statement of the author, and why. More reasons may be known from
// the source.
func ProposeClass(changes []*Change, more ...string) (Class, []string) {
	why := slices.Clone(more)
	functions := 0
	for _, c := range changes {
		functions += len(c.Changed)
		if data := c.sharedVariables(); len(data) > 0 {
			why = append(why, fmt.Sprintf("%s: new variables: %s", c.Path, strings.Join(data, ", ")))
		}
		why = append(why, c.changedCalls()...)
	}
	if functions > 1 {
		why = append(why, fmt.Sprintf("%d functions change", functions))
	}
	if len(why) > 0 {
		return Together, why
	}
	return Any, []string{"one function changes, and none of the calls that lock, count, allocate or free"}
}

// sharedVariables are the new variables through which calls may share state. A flag that a message was printed does not count.
func (c *Change) sharedVariables() []string {
	return slices.DeleteFunc(slices.Clone(c.Data), func(name string) bool { return isOnceData(c.After.findSymbol(name)) })
}

// mostReasons limits what is said of one function.
const mostReasons = 6

// changedCalls compares what the changed functions do that outlives a call, in
// which order, under which conditions and with which arguments.
func (c *Change) changedCalls() []string {
	after := newWatcher(c.After, c.Arguments)
	var why []string
	for _, n := range slices.Concat(c.Changed, c.Clones) {
		unit := c.Before
		if from := c.From[n]; from != nil {
			unit = from.Before
		}
		old := unit.byName[n]
		if old == nil {
			continue // whoever calls it differs in that
		}
		before, now := newWatcher(unit, c.Arguments), c.After.byName[n]
		was, is := before.sequencesOf(old), after.sequencesOf(now)
		list := append(compareSequences(was, is), compareRules(before.rulesOf(old), after.rulesOf(now), was, is)...)
		for i, text := range list {
			if i == mostReasons {
				why = append(why, fmt.Sprintf("%s: %s: and %d more", c.Path, n, len(list)-i))
				break
			}
			why = append(why, fmt.Sprintf("%s: %s: %s", c.Path, n, text))
		}
	}
	return why
}
