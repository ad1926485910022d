/* SPDX-License-Identifier: MIT */
/*
 * Writes a snapshot, while all guest threads are at rest. Runs outside of guest
 * threads, with the host's registers. Owns nothing; the host owns the file.
 */
#include "abi/include/page.h"
#include "base/errno.h"
#include "bee/core/cache.h"
#include "bee/core/core.h"
#include "bee/core/freeze.h"
#include "bee/core/image.h"
#include "bee/core/snapshot.h"

#define BUF (BEE_SNAP_PAGES * (u64)SKEP_PAGE_SIZE)
#define THREADS 1024u
#define NUMBERS 1024u
#define SEEK_FROM_HERE 1u

static const u8 zeros[8];

int bee_save_fail(struct bee_save *s, const char *before, const char *name,
		  const char *after)
{
	struct abi_text t;

	if (s->failed)
		return -1;
	s->failed = 1;
	abi_text_init(&t, s->why, sizeof(s->why));
	abi_text_str(&t, before);
	abi_text_str(&t, name);
	abi_text_str(&t, after);
	return -1;
}

void bee_save_bytes(struct bee_save *s, const void *bytes, u64 len)
{
	s64 err;

	if (s->failed || !len)
		return;
	skep_sha256_update(&s->sha, bytes, len);
	err = s->write(s, bytes, len);
	s->written += len;
	if (err == -LINUX_ENOSPC || err == -LINUX_EDQUOT)
		bee_save_fail(s, "no space is left for ", "the file", "");
	else if (err)
		bee_save_fail(s, "the file", " cannot be written", "");
}

void bee_save_section(struct bee_save *s, u32 type, u64 len)
{
	struct bee_snap_section head = {.type = type, .len = len};

	bee_save_bytes(s, &head, sizeof(head));
}

void bee_save_two(struct bee_save *s, u32 type, const void *head, u64 head_len,
		  const void *bytes, u64 len)
{
	bee_save_section(s, type, head_len + len);
	bee_save_bytes(s, head, head_len);
	bee_save_bytes(s, bytes, len);
	bee_save_bytes(s, zeros, -(head_len + len) & 7);
}

static void put_record(struct bee_save *s, u32 type, const void *bytes, u64 len)
{
	bee_save_two(s, type, bytes, len, 0, 0);
}

/* Text --------------------------------------------------------------------- */

struct text {
	struct bee_save *save;
	struct skep_sha256 sha;
};

static int add_text(void *to, u64 addr, u64 len)
{
	struct text *t = to;
	u64 n;

	for (; len; addr += n, len -= n) {
		n = len < BUF ? len : BUF;
		if (t->save->read_memory(t->save, addr, t->save->buf, n))
			return bee_save_fail(t->save, "its text cannot be read",
					     "", "");
		skep_sha256_update(&t->sha, t->save->buf, n);
	}
	return 0;
}

/* Libraries ---------------------------------------------------------------- */

/* Another file by this name could not be rewritten to the same text. */
static int is_same_file(const struct bee_image *image)
{
	const struct bee_file_id *id = &image->id;
	struct abi_stat st = {0};
	struct abi_path_op op = {
		.verb = ABI_PATH_STAT, .path = image->path, .stat = &st};

	return image->path[0] == '/' && bee.os->path(&op) >= 0 &&
	       st.dev == id->dev && st.ino == id->ino && st.size == id->size &&
	       st.mtime_ns == id->mtime_ns;
}

static int judge_library(void *to, const struct bee_image *image)
{
	struct bee_save *s = to;

	if (image == &bee.image)
		return 0;
	if (image->text && image->text_left != image->text_end - image->text)
		return bee_save_fail(s, "a part of the text of ", image->path,
				     " was unmapped");
	if (!is_same_file(image))
		return bee_save_fail(
			s, "the library ", image->path,
			" was removed, replaced or changed while it is mapped");
	return 0;
}

