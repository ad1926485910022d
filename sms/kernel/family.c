// SPDX-License-Identifier: MIT
/*
 * Programs that the program starts on Linux, by the proxy. Owns which thread is
 * the child of a vfork. abi lends it to one child at a time, so there is no
 * lock.
 */
#include "kernel.h"

#define WNOHANG 1u
#define POLLIN 1

static s32 born; /* the pid of that child; 0: there is none */
static u32 born_thread;

static s64 begin_child(struct abi_family_op *op, u32 thread)
{
	s64 rc = sms_forward_family(op);

	if (rc < 0)
		return rc;
	born_thread = thread;
	born = op->pid;
	return 0;
}

/* After an error of execve the thread remains the child. */
static s64 end_child(struct abi_family_op *op)
{
	s64 rc = sms_forward_family(op);

	if (!rc || op->verb == ABI_FAMILY_ENDED)
		born = 0;
	return rc;
}

/*
 * The proxy looks for children, and sms waits. A change between the two is an
 * event that the wait finds.
 */
static s64 wait_child(struct abi_family_op *op, u32 thread)
{
	struct abi_family_op ask = *op;
	struct abi_poll event;
	s64 n;

	for (;;) {
		ask.options = op->options | WNOHANG;
		n = sms_forward_family(&ask);
		if (n || op->options & WNOHANG)
			break;
		event = (struct abi_poll){.handle = MAIL_CHILD,
					  .events = POLLIN};
		n = sms_poll_wait(&event, 1, ABI_FOREVER, thread);
		if (n < 0)
			return n;
		ask = *op;
	}
	ask.options = op->options;
	*op = ask;
	return n;
}

/* What the child of a vfork asks about itself. */
static s64 ask_self(struct abi_family_op *op, u32 thread)
{
	if (!op->pid && born && born_thread == thread)
		op->pid = born;
	return sms_forward_family(op);
}

s64 sms_family(struct abi_family_op *op, u32 thread)
{
	switch (op->verb) {
	case ABI_FAMILY_FORK:
		return begin_child(op, thread);
	case ABI_FAMILY_SPAWN:
	case ABI_FAMILY_ENDED:
		return end_child(op);
	case ABI_FAMILY_WAIT4:
	case ABI_FAMILY_WAITID:
		return wait_child(op, thread);
	case ABI_FAMILY_PARENT:
	case ABI_FAMILY_GROUP:
	case ABI_FAMILY_SESSION:
	case ABI_FAMILY_SET_GROUP:
	case ABI_FAMILY_SET_SESSION:
		return ask_self(op, thread);
	case ABI_FAMILY_BEGIN:
	case ABI_FAMILY_NAME:
	case ABI_FAMILY_SETTLE:
		return 0;
	case ABI_FAMILY_TEXT:
		return -LINUX_ESRCH;
	default:
		return sms_forward_family(op);
	}
}
