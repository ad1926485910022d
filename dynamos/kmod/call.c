// SPDX-License-Identifier: GPL-2.0-only
/*
 * The path of a call of a hooked function: one small function for each slot, in
 * C so that the unwinder knows its frame. It counts the entry before preemption
 * is enabled again, and the exit as its last action. So after dynamos_settle(),
 * a call that is not counted has returned.
 *
 * The wrapper itself handles most calls: those with a constant choice, and
 * those that a table's words decide. It saves one register and has no other
 * frame. Everything else is left to dynamos_call_slow(), which starts over.
 * Neither takes a lock.
 *
 * Context: that of the hooked function's caller, so any: process, softirq,
 * hardirq, NMI, any lock held. Preemption is off from the choice until the call
 * is counted. Nothing here may be traced or sleep.
 */
#include <linux/err.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>

#include "compat.h"
#include "each.h"
#include "layout.h"
#include "slot.h"

typedef unsigned long function(unsigned long a, unsigned long b,
			       unsigned long c, unsigned long d,
			       unsigned long e, unsigned long f);

static bool version_wants(struct dynamos_version *version,
			  struct dynamos_call *call, const unsigned long *args)
{
	switch (READ_ONCE(version->choice)) {
	case DYNAMOS_TAKE:
		return true;
	case DYNAMOS_TABLE:
		return dynamos_policy_ask(version, args);
	case DYNAMOS_ASK:
		return dynamos_version_ask(version, call, args) &&
		       version->call;
	default:
		return false;
	}
}

/* All versions of a function have the same result type. Returns the result, so
 * that a wrapper need not save it. */
static noinline unsigned long count_error(const struct dynamos_slot *slot,
					  struct dynamos_tally __percpu *tally,
					  const unsigned long result)
{
	unsigned long error = result;

	switch (READ_ONCE(slot->kernel.result)) {
	case DYNAMOS_INT:
		error = (long)(int)result;
		fallthrough;
	case DYNAMOS_LONG:
	case DYNAMOS_PTR:
		if (IS_ERR_VALUE(error))
			this_cpu_inc(tally->errors);
	}
	return result;
}

static __always_inline bool may_be_error(unsigned long result)
{
	return (u32)result >= (u32)-MAX_ERRNO;
}

static __always_inline bool sample_due(const struct dynamos_version *version,
				       struct dynamos_tally __percpu *tally)
{
	return !(this_cpu_read(tally->in) & version->sample);
}

static __always_inline void count_in(struct dynamos_tally __percpu *tally)
{
	this_cpu_inc(tally->in);
	if (unlikely(!in_task()))
		this_cpu_inc(tally->outside);
}

/* Called with preemption off; enables it before the version runs. */
unsigned long dynamos_call_slow(unsigned long a, unsigned long b,
				unsigned long c, unsigned long d,
				unsigned long e, unsigned long f,
				const struct dynamos_slot *slot)
{
	const unsigned long args[] = {a, b, c, d, e, f};
	struct dynamos_version *version = READ_ONCE(slot->first);
	struct dynamos_tally __percpu *tally;
	struct dynamos_call call;
	unsigned long result;
	function *to;

	call.flags = 0;
	while (!version_wants(version, &call, args))
		version = READ_ONCE(version->older);
	tally = READ_ONCE(version->tally);
	if (sample_due(version, tally)) {
		call.began = ktime_get_mono_fast_ns();
		call.flags |= DYNAMOS_CALL_TIMED;
	}
	count_in(tally);
	to = version->call;
	preempt_enable_notrace();

	result = to(a, b, c, d, e, f);
	if (may_be_error(result))
		result = count_error(slot, tally, result);
	if (call.flags)
		dynamos_call_end(version, &call, result);
	this_cpu_inc(tally->out);
	return result;
}

/* 1: the version is chosen; 0: it is not; -1: the words do not decide. The task
 * is loaded again for each test, because a wrapper has no register to spare. */
static __always_inline int match_words(const struct dynamos_version *version)
{
	const struct dynamos_test *test = READ_ONCE(version->table)->task;

	if (unlikely(!in_task()))
		return -1;
	while (!dynamos_policy_agrees(test, dynamos_layout,
				      dynamos_compat_current()))
		test++;
	return unlikely(test->more) ? -1 : test->choice;
}

/* Whether the fast path found the version that the call takes. */
static __always_inline bool
choose_version(const struct dynamos_slot *slot,
	       const struct dynamos_version **chosen)
{
	const struct dynamos_version *version = READ_ONCE(slot->first);
	u32 choice = READ_ONCE(version->choice);
	int yes;

	while (unlikely(choice != DYNAMOS_TAKE)) {
		if (choice == DYNAMOS_ASK)
			return false;
		yes = choice == DYNAMOS_TABLE ? match_words(version) : 0;
		if (yes < 0)
			return false;
		if (yes)
			break;
		version = READ_ONCE(version->older);
		choice = READ_ONCE(version->choice);
	}
	*chosen = version;
	return true;
}

static __always_inline unsigned long run_slot(const struct dynamos_slot *slot,
					      unsigned long a, unsigned long b,
					      unsigned long c, unsigned long d,
					      unsigned long e, unsigned long f)
{
	struct dynamos_tally __percpu *tally;
	const struct dynamos_version *version;
	unsigned long result;
	function *to;

	preempt_disable_notrace();
	if (unlikely(!choose_version(slot, &version)))
		return dynamos_call_slow(a, b, c, d, e, f, slot);
	tally = READ_ONCE(version->tally);
	if (unlikely(sample_due(version, tally)))
		return dynamos_call_slow(a, b, c, d, e, f, slot);
	count_in(tally);
	to = version->call;
	preempt_enable_notrace();

	result = to(a, b, c, d, e, f);
	if (unlikely(may_be_error(result)))
		result = count_error(slot, tally, result);
	this_cpu_inc(tally->out);
	return result;
}

#define DECLARE(n)                                                             \
	void dynamos_entry_##n(void);                                          \
	void dynamos_kernel_##n(void);                                         \
	function dynamos_wrapper_##n;
DYNAMOS_EACH(DECLARE)

#define WRAPPER(n)                                                             \
	notrace unsigned long dynamos_wrapper_##n(                             \
		unsigned long a, unsigned long b, unsigned long c,             \
		unsigned long d, unsigned long e, unsigned long f)             \
	{                                                                      \
		return run_slot(&dynamos_slots[n], a, b, c, d, e, f);          \
	}
DYNAMOS_EACH(WRAPPER)

#define TEXT(n) {dynamos_entry_##n, dynamos_kernel_##n, dynamos_wrapper_##n},
const struct dynamos_text dynamos_texts[DYNAMOS_SLOTS] = {DYNAMOS_EACH(TEXT)};