static int put_library(void *to, const struct bee_image *image)
{
	static struct bee_snap_library l;
	struct bee_save *s = to;
	struct text text = {.save = s};

	if (image == &bee.image)
		return 0;
	l = (struct bee_snap_library){.text = image->text,
				      .text_end = image->text_end,
				      .offset = image->offset,
				      .is_loader = image == &bee.loader};
	if (!l.is_loader) {
		l.stubs = image->stubs;
		l.stubs_end = image->stubs_end;
	}
	abi_strcpy(l.path, image->path, sizeof(l.path));
	bee_sha256_init(&text.sha);
	bee_image_visit_text(image, add_text, &text);
	skep_sha256_final(&text.sha, l.digest);
	put_record(s, BEE_SNAP_LIBRARY, &l, sizeof(l));
	return s->failed;
}

/* The process -------------------------------------------------------------- */

static void put_program(struct bee_save *s)
{
	struct bee_snap_program program = {0};
	struct bee_snap_cpu cpu;
	struct text text = {.save = s};
	s64 user = 0, system = 0;

	bee_snap_cpu_read(&cpu);
	put_record(s, BEE_SNAP_CPU, &cpu, sizeof(cpu));
	program.monotonic_ns = (u64)bee.os->clock(ABI_CLOCK_MONOTONIC);
	program.realtime_ns = (u64)bee.os->clock(ABI_CLOCK_REALTIME);
	program.cpu_ns = (u64)bee.os->clock(ABI_CLOCK_PROCESS);
	bee.os->rusage(&user, &system);
	program.user_ns = (u64)user;
	program.system_ns = (u64)system;
	abi_memcpy(program.file, bee.image.sha_file, sizeof(program.file));
	bee_sha256_init(&text.sha);
	bee_image_visit_text(&bee.image, add_text, &text);
	skep_sha256_final(&text.sha, program.text);
	put_record(s, BEE_SNAP_PROGRAM, &program, sizeof(program));
}

static void put_process(struct bee_save *s)
{
	static struct abi_snap_process process;

	abi_snap_process(bee.proc, &process);
	put_record(s, BEE_SNAP_PROCESS, &process, sizeof(process));
}

/* Memory ------------------------------------------------------------------- */

static void put_area(struct bee_save *s, const struct abi_snap_area *a,
		     u32 is_file)
{
	if (!(a->prot & ABI_PROT_EXEC) && bee_text_meets(a->start, a->end))
		bee_save_fail(s, "its text was made inexecutable", "", "");
	put_record(s, BEE_SNAP_AREA, a, sizeof(*a));
	bee_save_pages(s, a, is_file);
}

static void put_memory(struct bee_save *s)
{
	struct abi_snap_area a;
	u32 is_file;
	u64 at;

	for (at = 0; abi_snap_area(bee.proc, at, &a, &is_file); at = a.end)
		put_area(s, &a, is_file);
}

/* Threads ------------------------------------------------------------------ */

static void put_threads(struct bee_save *s)
{
	const struct bee_rest *rest;
	struct abi_snap_thread t;
	u64 vec = bee_xsave_size();
	u32 i;

	for (i = 0; i < THREADS && abi_snap_thread(bee.proc, i, &t); i++) {
		rest = bee_rest_of(i);
		if (t.tid && !rest) {
			bee_save_fail(s, "a thread did not come to rest", "",
				      "");
			return;
		}
		if (t.tid) {
			t.regs = *rest->regs;
			abi_memcpy(t.slot, rest->slot, sizeof(t.slot));
			t.cpu_ns = (u64)s->thread_cpu(i);
		}
		bee_save_two(s, BEE_SNAP_THREAD, &t, sizeof(t),
			     t.tid ? rest->vec : 0, t.tid ? vec : 0);
	}
}

static void put_queue(struct bee_save *s, u32 thread)
{
	struct abi_snap_signal signal;
	u32 i;

	for (i = 0; abi_snap_signal(bee.proc, thread, i, &signal); i++)
		put_record(s, BEE_SNAP_SIGNAL, &signal, sizeof(signal));
}

static void put_signals(struct bee_save *s)
{
	struct abi_snap_thread t;
	u32 i;

	put_queue(s, ABI_NONE);
	for (i = 0; i < THREADS && abi_snap_thread(bee.proc, i, &t); i++)
		if (t.tid)
			put_queue(s, i);
}

/* Files -------------------------------------------------------------------- */

static int stat_handle(s32 handle, struct abi_stat *st)
{
	struct abi_file_op op = {.verb = ABI_FILE_STAT, .stat = st};

	return bee.os->file(handle, &op) < 0;
}

