/* SPDX-License-Identifier: MIT */
/*
 * Makes a process from a snapshot. The program was loaded and rewritten from
 * its file as always, and so are its libraries, so no text comes from the
 * snapshot; everything else is the guest's own data. Runs once, before guest
 * threads exist.
 */
#include "abi/include/page.h"
#include "base/errno.h"
#include "bee/core/core.h"
#include "bee/core/image.h"
#include "bee/core/snapshot.h"

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
#define S_IFDIR 0040000u
#define THREADS 1024u

/* Standard XSAVE form, by thread; each is loaded once. */
static u8 *vecs[THREADS];
static u64 vec_len;
static u64 slots[THREADS][3];

struct restore {
	const struct abi_host *os;
	const struct bee_snapshot *s;
	char *why;
	u64 size;
	struct {
		u32 pipe;
		s32 handle[2]; /* -1: taken */
	} pipe[BEE_SNAP_PIPES];
	u32 pipes;
};

static void *guest_pointer(u64 addr)
{
	return (void *)(__UINTPTR_TYPE__)addr;
}

static int report_failure(struct restore *r, const char *before,
			  const char *name, const char *after)
{
	struct abi_text t;

	abi_text_init(&t, r->why, r->size);
	abi_text_str(&t, before);
	abi_text_str(&t, name);
	abi_text_str(&t, after);
	return -1;
}

static int report_damage(struct restore *r, const char *what)
{
	return report_failure(r, "its ", what, " are not valid");
}

/* Program ------------------------------------------------------------------ */

static int add_text(void *to, u64 addr, u64 len)
{
	skep_sha256_update(to, guest_pointer(addr), len);
	return 0;
}

static void digest_text(const struct bee_image *image, u8 digest[32])
{
	struct skep_sha256 sha;

	bee_sha256_init(&sha);
	bee_image_visit_text(image, add_text, &sha);
	skep_sha256_final(&sha, digest);
}

static int check_program(struct restore *r)
{
	const struct bee_snap_program *program = r->s->program;
	u8 text[32];

	if (abi_memcmp(bee.image.sha_file, program->file, 32))
		return report_failure(r, "the program ", bee.options->program,
				      " has changed since");
	digest_text(&bee.image, text);
	if (abi_memcmp(text, program->text, 32))
		return report_failure(
			r,
			"this version of bee rewrites the program in "
			"another way; use the bee that wrote it",
			"", "");
	return 0;
}

/* Libraries ---------------------------------------------------------------- */

static int is_free_range(u64 start, u64 end)
{
	return !((start | end) & ABI_PAGE_MASK) &&
	       abi_space_range(start, end) && !bee_text_meets(start, end);
}

/* Stubs are near their text, which jumps to them. */
static int library_wrong(const struct bee_snap_library *l)
{
	u64 low = l->text < l->stubs ? l->text : l->stubs;
	u64 high = l->text_end > l->stubs_end ? l->text_end : l->stubs_end;

	if (l->path[0] != '/' || !abi_is_string(l->path, sizeof(l->path)))
		return 1;
	return !l->is_loader &&
	       (l->text == l->text_end ||
		!is_free_range(l->text, l->text_end) ||
		!is_free_range(l->stubs, l->stubs_end) ||
		high - low > ABI_TEXT_REACH ||
		(l->text < l->stubs_end && l->stubs < l->text_end));
}

static int restore_library(struct restore *r, const struct bee_snap_library *l)
{
	const struct bee_image *image = &bee.loader;
	u8 digest[32];
	s64 err = 0;

	if (library_wrong(l))
		return report_damage(r, "libraries");
	if (!l->is_loader)
		err = bee_library_load(l, &image);
	if (err == -LINUX_ENOMEM)
		return report_failure(r, "there is too little memory", "", "");
	if (err && err != -LINUX_ENOEXEC)
		return report_failure(r, "the library ", l->path,
				      " cannot be read");
	if (!err)
		digest_text(image, digest);
	if (err || abi_memcmp(digest, l->digest, sizeof(digest)))
		return report_failure(
			r, "the library ", l->path,
			" is another one here, or this version of bee rewrites "
			"it in another way");
	return 0;
}

