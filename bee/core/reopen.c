/* SPDX-License-Identifier: MIT */
/*
 * The files and pipes of a process that is made from a snapshot: restore.c.
 * Owns the tables of what several processes of the run have, from
 * bee_restore_pipes and bee_restore_shared to the end of bee_restore_files; a
 * forked process has a copy.
 */
#include "base/errno.h"
#include "bee/core/core.h"
#include "bee/core/restore.h"

#define BUF 0x100000u
/* Flags of open(2): the access mode, APPEND, NONBLOCK, SYNC, DIRECT, LARGEFILE,
 * NOATIME, PATH. */
#define KEPT 0x34dc03u
#define O_RDWR 2u
#define O_CREAT 0x40u
#define O_EXCL 0x80u
#define O_DIRECTORY 0x10000u
#define S_IFMT 0170000u
#define S_IFREG 0100000u

/* Pipes of the run; a forked process has a copy. */
static struct {
	u32 pipe, filled;
	s32 handle[2]; /* -1: taken */
} made[BEE_SNAP_PIPES];
static u32 pipes;

/* Files that processes share, by what they were. */
static struct {
	u32 number, saved, group;
	s32 handle;
	u32 taken;
} shares[BEE_SNAP_SHARES];
static u32 shared;

static int report_change(struct restore *r, const struct abi_snap_desc *d,
			 u64 size)
{
	char text[24];
	struct abi_text t;

	if (size <= d->size)
		return bee_restore_fail(r, "the file ", d->path,
					" has changed since the snapshot");
	bee_restore_fail(r, "the file ", d->path,
			 " has changed or grown since the "
			 "snapshot; if it has grown, cut it back "
			 "with truncate -s ");
	abi_text_init(&t, text, sizeof(text));
	abi_text_dec(&t, d->size);
	abi_strcpy(r->why + abi_strlen(r->why), text,
		   r->size - abi_strlen(r->why));
	return -1;
}

/* Reads only as much as there was: the name may be that of a device now. */
static int check_file(struct restore *r, const struct abi_snap_desc *d)
{
	struct abi_open open = {.path = d->path};
	struct abi_stat st = {0};
	struct abi_file_op op = {.verb = ABI_FILE_STAT, .stat = &st};
	struct abi_io io = {.len = BUF};
	struct skep_sha256 sha;
	u8 digest[32];
	s64 n = 1;

	if (r->os->file_open(&open))
		return bee_restore_fail(r, "the file ", d->path,
					" cannot be opened");
	if (r->os->file(open.handle, &op) || (st.mode & S_IFMT) != S_IFREG ||
	    st.size != d->size) {
		r->os->file_close(open.handle);
		return report_change(r, d, st.size);
	}
	io.buf = bee_os_alloc(BUF);
	bee_sha256_init(&sha);
	for (; io.buf && n > 0 && (u64)io.offset <= d->size; io.offset += n) {
		n = r->os->file_read(open.handle, &io);
		if (n > 0)
			skep_sha256_update(&sha, io.buf, (u64)n);
	}
	skep_sha256_final(&sha, digest);
	r->os->file_close(open.handle);
	if (!io.buf || n < 0)
		return bee_restore_fail(r, "the file ", d->path,
					" cannot be read");
	bee_os_free(io.buf, BUF);
	if ((u64)io.offset == d->size && !abi_memcmp(digest, d->sha256, 32))
		return 0;
	return report_change(r, d, (u64)io.offset);
}

/* -1: this process shares it with none. */
static s32 take_shared(struct restore *r, const struct abi_snap_desc *d)
{
	u32 i;

	for (i = 0; i < shared && d->kind == ABI_SNAP_FILE; i++)
		if (shares[i].number == r->s->number &&
		    shares[i].saved == d->handle && !shares[i].taken) {
			shares[i].taken = 1;
			return shares[i].handle;
		}
	return -1;
}

/* Those of other processes. Several entries are one description. */
static void close_shared(const struct abi_host *os)
{
	u32 i, j;

	for (i = 0; i < shared; i++) {
		for (j = 0; j < shared; j++)
			if (shares[j].handle == shares[i].handle &&
			    (shares[j].taken || j < i))
				break;
		if (j == shared)
			os->file_close(shares[i].handle);
	}
	shared = 0;
}

