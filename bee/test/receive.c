/* SPDX-License-Identifier: MIT */
/*
 * Snapshots that come through a pipe: what of them is taken, and what is
 * refused. They are made here, section by section.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bee/core/cache.h"
#include "bee/core/core.h"
#include "bee/core/image.h"
#include "bee/core/snapshot.h"
#include "bee/host/linux/host.h"
#include "tests/tap.h"

#define PAGE ((u64)SKEP_PAGE_SIZE)
#define PLACE SKEP_MMAP_START

static _Alignas(8) u8 made[1 << 20];
static u64 size;
static struct bee_snapshot snapshot;
static u8 *bytes;
static u64 room;

void bee_sha256_init(struct skep_sha256 *s)
{
	skep_sha256_init(s);
}

const struct abi_host lin_host;
int lin_control = -1;
static int control; /* its other end */

/* Whether it was said, once, that the program's files fit. */
static int is_fit_said(void)
{
	char said[4];

	return recv(control, said, sizeof(said), MSG_DONTWAIT) == 1 &&
	       said[0] == SKEP_SNAPSHOT_FITS &&
	       recv(control, said, sizeof(said), MSG_DONTWAIT) < 0;
}

u64 bee_rewriter_revision(void)
{
	return 7;
}

/* There is one library here, with a digest of fives. */
s64 bee_file_digest(const struct abi_host *os, const char *path, u8 digest[32])
{
	if (os != &lin_host || strcmp(path, "/lib/a.so"))
		return -ENOENT;
	memset(digest, 5, 32);
	return 0;
}

static void add_bytes(const void *from, u64 len)
{
	memcpy(made + size, from, len);
	size += len;
}

static void add_zeros(u64 len)
{
	memset(made + size, 0, len);
	size += len;
}

static void add_head(u32 type, u64 len)
{
	struct bee_snap_section head = {.type = type, .len = len};

	add_bytes(&head, sizeof(head));
}

/* Pages that are full of `byte`. */
static void add_pages(u32 type, u64 addr, u64 len, u8 byte)
{
	add_head(type, 8 + len);
	add_bytes(&addr, 8);
	memset(made + size, byte, len);
	size += len;
}

static void add_file(const char *path, u64 revision, u8 byte)
{
	struct bee_snap_file file = {.revision = revision};

	memset(file.sha256, byte, sizeof(file.sha256));
	strcpy(file.path, path);
	add_head(BEE_SNAP_FILE, sizeof(file));
	add_bytes(&file, sizeof(file));
}

static void begin_file(void)
{
	struct bee_snap_head head = {.magic = BEE_SNAP_MAGIC,
				     .version = BEE_SNAP_VERSION};

	size = 0;
	add_bytes(&head, sizeof(head));
}

/* The sections that each snapshot has, with an area of three pages. */
static void add_rest(void)
{
	struct bee_snap_cpu cpu = {.xsave_size = 576};
	struct abi_snap_area area = {.start = PLACE,
				     .end = PLACE + 3 * PAGE,
				     .prot = 3,
				     .bits = ABI_SNAP_COMMITTED};
	u64 at;

	add_head(BEE_SNAP_CPU, sizeof(cpu));
	add_bytes(&cpu, sizeof(cpu));
	add_head(BEE_SNAP_PROGRAM, sizeof(struct bee_snap_program));
	add_zeros(sizeof(struct bee_snap_program));
	add_head(BEE_SNAP_PROCESS, sizeof(struct abi_snap_process));
	at = size;
	add_zeros(sizeof(struct abi_snap_process));
	((struct abi_snap_process *)(made + at))->exe[0] = '/';
	add_head(BEE_SNAP_AREA, sizeof(area));
	add_bytes(&area, sizeof(area));
	add_pages(BEE_SNAP_PAGE, PLACE, PAGE, 3);
	add_head(BEE_SNAP_END, 0);
}

static void end_file(void)
{
	struct skep_sha256 sha;

	skep_sha256_init(&sha);
	skep_sha256_update(&sha, made, size);
	skep_sha256_final(&sha, made + size);
	size += BEE_SNAP_DIGEST;
}

/* What is wrong with the first len bytes. */
static const char *receive_bytes(u64 len)
{
	int fd = memfd_create("snapshot", MFD_CLOEXEC);
	const char *why;

	if (fd < 0 || pwrite(fd, made, len, 0) != (ssize_t)len)
		exit(1);
	why = lin_receive(fd, &snapshot, &bytes, &room);
	close(fd);
	return why;
}

