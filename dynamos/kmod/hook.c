// SPDX-License-Identifier: GPL-2.0-only
/*
 * Redirects calls of a function to its slot: by an ftrace direct call if nobody
 * else uses one there, else by changing the instruction pointer (IPMODIFY),
 * which can share the function with a tracer's direct call. Both are PERMANENT:
 * the sysctl kernel.ftrace_enabled cannot remove them. Registration of a direct
 * call overwrites the flags, so the flag is set afterwards; a write of the
 * sysctl in between is detected in the function's text.
 *
 * A later livepatch of the function is refused, because a hooked function's
 * older version is the kernel's own, not the livepatch's. dynamos_hooks guards
 * everything here.
 *
 * Context: process, and may sleep. redirect_call() is an ftrace handler: it
 * runs where the hooked function is called, in NMIs too, with preemption off.
 * notify_livepatch() runs under ftrace's lock.
 */
#define pr_fmt(fmt) "dynamos: " fmt
#include <linux/ftrace.h>
#include <linux/moduleparam.h>

#include "compat.h"
#include "owner.h"
#include "slot.h"

DEFINE_MUTEX(dynamos_hooks);

static bool share;
module_param(share, bool, 0644);
MODULE_PARM_DESC(share, "leave ftrace's direct calls to tracers (BPF fentry); "
			"each call then takes some more instructions");

/* ftrace calls this before a livepatch may hook a function that is hooked here.
 * ftrace holds its own lock, so this may only print. */
static int notify_livepatch(struct ftrace_ops *ops, enum ftrace_ops_cmd command)
{
	struct dynamos_slot *s = container_of(ops, struct dynamos_slot, ops);
	const struct dynamos_version *v = READ_ONCE(s->first);

	if (command == FTRACE_OPS_CMD_ENABLE_SHARE_IPMODIFY_PEER &&
	    !v->update && s->probes)
		pr_notice("%s is probed, so no livepatch may change it: end "
			  "'skep update probe' first\n",
			  s->symbol);
	else if (command == FTRACE_OPS_CMD_ENABLE_SHARE_IPMODIFY_PEER)
		pr_notice("%s is changed by the update %s, so no livepatch "
			  "may change it: revert the update first\n",
			  s->symbol, v->update ? v->update->name : "(leaving)");
	return -EBUSY;
}

static void redirect_call(unsigned long place, unsigned long parent,
			  struct ftrace_ops *ops, struct ftrace_regs *regs)
{
	struct dynamos_slot *s = container_of(ops, struct dynamos_slot, ops);

	dynamos_compat_go(regs, s->wrapper);
}

static int set_direct(struct dynamos_slot *s)
{
	int err;

	s->ops.ops_func = notify_livepatch;
	err = ftrace_set_filter_ip(&s->ops, s->place, 0, 0);
	if (err)
		return err;
	err = dynamos_compat_direct(&s->ops, s->entry);
	if (err)
		return err;
	s->ops.flags |= FTRACE_OPS_FL_PERMANENT;
	s->installer = DYNAMOS_DIRECT;
	return 0;
}

/* Without the flag RECURSION, with which ftrace would skip the handler for a
 * call from within a tracer, and that call would miss the update. */
static int set_address(struct dynamos_slot *s)
{
	int err;

	s->ops.func = redirect_call;
	s->ops.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_DYNAMIC |
		       FTRACE_OPS_FL_PERMANENT;
	err = ftrace_set_filter_ip(&s->ops, s->place, 0, 0);
	if (err)
		return err;
	err = register_ftrace_function(&s->ops);
	if (!err)
		s->installer = DYNAMOS_IPMODIFY;
	return err;
}

static void reset_ops(struct dynamos_slot *s)
{
	ftrace_free_filter(&s->ops);
	memset(&s->ops, 0, sizeof(s->ops));
	s->installer = DYNAMOS_NONE;
}

int dynamos_hook_clear(struct dynamos_slot *s)
{
	int err;

	lockdep_assert_held(&dynamos_hooks);
	if (s->installer == DYNAMOS_DIRECT)
		err = dynamos_compat_undirect(&s->ops, s->entry);
	else
		err = unregister_ftrace_function(&s->ops);
	if (err)
		pr_err_once("ftrace cannot remove the hook of %s (%d): its "
			    "calls pass through this module until reboot\n",
			    s->symbol, err);
	else
		reset_ops(s);
	return err;
}

static bool site_calls(const struct dynamos_slot *s)
{
	return READ_ONCE(*(const u8 *)s->place) == 0xe8;
}

static int explain_error(const struct dynamos_slot *s, int err, char *why)
{
	char owner[DYNAMOS_NAME];

	if (err == -EBUSY && dynamos_owner_find(s->kernel.address, s->place,
						owner, sizeof(owner)))
		scnprintf(why, DYNAMOS_WHY,
			  "%s is already changed by %s: remove that first",
			  s->symbol, owner);
	else
		scnprintf(why, DYNAMOS_WHY,
			  "ftrace cannot hook %s (%d): kernel.ftrace_enabled "
			  "may be 0, or another hook may be on it",
			  s->symbol, err);
	return err;
}

int dynamos_hook_set(struct dynamos_slot *s, char *why)
{
	int err;

	lockdep_assert_held(&dynamos_hooks);
	err = READ_ONCE(share) ? -EBUSY : set_direct(s);
	if (err == -EBUSY) {
		reset_ops(s);
		err = set_address(s);
	}
	if (err) {
		reset_ops(s);
		return explain_error(s, err, why);
	}
	if (site_calls(s))
		return 0;
	dynamos_hook_clear(s);
	scnprintf(why, DYNAMOS_WHY,
		  "ftrace is off: set the sysctl kernel.ftrace_enabled to 1");
	return -EOPNOTSUPP;
}
