// SPDX-License-Identifier: MIT
/* Where a kernel and its files are put, and the page and command line that tell
 * it so. */
#include <stdlib.h>
#include <string.h>

#include "../bytes.h"
#include "../params.h"
#include "../place.h"
#include "base/errno.h"
#include "tests/tap.h"

#define MIB (1ull << 20)
#define MAIL 0x7fe00000ull

static char reason[192];
static struct shimos_text why;
static const struct shimos_bzimage file = {.room = 40 * MIB,
					   .align = 2 * MIB,
					   .least = 16 * MIB,
					   .command_max = 2047,
					   .setup_end = 0x26c};

static void begin_reason(void)
{
	shimos_text_begin(&why, reason, sizeof(reason));
}

/* Ranges from (start, length) in MiB, up to a length of 0. */
static struct shimos_ranges make_pool(const u64 *mib)
{
	static struct skep_partition_range at[8];
	struct shimos_ranges pool = {.at = at, .room = 8};

	for (; mib[1]; mib += 2)
		at[pool.count++] = (struct skep_partition_range){
			.start = mib[0] * MIB, .length = mib[1] * MIB};
	shimos_ranges_number(&pool);
	return pool;
}

static const struct place_case {
	const char *what;
	u64 pool[8];	    /* MiB */
	u64 kernel, initrd; /* MiB: offsets of the files; 8 and 30 long */
	u64 to, at;	    /* MiB: where they are put */
	int move;
	const char *says;
} places[] = {
	{"one piece of memory", {256, 128}, 90, 98, 256, 354, 0, 0},
	{"files at its beginning", {256, 128}, 0, 8, 294, 264, 0, 0},
	{"an odd beginning", {257, 128}, 90, 98, 258, 355, 0, 0},
	{"memory below what a kernel needs", {8, 120}, 82, 90, 16, 98, 0, 0},
	{"files around the only room", {256, 82}, 0, 50, 264, 306, 0, 0},
	{"a file over two pieces",
	 {256, 32, 300, 128},
	 118,
	 20,
	 318,
	 394,
	 1,
	 0},
	{"a kernel over two pieces",
	 {256, 32, 300, 128},
	 28,
	 36,
	 334,
	 304,
	 0,
	 0},
	{"no room for the kernel",
	 {256, 76},
	 30,
	 38,
	 0,
	 0,
	 0,
	 "40 MiB in one piece for the kernel"},
	{"no room for the file system",
	 {256, 30, 300, 22, 400, 40, 500, 8},
	 92,
	 22,
	 0,
	 0,
	 0,
	 "30 MiB in one piece for the initial"},
	{"a file outside", {256, 128}, 121, 0, 0, 0, 0, "does not lie"},
	{"another file outside", {256, 128}, 0, 99, 0, 0, 0, "does not lie"},
};

static void test_places(void)
{
	const struct place_case *c = places;
	struct shimos_place_file k = {.length = 8 * MIB},
				 i = {.length = 30 * MIB};
	struct shimos_ranges pool;
	struct shimos_place got;
	int err;

	for (; c < places + sizeof(places) / sizeof(*places); c++) {
		pool = make_pool(c->pool);
		k.offset = c->kernel * MIB;
		i.offset = c->initrd * MIB;
		begin_reason();
		memset(&got, 0, sizeof(got));
		err = shimos_place_make(&pool, &file, &k, &i, &got, &why);
		if (c->says)
			tap_ok(err < 0 && strstr(reason, c->says),
			       "place: %s is refused: %s", c->what, reason);
		else
			tap_ok(!err && got.kernel == c->to * MIB &&
				       got.initrd == c->at * MIB &&
				       got.move == c->move,
			       "place: %s: %llu, %llu, %d", c->what,
			       got.kernel / MIB, got.initrd / MIB, got.move);
	}
}

/* To the last byte of a range, and one byte further. */
static void test_edge(void)
{
	const u64 mib[] = {256, 32, 300, 128, 0, 0};
	struct shimos_ranges pool = make_pool(mib);
	struct shimos_place_file k = {.offset = 100 * MIB, .length = 8 * MIB};
	struct shimos_place_file i = {.offset = 2 * MIB, .length = 30 * MIB};
	struct shimos_place got;

	tap_ok(!shimos_place_make(&pool, &file, &k, &i, &got, &why) &&
		       !got.move,
	       "place: a file to the end of a piece stays");
	i.length++;
	tap_ok(!shimos_place_make(&pool, &file, &k, &i, &got, &why) && got.move,
	       "place: a file one byte longer is moved");
}

static void test_files(void)
{
	const u64 mib[] = {256, 4, 0, 0}, none[] = {0, 0};
	struct shimos_ranges pool = make_pool(mib);
	struct shimos_place_file f = {.offset = 4096, .length = 4 * MIB - 4096};

	tap_ok(!shimos_place_check(&pool, &f, &why), "file: to the last byte");
	f.length++;
	tap_ok(shimos_place_check(&pool, &f, &why), "file: one byte too long");
	f = (struct shimos_place_file){.offset = 512, .length = 1};
	tap_ok(shimos_place_check(&pool, &f, &why), "file: not at a page");
	f = (struct shimos_place_file){.offset = 0, .length = 0};
	tap_ok(shimos_place_check(&pool, &f, &why), "file: an empty one");
	f = (struct shimos_place_file){.offset = -4096ull, .length = 8192};
	tap_ok(shimos_place_check(&pool, &f, &why), "file: around the end");
	pool = make_pool(none);
	f = (struct shimos_place_file){.offset = 0, .length = 1};
	tap_ok(shimos_place_check(&pool, &f, &why), "file: in no memory");
}

