// SPDX-License-Identifier: GPL-2.0-only
/*
 * Probes: slots without an update. Each call of the function takes the wrapper,
 * which counts its entry and its exit, and runs the kernel's own function, or
 * the version of an update that changes the function too.
 *
 * Probes belong to an open file, so they end with the program that set them,
 * however it ends.
 *
 * Context: process, system calls.
 */
#include <linux/fs.h>
#include <linux/slab.h>

#include <dynamos/core/probe.h>

#include "engine.h"
#include "probe.h"
#include "symbol.h"

struct probe {
	struct dynamos_slot *slot;
	bool timed; /* every call is */
	struct dynamos_tally before;
	u64 before_lost;
};

/* Of one file; dynamos_lock. */
struct probes {
	u32 count;
	struct probe at[DYNAMOS_PROBES];
};

struct request {
	struct file *file;
	struct dynamos_probe *probe;
};

static int refuse_probe(struct dynamos_probe *p, const char *text, int err)
{
	scnprintf(p->why, DYNAMOS_WHY, "%s %s", p->symbol, text);
	return err;
}

static int find_probed(struct dynamos_probe *p, struct dynamos_place *at)
{
	const char *wrong = dynamos_probe_wrong(p->symbol);
	int err;

	if (wrong)
		return refuse_probe(p, wrong, -EPERM);
	err = dynamos_symbol_function(p->symbol, p->sympos, &at->address);
	if (err == -ENOTUNIQ)
		return refuse_probe(p,
				    "exists more than once: write NAME,N for "
				    "the N-th one in the order of addresses",
				    err);
	if (err)
		return refuse_probe(p,
				    "is not a function of this kernel's image, "
				    "or only inlined: probe its callers",
				    err);
	err = dynamos_symbol_size(at->address, &at->length);
	if (err)
		return refuse_probe(p, "has no size", err);
	at->place = dynamos_symbol_place(at->address, at->length);
	if (!at->place)
		return refuse_probe(p,
				    "cannot be probed (notrace): probe its "
				    "callers",
				    -EOPNOTSUPP);
	return 0;
}

static struct probes *probes_of(struct file *file)
{
	if (!file->private_data)
		file->private_data =
			kvzalloc(sizeof(struct probes), GFP_KERNEL_ACCOUNT);
	return file->private_data;
}

/* Adds a probe to the file, and to a slot that may have no hook yet. */
static int reserve_probe(struct request *r, const struct dynamos_place *at)
{
	struct dynamos_probe *p = r->probe;
	struct probes *all = probes_of(r->file);
	struct dynamos_slot *s = dynamos_slot_of(at->place);
	struct probe *one;

	lockdep_assert_held(&dynamos_lock);
	if (!all)
		return -ENOMEM;
	if (all->count == DYNAMOS_PROBES)
		return refuse_probe(p, "is one function too many for a program",
				    -ENOSPC);
	if (s && s->installer == DYNAMOS_LIVEPATCH_ONLY)
		return refuse_probe(p,
				    "is changed by an update past which no "
				    "wrapper counts: revert it first",
				    -EBUSY);
	if (!s)
		s = dynamos_slot_take(p->symbol, at->address, at->length,
				      at->place);
	if (IS_ERR(s))
		return refuse_probe(p,
				    "has no place: at most 128 functions can "
				    "be changed or probed at a time",
				    PTR_ERR(s));
	dynamos_slot_step(s, DYNAMOS_RETIRE_KEEP);
	one = &all->at[all->count++];
	one->slot = s;
	one->timed = p->flags & DYNAMOS_PROBE_EACH;
	s->probes++;
	s->timed += one->timed;
	if (s->first == &s->kernel)
		s->kernel.result = p->result;
	dynamos_slot_sample(s);
	one->before_lost = dynamos_slot_all(s, &one->before);
	return 0;
}

static void release_probe(struct probe *one)
{
	struct dynamos_slot *s = one->slot;

	lockdep_assert_held(&dynamos_lock);
	s->probes--;
	s->timed -= one->timed;
	dynamos_slot_sample(s);
	dynamos_apply_release(s);
}

/* The caller holds dynamos_hooks, so no other APPLY sets this hook. */
static int try_probe(void *arg)
{
	struct request *r = arg;
	struct dynamos_place at;
	struct probes *all;
	struct dynamos_slot *s;
	int err;

	err = find_probed(r->probe, &at);
	if (err)
		return err;
	mutex_lock(&dynamos_lock);
	err = reserve_probe(r, &at);
	all = r->file->private_data;
	s = err ? NULL : all->at[all->count - 1].slot;
	mutex_unlock(&dynamos_lock);
	if (err || s->installer != DYNAMOS_NONE)
		return err;
	err = dynamos_hook_set(s, r->probe->why);
	if (!err)
		return 0;
	mutex_lock(&dynamos_lock);
	release_probe(&all->at[--all->count]);
	mutex_unlock(&dynamos_lock);
	return err;
}

int dynamos_probe_add(struct file *file, struct dynamos_probe *p)
{
	struct request r = {file, p};

	if (p->flags & ~DYNAMOS_PROBE_EACH || p->zero ||
	    p->result > DYNAMOS_VALUE || !p->symbol[0] ||
	    strnlen(p->symbol, DYNAMOS_SYMBOL) == DYNAMOS_SYMBOL)
		return -EINVAL;
	return dynamos_apply_retry(try_probe, &r, p->why);
}

/* Calls that were inside before count as if they had entered then. */
static void subtract_before(struct dynamos_tally *sum, const struct probe *one)
{
	const u64 *less = (const u64 *)&one->before;
	u64 *to = (u64 *)sum, in = sum->in;
	u32 i;

	for (i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] -= less[i];
	sum->in = in - one->before.out - one->before_lost;
}

int dynamos_probe_count(struct file *file, struct dynamos_count *c)
{
	const struct probes *all = file->private_data;
	const u32 n = c->function;
	const struct probe *one;
	struct dynamos_tally sum;

	lockdep_assert_held(&dynamos_lock);
	if (!all || n >= all->count || c->version)
		return -ENOENT;
	one = &all->at[n];
	memset(c, 0, sizeof(*c));
	c->revision = DYNAMOS_REVISION;
	c->function = n;
	strscpy(c->symbol, one->slot->symbol, sizeof(c->symbol));
	c->installer = one->slot->installer;
	c->address = one->slot->kernel.address;
	c->length = one->slot->kernel.length;
	c->lost = dynamos_slot_all(one->slot, &sum) - one->before_lost;
	subtract_before(&sum, one);
	dynamos_device_count(c, &sum);
	return 0;
}

void dynamos_probe_close(struct file *file)
{
	struct probes *all = file->private_data;
	u32 i;

	if (!all)
		return;
	mutex_lock(&dynamos_lock);
	for (i = 0; i < all->count; i++)
		release_probe(&all->at[i]);
	mutex_unlock(&dynamos_lock);
	kvfree(all);
}
