/* SPDX-License-Identifier: MIT */
/*
 * Regular files that the program has open, and that have no name any more: a
 * snapshot has their contents. Nothing else can open them, so they are the
 * program's own. Owns nothing.
 */
#include "base/errno.h"
#include "bee/core/core.h"
#include "bee/core/snapshot.h"

#define S_IFMT 0170000u
#define S_IFREG 0100000u

static int stat_removed(s32 handle, struct abi_stat *st)
{
	struct abi_file_op op = {.verb = ABI_FILE_STAT, .stat = st};

	return bee.os->file(handle, &op) >= 0 &&
	       (st->mode & S_IFMT) == S_IFREG && !st->nlink;
}

/* The file of description `i`; 0: it has a name, or is none. */
static int find_removed(u32 i, struct abi_stat *st, s32 *handle)
{
	static struct abi_snap_desc d;

	*handle = -1;
	return abi_snap_desc(bee.proc, i, &d, handle) > 0 &&
	       d.kind == ABI_SNAP_FILE && stat_removed(*handle, st);
}

/* The first description of the file of description `i`. */
static u32 find_first(u32 i, const struct abi_stat *st)
{
	struct abi_stat other;
	s32 handle;
	u32 at;

	for (at = 0; at < i; at++)
		if (find_removed(at, &other, &handle) && other.dev == st->dev &&
		    other.ino == st->ino)
			break;
	return at;
}

int bee_is_removed(struct abi_snap_desc *d, s32 handle)
{
	struct abi_stat st;

	if (!stat_removed(handle, &st))
		return 0;
	d->kind = ABI_SNAP_REMOVED;
	d->pipe = find_first(d->index, &st);
	return 1;
}

static void put_content(struct bee_save *s, u32 number, s32 handle, u64 size)
{
	struct bee_snap_content c = {.number = number};
	u64 len;
	s64 n;

	for (; !s->failed && c.offset < size; c.offset += len) {
		n = s->read_data(s, handle, &c.offset, s->buf,
				 BEE_SNAP_CONTENT_MAX);
		if (n < 0)
			bee_save_fail(s, "a removed file", " cannot be read",
				      "");
		if (n <= 0)
			return;
		len = (u64)n;
		bee_save_two(s, BEE_SNAP_CONTENT, &c, sizeof(c), s->buf, len);
	}
}

void bee_save_removed(struct bee_save *s)
{
	struct bee_snap_removed f;
	struct abi_stat st;
	s32 handle;
	u32 i;

	for (i = 0; i < BEE_SNAP_DESCS && !s->failed; i++) {
		if (!find_removed(i, &st, &handle) || find_first(i, &st) != i)
			continue;
		f = (struct bee_snap_removed){
			.number = i,
			.mode = st.mode & 07777,
			.size = st.size,
			.atime_ns = st.atime_ns,
			.mtime_ns = st.mtime_ns,
		};
		bee_save_two(s, BEE_SNAP_REMOVED, &f, sizeof(f), 0, 0);
		put_content(s, i, handle, st.size);
	}
}
