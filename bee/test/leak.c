/* SPDX-License-Identifier: MIT */
/*
 * Only in build/test/bee-leak: stands in front of the rewriter and puts the
 * original bytes of some sites back afterwards, as a defect would leave them.
 * BEE_LEAK names the kind: "syscall", "fs", "cpuid" or "xgetbv". "count" leaves
 * all as it is, and has the rewriter say that it patched a site less than it
 * found. With "library-" before it, only text of the test's library leaks: it
 * is the smallest.
 */
#include <stdlib.h>
#include <string.h>

#include "bee/rewrite/rewrite.h"

int __wrap_bee_rewrite(struct bee_rewrite *rw);
int __real_bee_rewrite(struct bee_rewrite *rw);

#define LIBRARY_MAX 0x1000u

/* What of BEE_LEAK is for this image; NULL: nothing. */
static const char *leak_kind(const struct bee_rewrite *rw)
{
	static const char before[] = "library-";
	const char *kind = getenv("BEE_LEAK");
	u64 len = 0;
	u32 i;

	if (!kind || strncmp(kind, before, sizeof(before) - 1))
		return kind;
	for (i = 0; i < rw->texts; i++)
		len += rw->text[i].len;
	return rw->text[0].addr > SKEP_MMAP_START && len < LIBRARY_MAX
		       ? kind + sizeof(before) - 1
		       : NULL;
}

static int is_chosen(const struct bee_site *site, const char *kind)
{
	static const struct {
		const char *name;
		u8 kind;
	} leaks[] = {
		{"syscall", BEE_SITE_SYSCALL},
		{"fs", BEE_SITE_FS_INPLACE},
		{"cpuid", BEE_SITE_CPUID},
		{"xgetbv", BEE_SITE_XGETBV},
	};

	for (u32 i = 0; kind && i < sizeof(leaks) / sizeof(leaks[0]); i++)
		if (!strcmp(kind, leaks[i].name))
			return site->kind == leaks[i].kind;
	return 0;
}

int __wrap_bee_rewrite(struct bee_rewrite *rw)
{
	const char *kind = leak_kind(rw);
	u8 *copy[BEE_TEXTS_MAX] = {0};
	struct bee_text *text;
	int err;
	u32 i, j;

	for (i = 0; i < rw->texts; i++) {
		copy[i] = malloc(rw->text[i].len);
		if (!copy[i])
			abort();
		memcpy(copy[i], rw->text[i].bytes, rw->text[i].len);
	}
	err = __real_bee_rewrite(rw);
	for (i = 0; !err && i < rw->sites; i++) {
		for (j = 0; is_chosen(&rw->site[i], kind) && j < rw->texts;
		     j++) {
			text = &rw->text[j];
			if (rw->site[i].patch - text->addr < text->len)
				memcpy(text->bytes +
					       (rw->site[i].patch - text->addr),
				       copy[j] +
					       (rw->site[i].patch - text->addr),
				       rw->site[i].patch_len);
		}
	}
	for (i = 0; i < rw->texts; i++)
		free(copy[i]);
	if (!err && kind && !strcmp(kind, "count"))
		rw->patched[BEE_SITE_SYSCALL]--;
	return err;
}
