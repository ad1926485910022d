/* SPDX-License-Identifier: MIT */
/*
 * Rewrites the text of one image: reads what the file says about its code,
 * allocates memory for stubs, and runs the rewriter or the cache. Owns nothing;
 * the caller owns the image, and adds to `why` which file it is about.
 */
#include "bee/core/image.h"
#include "base/errno.h"
#include "bee/core/cache.h"
#include "bee/core/core.h"

#define RANGES_MAX 0x40000u
#define EDGES_MAX 256u
#define FILE_MAX (2ull << 30)
#define O_NONBLOCK 0x800u /* a pipe in place of a file must not block */
#define S_IFMT 0170000u
#define S_IFREG 0100000u

static void *guest_pointer(u64 addr)
{
	return (void *)(__UINTPTR_TYPE__)addr;
}

static u64 page_up(u64 addr)
{
	return (addr + SKEP_PAGE_SIZE - 1) & ~(u64)(SKEP_PAGE_SIZE - 1);
}

static int refuse_image(struct bee_work *w, int err, const char *why)
{
	abi_strcpy(w->why, why, sizeof(w->why));
	return err;
}

static int refuse_site(struct bee_work *w)
{
	const struct bee_rewrite *rw = &w->image->rw;
	struct abi_text text;

	abi_text_init(&text, w->why, sizeof(w->why));
	abi_text_str(&text, rw->why);
	abi_text_str(&text, " (at 0x");
	abi_text_hex(&text, rw->bad_addr, 1);
	abi_text_str(&text, ")");
	return -LINUX_ENOEXEC;
}

/* Reading -------------------------------------------------------------- */

s64 bee_image_read(const struct abi_host *os, s32 handle, u8 **bytes, u64 *len,
		   struct bee_file_id *id)
{
	struct abi_stat st = {0};
	struct abi_file_op op = {.verb = ABI_FILE_STAT, .stat = &st};
	struct abi_io io = {0};
	s64 n = os->file(handle, &op);

	if (n < 0)
		return n;
	if ((st.mode & S_IFMT) != S_IFREG || !st.size || st.size > FILE_MAX)
		return -LINUX_ENOEXEC;
	*bytes = bee_os_alloc(st.size);
	if (!*bytes)
		return -LINUX_ENOMEM;
	*len = st.size;
	*id = (struct bee_file_id){st.dev, st.ino, st.size, st.mtime_ns};
	for (n = 1; (u64)io.offset < *len && n > 0; io.offset += n) {
		io.buf = *bytes + io.offset;
		io.len = *len - (u64)io.offset;
		n = os->file_read(handle, &io);
		if (n < 0)
			break;
	}
	if (n >= 0) /* a part that the file has lost reads as zeros */
		return 0;
	bee_os_free(*bytes, *len);
	*bytes = 0;
	return n;
}

/* Digests -------------------------------------------------------------- */

static void digest_file(const u8 *file, u64 len, u8 digest[32])
{
	struct skep_sha256 sha;

	bee_sha256_init(&sha);
	skep_sha256_update(&sha, file, len);
	skep_sha256_final(&sha, digest);
}

/* It depends only on the file's digest, so a cached image has it. */
static void digest_segments(struct bee_work *w)
{
	const struct abi_elf_plan *plan = &w->image->plan;
	struct skep_sha256 sha;
	u32 i;

	if (w->no_digest)
		return;
	bee_sha256_init(&sha);
	for (i = 0; i < plan->segments; i++)
		skep_sha256_update(&sha, w->file + plan->segment[i].offset,
				   plan->segment[i].filesz);
	skep_sha256_final(&sha, w->image->sha_load);
}

/* Rewriting ------------------------------------------------------------ */

/* Data is searched in the file, because a library's data need not be mapped
 * yet. */
static void add_data(struct bee_work *w, const struct abi_elf_segment *s,
		     u64 start, u64 end)
{
	struct bee_rewrite *rw = &w->image->rw;

	if (start >= end)
		return;
	rw->data[rw->datas].bytes = w->file + s->offset + (start - s->addr);
	rw->data[rw->datas].addr = start;
	rw->data[rw->datas].constant =
		rw->pointers && !(s->prot & ABI_PROT_WRITE);
	rw->data[rw->datas++].len = end - start;
}

