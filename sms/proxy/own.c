// SPDX-License-Identifier: MIT
/*
 * Which descriptors are the proxy's own: the device, its eventfds, timers and
 * sockets. No call of the image reaches one, by whatever number. The map is
 * atomic.
 */
#include <unistd.h>

#include "proxy.h"

#define NUMBERS 4096

static u64 map[NUMBERS / 64];

int sms_own_add(int fd)
{
	if (fd < 0)
		return fd;
	if (fd >= NUMBERS) { /* only after thousands of the program's files */
		close(fd);
		return -1;
	}
	__atomic_fetch_or(&map[fd / 64], 1ull << fd % 64, __ATOMIC_SEQ_CST);
	return fd;
}

void sms_own_close(int fd)
{
	__atomic_fetch_and(&map[fd / 64], ~(1ull << fd % 64), __ATOMIC_SEQ_CST);
	close(fd);
}

int sms_own_is(s32 handle)
{
	return handle >= 0 && handle < NUMBERS &&
	       __atomic_load_n(&map[handle / 64], __ATOMIC_SEQ_CST) >>
			       handle % 64 &
		       1;
}
