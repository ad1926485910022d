// SPDX-License-Identifier: MIT

package report

import (
	"regexp"
	"strings"
)

// A role says how a header relates to the headers before it.
type role int

const (
	alone       role = iota
	warn             // may follow a hint; ends with an end mark
	bug              // may follow a hint; an oops line and an end mark follow
	fault            // an oops line and an end mark follow
	oops             // follows a bug or a fault, or stands alone
	hint             // the message of a WARN or BUG that follows
	consequence      // of the event before it, if there was one
)

// A rule matches the first line of a report.
type rule struct {
	kind  Kind
	role  role
	start string   // the beginning of the line
	has   []string // texts that the line contains
	loose bool     // a program could print such a line too
}

var stray = rule{kind: Unexpected}

// rules are tried in this order, the more specific ones first. The texts are those of Linux 6.1
// and 6.12, and also those of newer kernels if they differ.
var rules = []rule{
	{kind: Panic, role: consequence, has: []string{"Kernel panic - not syncing: Fatal exception"}},
	{kind: Panic, role: consequence, has: []string{"Kernel panic - not syncing: ", "panic_on_warn set"}},
	{kind: Panic, role: consequence, has: []string{"Kernel panic - not syncing: softlockup: hung tasks"}},
	{kind: Panic, role: consequence, has: []string{"Kernel panic - not syncing: hung_task: blocked tasks"}},
	{kind: Panic, role: consequence, has: []string{"Kernel panic - not syncing: RCU Stall"}},
	{kind: Panic, role: consequence, has: []string{"Kernel panic - not syncing: Hard LOCKUP"}},
	{kind: Panic, has: []string{"Kernel panic - not syncing"}},

	{kind: Stall, has: []string{"BUG: soft lockup - CPU#"}},
	{kind: Stall, has: []string{"BUG: workqueue lockup - pool"}},
	{kind: Stall, has: []string{"atchdog detected hard LOCKUP on cpu"}},
	{kind: Stall, has: []string{"INFO: ", "detected stall"}},
	{kind: Stall, has: []string{"INFO: ", "detected expedited stall"}},
	{kind: Stall, has: []string{"INFO: task ", " blocked ", "for more than "}},

	{kind: Lockdep, has: []string{"WARNING: possible circular locking dependency"}},
	{kind: Lockdep, has: []string{"WARNING: possible recursive locking"}},
	{kind: Lockdep, has: []string{"WARNING: possible irq lock inversion"}},
	{kind: Lockdep, has: []string{"WARNING: ", "-safe -> ", "-unsafe lock order"}},
	{kind: Lockdep, has: []string{"WARNING: inconsistent lock state"}},
	{kind: Lockdep, has: []string{"WARNING: suspicious RCU usage"}},
	{kind: Lockdep, has: []string{"WARNING: bad unlock balance"}},
	{kind: Lockdep, has: []string{"WARNING: bad contention"}},
	{kind: Lockdep, has: []string{"WARNING: held lock freed"}},
	{kind: Lockdep, has: []string{"WARNING: ", " still has locks held"}},
	{kind: Lockdep, has: []string{"WARNING: lock held when returning to user space"}},
	{kind: Lockdep, has: []string{"WARNING: Nested lock was not taken"}},
	{kind: Lockdep, has: []string{"WARNING: ", "deadlock"}, loose: true},
	{kind: Lockdep, start: "[ BUG: "},
	{kind: Lockdep, start: "[ INFO: "},
	{kind: Lockdep, start: "INFO: trying to register non-static key"},
	{kind: Lockdep, start: "INFO: lockdep", has: []string{"suspicious"}},
	{kind: Lockdep, start: "BUG: MAX_LOCK"},
	{kind: Lockdep, start: "BUG: MAX_STACK_TRACE_ENTRIES"},
	{kind: Lockdep, start: "BUG: looking up invalid subclass"},
	{kind: Lockdep, start: "BUG: key ", has: []string{"not been registered"}},
	{kind: Lockdep, start: "lockdep bfs error"},
	{kind: Lockdep, role: hint, start: "DEBUG_LOCKS_WARN_ON("},

	{kind: KASAN, has: []string{"BUG: KASAN: "}},
	{kind: KASAN, has: []string{"BUG: KFENCE: "}},
	{kind: KASAN, has: []string{"BUG: KMSAN: "}},
	{kind: UBSAN, start: "UBSAN: ", has: []string{" in "}},
	{kind: Leak, has: []string{"kmemleak: ", "new suspected memory leaks"}},
	{kind: Leak, start: "unreferenced object 0x"},

	{kind: Warning, role: warn, start: "WARNING: CPU: ", has: []string{" at "}},
	{kind: Warning, role: warn, start: "WARNING: ", has: []string{" at ", "+0x", " CPU#"}},
	{kind: Warning, role: warn, start: "WARNING: ", has: []string{" at ", "+0x"}},
	{kind: Warning, start: "WARNING: ", loose: true},

	{kind: Bug, role: bug, start: "kernel BUG at "},
	{kind: Oops, role: fault, start: "BUG: kernel NULL pointer dereference"},
	{kind: Oops, role: fault, start: "BUG: unable to handle "},
	{kind: Oops, role: fault, start: "BUG: ", has: []string{" stack guard page was hit"}},
	{kind: Oops, role: fault, has: []string{"PANIC: double fault"}},
	{kind: Bug, start: "BUG: scheduling while atomic"},
	{kind: Bug, start: "BUG: sleeping function called from invalid context"},
	{kind: Bug, start: "BUG: Bad page "},
	{kind: Bug, start: "BUG: Bad rss-counter state"},
	{kind: Bug, start: "BUG: spinlock "},
	{kind: Bug, start: "BUG: using ", has: []string{" in preemptible"}},
	{kind: Bug, start: "BUG: ", loose: true},
	{kind: Bug, start: "BUG ", has: []string{"ainted", "): "}},
	{kind: Bug, role: hint, start: "list_add corruption"},
	{kind: Bug, role: hint, start: "list_del corruption"},
	{kind: Warning, role: hint, start: "refcount_t: "},
	{kind: Bug, has: []string{"unregister_netdevice: waiting for ", "Usage count"}},

	{kind: Oops, role: oops, start: "Oops: "},
	{kind: Oops, role: oops, start: "general protection fault"},
}

