// SPDX-License-Identifier: GPL-2.0-only
/*
 * Slots: their chains of versions, and the sums of their calls' counts.
 * dynamos_lock guards them; calls (call.c) read `first`, `older` and the fields
 * at the start of a version without a lock.
 *
 * Context: process, under dynamos_lock. Lookups by address and the sums take no
 * lock and run anywhere.
 */
#include <linux/err.h>
#include <linux/preempt.h>
#include <linux/sched.h>

#include <skep/assert.h>

#include "jump.h"
#include "slot.h"
#include "symbol.h"

struct dynamos_slot dynamos_slots[DYNAMOS_SLOTS];
static unsigned long slow, slow_length;
static unsigned long first = ~0ul, last;    /* range of the wrappers' text */
void *dynamos_kernel_places[DYNAMOS_SLOTS]; /* used by jump.S */

int dynamos_slot_init(void)
{
	struct dynamos_slot *s;
	int err;
	u32 i;

	slow = (unsigned long)dynamos_call_slow;
	err = dynamos_symbol_size(slow, &slow_length);
	if (err)
		return err;
	for (i = 0; i < DYNAMOS_SLOTS; i++) {
		s = &dynamos_slots[i];
		s->entry = (unsigned long)dynamos_texts[i].entry;
		s->wrapper = (unsigned long)dynamos_texts[i].wrapper;
		err = dynamos_symbol_size(s->wrapper, &s->wrapper_length);
		if (err)
			return err;
		first = min(first, s->wrapper);
		last = max(last, s->wrapper + s->wrapper_length);
	}
	return 0;
}

void dynamos_slot_step(struct dynamos_slot *slot, u32 step)
{
	int next = dynamos_retire_next(slot->retire, step);

	lockdep_assert_held(&dynamos_lock);
	skep_assert(next >= 0);
	if (next < 0)
		return;
	slot->retire = next;
	slot->settling = false;
}

struct dynamos_slot *dynamos_slot_take(const char *symbol,
				       unsigned long address,
				       unsigned long length,
				       unsigned long place)
{
	struct dynamos_version *kernel;
	struct dynamos_slot *s;
	u32 i;

	lockdep_assert_held(&dynamos_lock);
	for (i = 0; i < DYNAMOS_SLOTS; i++)
		if (!dynamos_slots[i].place)
			break;
	if (i == DYNAMOS_SLOTS)
		return ERR_PTR(-ENOSPC);
	s = &dynamos_slots[i];
	kernel = &s->kernel;
	memset(kernel, 0, sizeof(*kernel));
	memset(&s->gone, 0, sizeof(s->gone));
	s->gone_lost = 0;
	s->probes = 0;
	s->timed = 0;
	kernel->tally = alloc_percpu(struct dynamos_tally);
	kernel->other = alloc_percpu(struct dynamos_tally);
	if (!kernel->tally || !kernel->other) {
		free_percpu(kernel->tally);
		free_percpu(kernel->other);
		return ERR_PTR(-ENOMEM);
	}
	kernel->choice = DYNAMOS_TAKE;
	kernel->sample = ~0u;
	kernel->call = dynamos_texts[i].kernel;
	kernel->slot = s;
	kernel->address = address;
	kernel->length = length;
	kernel->result = DYNAMOS_VALUE;
	strscpy(s->symbol, symbol, sizeof(s->symbol));
	dynamos_slot_step(s, DYNAMOS_RETIRE_KEEP);
	s->installer = DYNAMOS_NONE;
	dynamos_kernel_places[i] = (void *)(place + MCOUNT_INSN_SIZE);
	WRITE_ONCE(s->first, kernel);
	WRITE_ONCE(s->place, place);
	__module_get(THIS_MODULE);
	return s;
}

void dynamos_slot_unhook(struct dynamos_slot *slot)
{
	int err = 0;

	lockdep_assert_held(&dynamos_hooks);
	mutex_lock(&dynamos_lock);
	if (slot->retire != DYNAMOS_UNNEEDED) {
		mutex_unlock(&dynamos_lock);
		return;
	}
	dynamos_slot_step(slot, DYNAMOS_RETIRE_UNHOOK);
	mutex_unlock(&dynamos_lock);
	if (slot->installer == DYNAMOS_DIRECT ||
	    slot->installer == DYNAMOS_IPMODIFY)
		err = dynamos_hook_clear(slot);
	mutex_lock(&dynamos_lock);
	dynamos_slot_step(slot, err ? DYNAMOS_RETIRE_REFUSED
				    : DYNAMOS_RETIRE_UNHOOKED);
	mutex_unlock(&dynamos_lock);
}

