/* SPDX-License-Identifier: MIT */
/*
 * The image cache. Owns the format of its files, no state.
 *
 * A file contains differences, not text: header, map, stubs, runs of changed
 * bytes, and at the end a digest of all of it. The digest detects damage; the
 * host checks owner and mode of the open file, so that no other user can have
 * written it. The file's bytes are copied before the digest is computed, so
 * they cannot change after the check. Whatever a file contains, nothing outside
 * of the program's text and stubs is written.
 *
 * The revision is a digest of the rewriter's own source, computed by make, so
 * that a file cannot be used by another version of the rewriter. The slots in
 * the code are the same on every host, and nothing depends on the CPU.
 */
#include "base/errno.h"
#include "bee/core/cache.h"
#include "bee/core/core.h"
#include "bee/core/image.h"
#include "build/gen/bee/revision.h"

#define MAGIC 0x32656863616365ebull
#define SIZE_MAX_FILE (64ull << 20)

struct header {
	u64 magic, revision;
	u8 sha_file[32], sha_load[32];
	u32 found[BEE_SITE_KINDS], patched[BEE_SITE_KINDS], forms[4];
	u64 insns, skipped;
	u64 stubs_addr, stubs_used;
	u64 map_len, runs_len;
	u64 bias; /* load bias of the image when it was rewritten */
};
SKEP_ASSERT_SIZE(struct header, 200);

/* A header, followed by changed bytes, padded to a multiple of eight. */
struct run {
	u64 addr, len;
};

/* A parsed file; all pointers point into it. Its addresses must be moved by
 * delta. */
struct parts {
	struct header head;
	u64 delta;
	const u8 *map, *stubs, *runs;
};

static const char no_room[] = "for another place";

u64 bee_rewriter_revision(void)
{
	return BEE_REVISION;
}

static u64 page_up(u64 len)
{
	return (len + SKEP_PAGE_SIZE - 1) & ~(u64)(SKEP_PAGE_SIZE - 1);
}

static u64 round_up(u64 len)
{
	return (len + 7) & ~7ull;
}

static void *guest_pointer(u64 addr)
{
	return (void *)(__UINTPTR_TYPE__)addr;
}

static int make_path(const struct bee_cache *c, const u8 sha[32], char *path,
		     u64 len)
{
	struct abi_text text;
	u32 i;

	abi_text_init(&text, path, len);
	abi_text_str(&text, c->dir);
	abi_text_str(&text, "/");
	for (i = 0; i < 32; i++)
		abi_text_hex(&text, sha[i], 2);
	abi_text_str(&text, ".bee");
	return text.len + 1 < len;
}

static void digest_bytes(const u8 *bytes, u64 len, u8 out[32])
{
	struct skep_sha256 sha;

	bee_sha256_init(&sha);
	skep_sha256_update(&sha, bytes, len);
	skep_sha256_final(&sha, out);
}

/* Reading -------------------------------------------------------------- */

/* Parses a file; returns what is wrong with it, or NULL. */
static const char *take_apart(const u8 *bytes, u64 len, struct parts *p)
{
	struct header *h = &p->head;
	u64 rest;
	u8 sha[32];

	if (len < sizeof(*h) + 32 || len > SIZE_MAX_FILE)
		return "of the wrong size";
	len -= 32;
	digest_bytes(bytes, len, sha);
	if (abi_memcmp(sha, bytes + len, 32))
		return "damaged";
	abi_memcpy(h, bytes, sizeof(*h));
	if (h->magic != MAGIC || h->revision != BEE_REVISION)
		return "written by another version of bee";
	rest = len - sizeof(*h);
	if (h->map_len > rest || h->stubs_used > rest - h->map_len ||
	    h->runs_len > rest - h->map_len ||
	    round_up(h->map_len) + round_up(h->stubs_used) + h->runs_len !=
		    rest)
		return "damaged";
	p->map = bytes + sizeof(*h);
	p->stubs = p->map + round_up(h->map_len);
	p->runs = p->stubs + round_up(h->stubs_used);
	return 0;
}

static int in_text(const struct bee_rewrite *rw, const struct run *run)
{
	u32 i;

	for (i = 0; i < rw->texts; i++)
		if (run->addr - rw->text[i].addr < rw->text[i].len)
			return run->len <=
			       rw->text[i].len - (run->addr - rw->text[i].addr);
	return 0;
}

/* Writes the runs to the text, or without `write` only checks them. 1: every
 * run is valid. */
