// SPDX-License-Identifier: GPL-2.0-only
/*
 * Slots: what a call of a hooked function runs through. One small function for
 * each slot, written in C so that the unwinder knows its frame. A call counts
 * on entry before preemption is on again, and on exit as the last thing it
 * does: after dynamos_settle(), whoever is not counted is gone.
 *
 * The slots are guarded by dynamos_lock; calls read `first`, `older` and what
 * stands on top of a version, and take no lock.
 */
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>

#include <dynamos/core/policy.h>

#include "each.h"
#include "jump.h"
#include "slot.h"
#include "symbol.h"

static struct dynamos_slot slots[DYNAMOS_SLOTS];
void *dynamos_kernel_places[DYNAMOS_SLOTS]; /* of jump.S */

/* The registers of the call's arguments survive both: see jump.S. */
#define ASK(question, version, with)                                           \
	({                                                                     \
		register const void *ask_with asm("r10") = with;               \
		const void *ask_version = version;                             \
		u32 ask_yes;                                                   \
                                                                               \
		asm volatile("call dynamos_call_" #question                    \
			     : "=a"(ask_yes), "+r"(ask_with),                  \
			       ASM_CALL_CONSTRAINT                             \
			     : "0"(ask_version)                                \
			     : "r11", "cc", "memory");                         \
		(u8) ask_yes;                                                  \
	})

static __always_inline int asked(const struct dynamos_table *table,
				 const struct dynamos_test *test)
{
	return ASK(table_ask, table, test);
}

static __always_inline bool wants(struct dynamos_version *version, u32 choice,
				  struct dynamos_call *call)
{
	if (choice == DYNAMOS_TABLE)
		return dynamos_policy_choose(READ_ONCE(version->table),
					     in_task(), current, current_cred(),
					     asked);
	return choice == DYNAMOS_ASK && ASK(version_ask, version, call) &&
	       version->call;
}

static __always_inline struct dynamos_version *
choose(const struct dynamos_slot *slot, struct dynamos_call *call)
{
	struct dynamos_version *version = READ_ONCE(slot->first);
	u32 choice = READ_ONCE(version->choice);

	while (unlikely(choice != DYNAMOS_TAKE)) {
		if (wants(version, choice, call))
			break;
		version = READ_ONCE(version->older);
		choice = READ_ONCE(version->choice);
	}
	return version;
}

static noinline void count_error(const struct dynamos_version *version,
				 struct dynamos_tally __percpu *tally,
				 unsigned long result)
{
	switch (version->result) {
	case DYNAMOS_INT:
		result = (long)(int)result;
		fallthrough;
	case DYNAMOS_LONG:
	case DYNAMOS_PTR:
		if (IS_ERR_VALUE(result))
			this_cpu_inc(tally->errors);
	}
}

static __always_inline unsigned long run(const struct dynamos_slot *slot,
					 unsigned long a, unsigned long b,
					 unsigned long c, unsigned long d,
					 unsigned long e, unsigned long f)
{
	unsigned long (*function)(unsigned long, unsigned long, unsigned long,
				  unsigned long, unsigned long, unsigned long);
	struct dynamos_tally __percpu *tally;
	struct dynamos_version *version;
	struct dynamos_call call;
	unsigned long result;

	preempt_disable_notrace();
	call.flags = 0;
	version = choose(slot, &call);
	tally = READ_ONCE(version->tally);
	this_cpu_inc(tally->in);
	if (unlikely(!(this_cpu_read(tally->in) & version->sample))) {
		call.began = ktime_get_mono_fast_ns();
		call.flags |= DYNAMOS_CALL_TIMED;
	}
	if (unlikely(!in_task()))
		this_cpu_inc(tally->outside);
	function = version->call;
	preempt_enable_notrace();

	result = function(a, b, c, d, e, f);
	if (unlikely((u32)result >= (u32)-MAX_ERRNO))
		count_error(version, tally, result);
	if (unlikely(call.flags))
		dynamos_call_end(version, &call, result);
	this_cpu_inc(tally->out);
	return result;
}

