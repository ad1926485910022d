/* SPDX-License-Identifier: MIT */
/*
 * Which pages the program has written since the last look: by
 * write-protection that the kernel itself takes off at a write and remembers
 * (userfaultfd with WP_ASYNC and PAGEMAP_SCAN, since Linux 6.7). Older kernels
 * cannot: then each page that exists may have been written, and its digest
 * says whether it was. The protection ends when the descriptor is closed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bee/core/snapshot.h"
#include "host.h"

#define PAGE ((u64)SKEP_PAGE_SIZE)
#define MOST BEE_SNAP_PAGES
#define PRESENT (1ull << 63)
#define SWAPPED (1ull << 62)

/* Of linux/userfaultfd.h and linux/fs.h, which may be older than the kernel. */
#define UFFD_USER_MODE 1
#define UFFD_VERSION 0xaaull
#define UFFD_WP_ASYNC (1ull << 15)
#define UFFD_MODE_WP 2ull
#define SCAN_WRITTEN                                                           \
	2ull /* PAGE_IS_WRITTEN; pages that do not exist are, too */
#define SCAN_EXISTS 24ull /* PAGE_IS_PRESENT, PAGE_IS_SWAPPED */
#define SCAN_PROTECT 1ull /* PM_SCAN_WP_MATCHING */
#define SCAN_CHECK 2ull	  /* PM_SCAN_CHECK_WPASYNC */

struct uffd_api {
	u64 api, features, ioctls;
};

struct uffd_register {
	u64 start, len, mode, ioctls;
};

struct scan_run {
	u64 start, end, categories;
};

struct scan_ask {
	u64 size, flags, start, end, walk_end, vec, vec_len, max_pages;
	u64 inverted, mask, anyof, result;
};

#define UFFD_API _IOWR(0xaa, 0x3f, struct uffd_api)
#define UFFD_REGISTER _IOWR(0xaa, 0x00, struct uffd_register)
#define PAGEMAP_SCAN _IOWR('f', 16, struct scan_ask)

int lin_written_open(void)
{
	struct uffd_api api = {.api = UFFD_VERSION, .features = UFFD_WP_ASYNC};
	int fd = (int)syscall(SYS_userfaultfd,
			      O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE);

	if (fd >= 0 && ioctl(fd, UFFD_API, &api)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Before a look with `protect`. What fails here, the look notices. */
void lin_written_area(int fd, u64 start, u64 end)
{
	struct uffd_register r = {
		.start = start, .len = end - start, .mode = UFFD_MODE_WP};

	if (fd >= 0)
		ioctl(fd, UFFD_REGISTER, &r);
}

static void set_pages(u8 *look, u64 first, u64 last, u8 value)
{
	for (; first < last; first++)
		if (look[first] != BEE_LOOK_NONE)
			look[first] = value;
}

/* Which pages exist; those may have been written. Not known: all. */
static void find_present(int map, u64 addr, u64 pages, u8 *look)
{
	u64 entry[MOST], i;
	ssize_t n = pread(map, entry, pages * 8, (off_t)(addr / PAGE * 8));

	for (i = 0; i < pages; i++)
		look[i] = n < (ssize_t)(pages * 8) ||
					  entry[i] & (PRESENT | SWAPPED)
				  ? BEE_LOOK_WRITTEN
				  : BEE_LOOK_NONE;
}

/*
 * The scan comes first: a page that appears after it is not protected, so the
 * next look finds it.
 */
void lin_written_look(const struct lin_written *w, u64 addr, u64 pages,
		      u8 *look)
{
	struct scan_run run[MOST / 2 + 1];
	struct scan_ask ask = {.size = sizeof(ask),
			       .flags = w->protect ? SCAN_PROTECT | SCAN_CHECK
						   : 0,
			       .start = addr,
			       .end = addr + pages * PAGE,
			       .vec = (u64)(__UINTPTR_TYPE__)run,
			       .vec_len = sizeof(run) / sizeof(run[0]),
			       .mask = SCAN_WRITTEN,
			       .anyof = SCAN_EXISTS,
			       .result = SCAN_WRITTEN};
	int runs = w->fd < 0 ? -1 : ioctl(w->map, PAGEMAP_SCAN, &ask), i;

	find_present(w->map, addr, pages, look);
	if (runs < 0 || ask.walk_end != ask.end)
		return;
	set_pages(look, 0, pages, BEE_LOOK_SAME);
	for (i = 0; i < runs; i++)
		set_pages(look, (run[i].start - addr) / PAGE,
			  (run[i].end - addr) / PAGE, BEE_LOOK_WRITTEN);
}