static int restore_libraries(struct restore *r)
{
	const struct bee_snap_library *l;
	u64 at = 0, len;

	while ((l = bee_snap_next(r->s, &at, BEE_SNAP_LIBRARY, &len)))
		if (restore_library(r, l))
			return -1;
	return 0;
}

/* Memory ------------------------------------------------------------------- */

/* Whether each page of an area is text. */
static int is_text(const struct abi_snap_area *a)
{
	u64 at = a->start, end;

	for (; at < a->end; at = end) {
		end = bee_text_end(at);
		if (end == at)
			return 0;
	}
	return 1;
}

/* Executable areas are the text as it was loaded; others are made anew. */
static int make_area(struct restore *r, const struct abi_snap_area *a)
{
	const u32 write = ABI_PROT_READ | ABI_PROT_WRITE;
	int rc = abi_restore_area(bee.proc, a);

	if (rc == -LINUX_ENOMEM)
		return report_failure(
			r,
			"it needs more memory than there is, or than "
			"--memory allows",
			"", "");
	if (rc || (a->prot & ABI_PROT_EXEC ? !is_text(a)
					   : bee_text_meets(a->start, a->end)))
		return report_damage(r, "areas");
	if (a->prot & ABI_PROT_EXEC)
		return 0;
	if (a->bits & ABI_SNAP_COMMITTED)
		rc = (int)(r->s->place
				   ? r->s->place(a->start, a->end - a->start)
				   : r->os->mem_commit(a->start,
						       a->end - a->start,
						       write));
	else
		rc = (int)r->os->mem_release(a->start, a->end - a->start);
	return rc ? report_failure(r, "there is too little memory", "", "") : 0;
}

/* Of early pages only those count that lie in memory of the program, where text
 * is not: all of it is writable now. */
static void copy_early(u64 addr, const u8 *page, u64 len)
{
	struct abi_snap_area a;
	u64 from, to, at = addr;
	u32 is_file;

	for (; at < addr + len && abi_snap_area(bee.proc, at, &a, &is_file);
	     at = a.end) {
		from = a.start > addr ? a.start : addr;
		to = a.end < addr + len ? a.end : addr + len;
		if (from < to && a.bits & ABI_SNAP_COMMITTED &&
		    !(a.prot & ABI_PROT_EXEC))
			abi_memcpy(guest_pointer(from), page + (from - addr),
				   to - from);
	}
}

static int check_mapped(void *to, u64 addr, u64 len)
{
	struct abi_snap_area a;
	u64 at = addr;
	u32 is_file;

	(void)to;
	while (at < addr + len && abi_snap_area(bee.proc, at, &a, &is_file) &&
	       a.start <= at && a.prot & ABI_PROT_EXEC)
		at = a.end;
	return at < addr + len;
}

/* abi must know of all text: it would map other memory there. */
static int check_text(struct restore *r)
{
	return bee_text_visit(check_mapped, 0) ? report_damage(r, "areas") : 0;
}

/* All pages of an area lie in it, and it is writable now. */
static int restore_memory(struct restore *r)
{
	const struct abi_snap_area *a;
	const u8 *page;
	u64 at = 0, len, addr;

	while ((a = bee_snap_next(r->s, &at, BEE_SNAP_AREA, &len)))
		if (make_area(r, a))
			return -1;
	if (check_text(r))
		return -1;
	at = 0;
	while ((page = bee_snap_next(r->s, &at, BEE_SNAP_EARLY, &len))) {
		abi_memcpy(&addr, page, 8);
		copy_early(addr, page + 8, len - 8);
	}
	at = 0;
	while ((page = bee_snap_next(r->s, &at, BEE_SNAP_PAGE, &len))) {
		abi_memcpy(&addr, page, 8);
		abi_memcpy(guest_pointer(addr), page + 8, len - 8);
	}
	at = 0;
	while ((a = bee_snap_next(r->s, &at, BEE_SNAP_AREA, &len)))
		if (a->bits & ABI_SNAP_COMMITTED &&
		    !(a->prot & ABI_PROT_EXEC) &&
		    r->os->mem_protect(a->start, a->end - a->start, a->prot))
			return report_failure(
				r, "its memory cannot be protected", "", "");
	return 0;
}

