/* SPDX-License-Identifier: MIT */
/*
 * The table of images. There is one writer at a time (see image.h). Readers
 * take no lock, because signal handlers read. Instead they are counted, and
 * whoever removes an image waits until there is no reader: later readers do not
 * find the image.
 */
#include "abi/include/page.h"
#include "base/errno.h"
#include "bee/core/image.h"

#define IMAGES_MAX 2048

static struct bee_image *table[IMAGES_MAX]; /* stored and loaded as atomics */
/* number of slots in use or used before */
static u32 used;
static u32 readers;

static struct bee_image *image_at(u32 slot)
{
	return __atomic_load_n(&table[slot], __ATOMIC_SEQ_CST);
}

int bee_images_add(struct bee_image *image)
{
	u32 i;

	for (i = 0; i < used && table[i]; i++)
		;
	if (i == IMAGES_MAX)
		return -LINUX_ENFILE;
	__atomic_store_n(&table[i], image, __ATOMIC_SEQ_CST);
	if (i == used)
		__atomic_store_n(&used, i + 1, __ATOMIC_SEQ_CST);
	return 0;
}

void bee_images_drop(u64 start, u64 end)
{
	struct bee_image *image;
	u64 from, to;
	u32 i;

	for (i = 0; i < used; i++) {
		image = table[i];
		if (!image || !image->text_left)
			continue;
		from = start > image->text ? start : image->text;
		to = end < image->text_end ? end : image->text_end;
		if (from < to)
			image->text_left -= to - from;
	}
}

struct bee_image *bee_images_take(void)
{
	struct bee_image *image;
	u32 i;

	for (i = 0; i < used; i++) {
		image = table[i];
		if (!image || image->text_left)
			continue;
		__atomic_store_n(&table[i], 0, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&readers, __ATOMIC_SEQ_CST))
			bee.os->thread_yield();
		return image;
	}
	return 0;
}

void bee_images_forked(void)
{
	__atomic_store_n(&readers, 0, __ATOMIC_SEQ_CST);
}

const struct bee_image *bee_images_get_stub(u64 pc)
{
	u32 i, n;

	__atomic_fetch_add(&readers, 1, __ATOMIC_SEQ_CST);
	n = __atomic_load_n(&used, __ATOMIC_SEQ_CST);
	for (i = 0; i < n; i++) {
		const struct bee_image *image = image_at(i);

		if (image && pc >= image->stubs && pc < image->stubs_end)
			return image;
	}
	return 0;
}

const struct bee_image *bee_images_get_text(u64 pc)
{
	u32 i, n;

	__atomic_fetch_add(&readers, 1, __ATOMIC_SEQ_CST);
	n = __atomic_load_n(&used, __ATOMIC_SEQ_CST);
	for (i = 0; i < n; i++) {
		const struct bee_image *image = image_at(i);

		if (image && pc >= image->plan.start && pc < image->plan.end)
			return image;
	}
	return 0;
}

void bee_images_put(void)
{
	__atomic_fetch_sub(&readers, 1, __ATOMIC_SEQ_CST);
}

int bee_images_visit(int (*visit)(void *to, const struct bee_image *image),
		     void *to)
{
	const struct bee_image *image;
	int rc = 0;
	u32 i, n;

	__atomic_fetch_add(&readers, 1, __ATOMIC_SEQ_CST);
	n = __atomic_load_n(&used, __ATOMIC_SEQ_CST);
	for (i = 0; i < n && !rc; i++) {
		image = image_at(i);
		if (image)
			rc = visit(to, image);
	}
	bee_images_put();
	return rc;
}

/* Text --------------------------------------------------------------------- */

static int visit_segments(const struct bee_image *image,
			  int (*visit)(void *to, u64 addr, u64 len), void *to)
{
	const struct abi_elf_segment *s;
	int rc = 0;
	u64 start;
	u32 i;

	for (i = 0; i < image->plan.segments && !rc; i++) {
		s = &image->plan.segment[i];
		start = ABI_PAGE_DOWN(s->addr);
		if (s->prot & ABI_PROT_EXEC)
			rc = visit(to, start,
				   ABI_PAGE_UP(s->addr + s->memsz) - start);
	}
	return rc;
}

int bee_image_visit_text(const struct bee_image *image,
			 int (*visit)(void *to, u64 addr, u64 len), void *to)
{
	int rc;

	if (image->text)
		rc = visit(to, image->text, image->text_end - image->text);
	else
		rc = visit_segments(image, visit, to);
	if (!rc && image->stubs_end > image->stubs)
		rc = visit(to, image->stubs, image->stubs_end - image->stubs);
	return rc;
}

