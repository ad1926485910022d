// SPDX-License-Identifier: GPL-2.0-only
/*
 * Atomic accesses to the program's memory, by atomic instructions of the
 * processor, so that the program's threads and everybody who shares the memory
 * see each element change at once. The core requests one access at a time and
 * has checked that the elements are aligned: an access across two cache lines
 * would be a split lock, which stalls the machine or is refused.
 *
 * Context: process, the program's or a worker with its memory; no lock is held.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <o2g/core/atomic.h>

#include "internal.h"

#define ELEMENTS_MAX 64 /* elements between two checks for signals */

#define EXCHANGE(type, bits)                                                   \
	static int exchange_##bits(u32 what, u64 address, u64 operand,         \
				   u64 compare, u64 *before)                   \
	{                                                                      \
		type __user *at = (type __user *)(unsigned long)address;       \
		type old;                                                      \
		int rc;                                                        \
                                                                               \
		if (get_user(old, at))                                         \
			return -EFAULT;                                        \
		rc = !o2g_atomic_writes(what);                                 \
		while (!rc) {                                                  \
			const type next = (type)o2g_atomic_next(               \
				what, old, operand, compare);                  \
                                                                               \
			rc = __try_cmpxchg_user(at, &old, next, fault);        \
			if (rc < 0)                                            \
				return rc;                                     \
			rc = !rc; /* 1: the element had changed */             \
			if (!rc && fatal_signal_pending(current))              \
				return -EINTR;                                 \
		}                                                              \
		*before = old;                                                 \
		return 0;                                                      \
	}
EXCHANGE(u8, 8)
EXCHANGE(u16, 16)
EXCHANGE(u32, 32)
EXCHANGE(u64, 64)

static int exchange_element(u32 what, u64 address, u64 operand, u64 compare,
			    u64 *before)
{
	switch (o2g_atomic_size(what)) {
	case 1:
		return exchange_8(what, address, operand, compare, before);
	case 2:
		return exchange_16(what, address, operand, compare, before);
	case 4:
		return exchange_32(what, address, operand, compare, before);
	}
	return exchange_64(what, address, operand, compare, before);
}

static u64 load_element(const u8 *at, u32 size)
{
	u64 value = 0;

	memcpy(&value, at, size);
	return value;
}

/* `body` has the operands and the values to compare with, and receives the
 * result. */
static int change_elements(struct o2g_engine *engine,
			   const struct o2g_copy *job, u8 *body)
{
	const u32 what = job->atomic, size = o2g_atomic_size(what);
	const u64 length = job->to.length;
	u32 n = 0;

	for (u64 at = 0; at < length; at += size) {
		u64 operand = 0, compare = 0, before;
		int rc;

		if (o2g_atomic_writes(what))
			operand = load_element(body + at, size);
		if (o2g_atomic_compares(what))
			compare = load_element(body + length + at, size);
		rc = exchange_element(what, job->to.address + at, operand,
				      compare, &before);
		if (rc)
			return rc;
		if (o2g_atomic_fetches(what))
			memcpy(body + at, &before, size);
		if (++n % ELEMENTS_MAX)
			continue;
		if (READ_ONCE(engine->closed) || fatal_signal_pending(current))
			return -ECANCELED;
		cond_resched();
	}
	return 0;
}

static void __user *user_address(const struct o2g_piece *piece)
{
	return (void __user *)(unsigned long)piece->address;
}

/* An access to this endpoint's own memory: operands and result are in the
 * program's memory too. */
static int change_own(struct o2g_engine *engine, const struct o2g_copy *job)
{
	u8 *body = kmalloc(2 * O2G_ATOMIC_BYTES, GFP_KERNEL_ACCOUNT);
	int rc = -ENOMEM;

	if (!body)
		return rc;
	rc = copy_from_user(body, user_address(&job->from), job->from.length)
		     ? -EFAULT
		     : change_elements(engine, job, body);
	if (!rc && o2g_atomic_fetches(job->atomic) &&
	    copy_to_user(user_address(&job->result), body, job->to.length))
		rc = -EFAULT;
	kfree(body);
	return rc;
}

int o2g_program_atomic(struct o2g_engine *engine, const struct o2g_copy *job)
{
	might_sleep();
	if (job->result.place == O2G_PLACE_CORE)
		return change_elements(engine, job, job->result.core);
	return change_own(engine, job);
}