void dynamos_slot_free(struct dynamos_slot *slot)
{
	dynamos_slot_step(slot, DYNAMOS_RETIRE_SETTLED);
	WRITE_ONCE(slot->place, 0);
	free_percpu(slot->kernel.tally);
	free_percpu(slot->kernel.other);
	module_put(THIS_MODULE);
}

struct dynamos_slot *dynamos_slot_of(unsigned long place)
{
	u32 i;

	lockdep_assert_held(&dynamos_lock);
	for (i = 0; i < DYNAMOS_SLOTS; i++)
		if (dynamos_slots[i].place == place &&
		    dynamos_slots[i].installer != DYNAMOS_LIVEPATCH)
			return &dynamos_slots[i];
	return NULL;
}

struct dynamos_slot *dynamos_slot_next(u32 *n)
{
	while (*n < DYNAMOS_SLOTS) {
		struct dynamos_slot *s = &dynamos_slots[(*n)++];

		if (s->place)
			return s;
	}
	return NULL;
}

void dynamos_slot_link(struct dynamos_slot *slot,
		       struct dynamos_version *version)
{
	lockdep_assert_held(&dynamos_lock);
	version->slot = slot;
	version->older = slot->first;
	if (version->function)
		slot->kernel.result = version->function->result;
	smp_store_release(&slot->first, version);
}

static void add_tally(struct dynamos_tally *sum,
		      const struct dynamos_tally *more)
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

	lockdep_assert_held(&dynamos_lock);
	while (*at != version)
		at = &(*at)->older;
	WRITE_ONCE(*at, version->older);
	dynamos_version_sum(version, &sum);
	add_tally(&slot->gone, &sum);
	slot->gone_lost += atomic64_read(&version->lost);
}

static void sum_out(const struct dynamos_tally __percpu *tally,
		    struct dynamos_tally *sum)
{
	int cpu;

	for_each_possible_cpu(cpu)
		sum->out += READ_ONCE(per_cpu_ptr(tally, cpu)->out);
}

static void sum_rest(const struct dynamos_tally __percpu *tally,
		     struct dynamos_tally *sum)
{
	const struct dynamos_tally *t;
	int cpu, i;

	for_each_possible_cpu(cpu) {
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
	smp_mb(); /* a call whose exit is read has its entry read too */
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

static u64 sum_from(const struct dynamos_slot *slot,
		    const struct dynamos_version *version,
		    struct dynamos_tally *sum)
{
	u64 lost = slot->gone_lost;
	struct dynamos_tally more;

	lockdep_assert_held(&dynamos_lock);
	*sum = slot->gone;
	for (; version; version = version->older) {
		lost += atomic64_read(&version->lost);
		dynamos_version_sum(version, &more);
		add_tally(sum, &more);
	}
	return lost;
}

u64 dynamos_slot_older(const struct dynamos_version *version,
		       struct dynamos_tally *sum)
{
	return sum_from(version->slot, version->older, sum);
}

u64 dynamos_slot_all(const struct dynamos_slot *slot, struct dynamos_tally *sum)
{
	return sum_from(slot, slot->first, sum);
}

void dynamos_slot_sample(struct dynamos_slot *slot)
{
	WRITE_ONCE(slot->kernel.sample, slot->timed ? 0 : DYNAMOS_SAMPLE);
}

/* Most lookups are for tasks that end, with addresses outside of the range. */
struct dynamos_slot *dynamos_slot_at(unsigned long address)
{
	u32 i;

	if (address - first >= last - first)
		return NULL;
	for (i = 0; i < DYNAMOS_SLOTS; i++)
		if (address - dynamos_slots[i].wrapper <
		    dynamos_slots[i].wrapper_length)
			return &dynamos_slots[i];
	return NULL;
}

bool dynamos_call_at(unsigned long address)
{
	return address - slow < slow_length;
}

struct dynamos_version *dynamos_slot_first(struct dynamos_slot *slot)
{
	return READ_ONCE(slot->first);
}

static bool version_contains(const struct dynamos_version *v,
			     unsigned long address)
{
	return v->length && address - v->address <= v->length;
}

struct dynamos_version *dynamos_version_at(unsigned long address)
{
	struct dynamos_version *v, *found = NULL;
	u32 i;

	preempt_disable_notrace();
	for (i = 0; i < DYNAMOS_SLOTS && !found; i++) {
		if (!READ_ONCE(dynamos_slots[i].place))
			continue;
		for (v = READ_ONCE(dynamos_slots[i].first); v && !found;
		     v = READ_ONCE(v->older))
			if (version_contains(v, address))
				found = v;
	}
	preempt_enable_notrace();
	return found;
}
