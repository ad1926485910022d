// SPDX-License-Identifier: MIT
/*
 * What the kernel has for processes that know each other by names and keys:
 * inotify(7) and sysvipc(7). Owns nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/include/user.h"
#include "host.h"

static s64 errno_result(s64 n)
{
	return n < 0 ? -errno : n;
}

static s64 add_watch(const struct abi_watch_op *op)
{
	char path[ABI_PATH_MAX];
	s64 rc = abi_lin_path_host(op->path, path, sizeof(path),
				   !(op->mask & IN_DONT_FOLLOW));

	return rc < 0 ? rc
		      : errno_result(
				inotify_add_watch(op->handle, path, op->mask));
}

s64 lin_watch(struct abi_watch_op *op)
{
	switch (op->verb) {
	case ABI_WATCH_OPEN:
		return errno_result(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
	case ABI_WATCH_ADD:
		return add_watch(op);
	case ABI_WATCH_REMOVE:
		return errno_result(inotify_rm_watch(op->handle, op->number));
	}
	return -EINVAL;
}

/* The number that the program knows of a process, in the family or not. */
static void rename_pid(s32 *pid)
{
	if (*pid)
		*pid = lin_family_guest(*pid);
}

/*
 * A structure with pids comes into bee's memory first: another thread of the
 * program may unmap its own meanwhile.
 */
static s64 stat_segment(const struct abi_ipc_op *op)
{
	struct shmid_ds seg = {.shm_cpid = 0};
	s64 rc = errno_result(shmctl((int)op->arg[0], (int)op->arg[1], &seg));

	rename_pid(&seg.shm_cpid);
	rename_pid(&seg.shm_lpid);
	if (rc >= 0 && abi_user_move((void *)(__UINTPTR_TYPE__)op->arg[2], &seg,
				     sizeof(seg)))
		return -EFAULT;
	return rc;
}

static s64 stat_queue(const struct abi_ipc_op *op)
{
	struct msqid_ds queue = {.msg_lspid = 0};
	s64 rc = errno_result(msgctl((int)op->arg[0], (int)op->arg[1], &queue));

	rename_pid(&queue.msg_lspid);
	rename_pid(&queue.msg_lrpid);
	if (rc >= 0 && abi_user_move((void *)(__UINTPTR_TYPE__)op->arg[2],
				     &queue, sizeof(queue)))
		return -EFAULT;
	return rc;
}

static s64 attach_segment(const struct abi_ipc_op *op)
{
	s64 rc = errno_result(syscall(SYS_shmat, op->arg[0], op->arg[1],
				      op->arg[2] | SHM_REMAP));

	return rc < 0 ? rc : 0;
}

static int is_stat(const struct abi_ipc_op *op)
{
	u32 command = (u32)op->arg[1];

	if (op->call == SYS_shmctl)
		return command == IPC_STAT || command == SHM_STAT ||
		       command == SHM_STAT_ANY;
	return op->call == SYS_msgctl &&
	       (command == IPC_STAT || command == MSG_STAT ||
		command == MSG_STAT_ANY);
}

s64 lin_ipc(const struct abi_ipc_op *op, u32 thread)
{
	s64 rc;

	(void)thread;
	if (is_stat(op))
		return op->call == SYS_shmctl ? stat_segment(op)
					      : stat_queue(op);
	switch (op->call) {
	case SYS_shmat:
		return attach_segment(op);
	case SYS_semtimedop:
	case SYS_msgsnd:
	case SYS_msgrcv:
		return lin_wait_call(op->call, op->arg);
	}
	rc = errno_result(syscall(op->call, op->arg[0], op->arg[1], op->arg[2],
				  op->arg[3]));
	if (rc > 0 && op->call == SYS_semctl && (u32)op->arg[2] == GETPID)
		rc = lin_family_guest((s32)rc);
	return rc;
}
