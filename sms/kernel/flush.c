// SPDX-License-Identifier: MIT
/*
 * TLB flushes: which cores have seen that mappings lost rights.
 * The core that changes mappings counts the change, sends an NMI to each other
 * core that runs a thread, and waits until all of these have flushed. An idle
 * core gets no NMI: it flushes when it becomes busy.
 * A core may become busy while another core waits. So it first sets its state
 * to busy and then reads the number of changes, and the waiting core first
 * counts its change and then reads the states: one of the two sees the other.
 */
#include "kernel.h"

static u64 changes; /* number of changes that removed rights; atomic */

static int must_flush(struct core *c)
{
	return c != sms_core() &&
	       __atomic_load_n(&c->state, __ATOMIC_SEQ_CST) == CORE_BUSY;
}

/* The caller holds sms_memory_lock, so only one flush is in progress. */
void sms_thread_flush(void)
{
	u64 now = __atomic_add_fetch(&changes, 1, __ATOMIC_SEQ_CST);
	struct core *c;
	u32 i;

	sms_spin_assert(&sms_memory_lock);
	sms_cpu_flush();
	for (i = 0; i < sms_partition->cores; i++)
		if (must_flush(sms_core_at(i)))
			sms_cpu_nmi(sms_core_at(i), MAIL_NMI_MAPPING);
	for (i = 0; i < sms_partition->cores; i++) {
		c = sms_core_at(i);
		while (must_flush(c) &&
		       __atomic_load_n(&c->flushed, __ATOMIC_ACQUIRE) < now)
			__builtin_ia32_pause();
	}
}

/* An NMI in between may have seen a later change, so `flushed` must never
 * decrease. */
void sms_core_flush(struct core *c)
{
	u64 now = __atomic_load_n(&changes, __ATOMIC_SEQ_CST);
	u64 seen = __atomic_load_n(&c->flushed, __ATOMIC_RELAXED);

	if (seen >= now)
		return;
	sms_cpu_flush();
	while (seen < now &&
	       !__atomic_compare_exchange_n(&c->flushed, &seen, now, 0,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

void sms_core_busy(struct core *c)
{
	__atomic_store_n(&c->state, CORE_BUSY, __ATOMIC_SEQ_CST);
	sms_core_flush(c);
}
