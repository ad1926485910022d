// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory accounting. The engines of a user share a part of the computer's
 * memory, and allocations, also in softirqs, are charged to the memory cgroup
 * of the process that opened the endpoint. users_lock guards `users` and the
 * shares; the engine's lock guards `ready` and `wanted`.
 *
 * The core allocates rarely and in large pieces, under a spinlock, often in a
 * softirq. A size that cannot be allocated there is recorded, and a worker or
 * the program's next call preallocates it; then the core tries again.
 *
 * Context: o2g_memory_alloc() and free() any, with the engine's lock, softirqs
 * too; charging any; opening, closing and filling are process context.
 */
#include <linux/cred.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uidgid.h>

#include "internal.h"

#define CHARGE 0x8000u /* for the engine, its workers and its file */
#define TRIES 16       /* retries of a call that had no memory */
/* blocks; whatever needed an older one may have ended */
#define READY_MAX 8
/* larger sizes are only allocated where it may sleep */
#define HURRY_MAX 0x8000ul

struct o2g_user {
	struct list_head here;
	kuid_t uid;
	u32 engines;
	atomic64_t bytes;
};

/* At the start of each block that was preallocated for the core. */
struct block {
	struct list_head here;
	u64 size;
};

static LIST_HEAD(users);
static DEFINE_SPINLOCK(users_lock);

static uint user_megabytes;
module_param(user_megabytes, uint, 0644);
MODULE_PARM_DESC(
	user_megabytes,
	"maximum memory of one user's endpoints (0: a quarter of all)");

static u64 user_share(void)
{
	const u64 megabytes = READ_ONCE(user_megabytes);

	return megabytes ? megabytes << 20
			 : (u64)totalram_pages() << (PAGE_SHIFT - 2);
}

static struct o2g_user *user_find(kuid_t uid)
{
	struct o2g_user *user;

	lockdep_assert_held(&users_lock);
	list_for_each_entry(user, &users, here)
		if (uid_eq(user->uid, uid))
			return user;
	return NULL;
}

static struct o2g_user *user_get(kuid_t uid)
{
	struct o2g_user *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);
	struct o2g_user *user;

	if (!fresh)
		return NULL;
	spin_lock(&users_lock);
	user = user_find(uid);
	if (!user) {
		user = fresh;
		fresh = NULL;
		user->uid = uid;
		list_add(&user->here, &users);
	}
	user->engines++;
	spin_unlock(&users_lock);
	kfree(fresh);
	return user;
}

static void user_put(struct o2g_user *user)
{
	spin_lock(&users_lock);
	if (--user->engines)
		user = NULL;
	else
		list_del(&user->here);
	spin_unlock(&users_lock);
	kfree(user);
}

/* A quarter of what is available and of what the user may still use, because
 * several engines may ask at the same time. */
u64 o2g_memory_spare(void *ctx)
{
	const struct o2g_engine *engine = ctx;
	const long pages = si_mem_available();
	const u64 used = (u64)atomic64_read(&engine->memory.user->bytes);
	const u64 share = user_share();
	u64 spare = pages > 0 ? (u64)pages << PAGE_SHIFT : 0;

	return min(spare, share > used ? share - used : 0) / 4;
}

int o2g_memory_open(struct o2g_engine *engine)
{
	struct o2g_memory *memory = &engine->memory;

	INIT_LIST_HEAD(&memory->ready);
	memory->sleep = true;
	memory->user = user_get(current_uid());
	memory->group = get_mem_cgroup_from_mm(current->mm);
	if (memory->user && !o2g_memory_charge(engine, CHARGE))
		return 0;
	if (memory->user)
		user_put(memory->user);
	memory->user = NULL;
	return -ENOMEM;
}

static void *ready_take(struct o2g_memory *memory, u64 size)
{
	struct block *block;

	list_for_each_entry(block, &memory->ready, here) {
		if (block->size != size)
			continue;
		list_del(&block->here);
		memory->ready_count--;
		memset(block, 0, sizeof(*block));
		return block;
	}
	return NULL;
}

void o2g_memory_close(struct o2g_engine *engine)
{
	struct o2g_memory *memory = &engine->memory;
	struct block *block, *next;

	list_for_each_entry_safe(block, next, &memory->ready, here)
		o2g_memory_free(engine, block, block->size);
	mem_cgroup_put(memory->group);
	if (!memory->user)
		return;
	o2g_memory_uncharge(engine, CHARGE);
	user_put(memory->user);
}

static int charge_user(struct o2g_engine *engine, u64 bytes, u64 most)
{
	struct o2g_user *user = engine->memory.user;

	if (atomic64_add_return(bytes, &user->bytes) <= most)
		return 0;
	atomic64_sub(bytes, &user->bytes);
	return -ENOMEM;
}

