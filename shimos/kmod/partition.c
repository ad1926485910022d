// SPDX-License-Identifier: GPL-2.0-only
/*
 * Partitions: create, open, start, stop, release. table_lock guards the
 * list, numbers, claims and the allowance; partition.h says how locks nest.
 *
 * Process context, and may sleep; but shimos_partition_halt runs in notifiers
 * of reboot and panic, and takes no lock.
 */
#include <linux/cred.h>
#include <linux/io.h>
#include <linux/lockdep.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "machine.h"
#include "partition.h"
#include <skep/assert.h>
#include <skep/nmi.h>
#include <shimos/core/image.h>
#include <shimos/core/map.h>

static DEFINE_MUTEX(table_lock);
static LIST_HEAD(table);
static struct shimos_allow allowance = {.gid = (u32)-1};
static u32 last_id;
static const char *closing; /* why nothing new may begin, or null */

static void partition_destroy(struct kref *ref)
{
	struct shimos_partition *p;

	p = container_of(ref, struct shimos_partition, ref);
	put_pid(p->proxy);
	kvfree_rcu(p, rcu);
}

static void partition_put(struct shimos_partition *p)
{
	kref_put(&p->ref, partition_destroy);
}

static bool is_root(void)
{
	return capable(CAP_SYS_ADMIN);
}

static bool may_use(const struct shimos_partition *p)
{
	return uid_eq(current_euid(), p->owner) || is_root();
}

static bool is_member(void)
{
	return allowance.gid != (u32)-1 &&
	       in_egroup_p(make_kgid(&init_user_ns, allowance.gid));
}

static void set_state(struct shimos_partition *p, enum shimos_event event)
{
	int next = shimos_state_next(p->state, event);

	lockdep_assert_held(&p->lock);
	skep_assert(next >= 0);
	if (next >= 0)
		WRITE_ONCE(p->state, next);
}

/* Adds up what other partitions have, for the check of a request. */
static void look_at_others(struct shimos_machine *m)
{
	struct shimos_partition *p;
	u32 i;

	lockdep_assert_held(&table_lock);
	list_for_each_entry(p, &table, list) {
		for (i = 0; i < SHIMOS_CPU_WORDS; i++)
			m->lent[i] |= p->request.cpus[i];
		for (i = 0; i < SHIMOS_NODES && p->allowed; i++)
			m->used[i] += p->request.bytes[i];
	}
}

static struct shimos_partition *find_by_id(u32 id)
{
	struct shimos_partition *p;

	lockdep_assert_held(&table_lock);
	list_for_each_entry(p, &table, list) {
		if (p->id == id)
			return p;
	}
	return NULL;
}

/* The partition with the lowest number from `id` on, or null. */
static struct shimos_partition *find_from_id(u32 id)
{
	struct shimos_partition *p, *best = NULL;

	lockdep_assert_held(&table_lock);
	list_for_each_entry(p, &table, list) {
		if (p->id >= id && (!best || p->id < best->id))
			best = p;
	}
	return best;
}

/* Returns a number that was not used recently, so that the partition is not
 * mistaken for an earlier one. */
static u32 new_id(void)
{
	lockdep_assert_held(&table_lock);
	do
		last_id++;
	while (!last_id || find_by_id(last_id));
	return last_id;
}

static bool name_taken(const char *name)
{
	struct shimos_partition *p;

	lockdep_assert_held(&table_lock);
	list_for_each_entry(p, &table, list) {
		if (*name && !strcmp(p->request.name, name))
			return true;
	}
	return false;
}

/* The size as requested, or after the memory is allocated, as it is. */
static struct shimos_size size_of(const struct shimos_partition *p)
{
	struct shimos_size size = {.cores = p->cores, .ranges = p->range.count};
	u32 i;

	for (i = 0; i < SHIMOS_NODES; i++)
		size.bytes += p->request.bytes[i];
	return size;
}

/* Bytes of the kernel region. The image may change before START; START then
 * reports that it does not fit. */
static u64 kernel_bytes(const struct shimos_partition *p)
{
	struct shimos_size size = size_of(p);
	u64 n = shimos_image_memory(shimos_image_get(), &size);

	shimos_image_put();
	return n;
}

static int check_request(const struct shimos_create *r,
			 struct shimos_machine *m, u64 kernel,
			 struct shimos_text *why)
{
	u64 mail = shimos_plan_mail(shimos_request_cores(r));
	int err;