/*
 * Text is rewritten where it will run. Linkers without separate code put
 * headers and read-only data into the same segment, before and after the text.
 */
static void add_text(struct bee_work *w, const struct abi_elf_segment *s)
{
	struct bee_rewrite *rw = &w->image->rw;
	u64 start = s->addr, end = start + s->filesz, low = end, high = start;
	u32 i;

	for (i = 0; i < rw->edges; i++) {
		if (rw->edge[i] >= start && rw->edge[i] < low)
			low = rw->edge[i];
		if (rw->edge[i] <= end && rw->edge[i] > high)
			high = rw->edge[i];
	}
	/* A full array may lack edges. */
	if (low >= high || rw->edges == EDGES_MAX) {
		low = start;
		high = end;
	}
	add_data(w, s, start, low);
	rw->text[rw->texts].bytes = guest_pointer(low);
	rw->text[rw->texts].addr = low;
	rw->text[rw->texts++].len = high - low;
	add_data(w, s, high, end);
}

static void describe_segments(struct bee_work *w)
{
	const struct abi_elf_plan *plan = &w->image->plan;
	struct bee_rewrite *rw = &w->image->rw;
	const struct abi_elf_segment *s;
	u32 i;

	rw->pointers =
		bee_pointer_ranges(plan, w->file, w->file_len, rw->pointer);
	for (i = 0; i < plan->segments; i++) {
		s = &plan->segment[i];
		if (!s->filesz)
			continue;
		if (s->prot & ABI_PROT_EXEC)
			add_text(w, s);
		else
			add_data(w, s, s->addr, s->addr + s->filesz);
	}
	rw->entry = plan->entry;
	rw->bias = plan->bias;
	for (i = 0; i < SKEP_SLOT_COUNT; i++)
		rw->slot[i] = BEE_SLOT(i);
}

/* Places stubs after the image, at the end of the available space, or where
 * they were. */
static int place_stubs(struct bee_work *w, u64 len)
{
	struct bee_rewrite *rw = &w->image->rw;
	u64 at = page_up(w->image->plan.end);

	w->need = len;
	if (w->exact) /* `len` is an estimate, and this is enough */
		len = w->room_end - w->room;
	if (len > w->most)
		return -LINUX_ENOMEM;
	if (w->room_end) {
		if (len > w->room_end - w->room)
			return -LINUX_ENOMEM;
		at = w->room_end - len;
	}
	rw->stubs = guest_pointer(at);
	rw->stubs_addr = at;
	rw->stubs_len = len;
	return len ? (int)w->os->mem_commit(at, len,
					    ABI_PROT_READ | ABI_PROT_WRITE)
		   : 0;
}

/* `site` and `pc` are kept for crash reports and kicks; the caller frees
 * `marks`. */
static int get_memory(struct bee_work *w, const struct bee_rewrite_need *need)
{
	struct bee_rewrite *rw = &w->image->rw;

	rw->sites_max = need->sites;
	rw->pcs_max = need->pcs;
	rw->site = bee_os_alloc((u64)need->sites * sizeof(*rw->site) + 8);
	rw->pc = bee_os_alloc((u64)need->pcs * sizeof(*rw->pc) + 8);
	rw->marks = bee_os_alloc(need->marks_len + 8);
	if (!rw->site || !rw->pc || !rw->marks)
		return -LINUX_ENOMEM;
	return place_stubs(w, page_up(need->stubs_len));
}

void bee_image_free(struct bee_image *image)
{
	struct bee_rewrite *rw = &image->rw;

	if (rw->site)
		bee_os_free(rw->site,
			    (u64)rw->sites_max * sizeof(*rw->site) + 8);
	if (rw->pc)
		bee_os_free(rw->pc, (u64)rw->pcs_max * sizeof(*rw->pc) + 8);
	rw->site = 0;
	rw->pc = 0;
}

static int all_patched(const struct bee_rewrite *rw)
{
	u32 i;

	/* Instructions that were moved to make space are not counted. */
	for (i = 0; i < BEE_SITE_MOVED; i++)
		if (rw->found[i] != rw->patched[i])
			return 0;
	return 1;
}

