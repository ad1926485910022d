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
#include "bee/core/restore.h"
#include "bee/core/snapshot.h"

#define S_IFMT 0170000u
#define S_IFDIR 0040000u
#define THREADS 1024u

/* Standard XSAVE form, by thread; each is loaded once. */
static u8 *vecs[THREADS];
static u64 vec_len;
static u64 slots[THREADS][3];

static void *guest_pointer(u64 addr)
{
	return (void *)(__UINTPTR_TYPE__)addr;
}

int bee_restore_fail(struct restore *r, const char *before, const char *name,
		     const char *after)
{
	struct abi_text t;

	abi_text_init(&t, r->why, r->size);
	abi_text_str(&t, before);
	abi_text_str(&t, name);
	abi_text_str(&t, after);
	return -1;
}

int bee_restore_damage(struct restore *r, const char *what)
{
	return bee_restore_fail(r, "its ", what, " are not valid");
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
		return bee_restore_fail(r, "the program ", bee.options->program,
					" has changed since");
	digest_text(&bee.image, text);
	if (abi_memcmp(text, program->text, 32))
		return bee_restore_fail(
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
		return bee_restore_damage(r, "libraries");
	if (!l->is_loader)
		err = bee_library_load(l, &image);
	if (err == -LINUX_ENOMEM)
		return bee_restore_fail(r, "there is too little memory", "",
					"");
	if (err && err != -LINUX_ENOEXEC)
		return bee_restore_fail(r, "the library ", l->path,
					" cannot be read");
	if (!err)
		digest_text(image, digest);
	if (err || abi_memcmp(digest, l->digest, sizeof(digest)))
		return bee_restore_fail(
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
		return bee_restore_fail(
			r,
			"it needs more memory than there is, or than "
			"--memory allows",
			"", "");
	if (rc || (a->prot & ABI_PROT_EXEC ? !is_text(a)
					   : bee_text_meets(a->start, a->end)))
		return bee_restore_damage(r, "areas");
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
	return rc ? bee_restore_fail(r, "there is too little memory", "", "")
		  : 0;
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
	return bee_text_visit(check_mapped, 0) ? bee_restore_damage(r, "areas")
					       : 0;
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
			return bee_restore_fail(
				r, "its memory cannot be protected", "", "");
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
		return bee_restore_fail(r, "its working directory ", cwd,
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
			return bee_restore_damage(r, "threads");
	at = 0;
	while ((p = bee_snap_next(r->s, &at, BEE_SNAP_SIGNAL, &len)))
		if (abi_restore_signal(bee.proc, p))
			return bee_restore_damage(r, "signals");
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
		return bee_restore_fail(&r, "this CPU lacks ", lacks,
					", which the program may use");
	if (check_program(&r) || restore_libraries(&r))
		return -1;
	if (abi_restore_process(bee.proc, r.s->process))
		return bee_restore_damage(&r, "fields");
	if (check_cwd(&r) || restore_memory(&r) || restore_records(&r) ||
	    bee_restore_files(&r))
		return -1;
	return abi_restore_finish(bee.proc) ? bee_restore_damage(&r, "parts")
					    : 0;
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
