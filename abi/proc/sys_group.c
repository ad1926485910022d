// SPDX-License-Identifier: MIT
/*
 * Parents, process groups and sessions: those of the host, if it has a family.
 * Otherwise a program is alone in its group, in a session of another leader.
 * abi stores nothing.
 */
#include "abi/state/proc.h"
#include "base/errno.h"
#include "call.h"

#define SESSION 1u /* the parent's session; getppid returns the same */

static int is_self(struct abi_call *c, u64 pid)
{
	return !(u32)pid || (u32)pid == c->p->info.pid;
}

static s64 ask_family(struct abi_call *c, enum abi_family_verb verb, u64 pid,
		      u64 value)
{
	struct abi_family_op op = {
		.verb = verb, .pid = (s32)pid, .status = (s32)value};

	return c->p->host->family(&op, c->t->index);
}

s64 abi_sys_getppid(struct abi_call *c)
{
	if (c->p->host->family)
		return ask_family(c, ABI_FAMILY_PARENT, 0, 0);
	return SESSION;
}

s64 abi_sys_getpgrp(struct abi_call *c)
{
	if (c->p->host->family)
		return ask_family(c, ABI_FAMILY_GROUP, 0, 0);
	return c->p->info.pid;
}

s64 abi_sys_getpgid(struct abi_call *c)
{
	if (c->p->host->family)
		return ask_family(c, ABI_FAMILY_GROUP, c->a[0], 0);
	return is_self(c, c->a[0]) ? (s64)c->p->info.pid : -LINUX_ESRCH;
}

s64 abi_sys_getsid(struct abi_call *c)
{
	if (c->p->host->family)
		return ask_family(c, ABI_FAMILY_SESSION, c->a[0], 0);
	return is_self(c, c->a[0]) ? (s64)SESSION : -LINUX_ESRCH;
}

s64 abi_sys_setsid(struct abi_call *c)
{
	if (c->p->host->family)
		return ask_family(c, ABI_FAMILY_SET_SESSION, 0, 0);
	return -LINUX_EPERM; /* the process leads its process group */
}

s64 abi_sys_setpgid(struct abi_call *c)
{
	if ((s32)c->a[1] < 0)
		return -LINUX_EINVAL;
	if (c->p->host->family)
		return ask_family(c, ABI_FAMILY_SET_GROUP, c->a[0], c->a[1]);
	if (!is_self(c, c->a[0]))
		return -LINUX_ESRCH;
	return is_self(c, c->a[1]) ? 0 : -LINUX_EPERM;
}
