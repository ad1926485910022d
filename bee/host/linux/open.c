/* SPDX-License-Identifier: MIT */
/* open(2) that may wait: the thread sleeps in the kernel until a kick. */
#include <errno.h>
#include <sys/syscall.h>

#include "host.h"

s64 lin_file_open(struct abi_open *o)
{
	struct abi_lin_call call;
	s64 fd;

	if (!o->wait)
		return abi_lin_file_open(o);
	do {
		fd = abi_lin_open_call(&call, o);
		if (!fd)
			fd = lin_wait_call(call.nr, call.arg);
	} while (fd == -EAGAIN && call.nr == SYS_openat2);
	if (fd == -ENOENT)
		fd = abi_lin_missing(o->path);
	return fd < 0 ? fd : abi_lin_opened(o, (int)fd);
}