static int run_rewriter(struct bee_work *w)
{
	struct bee_rewrite *rw = &w->image->rw;
	const struct abi_elf_plan *plan = &w->image->plan;
	struct bee_range *range =
		bee_os_alloc(RANGES_MAX * sizeof(struct bee_range));
	struct bee_rewrite_need need;
	int err;

	if (!range)
		return -LINUX_ENOMEM;
	rw->codes = bee_unwind_ranges(plan, w->file, w->file_len, range,
				      RANGES_MAX);
	rw->code = range;
	bee_rewrite_sizes(rw, &need);
	err = get_memory(w, &need);
	if (!err)
		err = bee_rewrite(rw);
	if (rw->marks)
		bee_os_free(rw->marks, need.marks_len + 8);
	bee_os_free(range, RANGES_MAX * sizeof(*range));
	rw->code = 0;
	rw->marks = 0;
	return err == -LINUX_ENOEXEC ? refuse_site(w) : err;
}

/* Makes the used stub pages executable and releases the others. */
static int seal_stubs(struct bee_work *w)
{
	struct bee_image *image = w->image;
	struct bee_rewrite *rw = &image->rw;
	u64 used = page_up(rw->stubs_used);
	s64 err = 0;

	if (rw->stubs_len > used)
		err = w->os->mem_release(rw->stubs_addr + used,
					 rw->stubs_len - used);
	if (!err && used)
		err = w->os->mem_protect(rw->stubs_addr, used,
					 ABI_PROT_READ | ABI_PROT_EXEC);
	rw->stubs_len = used;
	image->stubs = rw->stubs_addr;
	image->stubs_end = rw->stubs_addr + used;
	bee_map_from(&image->map, rw);
	return err ? refuse_image(w, (int)err, "its stubs cannot be protected")
		   : 0;
}

static void add_sums(const struct bee_rewrite *rw, u64 ns)
{
	struct bee_sums *sums = &bee.sums;
	u32 i;

	for (i = 0; i < BEE_SITE_KINDS; i++) {
		sums->found[i] += rw->found[i];
		sums->patched[i] += rw->patched[i];
	}
	sums->stub_bytes += rw->stubs_used;
	sums->rewrite_ns += ns;
	sums->images++;
}

static int make_text(struct bee_work *w)
{
	const struct bee_cache cache = {w->cache, w->file, w->file_len, w->room,
					w->room_end};
	struct bee_rewrite *rw = &w->image->rw;
	u64 edge[EDGES_MAX];
	int err = 0, missed;

	rw->edge = edge;
	rw->edges = bee_unwind_edges(&w->image->plan, w->file, w->file_len,
				     edge, EDGES_MAX);
	describe_segments(w);
	missed = bee_cache_load(&cache, w->os, w->image);
	bee.sums.cached += !missed;
	if (missed) {
		digest_segments(w);
		err = run_rewriter(w);
	}
	rw->edge = 0;
	if (!err && !all_patched(&w->image->rw))
		err = refuse_image(w, -LINUX_ENOEXEC,
				   "the rewriter left sites unpatched");
	if (!err)
		err = seal_stubs(w);
	if (!err && missed && missed != BEE_CACHE_ELSEWHERE)
		bee_cache_store(&cache, w->image);
	return err;
}

int bee_image_rewrite(struct bee_work *w)
{
	struct bee_rewrite *rw = &w->image->rw;
	u64 start = (u64)w->os->clock(ABI_CLOCK_MONOTONIC);
	int err;

	if (!w->no_digest)
		digest_file(w->file, w->file_len, w->image->sha_file);
	err = make_text(w);
	if (!err) {
		add_sums(rw, (u64)w->os->clock(ABI_CLOCK_MONOTONIC) - start);
		return 0;
	}
	if (rw->stubs_len)
		w->os->mem_release(rw->stubs_addr, rw->stubs_len);
	bee_image_free(w->image);
	return err;
}

s64 bee_file_digest(const struct abi_host *os, const char *path, u8 digest[32])
{
	struct abi_open open = {.path = path, .flags = O_NONBLOCK};
	struct bee_file_id id;
	u8 *bytes;
	u64 len;
	s64 err = os->file_open(&open);

	if (err)
		return err;
	err = bee_image_read(os, open.handle, &bytes, &len, &id);
	os->file_close(open.handle);
	if (err)
		return err;
	digest_file(bytes, len, digest);
	bee_os_free(bytes, len);
	return 0;
}