static int open_path(struct restore *r, const struct abi_snap_desc *d,
		     s32 *handle)
{
	struct abi_open open = {.path = d->path, .flags = d->flags & KEPT};

	if (d->kind == ABI_SNAP_DIR)
		open.flags |= O_DIRECTORY;
	if (d->kind == ABI_SNAP_FILE && check_file(r, d))
		return -1;
	*handle = take_shared(r, d);
	if (*handle >= 0)
		return 0;
	if (r->os->file_open(&open))
		return bee_restore_fail(r,
					d->kind == ABI_SNAP_DIR ? "the folder "
								: "the file ",
					d->path, " cannot be opened");
	*handle = open.handle;
	if ((open.type & S_IFMT) == (d->type & S_IFMT))
		return 0;
	r->os->file_close(open.handle);
	return bee_restore_fail(r, "", d->path,
				" has another type than before");
}

static int take_pipe(struct restore *r, struct abi_snap_desc *d, s32 *handle)
{
	u32 i, end = d->writes != 0;

	for (i = 0; i < pipes; i++)
		if (made[i].pipe == d->pipe && made[i].handle[end] >= 0) {
			*handle = made[i].handle[end];
			made[i].handle[end] = -1;
			d->pipe = i + 1; /* abi's own number */
			return 0;
		}
	return bee_restore_damage(r, "pipes");
}

/* Ends that only other processes have, or nobody. */
static void close_pipes(const struct abi_host *os)
{
	u32 i, end;

	for (i = 0; i < pipes; i++)
		for (end = 0; end < 2; end++)
			if (made[i].handle[end] >= 0)
				os->file_close(made[i].handle[end]);
	pipes = 0;
}

static int take_stream(struct restore *r, struct abi_snap_desc *d, s32 *handle)
{
	static const char *const names[] = {"input", "output", "error"};
	u32 type, flags;
	s64 n;

	if (d->std > 2)
		return bee_restore_damage(r, "streams");
	n = bee_os_std(d->std, &type, &flags);
	if (n < 0)
		return bee_restore_fail(r, "it uses standard ", names[d->std],
					", which is closed");
	d->type = type;
	d->flags = flags;
	*handle = (s32)n;
	return 0;
}

static int restore_desc(struct restore *r, const struct abi_snap_desc *from)
{
	static struct abi_snap_desc d;
	s32 handle = -1;
	int err = 0;

	d = *from;
	d.path[sizeof(d.path) - 1] = 0;
	switch (d.kind) {
	case ABI_SNAP_REMOVED: /* all of one file together */
		return 0;
	case ABI_SNAP_FILE:
	case ABI_SNAP_DIR:
		err = open_path(r, &d, &handle);
		break;
	case ABI_SNAP_NULL:
	case ABI_SNAP_EVENT:
	case ABI_SNAP_EPOLL:
	case ABI_SNAP_TIMER:
	case ABI_SNAP_SIGNAL:
		break;
	case ABI_SNAP_STD:
		err = take_stream(r, &d, &handle);
		break;
	case ABI_SNAP_PIPE:
		err = take_pipe(r, &d, &handle);
		break;
	default:
		return bee_restore_damage(r, "descriptors");
	}
	if (err)
		return err;
	return abi_restore_desc(bee.proc, &d, handle)
		       ? bee_restore_damage(r, "descriptors")
		       : 0;
}

/* What is in it is the same in each process that can read it. */
static int fill_pipe(struct restore *r, u32 i, const struct bee_snap_pipe *p,
		     u64 len)
{
	struct abi_io io = {(void *)(__UINTPTR_TYPE__)(p + 1), len - sizeof(*p),
			    ABI_STREAM};

	if (!p->reads || made[i].filled)
		return 0;
	made[i].filled = 1;
	if (io.len && r->os->file_write(made[i].handle[1], &io) != (s64)io.len)
		return bee_restore_fail(r, "a pipe cannot be filled", "", "");
	return 0;
}

