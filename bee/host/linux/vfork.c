/* SPDX-License-Identifier: MIT */
/*
 * vfork(2) with a copy of the parent. The parent waits until its child executes
 * or ends, and then gets what the child has written to the parent's stack: the
 * C library's posix_spawn(3) and other programs return an error of exec(2)
 * there. The child compares that part of the stack with its copy from the start
 * and sends only the bytes that differ. So bytes that other threads of the
 * parent have changed in the meantime are kept.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host.h"

struct change {
	u32 offset, len; /* then `len` bytes */
};

static struct {
	int end;   /* -1: this process is not a child of vfork */
	u8 *stack; /* the parent's stack, in this copy of the process */
	u32 len;
	u8 start[ABI_VFORK_STACK]; /* the stack when the child began */
} child = {.end = -1};
static pthread_mutex_t sending = PTHREAD_MUTEX_INITIALIZER;

void lin_vfork_begin(int end, u64 stack, u32 len)
{
	if (child.end >= 0)
		close(child.end);
	child.end = end;
	child.stack = (u8 *)(__UINTPTR_TYPE__)stack;
	child.len = len;
	if (end >= 0)
		memcpy(child.start, child.stack, len);
}

/* Returns 0 if the parent is gone. No SIGPIPE: the child goes on without a
 * parent. */
static int send_bytes(const void *bytes, u32 len)
{
	const u8 *at = bytes;
	s64 n;

	while (len) {
		n = send(child.end, at, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		at += n;
		len -= (u32)n;
	}
	return 1;
}

static u32 find_change(u32 at)
{
	while (at < child.len && child.stack[at] == child.start[at])
		at++;
	return at;
}

static u32 find_change_end(u32 at)
{
	while (at < child.len && child.stack[at] != child.start[at])
		at++;
	return at;
}

void lin_vfork_report(void)
{
	struct change c;
	u32 end;

	if (child.end < 0)
		return;
	pthread_mutex_lock(&sending);
	for (c.offset = find_change(0); c.offset < child.len;
	     c.offset = find_change(end)) {
		end = find_change_end(c.offset);
		c.len = end - c.offset;
		if (!send_bytes(&c, sizeof(c)) ||
		    !send_bytes(child.stack + c.offset, c.len))
			break;
	}
	pthread_mutex_unlock(&sending);
}

int lin_vfork_is_awaited(void)
{
	return child.end >= 0;
}

void lin_vfork_wait(int end, u64 stack, u32 len)
{
	u8 *to = (u8 *)(__UINTPTR_TYPE__)stack;
	struct change c;

	while (!lin_read_all(end, (u8 *)&c, sizeof(c)))
		if (c.offset > len || c.len > len - c.offset ||
		    lin_read_all(end, to + c.offset, c.len))
			break;
	close(end);
}
