// SPDX-License-Identifier: MIT
/*
 * The kernel copies from and to this process as if it were another one: it
 * answers EFAULT where a plain copy would end the program. Owns nothing.
 */
#define _GNU_SOURCE /* process_vm_readv */
#include "memory.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHECK_FROM 512 /* bytes */

typedef ssize_t copier(pid_t, const struct iovec *, unsigned long,
		       const struct iovec *, unsigned long, unsigned long);

/* 0 or -EFAULT; 1: the system does not have the call, or forbids it. */
static int copy_checked(copier *copy, void *ours, const void *theirs, u64 len)
{
	struct iovec here = {ours, len}, there = {(void *)theirs, len};
	pid_t self = getpid();
	ssize_t n;

	while (here.iov_len) {
		n = copy(self, &here, 1, &there, 1, 0);
		if (n < 0 && errno != EFAULT)
			return 1;
		if (n <= 0)
			return -EFAULT;
		here.iov_base = (u8 *)here.iov_base + n;
		there.iov_base = (u8 *)there.iov_base + n;
		here.iov_len -= (u64)n;
		there.iov_len -= (u64)n;
	}
	return 0;
}

int grid_memory_peek(void *to, const void *from, u64 len)
{
	int err = copy_checked(process_vm_readv, to, from, len);

	if (err > 0)
		memcpy(to, from, len);
	return err < 0 ? err : 0;
}

int grid_memory_read(void *to, const void *from, u64 len)
{
	if (len >= CHECK_FROM)
		return grid_memory_peek(to, from, len);
	memcpy(to, from, len);
	return 0;
}

int grid_memory_write(void *to, const void *from, u64 len)
{
	int err = 1;

	if (len >= CHECK_FROM)
		err = copy_checked(process_vm_writev, (void *)from, to, len);
	if (err > 0)
		memcpy(to, from, len);
	return err < 0 ? err : 0;
}