	lockdep_assert_held(&table_lock);
	if (closing) {
		shimos_text_add(why, closing);
		return -EBUSY;
	}
	look_at_others(m);
	m->root = is_root();
	m->member = is_member();
	err = shimos_request_check(r, &allowance, m, why);
	if (!err && !kernel) {
		shimos_text_add(
			why, "with so many CPUs and so much memory the image "
			     "needs more than 1 GiB for itself: request less");
		err = -EINVAL;
	}
	if (!err)
		err = shimos_request_memory(r, kernel + mail, why);
	if (!err && name_taken(r->name)) {
		shimos_text_add(
			why,
			"a partition of that name exists: choose another name");
		err = -EEXIST;
	}
	return err;
}

static struct shimos_partition *partition_alloc(const struct shimos_create *r)
{
	struct shimos_partition *p = kvzalloc(sizeof(*p), GFP_KERNEL);
	u32 cpu;

	if (!p)
		return NULL;
	kref_init(&p->ref);
	mutex_init(&p->lock);
	p->owner = p->user = current_euid();
	p->allowed = !is_root();
	p->request = *r;
	p->state = SHIMOS_LENT;
	for (cpu = 0; cpu < SHIMOS_CPU_WORDS * 64; cpu++)
		if (shimos_map_has(r->cpus, cpu) &&
		    /* the core's check reports a larger number */
		    p->cores < SKEP_PARTITION_CORES)
			p->core[p->cores++].cpu = cpu;
	shimos_doorbell_init(p);
	return p;
}

/* Claims CPUs and memory, so that no other request gets them. */
static int claim_resources(struct shimos_partition *p, struct shimos_text *why)
{
	struct shimos_machine *m = shimos_machine_get();
	int err;

	if (!m)
		return -ENOMEM;
	p->kernel = kernel_bytes(p);
	mutex_lock(&table_lock);
	err = check_request(&p->request, m, p->kernel, why);
	if (!err) {
		p->id = new_id();
		list_add_tail_rcu(&p->list, &table);
	}
	mutex_unlock(&table_lock);
	shimos_machine_put(m);
	return err;
}

/* The pool's list is a copy of the complete one, from which the other parts are
 * split off. */
static int plan_memory(struct shimos_partition *p, struct shimos_text *why)
{
	struct shimos_ranges *pool = &p->plan.pool;
	u64 bytes = p->range.count * sizeof(*pool->at);

	*pool = p->range;
	pool->at = kvmalloc(bytes, GFP_KERNEL);
	if (!pool->at)
		return -ENOMEM;
	memcpy(pool->at, p->range.at, bytes);
	p->kernel = kernel_bytes(p); /* it may consist of many ranges */
	if (p->kernel &&
	    !shimos_plan_make(&p->plan, p->kernel, shimos_plan_mail(p->cores),
			      cpu_to_node(p->core[0].cpu)))
		return 0;
	shimos_text_add(why, "the memory that Linux could free is too "
			     "fragmented: request less or more");
	return -ENOMEM;
}

/* Returns everything that the partition has, in the reverse order of
 * lend_resources(). */
static int return_resources(struct shimos_partition *p, struct shimos_text *why)
{
	int err;

	lockdep_assert_held(&p->lock);
	err = shimos_cpu_return(p, why);
	if (p->used)
		shimos_clear_pool(p); /* its cores are back and can help */
	shimos_doorbell_return(p);
	shimos_boot_discard(p);
	shimos_memory_return(p);
	return err;
}

static const struct step {
	int (*take)(struct shimos_partition *p, struct shimos_text *why);
} steps[] = {
	{shimos_memory_take},  {plan_memory},	       {shimos_clear_begin},
	{shimos_boot_prepare}, {shimos_doorbell_take}, {shimos_cpu_take},
	{shimos_boot_park},
};

static uint fail;
module_param(fail, uint, 0600);
MODULE_PARM_DESC(fail, "for tests: creations fail after this step, 1 to 7");

/* Takes everything that was claimed; after an error the caller returns it. */
static int lend_resources(struct shimos_partition *p, struct shimos_text *why)
{
	u32 i;
	int err = 0;

	lockdep_assert_held(&p->lock);
	for (i = 0; i < ARRAY_SIZE(steps) && !err; i++) {
		if (READ_ONCE(closing)) {
			shimos_text_add(why, closing);
			return -EBUSY;
		}
		err = steps[i].take(p, why);
		if (!err && fail == i + 1) {
			shimos_text_add(why, "for tests: failed after step ");
			shimos_text_number(why, fail);
			err = -ECANCELED;
		}
	}
	return err;
}

/* Unlinks and unlocks the partition. Others that have it open or wait for its
 * lock check `gone`. */