static int walk_runs(const struct bee_rewrite *rw, const struct parts *p,
		     int write)
{
	u64 off = 0, len = p->head.runs_len;
	struct run run;

	for (; off < len; off += sizeof(run) + round_up(run.len)) {
		if (len - off < sizeof(run))
			return 0;
		abi_memcpy(&run, p->runs + off, sizeof(run));
		run.addr += p->delta;
		if (run.len > len - off - sizeof(run) ||
		    round_up(run.len) > len - off - sizeof(run) ||
		    !in_text(rw, &run))
			return 0;
		if (write)
			abi_memcpy(guest_pointer(run.addr),
				   p->runs + off + sizeof(run), run.len);
	}
	return 1;
}

static int get_arrays(struct bee_rewrite *rw, const struct header *h)
{
	/* A site needs more than 24 bytes of the map, and so does a PC. */
	u64 max = h->map_len / 24 + 1;

	rw->sites_max = rw->pcs_max = (u32)max;
	rw->site = bee_os_alloc(max * sizeof(*rw->site) + 8);
	rw->pc = bee_os_alloc(max * sizeof(*rw->pc) + 8);
	return rw->site && rw->pc;
}

static int map_fits(const struct bee_cache *c, const struct bee_image *image,
		    const struct parts *p, const struct bee_map *map)
{
	return map->stubs_addr == p->head.stubs_addr &&
	       map->stubs_used == p->head.stubs_used &&
	       (c->room_end ||
		(!p->delta && p->head.stubs_addr == page_up(image->plan.end)));
}

/* A library's stubs must be at the same distance from its text as before. */
static int has_room(const struct bee_cache *c, const struct parts *p)
{
	u64 at = p->head.stubs_addr + p->delta;

	return !c->room_end || !p->head.stubs_used ||
	       (!(at & (SKEP_PAGE_SIZE - 1)) && at >= c->room &&
		at <= c->room_end &&
		page_up(p->head.stubs_used) <= c->room_end - at);
}

/* Code has only relative addresses; the map's addresses must be moved. */
static void move_map(struct bee_rewrite *rw, const struct bee_map *map,
		     u64 delta)
{
	u32 i;

	for (i = 0; delta && i < map->sites; i++) {
		rw->site[i].addr += delta;
		rw->site[i].patch += delta;
		rw->site[i].stub += rw->site[i].stub ? delta : 0;
		rw->site[i].cave += rw->site[i].cave ? delta : 0;
	}
	for (i = 0; delta && i < map->pcs; i++) {
		rw->pc[i].stub += delta;
		rw->pc[i].guest += delta;
	}
}

static void take_counts(struct bee_image *image, const struct parts *p,
			const struct bee_map *map)
{
	const struct header *h = &p->head;
	struct bee_rewrite *rw = &image->rw;

	abi_memcpy(image->sha_load, h->sha_load, 32);
	abi_memcpy(rw->found, h->found, sizeof(rw->found));
	abi_memcpy(rw->patched, h->patched, sizeof(rw->patched));
	abi_memcpy(rw->forms, h->forms, sizeof(rw->forms));
	rw->insns = h->insns;
	rw->skipped = h->skipped;
	rw->sites = map->sites;
	rw->pcs = map->pcs;
	rw->stubs_addr = h->stubs_addr + p->delta;
	rw->stubs_used = h->stubs_used;
	rw->stubs_len = page_up(h->stubs_used);
	rw->stubs = guest_pointer(rw->stubs_addr);
	move_map(rw, map, p->delta);
}

/* Returns what is wrong, or NULL. The text is changed only if all is right. */
static const char *apply_parts(const struct bee_cache *c,
			       struct bee_image *image,
			       const struct abi_host *os, struct parts *p)
{
	const struct header *h = &p->head;
	struct bee_rewrite *rw = &image->rw;
	struct bee_map map;

	if (abi_memcmp(h->sha_file, image->sha_file, 32))
		return "of another program";
	p->delta = image->plan.bias - h->bias;
	if (!has_room(c, p))
		return no_room;
	if (!get_arrays(rw, h))
		return "too large for the available memory";
	if (bee_map_read(&map, p->map, h->map_len, rw->site, rw->sites_max,
			 rw->pc, rw->pcs_max) ||
	    !map_fits(c, image, p, &map) || !walk_runs(rw, p, 0))
		return "damaged";
	if (h->stubs_used &&
	    os->mem_commit(h->stubs_addr + p->delta, page_up(h->stubs_used),
			   ABI_PROT_READ | ABI_PROT_WRITE))
		return "too large for the available memory";
	take_counts(image, p, &map);
	abi_memcpy(rw->stubs, p->stubs, h->stubs_used);
	walk_runs(rw, p, 1);
	return 0;
}

int bee_cache_load(const struct bee_cache *c, const struct abi_host *os,
		   struct bee_image *image)
{
	struct parts parts;
	const char *why = 0;
	u8 *bytes = 0;
	char path[4096];
	u64 len = 0;
	s64 err;

