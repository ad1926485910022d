// SPDX-License-Identifier: MIT
/*
 * Owns the calls on extended attributes, xattr(7): files have none here, as on
 * a file system without them. Programs that copy files try to read them, so
 * only a call that would change one is logged.
 */
#include "desc.h"
#include "open.h"
#include "base/errno.h"
#include "abi/proc/call.h"
#include "abi/proc/log.h"
#include "abi/state/proc.h"
#include "abi/uapi/linux.h"

/* -ENOTSUP, unless the file does not exist. */
static s64 answer_path(struct abi_call *c, enum abi_path_verb verb)
{
	struct abi_stat st;
	struct abi_path_op op = {.verb = verb, .stat = &st};
	s64 error = abi_path_run(c, (u64)ABI_AT_FDCWD, c->a[0], &op);

	return error < 0 ? error : -LINUX_ENOTSUP;
}

static s64 answer_fd(struct abi_call *c)
{
	struct abi_desc *d = abi_desc_get(c->p, c->a[0]);

	if (!d)
		return -LINUX_EBADF;
	abi_desc_put(c->p, d);
	return -LINUX_ENOTSUP;
}

static s64 log_change(struct abi_call *c, s64 error)
{
	if (error == -LINUX_ENOTSUP)
		abi_log_once(c->p, &c->p->fds.said_xattr,
			     "a change refused (EOPNOTSUPP): files have no "
			     "extended attributes here");
	return error;
}

#define READ_CALLS(name)                                                       \
	s64 abi_sys_##name(struct abi_call *c)                                 \
	{                                                                      \
		return answer_path(c, ABI_PATH_STAT);                          \
	}                                                                      \
	s64 abi_sys_l##name(struct abi_call *c)                                \
	{                                                                      \
		return answer_path(c, ABI_PATH_LSTAT);                         \
	}                                                                      \
	s64 abi_sys_f##name(struct abi_call *c)                                \
	{                                                                      \
		return answer_fd(c);                                           \
	}

#define CHANGE_CALLS(name)                                                     \
	s64 abi_sys_##name(struct abi_call *c)                                 \
	{                                                                      \
		return log_change(c, answer_path(c, ABI_PATH_STAT));           \
	}                                                                      \
	s64 abi_sys_l##name(struct abi_call *c)                                \
	{                                                                      \
		return log_change(c, answer_path(c, ABI_PATH_LSTAT));          \
	}                                                                      \
	s64 abi_sys_f##name(struct abi_call *c)                                \
	{                                                                      \
		return log_change(c, answer_fd(c));                            \
	}

READ_CALLS(getxattr)
READ_CALLS(listxattr)
CHANGE_CALLS(setxattr)
CHANGE_CALLS(removexattr)
