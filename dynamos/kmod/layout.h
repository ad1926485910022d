/* SPDX-License-Identifier: GPL-2.0-only */
/* Offsets of a policy's words in a task and in its credentials. */
#ifndef DYNAMOS_KMOD_LAYOUT_H
#define DYNAMOS_KMOD_LAYOUT_H

#include <linux/cred.h>
#include <linux/sched.h>

#include <dynamos/core/policy.h>

static const struct dynamos_layout dynamos_layout = {
	.numbers = offsetof(struct task_struct, pid),
	.name = offsetof(struct task_struct, comm),
	.credentials = offsetof(struct task_struct, cred),
	.owner = offsetof(struct cred, euid),
};

static_assert(offsetof(struct task_struct, tgid) ==
	      offsetof(struct task_struct, pid) + 4);
static_assert(offsetof(struct cred, egid) == offsetof(struct cred, euid) + 4);

#endif