/* Reads the file by its path, because it may not be open for reading. */
static int digest_path(struct bee_save *s, struct abi_snap_desc *d, s32 handle)
{
	struct abi_stat st, own;
	struct abi_open open = {.path = d->path};
	struct abi_io io = {.buf = s->buf, .len = BUF};
	struct skep_sha256 sha;
	s64 n = 1;

	if (d->path[0] != '/' || bee.os->file_open(&open))
		return bee_save_fail(
			s, "the file ", d->path,
			" was removed, or cannot be read by its name");
	if (stat_handle(open.handle, &st) || stat_handle(handle, &own) ||
	    st.dev != own.dev || st.ino != own.ino) {
		bee.os->file_close(open.handle);
		return bee_save_fail(
			s, "the file ", d->path,
			" was removed or replaced while it is open");
	}
	bee_sha256_init(&sha);
	for (; n > 0; io.offset += n) {
		n = bee.os->file_read(open.handle, &io);
		if (n > 0)
			skep_sha256_update(&sha, s->buf, (u64)n);
	}
	skep_sha256_final(&sha, d->sha256);
	bee.os->file_close(open.handle);
	d->size = (u64)io.offset;
	return n < 0 ? bee_save_fail(s, "the file ", d->path, " cannot be read")
		     : 0;
}

static void find_position(struct abi_snap_desc *d, s32 handle)
{
	struct abi_file_op op = {.verb = ABI_FILE_SEEK, .mode = SEEK_FROM_HERE};
	s64 n;

	if (d->pos != ~0ull)
		return;
	n = bee.os->file(handle, &op);
	d->pos = n < 0 ? 0 : (u64)n;
}

/* The kernel's number of a pipe is the same in all processes. */
static u32 number_pipe(s32 handle)
{
	struct abi_stat st = {0};

	return stat_handle(handle, &st) ? 0 : (u32)st.ino;
}

static void put_pipe(struct bee_save *s, const struct abi_snap_desc *d,
		     s32 handle)
{
	struct abi_file_op op = {.verb = ABI_FILE_PIPE_SIZE};
	struct bee_snap_pipe pipe = {.pipe = number_pipe(handle),
				     .reads = !d->writes};
	s64 n = bee.os->file(handle, &op), bytes = 0;

	if (pipe.reads)
		bytes = s->peek(s, handle, s->buf, BUF);
	if (n < 0 || bytes < 0) {
		bee_save_fail(s, "a pipe cannot be read", "", "");
		return;
	}
	pipe.capacity = (u32)n;
	bee_save_two(s, BEE_SNAP_PIPE, &pipe, sizeof(pipe), s->buf, (u64)bytes);
}

static void put_pipes(struct bee_save *s)
{
	struct abi_snap_desc d;
	s32 handle = -1, found;
	u32 i;

	for (i = 0; i < BEE_SNAP_DESCS; i++) {
		found = abi_snap_desc(bee.proc, i, &d, &handle);
		if (found < 0)
			return;
		if (found && d.kind == ABI_SNAP_PIPE)
			put_pipe(s, &d, handle);
	}
}

static void put_desc(struct bee_save *s, struct abi_snap_desc *d, s32 handle)
{
	const char *why = handle >= 0 ? s->judge(s, handle) : 0;

	if (why) {
		bee_save_fail(s, "the file ", d->path, why);
		return;
	}
	if (d->kind == ABI_SNAP_FILE) {
		find_position(d, handle);
		if (!bee_is_removed(d, handle) && digest_path(s, d, handle))
			return;
	} else if (d->kind < ABI_SNAP_EVENT) {
		d->pos = 0;
	}
	if (d->kind == ABI_SNAP_PIPE)
		d->pipe = number_pipe(handle);
	put_record(s, BEE_SNAP_DESC, d, sizeof(*d));
}

static void put_watches(struct bee_save *s)
{
	struct abi_snap_watch w;
	u32 epoll, i;

	for (epoll = 0; epoll < BEE_SNAP_DESCS; epoll++)
		for (i = 0;
		     !s->failed && abi_snap_watch(bee.proc, epoll, i, &w); i++)
			put_record(s, BEE_SNAP_WATCH, &w, sizeof(w));
}