	if (!c->dir || !make_path(c, image->sha_file, path, sizeof(path)))
		return -1;
	err = bee_os_cache_read(path, SIZE_MAX_FILE, &bytes, &len, &why);
	if (err == -LINUX_ENOENT)
		return -1;
	if (!why)
		why = err ? "unreadable" : take_apart(bytes, len, &parts);
	if (!why) {
		why = apply_parts(c, image, os, &parts);
		if (why)
			bee_image_free(image);
	}
	if (bytes)
		bee_os_free(bytes, len);
	if (!why)
		return 0;
	if (why == no_room)
		return BEE_CACHE_ELSEWHERE;
	bee_say("the cached image is rebuilt: the old one is ", why, "");
	return -1;
}

/* Writing -------------------------------------------------------------- */

struct out {
	u8 *bytes;
	u64 len, max;
};

static void put_bytes(struct out *o, const void *bytes, u64 len)
{
	if (o->len + round_up(len) <= o->max)
		abi_memcpy(o->bytes + o->len, bytes, len);
	o->len += round_up(len);
}

/* Runs that are at most 16 bytes apart are merged. */
static void put_text(struct out *o, const struct bee_text *text, const u8 *old)
{
	struct run run;
	u64 i = 0, end, look;

	while (i < text->len) {
		if (text->bytes[i] == old[i]) {
			i++;
			continue;
		}
		for (end = look = i + 1; look < text->len && look - end < 16;
		     look++)
			if (text->bytes[look] != old[look])
				end = look + 1;
		run.addr = text->addr + i;
		run.len = end - i;
		put_bytes(o, &run, sizeof(run));
		put_bytes(o, text->bytes + i, run.len);
		i = end;
	}
}

/* A text is in one segment, so its old bytes are those of the file. */
static void put_runs(struct out *o, const struct bee_cache *c,
		     const struct bee_image *image)
{
	const struct abi_elf_segment *s;
	u64 into;
	u32 i, j;

	for (i = 0; i < image->rw.texts; i++)
		for (j = 0; j < image->plan.segments; j++) {
			s = &image->plan.segment[j];
			into = image->rw.text[i].addr - s->addr;
			if (into < s->filesz)
				put_text(o, &image->rw.text[i],
					 c->file + s->offset + into);
		}
}

/* Without a buffer it only computes the length. */
static void fill_file(struct out *o, const struct bee_cache *c,
		      const struct bee_image *image)
{
	const struct bee_rewrite *rw = &image->rw;
	struct header h = {
		.magic = MAGIC,
		.revision = BEE_REVISION,
		.insns = rw->insns,
		.skipped = rw->skipped,
		.stubs_addr = rw->stubs_addr,
		.stubs_used = rw->stubs_used,
		.map_len = bee_map_size(&image->map),
		.bias = image->plan.bias,
	};

	abi_memcpy(h.sha_file, image->sha_file, 32);
	abi_memcpy(h.sha_load, image->sha_load, 32);
	abi_memcpy(h.found, rw->found, sizeof(h.found));
	abi_memcpy(h.patched, rw->patched, sizeof(h.patched));
	abi_memcpy(h.forms, rw->forms, sizeof(h.forms));
	o->len = sizeof(h);
	if (o->len + h.map_len <= o->max)
		bee_map_write(&image->map, o->bytes + o->len, h.map_len);
	o->len += round_up(h.map_len);
	put_bytes(o, rw->stubs, rw->stubs_used);
	h.runs_len = o->len;
	put_runs(o, c, image);
	h.runs_len = o->len - h.runs_len;
	if (o->len <= o->max)
		abi_memcpy(o->bytes, &h, sizeof(h));
}

/* Returns why the image cannot be stored, or NULL. */
static const char *store_image(const struct bee_cache *c,
			       const struct bee_image *image)
{
	struct out o = {0};
	char path[4096];
	s64 err;

	if (!make_path(c, image->sha_file, path, sizeof(path)))
		return "its path is too long: ";
	fill_file(&o, c, image);
	if (o.len > SIZE_MAX_FILE - 32)
		return "the image is too large: ";
	o.max = o.len;
	o.bytes = bee_os_alloc(o.max + 32);
	if (!o.bytes)
		return "there is no memory for the image: ";
	fill_file(&o, c, image);
	digest_bytes(o.bytes, o.len, o.bytes + o.len);
	err = bee_os_file_replace(path, o.bytes, o.len + 32);
	bee_os_free(o.bytes, o.max + 32);
	return err ? "" : 0;
}

void bee_cache_store(const struct bee_cache *c, const struct bee_image *image)
{
	char before[80];
	struct abi_text text;
	const char *why = c->dir ? store_image(c, image) : 0;

	if (!why)
		return;
	abi_text_init(&text, before, sizeof(before));
	abi_text_str(&text, "the cache cannot be written: ");
	abi_text_str(&text, why);
	bee_say(before, c->dir, "");
}