static void unlink_partition(struct shimos_partition *p)
{
	lockdep_assert_held(&p->lock);
	p->gone = true;
	mutex_lock(&table_lock);
	list_del_rcu(&p->list);
	mutex_unlock(&table_lock);
	mutex_unlock(&p->lock);
	partition_put(p);
	module_put(THIS_MODULE);
}

int shimos_partition_create(struct shimos_create *r)
{
	struct shimos_partition *p = partition_alloc(r);
	struct shimos_text why, ignored;
	char none[1];
	int err;

	if (!p)
		return -ENOMEM;
	shimos_text_begin(&why, r->why, sizeof(r->why));
	mutex_lock(&p->lock);
	err = claim_resources(p, &why);
	if (err) {
		mutex_unlock(&p->lock);
		partition_put(p);
		return err;
	}
	__module_get(THIS_MODULE);
	err = lend_resources(p, &why);
	if (err) {
		shimos_text_begin(&ignored, none, sizeof(none));
		return_resources(p, &ignored);
		unlink_partition(p);
		return err;
	}
	r->id = p->id;
	set_state(p, SHIMOS_READY);
	mutex_unlock(&p->lock);
	return 0;
}

/* Returns the partition with a reference and its lock held, or an error. */
static struct shimos_partition *get_locked(u32 id, struct shimos_text *why)
{
	struct shimos_partition *found;

	mutex_lock(&table_lock);
	found = find_by_id(id);
	if (found)
		kref_get(&found->ref);
	mutex_unlock(&table_lock);
	if (!found) {
		shimos_text_add(why, "there is no such partition; 'skep part "
				     "list' shows the existing ones");
		return ERR_PTR(-ENOENT);
	}
	if (!may_use(found)) {
		shimos_text_add(why, "the partition belongs to another user");
		partition_put(found);
		return ERR_PTR(-EPERM);
	}
	if (mutex_lock_killable(&found->lock)) {
		partition_put(found);
		return ERR_PTR(-EINTR);
	}
	if (!found->gone)
		return found;
	mutex_unlock(&found->lock);
	partition_put(found);
	shimos_text_add(why, "the partition has been released");
	return ERR_PTR(-ENOENT);
}

/* Every core must answer from parking. Otherwise the partition stays as it is,
 * because a core that may still run keeps its memory. */
static int end_run(struct shimos_partition *p, const char *how)
{
	struct shimos_text end;
	int err;

	lockdep_assert_held(&p->lock);
	if (p->state == SHIMOS_RUNNING) {
		set_state(p, SHIMOS_END);
		shimos_boot_init(p);
		shimos_clock_stop(p);
		shimos_doorbell_wake(p);
	}
	shimos_text_begin(&end, p->end, sizeof(p->end));
	err = shimos_boot_park(p, &end);
	if (err)
		return err;
	shimos_boot_return_low(p);
	strscpy(p->end, how, sizeof(p->end));
	set_state(p, SHIMOS_STOPPED);
	return 0;
}

/* Takes over the partition's lock and the reference. */
static int release_locked(struct shimos_partition *p, struct shimos_text *why)
{
	int err = 0;

	lockdep_assert_held(&p->lock);
	if (!p->proxy && p->state == SHIMOS_STOPPING)
		err = end_run(p, "");
	if (p->proxy || shimos_state_next(p->state, SHIMOS_FREE)) {
		shimos_text_add(why, err ? p->end
					 : "the partition is in use: end its "
					   "program first ('skep part list' "
					   "shows the process)");
		err = err ?: -EBUSY;
		mutex_unlock(&p->lock);
	} else {
		if (p->dirty)
			shimos_clear_run(p);
		err = return_resources(p, why);
		unlink_partition(p);
	}
	partition_put(p);
	return err;
}

int shimos_partition_release(u32 id, struct shimos_text *why)
{
	struct shimos_partition *p = get_locked(id, why);

	return IS_ERR(p) ? PTR_ERR(p) : release_locked(p, why);
}

/* The process may be dying, and the file may have been passed to another user:
 * neither matters. */
void shimos_partition_abandon(u32 id)
{
	struct shimos_partition *p;
	struct shimos_text ignored;
	char none[1];

	mutex_lock(&table_lock);
	p = find_by_id(id);
	if (p)
		kref_get(&p->ref);
	mutex_unlock(&table_lock);
	if (!p)
		return;
	mutex_lock(&p->lock);
	if (p->gone) {
		mutex_unlock(&p->lock);
		partition_put(p);
		return;
	}
	shimos_text_begin(&ignored, none, sizeof(none));
	release_locked(p, &ignored);
}

