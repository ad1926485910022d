/* SPDX-License-Identifier: MIT */
/*
 * System V IPC and inotify on Linux as abi asks for them: which calls wait,
 * which answers name processes, and which errors come back. The kernel is made
 * up here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#include "abi/include/user.h"
#include "bee/host/linux/host.h"
#include "tests/tap.h"

#define GUEST 0x400000
#define ADDRESS 0x10000000

long __wrap_syscall(long nr, ...);
int __wrap_shmctl(int id, int command, struct shmid_ds *to);
int __wrap_msgctl(int id, int command, struct msqid_ds *to);
int __wrap_inotify_init1(int flags);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_rm_watch(int fd, int number);

static long answer; /* of the kernel; below 0: -errno */
static long called, arg[4];
static int stats, asked[2];
static s32 pids[2];
static int faults;
static char watched[64];

static int give_answer(void)
{
	errno = answer < 0 ? (int)-answer : 0;
	return answer < 0 ? -1 : (int)answer;
}

long __wrap_syscall(long nr, ...)
{
	va_list list;
	int i;

	va_start(list, nr);
	for (i = 0; i < 4; i++)
		arg[i] = va_arg(list, long);
	va_end(list);
	called = nr;
	errno = answer < 0 ? (int)-answer : 0;
	return answer < 0 ? -1 : answer;
}

int __wrap_shmctl(int id, int command, struct shmid_ds *to)
{
	stats++;
	asked[0] = id;
	asked[1] = command;
	to->shm_cpid = pids[0];
	to->shm_lpid = pids[1];
	to->shm_nattch = 77;
	return give_answer();
}

int __wrap_msgctl(int id, int command, struct msqid_ds *to)
{
	stats++;
	asked[0] = id;
	asked[1] = command;
	to->msg_lspid = pids[0];
	to->msg_lrpid = pids[1];
	to->msg_qnum = 77;
	return give_answer();
}

int __wrap_inotify_init1(int flags)
{
	asked[0] = flags;
	return give_answer();
}

int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	asked[0] = fd;
	asked[1] = (int)mask;
	snprintf(watched, sizeof(watched), "%s", path);
	return give_answer();
}

int __wrap_inotify_rm_watch(int fd, int number)
{
	asked[0] = fd;
	asked[1] = number;
	return give_answer();
}

s64 abi_lin_path_host(const char *path, char *host, u64 size, u32 follow)
{
	if (!*path)
		return -ENOENT;
	snprintf(host, size, "%s%s", follow ? "/followed" : "/link", path);
	return 0;
}

s32 lin_family_guest(s32 pid)
{
	return pid + GUEST;
}

s64 lin_wait_call(u64 nr, const u64 list[6])
{
	called = -(long)nr;
	arg[0] = (long)list[0];
	return answer;
}

u64 abi_user_move(void *to, const void *from, u64 n)
{
	if (faults)
		return n;
	memcpy(to, from, n);
	return 0;
}

static s64 call_ipc(u32 call, u64 second, u64 third)
{
	struct abi_ipc_op op = {.call = call, .arg = {5, second, third, 9}};

	called = 0;
	stats = 0;
	return lin_ipc(&op, 0);
}

/* Calls -------------------------------------------------------------------- */

static void check_calls(void)
{
	static const u32 waiting[] = {SYS_semtimedop, SYS_msgsnd, SYS_msgrcv};
	static const u32 plain[] = {SYS_shmget, SYS_semget, SYS_msgget,
				    SYS_shmctl, SYS_semctl, SYS_msgctl};
	u32 i;

	for (i = 0; i < 3; i++) {
		answer = -EINTR;
		tap_ok(call_ipc(waiting[i], 6, 7) == -EINTR &&
			       called == -(long)waiting[i] && arg[0] == 5,
		       "call %u may wait", waiting[i]);
	}
	for (i = 0; i < 6; i++) {
		answer = 3;
		tap_ok(call_ipc(plain[i], IPC_RMID, 7) == 3 &&
			       called == (long)plain[i] && arg[0] == 5 &&
			       arg[1] == IPC_RMID && arg[2] == 7 &&
			       arg[3] == 9 && !stats,
		       "call %u does not", plain[i]);
		answer = -EIDRM;
		tap_ok(call_ipc(plain[i], IPC_RMID, 7) == -EIDRM,
		       "its error comes back");
	}
	answer = ADDRESS;
	tap_ok(!call_ipc(SYS_shmat, ADDRESS, SHM_RDONLY) &&
		       called == SYS_shmat && arg[1] == ADDRESS &&
		       arg[2] == (SHM_RDONLY | SHM_REMAP),
	       "a segment replaces what is mapped at its address");
	answer = -EACCES;
	tap_ok(call_ipc(SYS_shmat, ADDRESS, 0) == -EACCES, "or does not");
}