static int make_pipe(struct restore *r, const struct bee_snap_pipe *p, u64 len)
{
	struct abi_file_op op = {.verb = ABI_FILE_PIPE_SIZE,
				 .len = p->capacity};
	u32 i;

	for (i = 0; i < pipes && made[i].pipe != p->pipe; i++)
		;
	if (i < pipes)
		return fill_pipe(r, i, p, len);
	if (i == BEE_SNAP_PIPES || !r->os->pipe ||
	    r->os->pipe(made[i].handle, 0))
		return bee_restore_fail(r, "a pipe cannot be made", "", "");
	made[i].pipe = p->pipe;
	made[i].filled = 0;
	pipes++;
	if (r->os->file(made[i].handle[1], &op) < 0)
		return bee_restore_fail(r, "a pipe cannot have its size", "",
					"");
	return fill_pipe(r, i, p, len);
}

static int make_pipes(struct restore *r)
{
	const void *p;
	u64 at = 0, len;

	while ((p = bee_snap_next(r->s, &at, BEE_SNAP_PIPE, &len)))
		if (make_pipe(r, p, len))
			return -1;
	return 0;
}

int bee_restore_pipes(const struct abi_host *os, const struct bee_snapshot *s,
		      char *why, u64 size)
{
	struct restore r = {.os = os, .s = s, .why = why, .size = size};

	return make_pipes(&r);
}

/* The first process of a group that has the file says how it was opened. */
static int open_group(struct restore *r, const struct abi_snap_desc *d,
		      u32 group, s32 *handle)
{
	u32 i;

	for (i = 0; i < shared; i++)
		if (shares[i].group == group) {
			*handle = shares[i].handle;
			return 0;
		}
	return open_path(r, d, handle);
}

int bee_restore_shared(const struct abi_host *os, const struct bee_snapshot *s,
		       const struct bee_snap_shared *of, char *why, u64 size)
{
	struct restore r = {.os = os, .s = s, .why = why, .size = size};
	const struct abi_snap_desc *d;
	u64 at = 0, len;
	s32 handle;

	while ((d = bee_snap_next(s, &at, BEE_SNAP_DESC, &len)))
		if (d->kind == ABI_SNAP_FILE && d->handle == of->handle)
			break;
	if (!d)
		return 0;
	if (shared == BEE_SNAP_SHARES ||
	    !abi_is_string(d->path, sizeof(d->path)))
		return bee_restore_damage(&r, "shared files");
	if (open_group(&r, d, of->group, &handle))
		return -1;
	shares[shared].number = s->number;
	shares[shared].saved = of->handle;
	shares[shared].group = of->group;
	shares[shared].handle = handle;
	shares[shared++].taken = 0;
	return 0;
}

/* Removed files ------------------------------------------------------------ */

/* A name that the file has until all of its descriptions are there. */
static s64 make_name(struct restore *r, const char *folder,
		     struct abi_open *open)
{
	static char path[ABI_PATH_MAX];
	struct abi_text t;
	u64 number;
	s64 err = r->os->random(&number, sizeof(number));

	if (err)
		return err;
	abi_text_init(&t, path, sizeof(path));
	abi_text_str(&t, folder);
	abi_text_str(&t, ".removed-");
	abi_text_hex(&t, number, 16);
	open->path = path;
	open->mode = 0600;
	open->flags = O_RDWR | O_CREAT | O_EXCL;
	return r->os->file_open(open);
}

/* Makes it where it was or, if that folder is gone, where such files are. */
static s64 make_removed(struct restore *r, const char *old,
			struct abi_open *open)
{
	static const char *const folders[] = {"/dev/shm/", "/tmp/", "/var/tmp/",
					      "/"};
	static char folder[ABI_PATH_MAX];
	u64 n = abi_strcpy(folder, old, sizeof(folder) - 32);
	s64 err = -LINUX_ENOENT;
	u32 i;

	while (n && folder[n - 1] != '/')
		n--;
	folder[n] = 0;
	if (n > 1)
		err = make_name(r, folder, open);
	for (i = n > 1; err && i < sizeof(folders) / sizeof(folders[0]); i++)
		err = make_name(r, folders[i], open);
	return err;
}

static s64 write_whole(struct restore *r, s32 handle, u64 offset,
		       const void *bytes, u64 len)
{
	struct abi_io io = {(void *)(__UINTPTR_TYPE__)bytes, len, (s64)offset};
	s64 n;

	for (; io.len; io.len -= (u64)n) {
		n = r->os->file_write(handle, &io);
		if (n <= 0)
			return n ? n : -LINUX_EIO;
		io.buf = (u8 *)io.buf + n;
		io.offset += n;
	}
	return 0;
}