// numbered matches the first line that die() prints, with an error code and the number of the
// oops.
var numbered = regexp.MustCompile(`^[A-Za-z][\w ,.:-]*: [0-9a-f]{4} \[#\d+\]`)

var oopsRule = rule{kind: Oops, role: oops}

// findRule returns the rule for a line, or nil. Loose rules are used only if the line is known
// to be the kernel's.
func findRule(text string, kernels bool) *rule {
	if !isSuspect(text) {
		return nil
	}
	for i := range rules {
		if r := &rules[i]; (kernels || !r.loose) && r.matches(text) {
			return r
		}
	}
	if numbered.MatchString(text) {
		return &oopsRule
	}
	return nil
}

// isSuspect is a quick filter: most lines need no rule.
func isSuspect(text string) bool {
	for _, word := range []string{"WARN", "BUG", "panic", "INFO: ", "LOCKUP", "PANIC", "corruption",
		"refcount_t", "UBSAN", "kmemleak", "unreferenced", "unregister_netdevice", "Oops", "[#",
		"general protection", "lockdep bfs"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

func (r *rule) matches(text string) bool {
	if !strings.HasPrefix(text, r.start) {
		return false
	}
	for _, part := range r.has {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// hasEndMark reports whether an event of this rule ends with an end mark.
func (r rule) hasEndMark() bool {
	return r.role == warn || r.role == bug || r.role == fault || r.role == oops
}

var place = regexp.MustCompile(` (?:at|in) (?:\S+:\d+ (?:at )?)?([A-Za-z_][\w.$]*)\+0x`)

// function returns the function in the header, as in "at FILE:LINE FUNCTION+0x..".
func (r rule) function(text string) string {
	if r.kind != Warning && r.kind != KASAN {
		return ""
	}
	if len(text) > 4096 {
		text = text[:4096]
	}
	if m := place.FindStringSubmatch(text); m != nil {
		return bareSymbol(m[1])
	}
	return ""
}

// refinedKind returns the kind of an event under this header with that message.
func (r rule) refinedKind(message rule) Kind {
	if message.kind == Lockdep {
		return Lockdep
	}
	return r.kind
}

// isPlumbing reports whether a function belongs to the kernel's own reporting of a fault.
func isPlumbing(name string) bool {
	name = strings.TrimLeft(name, "_")
	for _, prefix := range []string{
		"dump_stack", "show_stack", "show_trace", "print_", "might_", "lockdep_", "lock_acquire",
		"lock_release", "lock_acquired", "lock_contended", "validate_chain", "check_", "mark_",
		"register_lock_class", "raw_spin_", "raw_read_", "raw_write_", "mutex_", "down_", "up_",
		"rwsem_", "panic", "warn", "report_bug", "handle_bug", "exc_", "asm_", "ubsan_", "kasan_",
		"asan_", "schedule", "io_schedule", "wait_for_co", "kmemleak_", "kmem_cache_alloc",
		"kmalloc", "slab_", "watchdog_", "hrtimer_", "sysvec_", "bad_page", "dump_header",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
