/* SPDX-License-Identifier: MIT */
/* File locks: each kind is one of the kernel's. A handle is one open file
 * description. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "abi/include/lin.h"

static void flock_from(struct flock *f, const struct abi_filelock *l)
{
	static const short type[] = {F_RDLCK, F_WRLCK, F_UNLCK};

	*f = (struct flock){.l_type = type[l->type % 3],
			    .l_whence = SEEK_SET,
			    .l_start = (off_t)l->first};
	if (l->last != ABI_FILELOCK_END)
		f->l_len = (off_t)(l->last - l->first + 1);
}

static void flock_to(struct abi_filelock *l, const struct flock *f)
{
	l->type = f->l_type == F_RDLCK	 ? ABI_FILELOCK_READ
		  : f->l_type == F_WRLCK ? ABI_FILELOCK_WRITE
					 : ABI_FILELOCK_NONE;
	l->first = (u64)f->l_start;
	l->last =
		f->l_len ? (u64)(f->l_start + f->l_len - 1) : ABI_FILELOCK_END;
	l->pid = f->l_pid;
}

void abi_lin_file_lock_call(struct abi_lin_lock_call *to, s32 handle,
			    const struct abi_filelock *l)
{
	static const int how[] = {LOCK_SH, LOCK_EX, LOCK_UN};
	static const int command[2][3] = {
		{F_SETLK, F_SETLKW, F_GETLK},
		{F_OFD_SETLK, F_OFD_SETLKW, F_OFD_GETLK},
	};
	u32 wait = l->verb == ABI_FILELOCK_WAIT;

	to->arg[0] = (u64)handle;
	to->arg[3] = to->arg[4] = to->arg[5] = 0;
	if (l->kind == ABI_FILELOCK_FLOCK) {
		to->nr = SYS_flock;
		to->arg[1] = (u64)(how[l->type % 3] | (wait ? 0 : LOCK_NB));
		to->arg[2] = 0;
		return;
	}
	flock_from((struct flock *)to->flock, l);
	_Static_assert(sizeof(to->flock) >= sizeof(struct flock), "flock");
	to->nr = SYS_fcntl;
	to->arg[1] = (u64)command[l->kind == ABI_FILELOCK_OPEN][l->verb % 3];
	to->arg[2] = (u64)(__UINTPTR_TYPE__)to->flock;
}

/* Never waits: EAGAIN where it would have to. */
s64 abi_lin_file_lock(s32 handle, struct abi_filelock *l)
{
	struct abi_lin_lock_call call;
	struct abi_filelock now = *l;

	if (now.verb == ABI_FILELOCK_WAIT)
		now.verb = ABI_FILELOCK_SET;
	abi_lin_file_lock_call(&call, handle, &now);
	if (syscall((s64)call.nr, call.arg[0], call.arg[1], call.arg[2]) < 0)
		return errno == EACCES ? -EAGAIN : -errno;
	if (l->verb == ABI_FILELOCK_GET)
		flock_to(l, (const struct flock *)call.flock);
	return 0;
}
