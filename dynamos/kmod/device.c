// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/dynamos: the calls of skep/dynamos.h. Input from user space is copied
 * once and checked before it is used. All calls but read, poll, APPLY and PROBE
 * hold dynamos_lock.
 *
 * Context: process, system calls of root.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/init_task.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nsproxy.h>
#include <linux/pid_namespace.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include <dynamos/core/health.h>
#include <dynamos/core/policy.h>
#include <dynamos/core/state.h>

#include "engine.h"
#include "owner.h"
#include "probe.h"
#include "symbol.h"

/* Pids, cgroups and users are those of the initial namespaces. */
static bool caller_trusted(void)
{
	const struct nsproxy *ours = current->nsproxy;
	const struct nsproxy *first = init_task.nsproxy;

	return capable(CAP_SYS_MODULE) && current_user_ns() == &init_user_ns &&
	       task_active_pid_ns(current) == &init_pid_ns &&
	       ours->cgroup_ns == first->cgroup_ns;
}

static long ioctl_apply(struct file *file, void *arg)
{
	struct dynamos_apply *a = arg;
	const char *wrong;

	memset(a->why, 0, sizeof(a->why));
	if (a->flags & ~(DYNAMOS_SUPERSEDE | DYNAMOS_BACK |
			 DYNAMOS_OBJECTS_EXIST | DYNAMOS_OBJECTS_LEFT) ||
	    (a->flags & (DYNAMOS_SUPERSEDE | DYNAMOS_BACK)) == DYNAMOS_BACK ||
	    (a->flags & (DYNAMOS_BACK | DYNAMOS_OBJECTS_LEFT)) ==
		    DYNAMOS_OBJECTS_LEFT)
		return -EINVAL;
	wrong = dynamos_health_check(&a->health);
	if (wrong) {
		scnprintf(a->why, sizeof(a->why), "health: %s", wrong);
		return -EINVAL;
	}
	return dynamos_apply_begin(a);
}

static long ioctl_policy(struct file *file, void *arg)
{
	struct dynamos_change *c = arg;
	struct dynamos_update_state *u;

	memset(c->why, 0, sizeof(c->why));
	if (c->flags & ~DYNAMOS_COMMITS)
		return -EINVAL;
	u = dynamos_update_find(c->name, c->why);
	return IS_ERR(u) ? PTR_ERR(u) : dynamos_apply_policy(u, c);
}

static long ioctl_commit(struct file *file, void *arg)
{
	struct dynamos_name *n = arg;
	struct dynamos_update_state *u;

	memset(n->why, 0, sizeof(n->why));
	if (n->flags)
		return -EINVAL;
	u = dynamos_update_find(n->name, n->why);
	return IS_ERR(u) ? PTR_ERR(u) : dynamos_apply_commit(u, n->why);
}

static long ioctl_revert(struct file *file, void *arg)
{
	struct dynamos_name *n = arg;
	struct dynamos_update_state *u;

	memset(n->why, 0, sizeof(n->why));
	if (n->flags & ~DYNAMOS_OBJECTS_EXIST)
		return -EINVAL;
	u = dynamos_update_find(n->name, n->why);
	return IS_ERR(u) ? PTR_ERR(u)
			 : dynamos_apply_revert(u, n->flags, n->why);
}

static long ioctl_info(struct file *file, void *arg)
{
	struct dynamos_info *i = arg;
	const u32 index = i->index;
	struct dynamos_update_state *u;
	u32 n = 0;

	memset(i, 0, sizeof(*i));
	i->revision = DYNAMOS_REVISION;
	i->index = index;
	list_for_each_entry(u, &dynamos_updates, link)
		if (n++ == index)
			goto found;
	return -ENOENT;
found:
	i->class = u->class;
	i->state = u->state;
	i->functions = u->count;
	i->advised = dynamos_node_advised();
	i->confirm_ms = dynamos_watch_left(u);
	strscpy(i->name, u->name, sizeof(i->name));
	strscpy(i->build_id, dynamos_symbol_build_id(), sizeof(i->build_id));
	strscpy(i->end, u->end, sizeof(i->end));
	i->cause = u->end[0] ? u->cause : 0;
	if (u->update->held) {
		i->held = u->engine->held || u->state != DYNAMOS_LOADED
				  ? DYNAMOS_HELD
				  : DYNAMOS_HELD_ONCE;
		strscpy(i->why_held, u->update->held, sizeof(i->why_held));
	}
	i->health = u->health;
	if (u->table)
		i->policy = u->table->policy;
	return 0;
}

void dynamos_device_count(struct dynamos_count *c,
			  const struct dynamos_tally *t)
{
	c->in = t->in;
	c->out = t->out;
	c->errors = t->errors;
	c->outside = t->outside;
	c->sampled = t->sampled;
	memcpy(c->latency, t->latency, sizeof(c->latency));
}

/* Subtracts what the older version had counted before the update: calls that
 * were inside it at APPLY count as if they had entered then. */
static void subtract_baseline(struct dynamos_count *c,
			      const struct dynamos_place *at)
{
	u32 i;

	c->in -= at->before.out + at->before_lost;
	c->out -= at->before.out;
	c->lost -= at->before_lost;
	c->errors -= at->before.errors;
	c->outside -= at->before.outside;
	c->sampled -= at->before.sampled;
	for (i = 0; i < DYNAMOS_BUCKETS; i++)
		c->latency[i] -= at->before.latency[i];
}