static void drop_received(void)
{
	bee_os_free(bytes, room);
	lin_mirror_free();
}

static int is_refused(const char *want)
{
	const char *why = receive_bytes(size);
	int ok = why && strstr(why, want);

	drop_received();
	return ok;
}

static int has_bytes(u64 addr, u64 len, u8 byte)
{
	const u8 *p = (const u8 *)(__UINTPTR_TYPE__)addr;
	u64 i;

	for (i = 0; i < len; i++)
		if (p[i] != byte)
			return 0;
	return 1;
}

/* The size of this process, in pages. */
static u64 count_mapped(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long n = 0;

	if (!f || fscanf(f, "%lu", &n) != 1)
		exit(1);
	fclose(f);
	return n;
}

static void check_whole(void)
{
	const u8 *page;
	u64 at = 0, len, mapped;

	begin_file();
	add_pages(BEE_SNAP_EARLY, PLACE + PAGE, PAGE, 7);
	add_pages(BEE_SNAP_EARLY, PLACE + PAGE, 2 * PAGE, 8);
	add_pages(BEE_SNAP_EARLY, PAGE, PAGE, 9);	    /* before */
	add_pages(BEE_SNAP_EARLY, SKEP_IMAGE_END, PAGE, 9); /* between */
	add_pages(BEE_SNAP_EARLY, SKEP_ARENA_END - PAGE, 2 * PAGE, 9);
	add_pages(BEE_SNAP_EARLY, SKEP_IMAGE_END - PAGE, PAGE, 5);
	add_rest();
	end_file();
	tap_ok(!receive_bytes(size) && snapshot.place, "a snapshot is taken");
	tap_ok(room < 8u << 20 && snapshot.process->exe[0] == '/',
	       "what is no early page is kept");
	page = bee_snap_next(&snapshot, &at, BEE_SNAP_PAGE, &len);
	tap_ok(page && len == 8 + PAGE && page[8] == 3, "also a late page");
	mapped = count_mapped();
	tap_ok(!snapshot.place(PLACE, 3 * PAGE) && has_bytes(PLACE, PAGE, 0) &&
		       has_bytes(PLACE + PAGE, 2 * PAGE, 8),
	       "an area has the last early pages, and zeros");
	tap_ok(count_mapped() == mapped + 3,
	       "the mirror leaves no hole, into which others could map");
	tap_ok(!snapshot.place(SKEP_IMAGE_END - PAGE, PAGE) &&
		       has_bytes(SKEP_IMAGE_END - PAGE, PAGE, 5),
	       "pages at the end of the image's range");
	tap_ok(snapshot.place(SKEP_ARENA_END, PAGE) == -ENOMEM &&
		       snapshot.place(SKEP_ARENA_START - PAGE, 2 * PAGE) ==
			       -ENOMEM,
	       "nothing is placed outside of the ranges");
	munmap((void *)PLACE, 3 * PAGE);
	munmap((void *)(__UINTPTR_TYPE__)(SKEP_IMAGE_END - PAGE), PAGE);
	drop_received();
}

static void check_torn(void)
{
	u64 at;
	int bad = 0;

	begin_file();
	add_pages(BEE_SNAP_EARLY, PLACE, PAGE, 1);
	add_rest();
	end_file();
	for (at = 0; at < size; at += at < 64 || at > size - 64 ? 1 : 97) {
		bad += !receive_bytes(at);
		drop_received();
	}
	tap_ok(!bad, "a snapshot without its end is refused");
	for (at = 0; at < size; at += 61) {
		made[at] ^= 0x40;
		bad += !receive_bytes(size);
		drop_received();
		made[at] ^= 0x40;
	}
	tap_ok(!bad, "a changed byte is refused");
	made[size - 1] ^= 1;
	tap_ok(is_refused("its digest is wrong"), "it is named");
}