#define DECLARE(n)                                                             \
	void dynamos_entry_##n(void);                                          \
	void dynamos_kernel_##n(void);                                         \
	unsigned long dynamos_wrapper_##n(unsigned long a, unsigned long b,    \
					  unsigned long c, unsigned long d,    \
					  unsigned long e, unsigned long f);
DYNAMOS_EACH(DECLARE)

#define WRAPPER(n)                                                             \
	notrace unsigned long dynamos_wrapper_##n(                             \
		unsigned long a, unsigned long b, unsigned long c,             \
		unsigned long d, unsigned long e, unsigned long f)             \
	{                                                                      \
		return run(&slots[n], a, b, c, d, e, f);                       \
	}
DYNAMOS_EACH(WRAPPER)

#define TEXT(n) {dynamos_entry_##n, dynamos_kernel_##n, dynamos_wrapper_##n},
static const struct {
	void *entry, *kernel, *wrapper;
} texts[DYNAMOS_SLOTS] = {DYNAMOS_EACH(TEXT)};

int dynamos_slot_init(void)
{
	struct dynamos_slot *s;
	int err;
	u32 i;

	for (i = 0; i < DYNAMOS_SLOTS; i++) {
		s = &slots[i];
		s->entry = (unsigned long)texts[i].entry;
		s->wrapper = (unsigned long)texts[i].wrapper;
		err = dynamos_symbol_size(s->wrapper, &s->wrapper_length);
		if (err)
			return err;
	}
	return 0;
}

struct dynamos_slot *dynamos_slot_take(const char *symbol,
				       unsigned long address,
				       unsigned long length,
				       unsigned long place)
{
	struct dynamos_version *kernel;
	struct dynamos_slot *s;
	u32 i;

	for (i = 0; i < DYNAMOS_SLOTS; i++)
		if (!slots[i].place)
			break;
	if (i == DYNAMOS_SLOTS)
		return NULL;
	s = &slots[i];
	kernel = &s->kernel;
	memset(kernel, 0, sizeof(*kernel));
	memset(&s->gone, 0, sizeof(s->gone));
	s->gone_lost = 0;
	kernel->tally = alloc_percpu(struct dynamos_tally);
	kernel->other = alloc_percpu(struct dynamos_tally);
	if (!kernel->tally || !kernel->other) {
		free_percpu(kernel->tally);
		free_percpu(kernel->other);
		return NULL;
	}
	kernel->choice = DYNAMOS_TAKE;
	kernel->sample = ~0u;
	kernel->call = texts[i].kernel;
	kernel->slot = s;
	kernel->address = address;
	kernel->length = length;
	kernel->result = DYNAMOS_VALUE;
	strscpy(s->symbol, symbol, sizeof(s->symbol));
	s->retire = DYNAMOS_KEPT;
	s->installer = DYNAMOS_NONE;
	dynamos_kernel_places[i] = (void *)(place + MCOUNT_INSN_SIZE);
	WRITE_ONCE(s->first, kernel);
	WRITE_ONCE(s->place, place);
	__module_get(THIS_MODULE);
	return s;
}

void dynamos_slot_unhook(struct dynamos_slot *slot)
{
	if (slot->retire != DYNAMOS_UNNEEDED)
		return;
	if (slot->installer != DYNAMOS_LIVEPATCH && dynamos_hook_clear(slot))
		return;
	slot->settling = false;
	slot->retire = DYNAMOS_UNHOOKED;
}

void dynamos_slot_free(struct dynamos_slot *slot)
{
	WRITE_ONCE(slot->place, 0);
	free_percpu(slot->kernel.tally);
	free_percpu(slot->kernel.other);
	module_put(THIS_MODULE);
}

struct dynamos_slot *dynamos_slot_of(unsigned long place)
{
	u32 i;

	for (i = 0; i < DYNAMOS_SLOTS; i++)
		if (slots[i].place == place &&
		    slots[i].installer != DYNAMOS_LIVEPATCH)
			return &slots[i];
	return NULL;
}

struct dynamos_slot *dynamos_slot_next(u32 *n)
{
	while (*n < DYNAMOS_SLOTS) {
		struct dynamos_slot *s = &slots[(*n)++];

		if (s->place)
			return s;
	}
	return NULL;
}