static void check_last_process(void)
{
	static const struct {
		u32 call;
		u64 command;
		long answer;
		s64 want;
	} cases[] = {
		{SYS_semctl, GETPID, 1, GUEST + 1},
		{SYS_semctl, GETPID, 300, GUEST + 300},
		{SYS_semctl, GETPID, 0, 0},
		{SYS_semctl, GETPID, -EINVAL, -EINVAL},
		{SYS_semctl, GETPID | 1ull << 32, 300, GUEST + 300},
		{SYS_semctl, GETVAL, 300, 300},
		{SYS_semget, GETPID, 300, 300},
	};
	u32 i;

	for (i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		answer = cases[i].answer;
		tap_ok(call_ipc(cases[i].call, 0, cases[i].command) ==
			       cases[i].want,
		       "%ld of call %u, command %llu, is %lld", answer,
		       cases[i].call, cases[i].command, cases[i].want);
	}
}

/* Structures with pids ----------------------------------------------------- */

static void check_stat(u32 call, u64 command)
{
	struct shmid_ds segment = {.shm_cpid = -1};
	struct msqid_ds queue = {.msg_lspid = -1};
	int is_segment = call == SYS_shmctl;
	u64 to = is_segment ? (u64)(__UINTPTR_TYPE__)&segment
			    : (u64)(__UINTPTR_TYPE__)&queue;

	pids[0] = 0;
	pids[1] = 1;
	answer = 4;
	tap_ok(call_ipc(call, command | 1ull << 32, to) == 4 && !called &&
		       stats == 1 && asked[0] == 5 && asked[1] == (int)command,
	       "call %u with command %d reads a structure", call, (int)command);
	tap_ok(is_segment
		       ? segment.shm_cpid == 0 &&
				 segment.shm_lpid == GUEST + 1 &&
				 segment.shm_nattch == 77
		       : queue.msg_lspid == 0 && queue.msg_lrpid == GUEST + 1 &&
				 queue.msg_qnum == 77,
	       "with the guest's numbers of its processes, or 0");
	pids[0] = 1;
	pids[1] = 0;
	answer = 0;
	tap_ok(!call_ipc(call, command, to) &&
		       (is_segment ? segment.shm_cpid == GUEST + 1 &&
					     segment.shm_lpid == 0
				   : queue.msg_lspid == GUEST + 1 &&
					     queue.msg_lrpid == 0),
	       "either of them");
	faults = 1;
	tap_ok(call_ipc(call, command, to) == -EFAULT, "memory that is gone");
	answer = -EIDRM;
	tap_ok(call_ipc(call, command, to) == -EIDRM,
	       "an error leaves memory alone");
	faults = 0;
}

static void check_watch(void)
{
	struct abi_watch_op op = {.verb = ABI_WATCH_OPEN,
				  .handle = 6,
				  .mask = IN_MODIFY,
				  .number = 8,
				  .path = "/a"};

	answer = 4;
	tap_ok(lin_watch(&op) == 4 && asked[0] == (IN_NONBLOCK | IN_CLOEXEC),
	       "an instance of inotify is neither waited for nor inherited");
	op.verb = ABI_WATCH_ADD;
	tap_ok(lin_watch(&op) == 4 && asked[0] == 6 && asked[1] == IN_MODIFY &&
		       !strcmp(watched, "/followed/a"),
	       "a file is watched behind its link");
	op.mask |= IN_DONT_FOLLOW;
	tap_ok(lin_watch(&op) == 4 && !strcmp(watched, "/link/a"),
	       "or the link itself");
	op.path = "";
	tap_ok(lin_watch(&op) == -ENOENT, "a path that leads nowhere");
	op.path = "/a";
	answer = -ENOSPC;
	tap_ok(lin_watch(&op) == -ENOSPC, "a watch too many");
	answer = 0;
	op.verb = ABI_WATCH_REMOVE;
	tap_ok(!lin_watch(&op) && asked[0] == 6 && asked[1] == 8,
	       "a watch is removed");
	answer = -EINVAL;
	tap_ok(lin_watch(&op) == -EINVAL, "once");
	answer = 0;
	op.verb = (enum abi_watch_verb)99;
	tap_ok(lin_watch(&op) == -EINVAL, "an unknown verb");
}

int main(void)
{
	static const int segments[] = {IPC_STAT, SHM_STAT, SHM_STAT_ANY};
	static const int queues[] = {IPC_STAT, MSG_STAT, MSG_STAT_ANY};
	u32 i;

	check_calls();
	check_last_process();
	for (i = 0; i < 3; i++) {
		check_stat(SYS_shmctl, (u64)segments[i]);
		check_stat(SYS_msgctl, (u64)queues[i]);
	}
	check_watch();
	return tap_done();
}
