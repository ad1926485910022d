/* SPDX-License-Identifier: MIT */
/* A static ELF file read for tests: what bee_rewrite is given. */
#ifndef BEE_REWRITE_TEST_IMAGE_H
#define BEE_REWRITE_TEST_IMAGE_H

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bee/rewrite/rewrite.h"

static u8 *image_read(const char *path, u64 *len)
{
	FILE *f = fopen(path, "rb");
	u8 *bytes;

	if (!f)
		return NULL;
	fseek(f, 0, SEEK_END);
	*len = (u64)ftell(f);
	rewind(f);
	bytes = malloc(*len + 16);
	if (fread(bytes, 1, *len, f) != *len)
		abort();
	fclose(f);
	return bytes;
}

static void image_take_section(struct bee_rewrite *rw, u8 *bytes,
			       const Elf64_Shdr *s, const char *name, u64 bias,
			       struct bee_range *range, u32 max)
{
	u8 *p = bytes + s->sh_offset;

	if (!(s->sh_flags & SHF_ALLOC) || s->sh_type == SHT_NOBITS ||
	    s->sh_flags & SHF_TLS)
		return;
	if (s->sh_flags & SHF_EXECINSTR) {
		rw->text[rw->texts++] =
			(struct bee_text){p, s->sh_addr + bias, s->sh_size};
		return;
	}
	rw->data[rw->datas++] =
		(struct bee_data){p, s->sh_addr + bias, s->sh_size, 0};
	if (strcmp(name, ".eh_frame"))
		return;
	rw->codes = bee_eh_ranges(p, s->sh_size, s->sh_addr + bias, range, max);
	if (rw->codes)
		rw->code = range;
}

static void image_allocate(struct bee_rewrite *rw, u64 stubs_addr)
{
	struct bee_rewrite_need need;

	bee_rewrite_sizes(rw, &need);
	rw->sites_max = need.sites;
	rw->pcs_max = need.pcs;
	rw->stubs_len = need.stubs_len;
	rw->site = calloc(need.sites, sizeof(*rw->site));
	rw->pc = calloc(need.pcs, sizeof(*rw->pc));
	rw->stubs = calloc(1, need.stubs_len);
	rw->marks = calloc(1, need.marks_len);
	rw->stubs_addr = stubs_addr;
	for (u32 i = 0; i < SKEP_SLOT_COUNT; i++)
		rw->slot[i] = SKEP_TEB_SLOT_BASE + 8 * (s32)i;
}

static int image_open(struct bee_rewrite *rw, const char *path)
{
	enum { MAX = 1 << 20 };
	struct bee_range *range = malloc(MAX * sizeof(*range));
	u64 len, bias, end = 0;
	u8 *bytes = image_read(path, &len);
	const Elf64_Ehdr *eh = (void *)bytes;
	const Elf64_Shdr *sh;
	const char *names;

	*rw = (struct bee_rewrite){0};
	if (!bytes)
		return -1;
	bias = eh->e_type == ET_DYN ? SKEP_PIE_START : 0;
	rw->bias = bias;
	rw->entry = eh->e_entry + bias;
	sh = (void *)(bytes + eh->e_shoff);
	names = (char *)bytes + sh[eh->e_shstrndx].sh_offset;
	for (int i = 0; i < eh->e_shnum; i++) {
		image_take_section(rw, bytes, &sh[i], names + sh[i].sh_name,
				   bias, range, MAX);
		if (sh[i].sh_flags & SHF_ALLOC &&
		    sh[i].sh_addr + sh[i].sh_size + bias > end)
			end = sh[i].sh_addr + sh[i].sh_size + bias;
	}
	image_allocate(rw, (end + 0xfffff) & ~0xfffffULL);
	return 0;
}

static double image_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

#endif