static void put_descs(struct bee_save *s)
{
	static struct abi_snap_desc d;
	struct abi_snap_number number;
	s32 handle = -1, found;
	u32 i;

	for (i = 0; i < BEE_SNAP_DESCS && !s->failed; i++) {
		found = abi_snap_desc(bee.proc, i, &d, &handle);
		if (found < 0)
			break;
		if (found)
			put_desc(s, &d, handle);
	}
	for (i = 0; i < NUMBERS && !s->failed; i++)
		if (abi_snap_number(bee.proc, i, &number) > 0)
			put_record(s, BEE_SNAP_NUMBER, &number, sizeof(number));
	put_watches(s);
}

/* All ---------------------------------------------------------------------- */

static int judge_files(struct bee_save *s)
{
	static struct abi_snap_desc d;
	const char *why;
	s32 handle = -1, found;
	u32 i;

	for (i = 0; i < BEE_SNAP_DESCS; i++) {
		found = abi_snap_desc(bee.proc, i, &d, &handle);
		if (found < 0)
			break;
		why = found && handle >= 0 ? s->judge(s, handle) : 0;
		if (why)
			return bee_save_fail(s, "the file ", d.path, why);
	}
	return 0;
}

int bee_save_judge(struct bee_save *s)
{
	int rc = abi_snap_judge(bee.proc, s->why, sizeof(s->why));

	s->failed = 0;
	if (rc == 1 || bee_images_visit(judge_library, s) || judge_files(s))
		return -1;
	return rc;
}

static void put_all(struct bee_save *s)
{
	put_program(s);
	put_process(s);
	bee_images_visit(put_library, s);
	put_memory(s);
	put_threads(s);
	put_pipes(s);
	bee_save_removed(s);
	put_descs(s);
	put_signals(s);
	if (s->members)
		s->members(s);
	bee_save_section(s, BEE_SNAP_END, 0);
}

static int begin_file(struct bee_save *s)
{
	struct bee_snap_head head = {.version = BEE_SNAP_VERSION};

	if (s->buf)
		return s->failed ? -1 : 0;
	if (bee_save_judge(s) < 0)
		return -1;
	s->written = 0;
	s->buf = bee_os_alloc(BUF);
	if (!s->buf)
		return bee_save_fail(s, "there is too little memory", "", "");
	bee_sha256_init(&s->sha);
	abi_memcpy(head.magic, BEE_SNAP_MAGIC, sizeof(head.magic));
	bee_save_bytes(s, &head, sizeof(head));
	return s->failed ? -1 : 0;
}

struct nth {
	u32 left;
	struct bee_snap_file file;
};

static int copy_file(void *to, const struct bee_image *image)
{
	struct nth *n = to;

	if (n->left--)
		return 0;
	abi_strcpy(n->file.path, image->path, sizeof(n->file.path));
	abi_memcpy(n->file.sha256, image->sha_file, sizeof(n->file.sha256));
	return 1;
}

/* Writing may take long, so no image is held meanwhile. */
static void put_files(struct bee_save *s)
{
	static struct nth n;
	u32 i;

	for (i = 0; !s->failed; i++) {
		n = (struct nth){i, {.revision = bee_rewriter_revision()}};
		if (!bee_images_visit(copy_file, &n))
			return;
		put_record(s, BEE_SNAP_FILE, &n.file, sizeof(n.file));
	}
}

void bee_save_early(struct bee_save *s)
{
	if (begin_file(s))
		return;
	put_files(s);
	s->early = bee_early_new();
	if (s->early)
		bee_save_rounds(s);
	else
		bee_save_fail(s, "there is too little memory", "", "");
}

int bee_save(struct bee_save *s)
{
	u8 digest[BEE_SNAP_DIGEST];

	if (begin_file(s) || bee_save_judge(s))
		return -1;
	put_all(s);
	skep_sha256_final(&s->sha, digest);
	if (!s->failed && s->write(s, digest, sizeof(digest)))
		bee_save_fail(s, "the file", " cannot be written", "");
	s->written += sizeof(digest);
	return s->failed ? -1 : 0;
}

void bee_save_end(struct bee_save *s)
{
	if (s->buf)
		bee_os_free(s->buf, BUF);
	if (s->early)
		bee_early_free(s->early);
	s->buf = 0;
	s->early = 0;
}