/* Files -------------------------------------------------------------------- */

static int report_change(struct restore *r, const struct abi_snap_desc *d,
			 u64 size)
{
	char text[24];
	struct abi_text t;

	if (size <= d->size)
		return report_failure(r, "the file ", d->path,
				      " has changed since the snapshot");
	report_failure(r, "the file ", d->path,
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
		return report_failure(r, "the file ", d->path,
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
		return report_failure(r, "the file ", d->path,
				      " cannot be read");
	bee_os_free(io.buf, BUF);
	if ((u64)io.offset == d->size && !abi_memcmp(digest, d->sha256, 32))
		return 0;
	return report_change(r, d, (u64)io.offset);
}

static int open_path(struct restore *r, const struct abi_snap_desc *d,
		     s32 *handle)
{
	struct abi_open open = {.path = d->path, .flags = d->flags & KEPT};

	if (d->kind == ABI_SNAP_DIR)
		open.flags |= O_DIRECTORY;
	if (d->kind == ABI_SNAP_FILE && check_file(r, d))
		return -1;
	if (r->os->file_open(&open))
		return report_failure(r,
				      d->kind == ABI_SNAP_DIR ? "the folder "
							      : "the file ",
				      d->path, " cannot be opened");
	*handle = open.handle;
	if ((open.type & S_IFMT) == (d->type & S_IFMT))
		return 0;
	r->os->file_close(open.handle);
	return report_failure(r, "", d->path, " has another type than before");
}

static int take_pipe(struct restore *r, const struct abi_snap_desc *d,
		     s32 *handle)
{
	u32 i, end = d->writes != 0;

	for (i = 0; i < r->pipes; i++)
		if (r->pipe[i].pipe == d->pipe && r->pipe[i].handle[end] >= 0) {
			*handle = r->pipe[i].handle[end];
			r->pipe[i].handle[end] = -1;
			return 0;
		}
	return report_damage(r, "pipes");
}

static int take_stream(struct restore *r, struct abi_snap_desc *d, s32 *handle)
{
	static const char *const names[] = {"input", "output", "error"};
	u32 type, flags;
	s64 n;

	if (d->std > 2)
		return report_damage(r, "streams");
	n = bee_os_std(d->std, &type, &flags);
	if (n < 0)
		return report_failure(r, "it uses standard ", names[d->std],
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
		return report_damage(r, "descriptors");
	}
	if (err)
		return err;
	return abi_restore_desc(bee.proc, &d, handle)
		       ? report_damage(r, "descriptors")
		       : 0;
}

static int make_pipe(struct restore *r, const struct bee_snap_pipe *p, u64 len)
{
	struct abi_file_op op = {.verb = ABI_FILE_PIPE_SIZE,
				 .len = p->capacity};
	struct abi_io io = {(void *)(__UINTPTR_TYPE__)(p + 1), len - sizeof(*p),
			    ABI_STREAM};
	s32 *handle = r->pipe[r->pipes].handle;

	if (r->pipes == BEE_SNAP_PIPES || !r->os->pipe ||
	    r->os->pipe(handle, 0))
		return report_failure(r, "a pipe cannot be made", "", "");
	r->pipe[r->pipes++].pipe = p->pipe;
	if (r->os->file(handle[1], &op) < 0)
		return report_failure(r, "a pipe cannot have its size", "", "");
	if (io.len && r->os->file_write(handle[1], &io) != (s64)io.len)
		return report_failure(r, "a pipe cannot be filled", "", "");
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
			return report_failure(
				r, "a removed file cannot be opened", "", "");
		if (abi_restore_desc(bee.proc, d, open.handle))
			return report_damage(r, "descriptors");
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
		return report_failure(
			r, "no folder has room for a removed file", "", "");
	/* before its mode and times are set, which opening needs and changes */
	rc = open_removed(r, f, open.path);
	if (!rc && fill_removed(r, f, open.handle))
		rc = report_failure(r, "a removed file cannot be filled", "",
				    "");
	unlink.path = open.path;
	if (r->os->path(&unlink) < 0 && !rc)
		rc = report_failure(r, "a removed file keeps its name ",
				    open.path, "");
	r->os->file_close(open.handle);
	return rc;
}

static int restore_files(struct restore *r)
{
	const void *p;
	u64 at = 0, len;

	while ((p = bee_snap_next(r->s, &at, BEE_SNAP_PIPE, &len)))
		if (make_pipe(r, p, len))
			return -1;
	at = 0;
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
			return report_damage(r, "numbers");
	at = 0;
	while ((p = bee_snap_next(r->s, &at, BEE_SNAP_WATCH, &len)))
		if (abi_restore_watch(bee.proc, p))
			return report_damage(r, "interest lists");
	return 0;
}

/* Threads, and all --------------------------------------------------------- */

static int keep_vec(const struct abi_snap_thread *t)
{
	if (!t->tid)
		return 0;
	vecs[t->index] = bee_os_alloc(BEE_VEC_SIZE);
	if (!vecs[t->index])
		return -1;
	abi_memcpy(vecs[t->index], t + 1, vec_len);
	abi_memcpy(slots[t->index], t->slot, sizeof(t->slot));
	return 0;
}

static int check_cwd(struct restore *r)
{
	const char *cwd = r->s->process->cwd;
	struct abi_stat st;
	struct abi_path_op op = {
		.verb = ABI_PATH_STAT, .path = cwd, .stat = &st};

	if (r->os->path(&op) < 0 || (st.mode & S_IFMT) != S_IFDIR)
		return report_failure(r, "its working directory ", cwd,
				      " does not exist here");
	return 0;
}

static int restore_records(struct restore *r)
{
	const void *p;
	u64 at = 0, len;

	vec_len = r->s->cpu->xsave_size;
	while ((p = bee_snap_next(r->s, &at, BEE_SNAP_THREAD, &len)))
		if (abi_restore_thread(bee.proc, p) || keep_vec(p))
			return report_damage(r, "threads");
	at = 0;
	while ((p = bee_snap_next(r->s, &at, BEE_SNAP_SIGNAL, &len)))
		if (abi_restore_signal(bee.proc, p))
			return report_damage(r, "signals");
	return 0;
}

int bee_restore(const struct abi_host *os, char *why, u64 size)
{
	static struct restore r;
	const char *lacks;

	r = (struct restore){
		.os = os, .s = bee.snapshot, .why = why, .size = size};
	lacks = bee_snap_cpu_lacks(r.s->cpu);
	if (lacks)
		return report_failure(&r, "this CPU lacks ", lacks,
				      ", which the program may use");
	if (check_program(&r) || restore_libraries(&r))
		return -1;
	if (abi_restore_process(bee.proc, r.s->process))
		return report_damage(&r, "fields");
	if (check_cwd(&r) || restore_memory(&r) || restore_records(&r) ||
	    restore_files(&r))
		return -1;
	return abi_restore_finish(bee.proc) ? report_damage(&r, "parts") : 0;
}

int bee_restore_threads(const struct abi_host *os)
{
	u32 i;

	for (i = 1; i < THREADS; i++)
		if (abi_thread_get(bee.proc, i)->state == ABI_THREAD_LIVE &&
		    os->thread_start(i))
			return -1;
	return 0;
}

/*
 * Runs while the guest's registers are live, so nothing is freed here. A state
 * that this CPU refuses was damaged on purpose; then the thread begins with its
 * present one.
 */
void bee_restore_state(u32 index)
{
	if (!vecs[index])
		return;
	bee_slots_write(slots[index]);
	bee_vec_load(vecs[index], vec_len);
	vecs[index] = 0;
}
