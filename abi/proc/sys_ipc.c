// SPDX-License-Identifier: MIT
/*
 * Owns the calls of sysvipc(7) but for shmat and shmdt (mm/sysv.c). The host
 * keeps the objects, which other processes have too; here is checked that its
 * structures lie in memory of the guest.
 */
#include "call.h"
#include "base/errno.h"
#include "abi/include/user.h"
#include "abi/signal/signal.h"
#include "abi/state/proc.h"
#include "abi/time/time.h"
#include "abi/uapi/ipc.h"
#include "abi/uapi/linux.h"
#include "abi/uapi/time.h"
#include "build/gen/abi/numbers.h"

#define RW (ABI_PROT_READ | ABI_PROT_WRITE)

static s64 pass_call(struct abi_call *c)
{
	struct abi_ipc_op op = {(u32)c->regs->rax,
				{c->a[0], c->a[1], c->a[2], c->a[3], c->a[4]}};

	if (!c->p->host->ipc)
		return abi_call_refuse(c);
	return c->p->host->ipc(&op, c->t->index);
}

/* A kick that brought no signal does not end the call. */
static s64 pass_waiting(struct abi_call *c, const struct abi_ipc_op *op,
			s64 interrupted)
{
	s64 rc;

	if (!c->p->host->ipc)
		return abi_call_refuse(c);
	do {
		if (abi_pending(c->p, c->t->index))
			return interrupted;
		rc = c->p->host->ipc(op, c->t->index);
	} while (rc == -LINUX_EINTR);
	return rc;
}

s64 abi_sys_shmget(struct abi_call *c)
{
	return pass_call(c);
}

s64 abi_sys_semget(struct abi_call *c)
{
	return pass_call(c);
}

s64 abi_sys_msgget(struct abi_call *c)
{
	return pass_call(c);
}

/* Of the pointer in argument `i`, to `size` bytes. */
static s64 pass_struct(struct abi_call *c, u32 i, u64 size, u32 prot)
{
	if (c->p->host->ipc && abi_user_check(c->p, c->a[i], size, prot))
		return -LINUX_EFAULT;
	return pass_call(c);
}

s64 abi_sys_shmctl(struct abi_call *c)
{
	switch ((u32)c->a[1]) {
	case ABI_IPC_SET:
		return pass_struct(c, 2, sizeof(struct abi_shmid),
				   ABI_PROT_READ);
	case ABI_IPC_STAT:
	case ABI_SHM_STAT:
	case ABI_SHM_STAT_ANY:
		return pass_struct(c, 2, sizeof(struct abi_shmid), RW);
	case ABI_IPC_INFO:
		return pass_struct(c, 2, ABI_SHMINFO_SIZE, RW);
	case ABI_SHM_INFO:
		return pass_struct(c, 2, ABI_SHM_INFO_SIZE, RW);
	default:
		return pass_call(c); /* no pointer, or EINVAL */
	}
}

s64 abi_sys_msgctl(struct abi_call *c)
{
	switch ((u32)c->a[1]) {
	case ABI_IPC_SET:
		return pass_struct(c, 2, sizeof(struct abi_msqid),
				   ABI_PROT_READ);
	case ABI_IPC_STAT:
	case ABI_MSG_STAT:
	case ABI_MSG_STAT_ANY:
		return pass_struct(c, 2, sizeof(struct abi_msqid), RW);
	case ABI_IPC_INFO:
	case ABI_MSG_INFO:
		return pass_struct(c, 2, ABI_MSGINFO_SIZE, RW);
	default:
		return pass_call(c);
	}
}

/* The values of all semaphores of a set: u16 each. */
static s64 pass_values(struct abi_call *c, u32 prot)
{
	struct abi_semid set;
	struct abi_ipc_op op = {ABI_NR_semctl,
				{c->a[0], 0, ABI_IPC_STAT, (u64)&set}};
	s64 rc;

	if (!c->p->host->ipc)
		return abi_call_refuse(c);
	rc = c->p->host->ipc(&op, c->t->index);
	return rc < 0 ? rc : pass_struct(c, 3, set.count * 2, prot);
}

s64 abi_sys_semctl(struct abi_call *c)
{
	switch ((u32)c->a[2]) {
	case ABI_IPC_SET:
		return pass_struct(c, 3, sizeof(struct abi_semid),
				   ABI_PROT_READ);
	case ABI_IPC_STAT:
	case ABI_SEM_STAT:
	case ABI_SEM_STAT_ANY:
		return pass_struct(c, 3, sizeof(struct abi_semid), RW);
	case ABI_IPC_INFO:
	case ABI_SEM_INFO:
		return pass_struct(c, 3, ABI_SEMINFO_SIZE, RW);
	case ABI_SEM_GETALL:
		return pass_values(c, RW);
	case ABI_SEM_SETALL:
		return pass_values(c, ABI_PROT_READ);
	default:
		return pass_call(c);
	}
}

/* semop(2) is never restarted after a handler. `deadline`: CLOCK_MONOTONIC. */
static s64 run_semop(struct abi_call *c, u64 deadline)
{
	struct abi_timespec left;
	struct abi_ipc_op op = {ABI_NR_semtimedop, {c->a[0], c->a[1], c->a[2]}};
	u64 now, ns;
	s64 rc;

	/* More than SEMOPM, E2BIG, whatever the kernel's is. */
	if (c->a[2] < 0x10000 && c->p->host->ipc &&
	    abi_user_check(c->p, c->a[1], c->a[2] * ABI_SEMBUF_SIZE,
			   ABI_PROT_READ))
		return -LINUX_EFAULT;
	for (;;) {
		if (deadline != ABI_FOREVER) {
			now = (u64)c->p->host->clock(ABI_CLOCK_MONOTONIC);
			ns = deadline > now ? deadline - now : 0;
			left = (struct abi_timespec){(s64)(ns / ABI_NS),
						     (s64)(ns % ABI_NS)};
			op.arg[3] = (u64)&left;
		}
		if (!c->p->host->ipc)
			return abi_call_refuse(c);
		rc = c->p->host->ipc(&op, c->t->index);
		if (rc != -LINUX_EINTR || abi_pending(c->p, c->t->index))
			return rc;
	}
}

s64 abi_sys_semop(struct abi_call *c)
{
	return run_semop(c, ABI_FOREVER);
}

s64 abi_sys_semtimedop(struct abi_call *c)
{
	u64 ns, now = (u64)c->p->host->clock(ABI_CLOCK_MONOTONIC);
	s64 rc;

	if (!c->a[3])
		return run_semop(c, ABI_FOREVER);
	rc = abi_time_get(c->p, c->a[3], &ns);
	if (rc)
		return rc;
	return run_semop(c, ns < ABI_FOREVER - now ? now + ns : ABI_FOREVER);
}

/* A message is its type, eight bytes, and then its text. */
static s64 pass_message(struct abi_call *c, u32 prot)
{
	struct abi_ipc_op op = {(u32)c->regs->rax,
				{c->a[0], c->a[1], c->a[2], c->a[3], c->a[4]}};

	if (c->a[2] >> 31)
		return c->p->host->ipc ? -LINUX_EINVAL : abi_call_refuse(c);
	if (c->p->host->ipc && abi_user_check(c->p, c->a[1], c->a[2] + 8, prot))
		return -LINUX_EFAULT;
	return pass_waiting(c, &op, -ABI_ERESTARTNOHAND);
}

s64 abi_sys_msgsnd(struct abi_call *c)
{
	return pass_message(c, ABI_PROT_READ);
}

s64 abi_sys_msgrcv(struct abi_call *c)
{
	return pass_message(c, RW);
}
