/* SPDX-License-Identifier: MIT */
/*
 * Bringing guest threads to rest. Owns the word that they sleep on, and the
 * table of those that rest. A thread enters itself and removes itself; the
 * table is otherwise only read.
 */
#include "bee/core/freeze.h"
#include "bee/core/core.h"

#define THREADS 1024 /* as many as abi has */

static u32 freezing; /* atomic */
static const struct bee_rest *table[THREADS];

void bee_rest_here(struct bee_thread *t)
{
	struct bee_rest rest;

	if (!__atomic_load_n(&freezing, __ATOMIC_SEQ_CST))
		return;
	rest.regs = t->frame;
	bee_slots_read(rest.slot);
	bee_vec_save(rest.vec, sizeof(rest.vec));
	__atomic_store_n(&table[t->index], &rest, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&freezing, __ATOMIC_SEQ_CST))
		bee_gated.wait(&freezing, 1, ABI_FOREVER);
	__atomic_store_n(&table[t->index], 0, __ATOMIC_SEQ_CST);
}

void bee_freeze(void)
{
	__atomic_store_n(&freezing, 1, __ATOMIC_SEQ_CST);
	abi_freeze(bee.proc, 1);
}

const struct bee_rest *bee_rest_of(u32 thread)
{
	return __atomic_load_n(&table[thread], __ATOMIC_SEQ_CST);
}

/* A thread that starts rests before its first instruction. One that ends leaves
 * its record at its very end; only the first one's record remains. */
int bee_frozen(u32 *busy)
{
	u32 i, state, resting = 0;

	for (i = 0; i < THREADS; i++) {
		state = __atomic_load_n(&abi_thread_get(bee.proc, i)->state,
					__ATOMIC_SEQ_CST);
		*busy = i;
		if (bee_rest_of(i))
			resting++;
		else if (state != ABI_THREAD_FREE &&
			 (i || state != ABI_THREAD_EXITED))
			return 0;
	}
	/* a thread that was not at rest yet may have started one meanwhile */
	return resting == abi_snap_live(bee.proc);
}

void bee_freeze_forget(void)
{
	u32 i;

	for (i = 0; i < THREADS; i++)
		__atomic_store_n(&table[i], 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&freezing, 0, __ATOMIC_SEQ_CST);
}

void bee_thaw(void)
{
	u32 i;

	abi_freeze(bee.proc, 0);
	__atomic_store_n(&freezing, 0, __ATOMIC_SEQ_CST);
	bee.os->wake(&freezing, ~0u);
	for (i = 0; i < THREADS; i++)
		while (bee_rest_of(i))
			bee.os->thread_yield();
}