static void check_sections(void)
{
	begin_file();
	add_rest();
	size -= sizeof(struct bee_snap_section);
	add_pages(BEE_SNAP_EARLY, PLACE, PAGE, 1);
	add_head(BEE_SNAP_END, 0);
	end_file();
	tap_ok(is_refused("not valid"), "an early page that comes late");
	begin_file();
	add_pages(BEE_SNAP_EARLY, PLACE + 8, PAGE, 1);
	add_rest();
	end_file();
	tap_ok(is_refused("not valid"), "an early page that is not aligned");
	begin_file();
	add_pages(BEE_SNAP_EARLY, PLACE, PAGE / 2, 1);
	add_rest();
	end_file();
	tap_ok(is_refused("not valid"), "half an early page");
	begin_file();
	add_head(BEE_SNAP_EARLY, 4);
	add_zeros(8);
	add_rest();
	end_file();
	tap_ok(is_refused("not valid"), "an early page without an address");
	begin_file();
	add_head(BEE_SNAP_CPU, 1ull << 60);
	end_file();
	tap_ok(is_refused("not valid") && room < 8u << 20,
	       "a section takes no memory before it has come");
	begin_file();
	add_head(BEE_SNAP_CPU, ~0ull - 3);
	end_file();
	tap_ok(is_refused("not valid"), "a length that wraps");
	begin_file();
	add_head(BEE_SNAP_END, 0);
	end_file();
	tap_ok(is_refused("not valid"), "no sections");
	begin_file();
	made[8]++;
	tap_ok(is_refused("another version"), "another version");
	made[0]++;
	tap_ok(is_refused("no snapshot"), "another file");
}

/* A snapshot of which only so much has come that it can be refused. */
static int is_file_refused(const char *path, u64 revision, u8 byte,
			   const char *want)
{
	begin_file();
	add_file("", 7, 0);
	add_file(path, revision, byte);
	return is_refused(want);
}

static void check_files(void)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends))
		exit(1);
	lin_control = ends[0];
	control = ends[1];
	begin_file();
	add_file("", 7, 0);
	add_file("/lib/a.so", 7, 5);
	add_pages(BEE_SNAP_EARLY, PLACE, PAGE, 1);
	add_rest();
	end_file();
	tap_ok(!receive_bytes(size) && is_fit_said(),
	       "files that are here are taken, and it is said");
	drop_received();
	begin_file();
	add_file("/lib/a.so", 7, 5);
	tap_ok(is_refused("not valid") && !is_fit_said(),
	       "it is not said before all of them have come");
	tap_ok(is_file_refused("/lib/a.so", 7, 6,
			       "the library /lib/a.so is another one here"),
	       "another library, before memory has come");
	tap_ok(!is_fit_said(), "it does not fit");
	tap_ok(is_file_refused("/lib/b.so", 7, 5,
			       "the library /lib/b.so cannot be read here"),
	       "a library that is not here");
	tap_ok(is_file_refused("/lib/a.so", 8, 5, "another version of bee"),
	       "another rewriter");
	tap_ok(is_file_refused("lib/a.so", 7, 5, "not valid"),
	       "a path that is relative");
	begin_file();
	add_file("/lib/a.so", 7, 5);
	memset(made + size - ABI_PATH_MAX, '/', ABI_PATH_MAX);
	tap_ok(is_refused("not valid"), "a path without an end");
	begin_file();
	add_head(BEE_SNAP_FILE, sizeof(struct bee_snap_file) - 8);
	add_zeros(sizeof(struct bee_snap_file));
	tap_ok(is_refused("not valid"), "a file of another size");
	begin_file();
	add_pages(BEE_SNAP_EARLY, PLACE, PAGE, 1);
	add_file("/lib/a.so", 7, 5);
	add_rest();
	end_file();
	tap_ok(is_refused("not valid"), "a file after memory");
}

static void add_many(void)
{
	const u64 len = sizeof(struct bee_snap_pipe) + 4096;
	u32 i;

	for (i = 0; i < 200; i++) {
		add_head(BEE_SNAP_PIPE, len);
		add_zeros(len);
	}
}

/* Memory grows while more comes than there is room for. */
static void check_growth(void)
{
	struct skep_sha256 sha;
	int fd = memfd_create("snapshot", MFD_CLOEXEC);
	u64 i;

	begin_file();
	add_rest();
	size -= sizeof(struct bee_snap_section);
	skep_sha256_init(&sha);
	for (i = 0; i < 20; i++) {
		if (i) {
			size = 0;
			add_many();
		}
		skep_sha256_update(&sha, made, size);
		if (write(fd, made, size) != (ssize_t)size)
			exit(1);
	}
	size = 0;
	add_head(BEE_SNAP_END, 0);
	skep_sha256_update(&sha, made, size);
	skep_sha256_final(&sha, made + size);
	size += BEE_SNAP_DIGEST;
	if (write(fd, made, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET))
		exit(1);
	tap_ok(!lin_receive(fd, &snapshot, &bytes, &room) &&
		       snapshot.len > 12u << 20 && room >= snapshot.len &&
		       room < 3 * snapshot.len,
	       "more than there was room for is taken");
	close(fd);
	drop_received();
}

int main(void)
{
	check_whole();
	check_torn();
	check_sections();
	check_files();
	check_growth();
	return tap_done();
}