int shimos_partition_open(struct shimos_proxy *proxy, struct shimos_open *open,
			  struct shimos_text *why)
{
	struct shimos_partition *p = get_locked(open->id, why);

	if (IS_ERR(p))
		return PTR_ERR(p);
	if (p->proxy || p->state != SHIMOS_IDLE) {
		shimos_text_add(
			why, "the partition is already running a program: wait "
			     "until it ends, or create another partition");
		mutex_unlock(&p->lock);
		partition_put(p);
		return -EBUSY;
	}
	if (!uid_eq(p->user, current_euid()))
		shimos_clear_pool(p);
	p->user = current_euid();
	p->proxy = get_task_pid(current, PIDTYPE_TGID);
	shimos_doorbell_reset(p);
	open->cores = p->cores;
	open->pool = p->plan.bytes;
	open->mail = p->plan.mail.length;
	smp_store_release(&proxy->partition, p); /* takes over the reference */
	mutex_unlock(&p->lock);
	return 0;
}

static int check_fit(struct shimos_partition *p, const struct skep_image *h,
		     struct shimos_text *why)
{
	struct shimos_size size = size_of(p);
	u64 need;

	if (!h) {
		shimos_text_add(why, "the module has no image: root writes the "
				     "path of one to "
				     "/sys/module/shimos/parameters/image");
		return -ENOENT;
	}
	need = shimos_image_memory(h, &size);
	if (need && need <= p->plan.kernel.length)
		return 0;
	shimos_text_add(why, "the image needs ");
	shimos_text_bytes(why, need);
	shimos_text_add(why,
			" and the partition, created for another image, has ");
	shimos_text_bytes(why, p->plan.kernel.length);
	shimos_text_add(why, ": create it again");
	return -EFBIG;
}

/* Only once per file: a second image would not start in cleared memory. */
static int start_image(struct shimos_partition *p, struct shimos_proxy *proxy,
		       const struct skep_image *h, struct shimos_text *why)
{
	struct shimos_size size = size_of(p);
	struct skep_image head;
	int err = check_fit(p, h, why);

	if (!err && h->flags & SKEP_IMAGE_LOW)
		err = shimos_boot_lend_low(p, why);
	if (err)
		return err;
	head = *h;
	p->dirty = proxy->started = true;
	shimos_image_fill(p, h, &size);
	shimos_clock_start(p);
	set_state(p, SHIMOS_BOOT);
	p->runs++;
	p->end[0] = 0;
	err = shimos_boot_start(p, &head, why);
	if (!err && READ_ONCE(closing)) {
		shimos_text_add(why, closing);
		err = -EBUSY;
	}
	if (err)
		end_run(p, "it did not start");
	return err;
}

int shimos_partition_start(struct shimos_proxy *proxy, struct shimos_text *why)
{
	struct shimos_partition *p = proxy->partition;
	const struct skep_image *h;
	int err;

	if (mutex_lock_killable(&p->lock))
		return -EINTR;
	err = shimos_state_next(p->state, SHIMOS_BOOT);
	if (err < 0 || proxy->started || closing) {
		shimos_text_add(why, closing
					     ?: "this file has already started "
						"its image: open another");
		mutex_unlock(&p->lock);
		return -EBUSY;
	}
	h = shimos_image_get();
	err = start_image(p, proxy, smp_load_acquire(&proxy->image) ?: h, why);
	shimos_image_put();
	mutex_unlock(&p->lock);
	return err;
}

int shimos_partition_stop(struct shimos_proxy *proxy)
{
	struct shimos_partition *p = proxy->partition;
	int err = 0;

	if (mutex_lock_killable(&p->lock))
		return -EINTR;
	if (p->state != SHIMOS_IDLE)
		err = end_run(p, "");
	mutex_unlock(&p->lock);
	return err;
}

/* The word is in the image's memory. */
static u32 *nmi_word(const struct shimos_partition *p, u32 core)
{
	struct skep_partition *in_kernel =
		phys_to_virt(p->plan.kernel.start) + p->run.partition;

	return &in_kernel->nmi[core];
}

/* Other senders rely on the NMI of the sender that found the word empty, so
 * nothing may delay it. */
static void send_nmi(struct shimos_partition *p, u32 core, u32 reasons)
{
	lockdep_assert_held(&p->lock);
	preempt_disable();
	if (skep_nmi_request(nmi_word(p, core),
			     reasons << SKEP_NMI_LINUX_SHIFT))
		shimos_cpu_signal(p->place[core].apic_id, SHIMOS_NMI, 0);
	preempt_enable();
}