/* A slot belongs to the update until its version is out of the chain. */
static struct dynamos_slot *slot_of(struct dynamos_update_state *u, u32 n)
{
	return u->state == DYNAMOS_LOADED ||
			       u->engine->leave == DYNAMOS_UNLINKED
		       ? NULL
		       : u->version[n]->slot;
}

static void count_older(struct dynamos_update_state *u, u32 n,
			struct dynamos_count *c)
{
	struct dynamos_place *at = &u->engine->at[n];
	struct dynamos_tally sum;

	c->address = at->address;
	c->length = at->length;
	if (slot_of(u, n)) {
		c->lost = dynamos_slot_older(u->version[n], &sum);
		dynamos_device_count(c, &sum);
	} else {
		c->lost = at->after_lost;
		dynamos_device_count(c, &at->after);
	}
	subtract_baseline(c, at);
	/* Calls that were inside when the update was removed from the chain are
	 * not attributed to it. */
	if (!slot_of(u, n))
		c->in = c->out + c->lost;
}

static void count_newer(struct dynamos_update_state *u, u32 n,
			struct dynamos_count *c)
{
	struct dynamos_version *v = u->version[n];
	struct dynamos_tally sum;

	c->address = v->address;
	c->length = v->length;
	c->lost = atomic64_read(&v->lost);
	dynamos_version_sum(v, &sum);
	dynamos_device_count(c, &sum);
}

static void tell_owner(struct dynamos_update_state *u, u32 n,
		       struct dynamos_count *c)
{
	const struct dynamos_place *at = &u->engine->at[n];
	struct dynamos_slot *s = slot_of(u, n);

	if (s) {
		c->wrapper = s->wrapper;
		c->wrapper_length = s->wrapper_length;
	}
	if (s && s->installer == DYNAMOS_DIRECT)
		return;
	if (u->engine->patch)
		dynamos_owner_livepatch(at->address,
					dynamos_patch_klp(u->engine->patch),
					c->owner, sizeof(c->owner));
	else
		dynamos_owner_find(at->address, at->place, c->owner,
				   sizeof(c->owner));
}

static long ioctl_count(struct file *file, void *arg)
{
	struct dynamos_count *c = arg;
	const u32 n = c->function, version = c->version;
	struct dynamos_update_state *u;

	if (!c->name[0])
		return dynamos_probe_count(file, c);
	u = dynamos_update_find(c->name, NULL);
	if (IS_ERR(u))
		return PTR_ERR(u);
	if (n >= u->count || version > 1)
		return -ENOENT;
	memset(c, 0, sizeof(*c));
	c->revision = DYNAMOS_REVISION;
	c->function = n;
	c->version = version;
	strscpy(c->name, u->name, sizeof(c->name));
	strscpy(c->symbol, u->update->functions[n].symbol, sizeof(c->symbol));
	c->installer = u->engine->at[n].installer;
	if (version)
		count_newer(u, n, c);
	else
		count_older(u, n, c);
	tell_owner(u, n, c);
	return 0;
}

static long ioctl_probe(struct file *file, void *arg)
{
	struct dynamos_probe *p = arg;

	memset(p->why, 0, sizeof(p->why));
	return dynamos_probe_add(file, p);
}

static const struct call {
	u32 number;
	bool locks; /* takes dynamos_lock itself */
	long (*call)(struct file *file, void *arg);
} calls[] = {
	{DYNAMOS_IOC_APPLY, true, ioctl_apply},
	{DYNAMOS_IOC_POLICY, false, ioctl_policy},
	{DYNAMOS_IOC_COMMIT, false, ioctl_commit},
	{DYNAMOS_IOC_REVERT, false, ioctl_revert},
	{DYNAMOS_IOC_INFO, false, ioctl_info},
	{DYNAMOS_IOC_COUNT, false, ioctl_count},
	{DYNAMOS_IOC_PROBE, true, ioctl_probe},
};

/* Copies the result back after an error too, because it contains the reason. */
static long carry_out(const struct call *c, struct file *file,
		      void __user *user)
{
	u32 size = _IOC_SIZE(c->number);
	void *arg = vmemdup_user(user, size);
	long err;

	if (IS_ERR(arg))
		return PTR_ERR(arg);
	err = -EPROTO;
	if (*(u32 *)arg != DYNAMOS_REVISION)
		goto out;
	if (!c->locks)
		mutex_lock(&dynamos_lock);
	err = c->call(file, arg);
	if (!c->locks)
		mutex_unlock(&dynamos_lock);
	if (copy_to_user(user, arg, size))
		err = -EFAULT;
out:
	kvfree(arg);
	return err;
}

static long dynamos_ioctl(struct file *file, unsigned int number,
			  unsigned long arg)
{
	const struct call *c;

	if (!caller_trusted())
		return -EPERM;
	for (c = calls; c < calls + ARRAY_SIZE(calls); c++)
		if (c->number == number)
			return carry_out(c, file, (void __user *)arg);
	return -ENOTTY;
}

static int dynamos_open(struct inode *inode, struct file *file)
{
	file->private_data = NULL; /* its probes */
	return caller_trusted() ? 0 : -EPERM;
}

static int dynamos_release(struct inode *inode, struct file *file)
{
	dynamos_probe_close(file);
	return 0;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = dynamos_open,
	.release = dynamos_release,
	.unlocked_ioctl = dynamos_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.read = dynamos_event_read,
	.poll = dynamos_event_poll,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = DYNAMOS_DEVICE_NAME,
	.fops = &operations,
	.mode = 0600,
};

int dynamos_device_init(void)
{
	return misc_register(&device);
}

void dynamos_device_exit(void)
{
	misc_deregister(&device);
}