static int is_memory(const u8 *page, u32 i, u64 start, u64 length, u64 type)
{
	const u8 *e = page + 0x2d0 + i * 20;

	return shimos_bytes_get(e, 8) == start &&
	       shimos_bytes_get(e + 8, 8) == length &&
	       shimos_bytes_get(e + 16, 4) == type;
}

static void test_params(void)
{
	static u8 page[SHIMOS_PARAMS_BYTES];
	const u64 mib[] = {256, 4, 8192, 1024, 0, 0};
	struct shimos_ranges pool = make_pool(mib);
	struct shimos_bzimage b = file;
	struct shimos_params p = {.command = 0x1111222233334000,
				  .initrd = 0x2111222233334000,
				  .initrd_length = 0x300000004,
				  .low = 0x60000,
				  .low_length = 0x10000,
				  .acpi = 0x5000000000,
				  .acpi_length = 0x2000};
	int err;

	memset(b.head, 0x5a, sizeof(b.head));
	begin_reason();
	err = shimos_params_write(page, &b, &p, &pool, &why);
	tap_ok(!err && page[0x1f0] == 0 && page[0x1f1] == 0x5a &&
		       page[0x26b] == 0x5a && page[0x26c] == 0,
	       "params: the file's header and nothing of what is around it");
	tap_ok(shimos_bytes_get(page + 0x228, 4) == 0x33334000 &&
		       shimos_bytes_get(page + 0xc8, 4) == 0x11112222 &&
		       shimos_bytes_get(page + 0x218, 4) == 0x33334000 &&
		       shimos_bytes_get(page + 0xc0, 4) == 0x21112222 &&
		       shimos_bytes_get(page + 0x21c, 4) == 4 &&
		       shimos_bytes_get(page + 0xc4, 4) == 3,
	       "params: addresses above 4 GiB are whole");
	tap_ok(page[0x210] == 0xff &&
		       shimos_bytes_get(page + 0x70, 8) == p.acpi,
	       "params: the loader, and where ACPI begins");
	tap_ok(page[0x1e8] == 4 && is_memory(page, 0, 0x60000, 0x10000, 1) &&
		       is_memory(page, 1, p.acpi, 0x2000, 3) &&
		       is_memory(page, 2, 256 * MIB, 4 * MIB, 1) &&
		       is_memory(page, 3, 8192 * MIB, 1024 * MIB, 1),
	       "params: memory is what was lent");
}

static void test_many_ranges(void)
{
	static u8 page[SHIMOS_PARAMS_BYTES];
	struct skep_partition_range *at = calloc(127, sizeof(*at));
	struct shimos_ranges pool = {.at = at, .count = 126, .room = 127};
	struct shimos_params p = {.low = 1};
	u32 i;

	for (i = 0; i < 127; i++)
		at[i] = (struct skep_partition_range){.start = i * 4 * MIB,
						      .length = 2 * MIB};
	begin_reason();
	tap_ok(!shimos_params_write(page, &file, &p, &pool, &why) &&
		       page[0x1e8] == 128 &&
		       is_memory(page, 127, 125 * 4 * MIB, 2 * MIB, 1),
	       "params: as many pieces as the page has entries");
	pool.count = 127;
	tap_ok(shimos_params_write(page, &file, &p, &pool, &why) ==
			       -LINUX_ENOSPC &&
		       strstr(reason, "127 pieces"),
	       "params: one piece more is refused");
	free(at);
}

static int build_command(char *to, u32 most, const char *user, u32 size)
{
	begin_reason();
	return shimos_params_command(to, most, user, size, 2400000, MAIL, &why);
}

static void test_command(void)
{
	static const char *const bad[] = {"a \"b", "--", "a -- b", "a --",
					  "a\tb",  "\n", "a\x80"};
	char to[2048], user[4000], open[4] = "abcd";
	u32 i, least;

	tap_ok(!build_command(to, sizeof(to), "a=b --x - c--", 14) &&
		       strstr(to, "a=b --x - c-- console=ttyL0 ") == to &&
		       strstr(to, " pci=off ") && strstr(to, " panic=0 ") &&
		       strstr(to, " tsc_early_khz=2400000 ") &&
		       strstr(to, " shimos_guest.mail=2145386496"),
	       "command: ours comes last: %s", to);
	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		tap_ok(build_command(to, sizeof(to), bad[i],
				     strlen(bad[i]) + 1) == -LINUX_EINVAL &&
			       *reason,
		       "command: refused: %s", reason);
	tap_ok(build_command(to, sizeof(to), open, sizeof(open)) < 0,
	       "command: words without an end are refused");
	memset(user, 'x', sizeof(user));
	user[sizeof(user) - 1] = 0;
	tap_ok(build_command(to, sizeof(to), user, sizeof(user)) < 0 &&
		       strstr(reason, "too long"),
	       "command: too many words are refused");
	build_command(to, sizeof(to), "", 1);
	least = strlen(to) + 2;
	tap_ok(!build_command(to, least, "", 1) &&
		       build_command(to, least - 1, "", 1) < 0,
	       "command: to the last byte, and no byte further");
}

int main(void)
{
	test_places();
	test_edge();
	test_files();
	test_params();
	test_many_ranges();
	test_command();
	return tap_done();
}
