// SPDX-License-Identifier: MIT
/* wait4(2) and waitid(2). The host keeps children; no state of abi's. */
#include "abi/include/mem.h"
#include "abi/include/siginfo.h"
#include "abi/include/user.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/thread/thread.h"
#include "base/errno.h"
#include "call.h"
#include "own.h"

#define WNOHANG 1u
#define WAIT4_MAY 0xe000000bu  /* WNOHANG, WUNTRACED, WCONTINUED, __W* */
#define WAITID_MAY 0xe100000fu /* WEXITED and WNOWAIT too */
#define WAITID_MUST 0xeu
#define P_PGID 2u
#define PID_LOWEST (-0x7fffffff - 1)

/*
 * Checks for children before it waits, and again after a signal: the child's
 * own SIGCHLD must not hide its end, which Linux returns first.
 */
static s64 wait_child(struct abi_call *c, struct abi_family_op *op)
{
	u32 options = op->options;
	s64 rc;

	for (;;) {
		op->options = options | WNOHANG;
		rc = c->p->host->family(op, c->t->index);
		if (rc || options & WNOHANG)
			return rc;
		if (abi_pending(c->p, c->t->index))
			return -ABI_ERESTARTSYS;
		op->options = options;
		abi_thread_asleep(c->t, 1);
		rc = c->p->host->family(op, c->t->index);
		abi_thread_asleep(c->t, 0);
		if (rc != -LINUX_EINTR)
			return rc;
	}
}

s64 abi_sys_wait4(struct abi_call *c)
{
	struct abi_family_op op = {.verb = ABI_FAMILY_WAIT4,
				   .pid = (s32)c->a[0],
				   .options = (u32)c->a[2]};
	s64 rc;

	if (op.options & ~WAIT4_MAY)
		return -LINUX_EINVAL;
	if (op.pid == PID_LOWEST) /* no number is its opposite */
		return -LINUX_ESRCH;
	if (!c->p->host->family || abi_vfork_is(c->p))
		return -LINUX_ECHILD;
	rc = wait_child(c, &op);
	if (rc <= 0)
		return rc;
	if ((c->a[1] && ABI_PUT(c->p, c->a[1], &op.status)) ||
	    (c->a[3] && ABI_PUT(c->p, c->a[3], &op.usage)))
		return -LINUX_EFAULT;
	return rc;
}

s64 abi_sys_waitid(struct abi_call *c)
{
	struct abi_siginfo info;
	struct abi_family_op op = {.verb = ABI_FAMILY_WAITID,
				   .status = (s32)c->a[0],
				   .pid = (s32)c->a[1],
				   .options = (u32)c->a[3],
				   .info = &info};
	s64 rc;

	if ((u32)c->a[0] > P_PGID || op.options & ~WAITID_MAY ||
	    !(op.options & WAITID_MUST))
		return -LINUX_EINVAL;
	if (!c->p->host->family || abi_vfork_is(c->p))
		return -LINUX_ECHILD;
	abi_memset(&info, 0, sizeof(info));
	rc = wait_child(c, &op);
	if (rc < 0)
		return rc;
	if ((c->a[2] && ABI_PUT(c->p, c->a[2], &info)) ||
	    (c->a[4] && rc && ABI_PUT(c->p, c->a[4], &op.usage)))
		return -LINUX_EFAULT;
	return 0;
}