int o2g_memory_charge(struct o2g_engine *engine, u64 bytes)
{
	return charge_user(engine, bytes, user_share());
}

/* Pages of slabs leave a reserve for the receives that empty them. */
int o2g_memory_charge_page(struct o2g_engine *engine)
{
	const u64 most = user_share();

	return charge_user(engine, PAGE_SIZE, most - most / 8);
}

void o2g_memory_uncharge(struct o2g_engine *engine, u64 bytes)
{
	atomic64_sub(bytes, &engine->memory.user->bytes);
}

static void *alloc_charged(struct o2g_engine *engine, u64 size, bool sleep)
{
	struct mem_cgroup *before;
	void *memory = NULL;

	if (o2g_memory_charge(engine, size))
		return NULL;
	before = set_active_memcg(engine->memory.group);
	if (sleep)
		memory = kvzalloc(max_t(u64, size, sizeof(struct block)),
				  GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL |
					  __GFP_NOWARN);
	else if (size <= HURRY_MAX)
		memory = kzalloc(size, GFP_NOWAIT | __GFP_NOWARN |
					       __GFP_NORETRY | __GFP_ACCOUNT);
	set_active_memcg(before);
	if (memory)
		atomic64_add(size, &o2g_totals.memory);
	else
		o2g_memory_uncharge(engine, size);
	return memory;
}

/* If all entries are in use, the size is recorded when the core retries. */
static void want_size(struct o2g_memory *memory, u64 size)
{
	for (int i = 0; i < O2G_MEMORY_SIZES; i++) {
		if (memory->wanted[i] && memory->wanted[i] != size)
			continue;
		WRITE_ONCE(memory->wanted[i], size);
		return;
	}
}

void *o2g_memory_alloc(void *ctx, u64 size)
{
	struct o2g_engine *engine = ctx;
	struct o2g_memory *memory = &engine->memory;
	void *found;

	if (memory->sleep)
		return alloc_charged(engine, size, true);
	lockdep_assert_held(&engine->lock);
	found = ready_take(memory, size);
	if (!found)
		found = alloc_charged(engine, size, false);
	if (!found)
		engine->counts.refused_memory++;
	/* Such sizes are used repeatedly, so the next block is preallocated. */
	if (!found || (size > PAGE_SIZE && size <= HURRY_MAX))
		want_size(memory, size);
	return found;
}

void o2g_memory_free(void *ctx, void *memory, u64 size)
{
	kvfree(memory);
	atomic64_sub(size, &o2g_totals.memory);
	o2g_memory_uncharge(ctx, size);
}

bool o2g_memory_wanted(const struct o2g_engine *engine)
{
	bool some = false;

	for (int i = 0; i < O2G_MEMORY_SIZES; i++)
		some |= READ_ONCE(engine->memory.wanted[i]) != 0;
	return some;
}

static u64 take_wanted(struct o2g_engine *engine)
{
	u64 size = 0;

	if (!o2g_memory_wanted(engine))
		return 0;
	spin_lock_bh(&engine->lock);
	for (int i = 0; i < O2G_MEMORY_SIZES && !size; i++) {
		size = engine->memory.wanted[i];
		WRITE_ONCE(engine->memory.wanted[i], 0);
	}
	spin_unlock_bh(&engine->lock);
	return size;
}

/* The caller holds the lock. Returns the oldest block if there are too many. */
static struct block *ready_add(struct o2g_engine *engine, struct block *block)
{
	struct o2g_memory *memory = &engine->memory;

	lockdep_assert_held(&engine->lock);
	list_add(&block->here, &memory->ready);
	engine->fills++;
	if (++memory->ready_count <= READY_MAX)
		return NULL;
	block = list_last_entry(&memory->ready, struct block, here);
	list_del(&block->here);
	memory->ready_count--;
	return block;
}

int o2g_memory_fill(struct o2g_engine *engine)
{
	struct block *block, *spare = NULL;
	int found = 0;
	u64 size;

	might_sleep();
	while ((size = take_wanted(engine))) {
		block = alloc_charged(engine, size, true);
		found = block ? 1 : -ENOMEM;
		spin_lock_bh(&engine->lock);
		if (block) {
			block->size = size;
			spare = ready_add(engine, block);
		} else {
			want_size(&engine->memory, size);
		}
		spin_unlock_bh(&engine->lock);
		if (!block)
			break;
		if (spare)
			o2g_memory_free(engine, spare, spare->size);
	}
	return found;
}

/* A worker may have preallocated the size already, and others may have used the
 * block. So the number of retries is limited. */
bool o2g_memory_again(struct o2g_engine *engine, u32 *tries)
{
	return o2g_memory_fill(engine) >= 0 && ++*tries < TRIES;
}