int shimos_partition_nmi(struct shimos_proxy *proxy,
			 const struct shimos_nmi *nmi)
{
	struct shimos_partition *p = proxy->partition;
	u32 most = SKEP_NMI_LINUX >> SKEP_NMI_LINUX_SHIFT;
	int err = 0;

	if (mutex_lock_killable(&p->lock))
		return -EINTR;
	if (nmi->core >= p->cores || !nmi->reasons || nmi->reasons > most)
		err = -EINVAL;
	else if (p->state != SHIMOS_RUNNING)
		err = -EPIPE;
	else
		send_nmi(p, nmi->core, nmi->reasons);
	mutex_unlock(&p->lock);
	return err;
}

/* Called when the last descriptor and mapping of a proxy are gone. */
void shimos_partition_close(struct shimos_proxy *proxy)
{
	struct shimos_partition *p = proxy->partition;

	if (!p)
		return;
	mutex_lock(&p->lock);
	if (p->state != SHIMOS_IDLE)
		end_run(p, "its proxy ended while it ran");
	if (p->state == SHIMOS_IDLE && p->dirty)
		shimos_clear_run(p);
	put_pid(p->proxy);
	p->proxy = NULL;
	mutex_unlock(&p->lock);
	partition_put(p);
}

static void fill_info(struct shimos_partition *p, struct shimos_info *info)
{
	memset(info, 0, sizeof(*info));
	info->id = p->id;
	info->state = READ_ONCE(p->state);
	info->uid = from_kuid_munged(current_user_ns(), p->owner);
	info->cores = p->cores;
	memcpy(info->cpus, p->request.cpus, sizeof(info->cpus));
	memcpy(info->name, p->request.name, sizeof(info->name));
	if (!mutex_trylock(&p->lock))
		return; /* it is being created, released, started or stopped */
	info->pool = p->plan.bytes;
	info->mail = p->plan.mail.length;
	info->kernel = p->plan.kernel.length;
	info->runs = p->runs;
	info->proxy = pid_vnr(p->proxy);
	memcpy(info->image, p->image, sizeof(info->image));
	memcpy(info->end, p->end, sizeof(info->end));
	mutex_unlock(&p->lock);
}

int shimos_partition_info(struct shimos_info *info)
{
	struct shimos_partition *p;

	mutex_lock(&table_lock);
	p = find_from_id(info->id);
	if (p)
		fill_info(p, info);
	mutex_unlock(&table_lock);
	return p ? 0 : -ENOENT;
}

int shimos_partition_allow(const struct shimos_allow *allow,
			   struct shimos_text *why)
{
	int err;

	if (!is_root()) {
		shimos_text_add(why, "only root can set an allowance");
		return -EPERM;
	}
	err = shimos_allow_check(allow, why);
	if (err)
		return err;
	mutex_lock(&table_lock);
	allowance = *allow;
	memset(allowance.why, 0, sizeof(allowance.why));
	mutex_unlock(&table_lock);
	return 0;
}

void shimos_partition_allowed(struct shimos_allow *allow)
{
	mutex_lock(&table_lock);
	*allow = allowance;
	mutex_unlock(&table_lock);
	allow->revision = SHIMOS_REVISION;
}

/* From now on nothing new may begin, until this is called with a null `why`. */
bool shimos_partition_bar(const char *why)
{
	bool any;

	mutex_lock(&table_lock);
	closing = why;
	any = !list_empty(&table);
	mutex_unlock(&table_lock);
	return any;
}

/* Makes every lent core wait for SIPI. In a panic no lock can be taken, and
 * none is needed, because no other processor runs. */
void shimos_partition_halt(bool panic)
{
	struct shimos_partition *p;

	rcu_read_lock();
	list_for_each_entry_rcu(p, &table, list) {
		if (panic || p->state == SHIMOS_RUNNING)
			shimos_boot_init(p);
	}
	rcu_read_unlock();
}

/* The first partition with this number or a higher one, with a reference, or
 * null. */
static struct shimos_partition *get_from_id(u32 id)
{
	struct shimos_partition *p;

	mutex_lock(&table_lock);
	p = find_from_id(id);
	if (p)
		kref_get(&p->ref);
	mutex_unlock(&table_lock);
	return p;
}

/* Only creation and start hold a partition's lock for long. Both check the bar
 * before they unlock, and undo their work. */
void shimos_partition_settle(void)
{
	struct shimos_partition *p;
	u32 id = 0;

	while ((p = get_from_id(id))) {
		id = p->id + 1;
		mutex_lock(&p->lock);
		mutex_unlock(&p->lock);
		partition_put(p);
		if (!id)
			break;
	}
}
