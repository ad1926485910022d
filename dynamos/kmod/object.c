// SPDX-License-Identifier: GPL-2.0-only
/*
 * Class object: the first call with an object asks the policy, and the answer
 * stays with the object until the call that ends its life returns. Objects on
 * the older version are recorded too, so that a new policy does not change
 * their version.
 *
 * The table is allocated before the first call, because calls run in any
 * context. A full bucket ends admission for good: an object that was not
 * recorded took the older version, and must never take the new one.
 *
 * Context: dynamos_objects_ask() and _end() run where the hooked function is
 * called. A call in an NMI takes the older version, because it may have
 * interrupted the holder of a bucket's lock. Tables are allocated in process
 * context.
 */
#include <asm/processor.h>
#include <linux/bit_spinlock.h>
#include <linux/hash.h>
#include <linux/irqflags.h>
#include <linux/preempt.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "internal.h"

#define BUCKET_BITS 13
#define PLACES 14

/* Two cache lines. Bit i of `used`: object[i] is valid; bit i of `taken`: it is
 * on the new version. */
struct bucket {
	unsigned long lock; /* bit 0; taken with interrupts off */
	u32 used, taken;
	u64 object[PLACES];
};

struct dynamos_objects {
	refcount_t users; /* the update, and calls that will end an object's
			     life */
	struct rcu_head rcu;
	bool stopped;
	atomic64_t left; /* number of objects on the new version */
	struct bucket bucket[1 << BUCKET_BITS];
};

struct dynamos_objects *dynamos_objects_make(void)
{
	struct dynamos_objects *objects = vzalloc(sizeof(*objects));

	if (objects)
		refcount_set(&objects->users, 1);
	return objects;
}

void dynamos_objects_put(struct dynamos_objects *objects)
{
	if (refcount_dec_and_test(&objects->users))
		kvfree_rcu(objects, rcu);
}

static int find_object(const struct bucket *bucket, u64 object)
{
	int i;

	for (i = 0; i < PLACES; i++)
		if (bucket->used >> i & 1 && bucket->object[i] == object)
			return i;
	return -1;
}

static int add_object(struct dynamos_objects *objects, struct bucket *bucket,
		      u64 object, bool take)
{
	int i = ffs(~bucket->used) - 1;

	if (i >= PLACES) {
		WRITE_ONCE(objects->stopped, true);
		return -1;
	}
	bucket->object[i] = object;
	bucket->used |= 1u << i;
	if (take) {
		bucket->taken |= 1u << i;
		atomic64_inc(&objects->left);
	}
	return i;
}

/* Whether the object takes the new version: as recorded, or for a new object as
 * the policy says. */
static bool choose_object(struct dynamos_objects *objects,
			  struct dynamos_version *version, u64 object,
			  const unsigned long *args)
{
	struct bucket *bucket = &objects->bucket[hash_64(object, BUCKET_BITS)];
	unsigned long flags;
	bool take, wanted;
	int at;

	wanted = dynamos_policy_ask(version, args);
	local_irq_save(flags);
	bit_spin_lock(0, &bucket->lock);
	at = find_object(bucket, object);
	if (at < 0)
		at = add_object(objects, bucket, object,
				wanted && !READ_ONCE(objects->stopped));
	take = at >= 0 && bucket->taken >> at & 1;
	bit_spin_unlock(0, &bucket->lock);
	local_irq_restore(flags);
	return take;
}

/* An NMI may have interrupted the holder of a bucket's lock. */
bool dynamos_objects_ask(struct dynamos_version *version,
			 struct dynamos_call *call, const unsigned long *args)
{
	const struct dynamos_function *function = version->function;
	struct dynamos_objects *objects = version->update->objects;
	u64 object = args[function->object];

	if (!object || in_nmi())
		return false;
	if (function->ends) {
		dynamos_call_hold(call);
		skep_assert(call->ends <
			    DYNAMOS_FRAMES); /* room_for() refuses */
		if (call->ends == DYNAMOS_FRAMES)
			return false;
		refcount_inc(&objects->users);
		call->ending[call->ends].objects = objects;
		call->ending[call->ends++].object = object;
	}
	return choose_object(objects, version, object, args);
}

static void remove_object(struct dynamos_objects *objects, u64 object)
{
	struct bucket *bucket = &objects->bucket[hash_64(object, BUCKET_BITS)];
	unsigned long flags;
	int at;

	local_irq_save(flags);
	bit_spin_lock(0, &bucket->lock);
	at = find_object(bucket, object);
	if (at >= 0 && bucket->taken >> at & 1)
		atomic64_dec(&objects->left);
	if (at >= 0) {
		bucket->used &= ~(1u << at);
		bucket->taken &= ~(1u << at);
	}
	bit_spin_unlock(0, &bucket->lock);
	local_irq_restore(flags);
}

void dynamos_objects_end(struct dynamos_call *call)
{
	u32 i;

	for (i = 0; i < call->ends; i++) {
		remove_object(call->ending[i].objects, call->ending[i].object);
		dynamos_objects_put(call->ending[i].objects);
	}
}

void dynamos_objects_stop(struct dynamos_objects *objects)
{
	WRITE_ONCE(objects->stopped, true);
}

u64 dynamos_objects_left(struct dynamos_objects *objects)
{
	return atomic64_read(&objects->left);
}
