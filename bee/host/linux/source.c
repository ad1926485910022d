/* SPDX-License-Identifier: MIT */
/* What a snapshot reads of the process that is saved: bee_save's functions that
 * need no more than the kernel. Owns nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "bee/core/snapshot.h"
#include "host.h"

#define ENTRIES 512u /* of /proc/self/pagemap that are read at once */
#define PRESENT (1ull << 63)
#define SWAPPED (1ull << 62)
#define PAGE ((u64)SKEP_PAGE_SIZE)

/* Not by a plain load: a page beyond the end of its file would raise SIGBUS. */
s64 lin_source_memory(struct bee_save *s, u64 addr, void *buf, u64 len)
{
	u64 done = 0;
	ssize_t n;

	while (done < len) {
		n = pread(s->memory, (u8 *)buf + done, len - done,
			  (off_t)(addr + done));
		if (n <= 0)
			return n ? -errno : -EIO;
		done += (u64)n;
	}
	return 0;
}

u64 lin_source_touched(struct bee_save *s, u64 addr, u64 end)
{
	u64 entry[ENTRIES], want, i;
	ssize_t n;

	while (addr < end) {
		want = (end - addr) / PAGE;
		want = want < ENTRIES ? want : ENTRIES;
		n = pread(s->map, entry, want * 8, (off_t)(addr / PAGE * 8));
		if (n < 8) /* not known */
			return addr;
		for (i = 0; i < (u64)n / 8; i++)
			if (entry[i] & (PRESENT | SWAPPED))
				return addr + i * PAGE;
		addr += i * PAGE;
	}
	return end;
}

/* Locks of all kinds, and leases. */
const char *lin_source_judge(struct bee_save *s, s32 handle)
{
	char name[64], line[256];
	const char *why = NULL;
	FILE *f;

	(void)s;
	snprintf(name, sizeof(name), "/proc/self/fdinfo/%d", handle);
	f = fopen(name, "re");
	if (!f)
		return " cannot be examined: /proc is needed";
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, "lock:", 5))
			why = " is locked";
	fclose(f);
	return why;
}

/* tee(2) copies without taking anything from the pipe. */
s64 lin_source_peek(struct bee_save *s, s32 handle, void *buf, u64 len)
{
	int copy[2], size = fcntl(handle, F_GETPIPE_SZ), have = 0;
	ssize_t n = -1, got = 0;

	(void)s;
	if (size < 0 || (u64)size > len || ioctl(handle, FIONREAD, &have) ||
	    pipe2(copy, O_CLOEXEC | O_NONBLOCK))
		return -EIO;
	if (!have)
		n = 0;
	else if (fcntl(copy[1], F_SETPIPE_SZ, size) >= 0)
		n = tee(handle, copy[1], (u64)size, SPLICE_F_NONBLOCK);
	if (n > 0)
		got = read(copy[0], buf, (u64)n);
	close(copy[0]);
	close(copy[1]);
	return n < 0 || got != n || n != have ? -EIO : n;
}

/* What is locked is not saved, so nothing is lost when the second descriptor is
 * closed. */
s64 lin_source_data(struct bee_save *s, s32 handle, u64 *offset, void *buf,
		    u64 len)
{
	char name[64];
	ssize_t n = 0;
	off_t at;
	int fd;

	(void)s;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", handle);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	at = lseek(fd, (off_t)*offset, SEEK_DATA);
	if (at >= 0) {
		*offset = (u64)at;
		n = pread(fd, buf, len, at);
	}
	if (n < 0 || (at < 0 && errno != ENXIO))
		n = -errno;
	close(fd);
	return n;
}
