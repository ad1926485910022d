// SPDX-License-Identifier: MIT

package asm

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// pairs are names of functions that come in pairs, or whose effect outlives
// the call: where their calls change, two versions running at once may not
// agree on who holds what.
var pairs = regexp.MustCompile(`(lock|mutex|^_*(up|down)(_|$)|sema?(_|$)|rwsem|rcu_|seqcount|refcount|kref|_get(_|$)|_put(_|$)|^(get|put)_|` +
	`alloc|free|kmem|complet|wait|wake|atomic|percpu_ref|preempt_|local_irq|local_bh|irqsave|irqrestore)`)

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

// changedCalls compares what the changed functions call, before and after.
func (c *Change) changedCalls() []string {
	before, after := map[string]int{}, map[string]int{}
	for _, n := range slices.Concat(c.Changed, c.Clones, c.Gone) {
		if from := c.From[n]; from != nil {
			from.Before.count(n, before)
			continue
		}
		c.Before.count(n, before)
	}
	for _, n := range slices.Concat(c.Changed, c.Clones, c.New) {
		c.After.count(n, after)
	}
	names := map[string]bool{}
	for n := range before {
		names[n] = true
	}
	for n := range after {
		names[n] = true
	}
	var why []string
	for n := range names {
		if a, b := before[n], after[n]; a != b {
			why = append(why, fmt.Sprintf("%s: %d uses of %s become %d", c.Path, a, n, b))
		}
	}
	slices.Sort(why)
	return why
}

const atomicOp = "atomic operations"

// count adds up the calls of a function that matter.
func (u *Unit) count(name string, uses map[string]int) {
	s := u.byName[name]
	if s == nil {
		return
	}
	for _, l := range s.lines {
		word, rest := cutMnemonic(l.text)
		switch {
		case word == "lock" || hasPrefix(word, "xchg") && strings.Contains(rest, "("):
			uses[atomicOp]++
		case word == "call" || word == "jmp":
			if target := firstArg(rest); !hasPrefix(target, ".", "__x86_") && pairs.MatchString(target) && !hasPrefix(target, userAccess...) {
				uses[target]++
			}
		}
	}
}
