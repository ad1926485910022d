/* SPDX-License-Identifier: MIT */
/*
 * Rewrites real programs and proves from the result that nothing is left: the
 * patched text is decoded again from every instruction start that survives.
 */
#include "bee/rewrite/test/image.h"
#include "tests/tap.h"

/* Independent of the rewriter's classification: plain byte patterns. */
static int is_left(const u8 *p, const struct bee_insn *insn)
{
	if (insn->seg == 0x64 && insn->memory && insn->opcode != 0x8d &&
	    !(insn->map == 1 && insn->opcode == 0x1f))
		return 1;
	if (insn->map == 1 && (insn->opcode == 0x05 || insn->opcode == 0xa2))
		return 1;
	return insn->len == 3 && !memcmp(p, "\x0f\x01\xd0", 3);
}

static u64 count_left(const struct bee_rewrite *rw)
{
	const u8 *marks = rw->marks;
	u64 left = 0;

	for (u32 t = 0; t < rw->texts; marks += rw->text[t++].len)
		for (u64 i = 0; i < rw->text[t].len; i++) {
			struct bee_insn insn;
			const u8 *p = rw->text[t].bytes + i;

			/* 1: an instruction starts, 4: part of a patch */
			if ((marks[i] & 5) != 1)
				continue;
			if (bee_decode(p, rw->text[t].len - i, &insn) < 0)
				left++;
			else
				left += is_left(p, &insn);
		}
	return left;
}

static u64 count_left_in_stubs(const struct bee_rewrite *rw)
{
	struct bee_insn insn;
	u64 left = 0;

	for (u64 at = 0; at < rw->stubs_used; at += insn.len) {
		if (bee_decode(rw->stubs + at, rw->stubs_used - at, &insn) < 0)
			return ~0ULL;
		left += is_left(rw->stubs + at, &insn);
	}
	return left;
}

static int check_map(const struct bee_rewrite *rw)
{
	struct bee_map map, back;
	struct bee_site *site = calloc(rw->sites + 1, sizeof(*site));
	struct bee_stub_pc *pc = calloc(rw->pcs + 1, sizeof(*pc));
	u64 size;
	u8 *bytes;
	int ok;

	bee_map_from(&map, rw);
	size = bee_map_size(&map);
	bytes = malloc(size);
	ok = bee_map_write(&map, bytes, size) == (s64)size &&
	     !bee_map_read(&back, bytes, size, site, rw->sites, pc, rw->pcs) &&
	     !memcmp(site, rw->site, rw->sites * sizeof(*site)) &&
	     !memcmp(pc, rw->pc, rw->pcs * sizeof(*pc));
	free(bytes);
	free(site);
	free(pc);
	return ok;
}

static void print_counts(const struct bee_rewrite *rw, double ms)
{
	printf("# %llu instructions, %u functions, %llu bytes skipped, %.1f "
	       "ms\n",
	       rw->insns, rw->codes, rw->skipped, ms);
	printf("# syscall %u, fs stub %u, fs in place %u, cpuid %u, xgetbv "
	       "%u\n",
	       rw->found[0], rw->found[1], rw->found[2], rw->found[3],
	       rw->found[4]);
	printf("# in place %u, jmp %u, call %u, cave %u, moved %u; stubs "
	       "%llu\n",
	       rw->forms[0], rw->forms[1], rw->forms[2], rw->forms[3],
	       rw->patched[BEE_SITE_MOVED], rw->stubs_used);
}

static void cover_file(const char *path)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	struct bee_rewrite rw;
	double start;
	u64 left;
	int rc;

	if (image_open(&rw, path)) {
		tap_skip(name, "not installed");
		return;
	}
	start = image_now();
	rc = bee_rewrite(&rw);
	print_counts(&rw, image_now() - start);
	if (!tap_ok(!rc, "%s: rewritten", name)) {
		printf("# rc %d, %s\n", rc, rw.why);
		return;
	}
	tap_ok(!memcmp(rw.found, rw.patched, 5 * sizeof(rw.found[0])) &&
		       rw.found[0],
	       "%s: every site found is patched", name);
	left = count_left(&rw);
	tap_ok(!left, "%s: no site is left in the text", name);
	left = count_left_in_stubs(&rw);
	tap_ok(!left, "%s: no site is left in the stubs", name);
	tap_ok(check_map(&rw),
	       "%s: the map is the same after it was written and read", name);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		cover_file(argv[i]);
	return tap_done();
}