static s64 fill_removed(struct restore *r, const struct bee_snap_removed *f,
			s32 handle)
{
	struct abi_file_op op = {.verb = ABI_FILE_TRUNCATE, .len = f->size};
	const struct bee_snap_content *c;
	u64 at = 0, len;
	s64 err = r->os->file(handle, &op);

	while (err >= 0 &&
	       (c = bee_snap_next(r->s, &at, BEE_SNAP_CONTENT, &len)))
		if (c->number == f->number)
			err = write_whole(r, handle, c->offset, c + 1,
					  len - sizeof(*c));
	if (err < 0)
		return err;
	op = (struct abi_file_op){.verb = ABI_FILE_CHMOD,
				  .mode = f->mode & 07777};
	err = r->os->file(handle, &op);
	if (err < 0)
		return err;
	op = (struct abi_file_op){.verb = ABI_FILE_UTIMENS,
				  .times = {f->atime_ns, f->mtime_ns}};
	return r->os->file(handle, &op);
}

static int open_removed(struct restore *r, const struct bee_snap_removed *f,
			const char *path)
{
	const struct abi_snap_desc *d;
	struct abi_open open;
	u64 at = 0, len;

	while ((d = bee_snap_next(r->s, &at, BEE_SNAP_DESC, &len))) {
		if (d->kind != ABI_SNAP_REMOVED || d->pipe != f->number)
			continue;
		open = (struct abi_open){.path = path,
					 .flags = d->flags & KEPT};
		if (r->os->file_open(&open))
			return bee_restore_fail(
				r, "a removed file cannot be opened", "", "");
		if (abi_restore_desc(bee.proc, d, open.handle))
			return bee_restore_damage(r, "descriptors");
	}
	return 0;
}

static const char *find_path(struct restore *r, u32 number)
{
	const struct abi_snap_desc *d;
	u64 at = 0, len;

	while ((d = bee_snap_next(r->s, &at, BEE_SNAP_DESC, &len)))
		if (d->kind == ABI_SNAP_REMOVED && d->pipe == number &&
		    abi_is_string(d->path, sizeof(d->path)))
			return d->path;
	return "";
}

static int restore_removed(struct restore *r, const struct bee_snap_removed *f)
{
	struct abi_path_op unlink = {.verb = ABI_PATH_UNLINK};
	struct abi_open open = {0};
	s64 err = make_removed(r, find_path(r, f->number), &open);
	int rc = 0;

	if (err)
		return bee_restore_fail(
			r, "no folder has room for a removed file", "", "");
	/* before its mode and times are set, which opening needs and changes */
	rc = open_removed(r, f, open.path);
	if (!rc && fill_removed(r, f, open.handle))
		rc = bee_restore_fail(r, "a removed file cannot be filled", "",
				      "");
	unlink.path = open.path;
	if (r->os->path(&unlink) < 0 && !rc)
		rc = bee_restore_fail(r, "a removed file keeps its name ",
				      open.path, "");
	r->os->file_close(open.handle);
	return rc;
}

int bee_restore_files(struct restore *r)
{
	const void *p;
	u64 at = 0, len;

	if (make_pipes(r))
		return -1;
	while ((p = bee_snap_next(r->s, &at, BEE_SNAP_REMOVED, &len)))
		if (restore_removed(r, p))
			return -1;
	at = 0;
	while ((p = bee_snap_next(r->s, &at, BEE_SNAP_DESC, &len)))
		if (restore_desc(r, p))
			return -1;
	at = 0;
	while ((p = bee_snap_next(r->s, &at, BEE_SNAP_NUMBER, &len)))
		if (abi_restore_number(bee.proc, p))
			return bee_restore_damage(r, "numbers");
	at = 0;
	while ((p = bee_snap_next(r->s, &at, BEE_SNAP_WATCH, &len)))
		if (abi_restore_watch(bee.proc, p))
			return bee_restore_damage(r, "interest lists");
	close_pipes(r->os);
	close_shared(r->os);
	return 0;
}
