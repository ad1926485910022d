/* SPDX-License-Identifier: MIT */
/*
 * A snapshot that comes through a pipe, perhaps while its program still runs
 * elsewhere. Early pages go to a mirror of the guest's addresses, from which
 * whole areas are moved into place, so nothing is copied when the end has come.
 * All else is kept as it is in a file. Nothing is used before the digest is
 * right; a sender keeps it back until the program is to go on here.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "bee/core/cache.h"
#include "bee/core/core.h"
#include "bee/core/image.h"
#include "bee/core/snapshot.h"
#include "host.h"

#define HEAD sizeof(struct bee_snap_section)
#define STEP (1u << 20) /* so much is read at once */
#define RANGES 2

struct receiver {
	struct skep_sha256 sha;
	int fd;
	u32 last; /* type of the last section */
	u64 len, room;
	u8 *bytes; /* all but early pages */
	u8 *spare; /* for early pages outside of guest memory */
	struct bee_snap_file file;
	char why[ABI_PATH_MAX + 100]; /* or empty */
};

/* The mirror of each range of guest addresses; MAP_FAILED: there is none. */
static const u64 range[RANGES][2] = {
	{SKEP_IMAGE_START, SKEP_IMAGE_END},
	{SKEP_ARENA_START, SKEP_ARENA_END},
};
static u8 *mirror[RANGES];

static u8 *find_mirror(u64 addr, u64 len)
{
	u32 i;

	for (i = 0; i < RANGES; i++)
		if (addr >= range[i][0] && addr < range[i][1] &&
		    len <= range[i][1] - addr)
			return mirror[i] + (addr - range[i][0]);
	return NULL;
}

static int make_mirrors(void)
{
	u32 i;

	for (i = 0; i < RANGES; i++) {
		mirror[i] = mmap(
			NULL, range[i][1] - range[i][0], PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (mirror[i] == MAP_FAILED)
			return -1;
	}
	return 0;
}

void lin_mirror_free(void)
{
	u32 i;

	for (i = 0; i < RANGES; i++)
		if (mirror[i] && mirror[i] != MAP_FAILED)
			munmap(mirror[i], range[i][1] - range[i][0]);
	memset(mirror, 0, sizeof(mirror));
}

/* The area becomes what came early: zeros where nothing did. The mirror keeps
 * its addresses: memory that is mapped later must not lie in it when it is
 * freed. */
static s64 place_area(u64 start, u64 len)
{
	const int how = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
	u8 *from = find_mirror(start, len);

	return from && mremap(from, len, len, how,
			      (void *)(__UINTPTR_TYPE__)start) != MAP_FAILED
		       ? 0
		       : -ENOMEM;
}

static int read_part(struct receiver *r, void *to, u64 len)
{
	if (lin_read_all(r->fd, to, len))
		return -1;
	skep_sha256_update(&r->sha, to, len);
	return 0;
}

/* Memory grows with what has come, not with what a section says of itself. */
static u8 *find_room(struct receiver *r, u64 len)
{
	u64 room = r->room * 2;
	void *p;

	if (len <= r->room - r->len)
		return r->bytes + r->len;
	p = mremap(r->bytes, r->room, room, MREMAP_MAYMOVE);
	if (p == MAP_FAILED)
		return NULL;
	r->bytes = p;
	r->room = room;
	return r->bytes + r->len;
}

static int keep_part(struct receiver *r, u64 len)
{
	u64 n;
	u8 *to;

	for (; len; len -= n) {
		n = len < STEP ? len : STEP;
		to = find_room(r, n);
		if (!to || read_part(r, to, n))
			return -1;
		r->len += n;
	}
	return 0;
}

static int take_early(struct receiver *r, u64 len)
{
	u64 addr;
	u8 *to;

	if (r->last > BEE_SNAP_EARLY || len < 8 || read_part(r, &addr, 8) ||
	    bee_snap_pages_wrong(addr, len - 8))
		return -1;
	to = find_mirror(addr, len - 8);
	return read_part(r, to ? to : r->spare, len - 8);
}

/* What could be known only when the program stands still would be too late. */
static int take_file(struct receiver *r, u64 len)
{
	struct bee_snap_file *f = &r->file;
	u8 digest[sizeof(f->sha256)];

	if (r->last > BEE_SNAP_FILE || len != sizeof(*f) ||
	    read_part(r, f, len) || bee_snap_file_wrong(f))
		return -1;
	r->last = BEE_SNAP_FILE;
	if (f->revision != bee_rewriter_revision())
		snprintf(r->why, sizeof(r->why),
			 "another version of bee wrote it, which rewrites "
			 "programs in another way");
	else if (*f->path && bee_file_digest(&lin_host, f->path, digest))
		snprintf(r->why, sizeof(r->why),
			 "the library %s cannot be read here", f->path);
	else if (*f->path && memcmp(digest, f->sha256, sizeof(digest)))
		snprintf(r->why, sizeof(r->why),
			 "the library %s is another one here", f->path);
	return *r->why ? -1 : 0;
}

/* 1: that was the last one. */
static int take_section(struct receiver *r)
{
	const char fits = SKEP_SNAPSHOT_FITS;
	struct bee_snap_section head;

	if (read_part(r, &head, HEAD))
		return -1;
	if (head.type == BEE_SNAP_FILE)
		return take_file(r, head.len);
	if (r->last == BEE_SNAP_FILE && lin_control >= 0)
		send(lin_control, &fits, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (head.type == BEE_SNAP_EARLY) {
		if (take_early(r, head.len))
			return -1;
		r->last = BEE_SNAP_EARLY;
		return 0;
	}
	r->last = head.type;
	if (!find_room(r, HEAD) || head.len > ~0ull - 7)
		return -1;
	memcpy(r->bytes + r->len, &head, HEAD);
	r->len += HEAD;
	if (keep_part(r, (head.len + 7) & ~7ull))
		return -1;
	return head.type == BEE_SNAP_END;
}

static const char *take_all(struct receiver *r, struct bee_snapshot *s)
{
	u8 digest[BEE_SNAP_DIGEST], said[BEE_SNAP_DIGEST];
	const char *why;
	int last;

	if (keep_part(r, sizeof(struct bee_snap_head)))
		return "it is no snapshot of bee";
	why = bee_snap_head_wrong(r->bytes);
	if (why)
		return why;
	while (!(last = take_section(r)))
		;
	if (*r->why)
		return r->why;
	if (last < 0 || lin_read_all(r->fd, said, sizeof(said)))
		return "it ended early, or its contents are not valid";
	skep_sha256_final(&r->sha, digest);
	if (memcmp(digest, said, sizeof(digest)))
		return "it is damaged: its digest is wrong";
	why = bee_snap_walk(s, r->bytes, r->len);
	s->place = place_area;
	return why;
}

const char *lin_receive(int fd, struct bee_snapshot *s, u8 **bytes, u64 *room)
{
	static struct receiver r;
	const char *why = "there is too little memory";

	memset(&r, 0, sizeof(r));
	r.fd = fd;
	r.room = 4 * STEP;
	bee_sha256_init(&r.sha);
	r.bytes = bee_os_alloc(r.room);
	r.spare = bee_os_alloc(STEP);
	if (r.bytes && r.spare && !make_mirrors())
		why = take_all(&r, s);
	if (r.spare)
		bee_os_free(r.spare, STEP);
	*bytes = r.bytes;
	*room = r.room;
	return why;
}