void dynamos_slot_link(struct dynamos_slot *slot,
		       struct dynamos_version *version)
{
	version->slot = slot;
	version->older = slot->first;
	if (version->function)
		slot->kernel.result = version->function->result;
	smp_store_release(&slot->first, version);
}

static void add(struct dynamos_tally *sum, const struct dynamos_tally *more)
{
	u64 *to = (u64 *)sum;
	const u64 *from = (const u64 *)more;
	u32 i;

	for (i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

void dynamos_slot_unlink(struct dynamos_version *version)
{
	struct dynamos_slot *slot = version->slot;
	struct dynamos_version **at = &slot->first;
	struct dynamos_tally sum;

	while (*at != version)
		at = &(*at)->older;
	WRITE_ONCE(*at, version->older);
	dynamos_version_sum(version, &sum);
	add(&slot->gone, &sum);
	slot->gone_lost += atomic64_read(&version->lost);
}

static void sum_out(const struct dynamos_tally __percpu *tally,
		    struct dynamos_tally *sum)
{
	int cpu;

	for_each_possible_cpu(cpu) sum->out +=
		READ_ONCE(per_cpu_ptr(tally, cpu)->out);
}

static void sum_rest(const struct dynamos_tally __percpu *tally,
		     struct dynamos_tally *sum)
{
	const struct dynamos_tally *t;
	int cpu, i;

	for_each_possible_cpu(cpu)
	{
		t = per_cpu_ptr(tally, cpu);
		sum->in += READ_ONCE(t->in);
		sum->errors += READ_ONCE(t->errors);
		sum->outside += READ_ONCE(t->outside);
		sum->sampled += READ_ONCE(t->sampled);
		for (i = 0; i < DYNAMOS_BUCKETS; i++)
			sum->latency[i] += READ_ONCE(t->latency[i]);
	}
}

void dynamos_tally_sum(const struct dynamos_tally __percpu *tally,
		       struct dynamos_tally *sum)
{
	memset(sum, 0, sizeof(*sum));
	sum_out(tally, sum);
	smp_mb(); /* a call seen to have left is seen to have come */
	sum_rest(tally, sum);
}

void dynamos_version_sum(const struct dynamos_version *version,
			 struct dynamos_tally *sum)
{
	memset(sum, 0, sizeof(*sum));
	sum_out(version->tally, sum);
	sum_out(version->other, sum);
	smp_mb(); /* as above */
	sum_rest(version->tally, sum);
	sum_rest(version->other, sum);
}

u64 dynamos_version_inside(const struct dynamos_version *version)
{
	u64 lost = atomic64_read(&version->lost);
	struct dynamos_tally sum;

	dynamos_version_sum(version, &sum);
	return sum.in - sum.out - lost;
}

u64 dynamos_slot_older(const struct dynamos_version *version,
		       struct dynamos_tally *sum)
{
	u64 lost = version->slot->gone_lost;
	struct dynamos_tally more;

	*sum = version->slot->gone;
	for (version = version->older; version; version = version->older) {
		lost += atomic64_read(&version->lost);
		dynamos_version_sum(version, &more);
		add(sum, &more);
	}
	return lost;
}

struct dynamos_slot *dynamos_slot_at(unsigned long address)
{
	u32 i;

	for (i = 0; i < DYNAMOS_SLOTS; i++)
		if (address - slots[i].wrapper < slots[i].wrapper_length)
			return &slots[i];
	return NULL;
}

struct dynamos_version *dynamos_slot_first(struct dynamos_slot *slot)
{
	return READ_ONCE(slot->first);
}

static bool within(const struct dynamos_version *v, unsigned long address)
{
	return v->length && address - v->address <= v->length;
}

struct dynamos_version *dynamos_version_at(unsigned long address)
{
	struct dynamos_version *v, *found = NULL;
	u32 i;

	preempt_disable_notrace();
	for (i = 0; i < DYNAMOS_SLOTS && !found; i++) {
		if (!READ_ONCE(slots[i].place))
			continue;
		for (v = READ_ONCE(slots[i].first); v && !found;
		     v = READ_ONCE(v->older))
			if (within(v, address))
				found = v;
	}
	preempt_enable_notrace();
	return found;
}