struct text_visit {
	int (*visit)(void *to, u64 addr, u64 len);
	void *to;
};

static int visit_image(void *to, const struct bee_image *image)
{
	const struct text_visit *v = to;

	return bee_image_visit_text(image, v->visit, v->to);
}

int bee_text_visit(int (*visit)(void *to, u64 addr, u64 len), void *to)
{
	struct text_visit v = {visit, to};

	return bee_images_visit(visit_image, &v);
}

struct text_range {
	u64 start, end;
};

static int meet_range(void *to, u64 addr, u64 len)
{
	const struct text_range *r = to;

	return r->start < addr + len && r->end > addr;
}

int bee_text_meets(u64 start, u64 end)
{
	struct text_range r = {start, end};

	return bee_text_visit(meet_range, &r);
}

static int find_end(void *to, u64 addr, u64 len)
{
	u64 *at = to;

	if (*at < addr || *at - addr >= len)
		return 0;
	*at = addr + len;
	return 1;
}

u64 bee_text_end(u64 at)
{
	bee_text_visit(find_end, &at);
	return at;
}

/* A copy ------------------------------------------------------------------- */

enum saved_as { SAVED_PROGRAM, SAVED_LOADER, SAVED_LIBRARY };

static u64 sites_size(const struct bee_image *image)
{
	return image->map.sites * sizeof(*image->map.site);
}

static u64 pcs_size(const struct bee_image *image)
{
	return image->map.pcs * sizeof(*image->map.pc);
}

u64 bee_images_size(void)
{
	u64 size = sizeof(u32) + sizeof(bee.sums);
	u32 i;

	for (i = 0; i < used; i++)
		if (table[i])
			size += sizeof(enum saved_as) + sizeof(*table[i]) +
				sites_size(table[i]) + pcs_size(table[i]);
	return size;
}

static u8 *put_part(u8 *to, const void *from, u64 len)
{
	abi_memcpy(to, from, len);
	return to + len;
}

static const u8 *get_part(void *to, const u8 *from, u64 len)
{
	abi_memcpy(to, from, len);
	return from + len;
}

void bee_images_save(u8 *to)
{
	const struct bee_image *image;
	enum saved_as as;
	u32 i, n = 0;

	for (i = 0; i < used; i++)
		n += !!table[i];
	to = put_part(to, &n, sizeof(n));
	to = put_part(to, &bee.sums, sizeof(bee.sums));
	for (i = 0; i < used; i++) {
		image = table[i];
		if (!image)
			continue;
		as = image == &bee.image    ? SAVED_PROGRAM
		     : image == &bee.loader ? SAVED_LOADER
					    : SAVED_LIBRARY;
		to = put_part(to, &as, sizeof(as));
		to = put_part(to, image, sizeof(*image));
		to = put_part(to, image->map.site, sites_size(image));
		to = put_part(to, image->map.pc, pcs_size(image));
	}
}

/* Reads one image into memory of its own; returns what follows, or NULL. */
static const u8 *restore_image(const u8 *from)
{
	struct bee_image *image;
	struct bee_rewrite *rw;
	enum saved_as as;

	from = get_part(&as, from, sizeof(as));
	image = as == SAVED_PROGRAM  ? &bee.image
		: as == SAVED_LOADER ? &bee.loader
				     : bee_os_alloc(sizeof(*image));
	if (!image)
		return 0;
	from = get_part(image, from, sizeof(*image));
	rw = &image->rw;
	rw->sites_max = image->map.sites;
	rw->pcs_max = image->map.pcs;
	/* as image.c allocates them */
	rw->site = bee_os_alloc(sites_size(image) + 8);
	rw->pc = bee_os_alloc(pcs_size(image) + 8);
	if (!rw->site || !rw->pc)
		return 0;
	image->map.site = rw->site;
	image->map.pc = rw->pc;
	from = get_part(rw->site, from, sites_size(image));
	from = get_part(rw->pc, from, pcs_size(image));
	return bee_images_add(image) ? 0 : from;
}

int bee_images_restore(const u8 *from)
{
	u32 i, n;

	from = get_part(&n, from, sizeof(n));
	from = get_part(&bee.sums, from, sizeof(bee.sums));
	for (i = 0; i < n && from; i++)
		from = restore_image(from);
	return from ? 0 : -LINUX_ENOMEM;
}
