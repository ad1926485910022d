/* SPDX-License-Identifier: MIT */
/*
 * The files of the image cache, without a guest: what is stored is loaded, here
 * or at another address, and a file in which a field is wrong is refused though
 * its digest is right. Files are kept in memory.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/errno.h"
#include "base/sha256.h"
#include "bee/core/cache.h"
#include "bee/core/core.h"
#include "bee/core/image.h"
#include "tests/tap.h"

#define PAGE 0x1000ull
#define FILE_MAX (64ull << 20)
#define FOLDER "/cache"

/* Offsets in a file's header, and its length. */
enum {
	MAGIC = 0,
	REVISION = 8,
	SHA_FILE = 16,
	STUBS_ADDR = 160,
	STUBS_USED = 168,
	MAP_LEN = 176,
	RUNS_LEN = 184,
	BIAS = 192,
	HEAD = 200,
};

/* Memory, files and messages ----------------------------------------------- */

static int live, fail_at; /* blocks; the allocation that fails, from 1 */
static char said[512];
static u8 *stored;
static u64 stored_len;
static char stored_path[4200];
static s64 read_error, replace_error;
static const char *read_why;

/* Each block knows its length, which whoever frees it must know too. */
void *bee_os_alloc(u64 len)
{
	u64 *block = fail_at && !--fail_at ? NULL : calloc(1, len + 16);

	if (!block)
		return NULL;
	live++;
	*block = len;
	return block + 2;
}

void bee_os_free(void *p, u64 len)
{
	u64 *block = (u64 *)p - 2;

	if (*block != len) {
		tap_ok(0, "a block is freed with the length that it has");
		exit(1);
	}
	live--;
	free(block);
}

/* As in image.c. */
void bee_image_free(struct bee_image *image)
{
	struct bee_rewrite *rw = &image->rw;

	if (rw->site)
		bee_os_free(rw->site, rw->sites_max * sizeof(*rw->site) + 8);
	if (rw->pc)
		bee_os_free(rw->pc, rw->pcs_max * sizeof(*rw->pc) + 8);
	rw->site = NULL;
	rw->pc = NULL;
}

void bee_sha256_init(struct skep_sha256 *s)
{
	skep_sha256_init(s);
}

void bee_say(const char *before, const char *subject, const char *after)
{
	snprintf(said, sizeof(said), "%s%.80s%s", before, subject, after);
}

s64 bee_os_cache_read(const char *path, u64 max, u8 **bytes, u64 *len,
		      const char **why)
{
	if (read_why)
		*why = read_why;
	if (read_error || read_why)
		return read_error;
	if (max != FILE_MAX || strcmp(path, stored_path))
		return -LINUX_EINVAL;
	*bytes = bee_os_alloc(stored_len);
	memcpy(*bytes, stored, stored_len);
	*len = stored_len;
	return 0;
}

s64 bee_os_file_replace(const char *path, const u8 *bytes, u64 len)
{
	if (replace_error)
		return replace_error;
	snprintf(stored_path, sizeof(stored_path), "%s", path);
	free(stored);
	stored = malloc(len);
	memcpy(stored, bytes, len);
	stored_len = len;
	return 0;
}

static u64 committed, committed_len;
static s64 commit_error;

static s64 mem_commit(u64 addr, u64 len, u32 prot)
{
	committed = addr;
	committed_len = len;
	return prot == (ABI_PROT_READ | ABI_PROT_WRITE) ? commit_error
							: -LINUX_EINVAL;
}

static const struct abi_host os = {.mem_commit = mem_commit};

/* Images ------------------------------------------------------------------- */

/* Two neighbouring texts, a page without, and pages for stubs. */
struct place {
	u8 text[2 * PAGE], between[PAGE], stubs[2 * PAGE];
};
static struct place place[2] __attribute__((aligned(PAGE)));
static u8 file[2 * PAGE + 64]; /* texts begin at 64 */
static struct bee_image image[2];
static struct bee_site site[3];
static struct bee_stub_pc pc[2];

static u64 address_of(const void *p)
{
	return (u64)(__UINTPTR_TYPE__)p;
}

static void make_image(int n)
{
	struct bee_image *m = &image[n];
	u32 i;

	memset(m, 0, sizeof(*m));
	memcpy(place[n].text, file + 64, sizeof(place[n].text));
	memset(place[n].between, 'b', sizeof(place[n].between));
	memset(place[n].stubs, 0, sizeof(place[n].stubs));
	m->plan.bias = address_of(&place[n]);
	m->plan.end = address_of(place[n].between);
	m->plan.segments = m->rw.texts = 2;
	for (i = 0; i < 2; i++) {
		m->rw.text[i] = (struct bee_text){
			.bytes = place[n].text + i * PAGE,
			.addr = address_of(place[n].text + i * PAGE),
			.len = PAGE};
		m->plan.segment[i].addr = m->rw.text[i].addr;
		m->plan.segment[i].filesz = PAGE;
		m->plan.segment[i].offset = 64 + i * PAGE;
	}
	memset(m->sha_file, 0xab, sizeof(m->sha_file));
}

/* As after rewriting: one site of each form that the map distinguishes. */
static void rewrite_image(void)
{
	struct bee_rewrite *rw = &image[0].rw;
	u64 text = address_of(place[0].text),
	    stubs = address_of(place[0].stubs);

	site[0] =
		(struct bee_site){.addr = text, .patch = text, .patch_len = 9};
	site[1] = (struct bee_site){.addr = text + 102,
				    .patch = text + 100,
				    .patch_len = 7,
				    .stub = stubs,
				    .stub_len = 40,
				    .kind = BEE_SITE_FS,
				    .form = BEE_FORM_JMP};
	site[2] = (struct bee_site){.addr = text + 200,
				    .patch = text + 200,
				    .patch_len = 2,
				    .stub = stubs + 40,
				    .stub_len = 61,
				    .cave = text + 300,
				    .form = BEE_FORM_CAVE};
	pc[0] = (struct bee_stub_pc){
		.stub = stubs, .guest = text + 102, .scratch = 3};
	pc[1] = (struct bee_stub_pc){
		.stub = stubs + 40, .guest = text + 200, .pushed = 1};
	rw->site = site;
	rw->pc = pc;
	rw->sites = 3;
	rw->pcs = 2;
	rw->stubs = place[0].stubs;
	rw->stubs_addr = stubs;
	rw->stubs_used = 101;
	memset(rw->stubs, 's', rw->stubs_used);
	memset(rw->found, 1, sizeof(rw->found));
	memset(rw->patched, 2, sizeof(rw->patched));
	memset(rw->forms, 3, sizeof(rw->forms));
	rw->insns = 1234;
	rw->skipped = 56;
	memset(image[0].sha_load, 0xcd, sizeof(image[0].sha_load));
	bee_map_from(&image[0].map, rw);
}

static struct bee_cache library = {.dir = FOLDER, .file = file};

/* The first image is stored, with the changes that its text has. */
static void store_first(void)
{
	*said = 0;
	bee_cache_store(&library, &image[0]);
}

static int load_into(int n)
{
	*said = 0;
	committed = committed_len = 0;
	make_image(n);
	return bee_cache_load(&library, &os, &image[n]);
}

static void use_room(int n)
{
	library.room = address_of(place[n].stubs);
	library.room_end = library.room + PAGE;
}

/* Loads; the text must be as it was, and nothing may stay allocated. */
static int is_refused(int n, int code, const char *why)
{
	int got = load_into(n);

	return got == code && !live && !strcmp(said, why) &&
	       !memcmp(place[n].text, file + 64, sizeof(place[n].text)) &&
	       !*place[n].stubs;
}

#define REBUILT "the cached image is rebuilt: the old one is "

/* Stored and loaded -------------------------------------------------------- */

static int same_sites(u64 delta)
{
	const struct bee_site *s = image[1].rw.site;
	const struct bee_stub_pc *p = image[1].rw.pc;
	int i, same = 1;

	for (i = 0; i < 3; i++)
		same &= s[i].addr == site[i].addr + delta &&
			s[i].patch == site[i].patch + delta &&
			s[i].stub == (i ? site[i].stub + delta : 0) &&
			s[i].cave == (i == 2 ? site[i].cave + delta : 0) &&
			s[i].stub_len == site[i].stub_len &&
			s[i].patch_len == site[i].patch_len &&
			s[i].kind == site[i].kind && s[i].form == site[i].form;
	for (i = 0; i < 2; i++)
		same &= p[i].stub == pc[i].stub + delta &&
			p[i].guest == pc[i].guest + delta &&
			p[i].scratch == pc[i].scratch &&
			p[i].pushed == pc[i].pushed;
	return same;
}

static void check_moved(void)
{
	const struct bee_rewrite *a = &image[0].rw, *b = &image[1].rw;
	u64 delta = sizeof(struct place);

	use_room(1);
	tap_ok(!load_into(1) && live == 2 && !*said,
	       "an image is loaded at another address");
	tap_ok(!memcmp(&place[0], &place[1], sizeof(place[0])),
	       "with its text and its stubs, and no byte beyond");
	tap_ok(b->sites == 3 && b->pcs == 2 && same_sites(delta),
	       "its sites and PCs have moved");
	tap_ok(b->stubs == place[1].stubs &&
		       b->stubs_addr == address_of(place[1].stubs) &&
		       b->stubs_used == 101 && b->stubs_len == PAGE &&
		       committed == b->stubs_addr && committed_len == PAGE,
	       "its stubs have one page, which was committed");
	tap_ok(!memcmp(a->found, b->found, sizeof(a->found)) &&
		       !memcmp(a->patched, b->patched, sizeof(a->patched)) &&
		       !memcmp(a->forms, b->forms, sizeof(a->forms)) &&
		       b->insns == 1234 && b->skipped == 56 &&
		       !memcmp(image[0].sha_load, image[1].sha_load, 32),
	       "its counts and its digest are those that were stored");
	bee_image_free(&image[1]);
}

static void check_room(void)
{
	static const struct {
		const char *what;
		s64 start, end;
		int code;
	} rooms[] = {
		{"exactly the room that stubs need", 0, PAGE, 0},
		{"more room on both sides", -8, PAGE + 8, 0},
		{"a room that begins later", 1, 2 * PAGE, 1},
		{"a room that ends earlier", 0, PAGE - 1, 1},
		{"a room before the stubs", -8, -1, 1},
	};
	size_t i;

	for (i = 0; i < sizeof(rooms) / sizeof(*rooms); i++) {
		int code;

		library.room = address_of(place[1].stubs) + (u64)rooms[i].start;
		library.room_end =
			address_of(place[1].stubs) + (u64)rooms[i].end;
		code = rooms[i].code;
		tap_ok(code ? is_refused(1, BEE_CACHE_ELSEWHERE, "")
			    : !load_into(1),
		       "%s: %s", rooms[i].what, code ? "elsewhere" : "loaded");
		bee_image_free(&image[1]);
	}
}

/* Runs: what of the text is in a file -------------------------------------- */

/* Marks bytes of the first text as changed; the length of all runs. */
static u64 runs_of(const u32 *at, int count)
{
	u64 len;

	make_image(0);
	rewrite_image();
	while (count--)
		place[0].text[at[count]] ^= 0xff;
	store_first();
	memcpy(&len, stored + RUNS_LEN, sizeof(len));
	return len;
}

static void check_runs(void)
{
	static const struct {
		const char *what;
		u32 at[3];
		int count;
		u64 len;
	} runs[] = {
		{"no changed byte", {0}, 0, 0},
		{"the first byte", {0}, 1, 16 + 8},
		{"the last byte of a text", {PAGE - 1}, 1, 16 + 8},
		{"the first byte of the next", {PAGE}, 1, 16 + 8},
		{"the last and the first", {PAGE - 1, PAGE}, 2, 2 * (16 + 8)},
		{"15 equal bytes between two", {8, 24}, 2, 16 + 24},
		{"16 equal bytes between two", {8, 25}, 2, 2 * (16 + 8)},
		{"two pairs in one run", {8, 24, 40}, 3, 16 + 40},
		{"8 bytes", {8, 15}, 2, 16 + 8},
		{"9 bytes", {8, 16}, 2, 16 + 16},
		{"the end", {2 * PAGE - 17, 2 * PAGE - 1}, 2, 16 + 24},
	};
	size_t i;

	use_room(1);
	for (i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
		u64 len = runs_of(runs[i].at, runs[i].count);

		tap_ok(len == runs[i].len && !load_into(1) &&
			       !memcmp(place[0].text, place[1].text,
				       sizeof(place[0].text)),
		       "%s: %d bytes of runs, and the same text again",
		       runs[i].what, (int)len);
		bee_image_free(&image[1]);
	}
}

/* Hostile files: the digest is right --------------------------------------- */

static u8 *good;
static u64 good_len;

static void seal_file(void)
{
	struct skep_sha256 sha;

	skep_sha256_init(&sha);
	skep_sha256_update(&sha, stored, stored_len - 32);
	skep_sha256_final(&sha, stored + stored_len - 32);
}

static void keep_good(void)
{
	good = malloc(stored_len);
	memcpy(good, stored, stored_len);
	good_len = stored_len;
}

static void plant_field(u64 at, u64 value)
{
	memcpy(stored, good, good_len);
	memcpy(stored + at, &value, sizeof(value));
	seal_file();
}

static u64 get_field(u64 at)
{
	u64 value;

	memcpy(&value, good + at, sizeof(value));
	return value;
}

static void check_hostile(void)
{
	const u64 map = HEAD, runs = good_len - 32 - get_field(RUNS_LEN);
	const u64 text = address_of(place[0].text);
	const struct {
		const char *what;
		u64 at, value;
		const char *why;
	} bad[] = {
		{"the magic", MAGIC, 1, "written by another version of bee"},
		{"the revision", REVISION, 1,
		 "written by another version of bee"},
		{"the program", SHA_FILE, 1, "of another program"},
		{"a longer map", MAP_LEN, get_field(MAP_LEN) + 8, "damaged"},
		{"an endless map", MAP_LEN, ~7ull, "damaged"},
		{"longer stubs", STUBS_USED, 105, "damaged"},
		{"shorter stubs", STUBS_USED, 100, "damaged"},
		{"endless stubs", STUBS_USED, ~7ull, "damaged"},
		{"longer runs", RUNS_LEN, get_field(RUNS_LEN) + 8, "damaged"},
		{"endless runs", RUNS_LEN, ~7ull, "damaged"},
		{"stubs elsewhere", STUBS_ADDR,
		 address_of(place[0].stubs) + PAGE, "damaged"},
		{"the map's magic", map, 1, "damaged"},
		{"a run before its text", runs, text - 1, "damaged"},
		{"a run behind its text", runs, text + 2 * PAGE, "damaged"},
		{"a run that leaves its text", runs, text + PAGE - 8,
		 "damaged"},
		{"an endless run", runs + 8, ~7ull, "damaged"},
		{"a run longer than the file", runs + 8, 17, "damaged"},
		{"a run whose end is cut", runs + 8, 1, "damaged"},
	};
	char why[200];
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		plant_field(bad[i].at, bad[i].value);
		snprintf(why, sizeof(why), REBUILT "%s", bad[i].why);
		library.room = 0;
		library.room_end = ~0ull & ~(PAGE - 1);
		tap_ok(is_refused(0, -1, why), "refused: %s: %s", bad[i].what,
		       said);
	}
	plant_field(runs, text + PAGE - 16);
	tap_ok(!load_into(0) && place[0].text[PAGE - 1] == good[runs + 31],
	       "a run up to the end of its text is loaded");
	bee_image_free(&image[0]);
}

static void check_elsewhere(void)
{
	plant_field(BIAS, get_field(BIAS) - 8);
	use_room(0);
	library.room_end += PAGE;
	tap_ok(is_refused(0, BEE_CACHE_ELSEWHERE, ""),
	       "stubs that would begin within a page are for another place");
	library.room = library.room_end = 0;
	plant_field(BIAS, get_field(BIAS));
	tap_ok(is_refused(0, -1, REBUILT "damaged"),
	       "a program's stubs follow its segments");
	make_image(0);
	image[0].plan.end = address_of(place[0].stubs) - PAGE + 1;
	tap_ok(!bee_cache_load(&library, &os, &image[0]) && live == 2,
	       "a program's stubs begin with the page behind its end");
	bee_image_free(&image[0]);
	plant_field(BIAS, get_field(BIAS) + PAGE);
	make_image(0);
	image[0].plan.end = address_of(place[0].stubs);
	tap_ok(bee_cache_load(&library, &os, &image[0]) == -1 && !live,
	       "a program's image does not move");
}

static void set_length(u64 len)
{
	free(stored);
	stored = calloc(1, len + 1);
	stored_len = len;
}

static void check_length(void)
{
	static const struct {
		u64 len;
		const char *why;
	} lengths[] = {
		{HEAD + 31, REBUILT "of the wrong size"},
		{HEAD + 32, REBUILT "damaged"},
		{FILE_MAX, REBUILT "damaged"},
		{FILE_MAX + 1, REBUILT "of the wrong size"},
	};
	size_t i;

	for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		set_length(lengths[i].len);
		tap_ok(is_refused(0, -1, lengths[i].why), "%d bytes: %s",
		       (int)lengths[i].len, said);
	}
	set_length(good_len);
	plant_field(BIAS, get_field(BIAS));
	use_room(0);
}

/* Failures ----------------------------------------------------------------- */

static void check_failures(void)
{
	int i;

	for (i = 2; i <= 3; i++) {
		fail_at = i;
		tap_ok(is_refused(0, -1,
				  REBUILT "too large for the available memory"),
		       "without memory for array %d: %s", i - 1, said);
	}
	commit_error = -LINUX_ENOMEM;
	tap_ok(is_refused(0, -1, REBUILT "too large for the available memory"),
	       "without memory for stubs: %s", said);
	commit_error = 0;
	read_error = -LINUX_ENOENT;
	tap_ok(is_refused(0, -1, ""), "a file that is missing is not reported");
	read_error = -LINUX_EIO;
	tap_ok(is_refused(0, -1, REBUILT "unreadable"), "an error: %s", said);
	read_error = 0;
	read_why = "writable by others";
	tap_ok(is_refused(0, -1, REBUILT "writable by others"),
	       "a file that the host refuses: %s", said);
	read_why = NULL;
	library.dir = NULL;
	tap_ok(is_refused(0, -1, ""), "without a cache nothing is loaded");
	store_first();
	tap_ok(!*said, "and nothing is stored");
	library.dir = FOLDER;
}

#define UNWRITTEN "the cache cannot be written: "

static void check_unwritten(void)
{
	static char folder[4027];

	make_image(0);
	rewrite_image();
	fail_at = 1;
	store_first();
	tap_ok(!strcmp(said,
		       UNWRITTEN "there is no memory for the image: " FOLDER),
	       "%s", said);
	replace_error = -LINUX_EACCES;
	store_first();
	tap_ok(!strcmp(said, UNWRITTEN FOLDER) && !live, "%s", said);
	replace_error = 0;
	memset(folder, '/', 4025);
	library.dir = folder;
	store_first();
	tap_ok(!*said && strlen(stored_path) == 4094,
	       "a folder's path of 4025 bytes");
	folder[4025] = '/';
	store_first();
	tap_ok(strstr(said, "its path is too long: /") != NULL,
	       "a longer one: %.70s", said);
	library.dir = FOLDER;
}

/* The largest file, and one that is larger. */
static void check_largest(void)
{
	u64 other = HEAD + bee_map_size(&image[0].map) + 32;
	u8 *stubs = calloc(1, FILE_MAX);

	image[0].rw.stubs = stubs;
	image[0].rw.stubs_used = FILE_MAX - other;
	store_first();
	tap_ok(!*said && stored_len == FILE_MAX, "the largest file is stored");
	image[0].rw.stubs_used++;
	store_first();
	tap_ok(!strcmp(said, UNWRITTEN "the image is too large: " FOLDER) &&
		       !live,
	       "%s", said);
	free(stubs);
}

int main(void)
{
	const u32 changed[] = {100, 107, PAGE + 5};
	size_t i;

	for (i = 0; i < sizeof(file); i++)
		file[i] = (u8)(i * 7);
	runs_of(changed, 3);
	check_moved();
	runs_of(changed, 3);
	check_room();
	check_runs();
	runs_of((const u32[]){16, 31}, 2);
	keep_good();
	check_hostile();
	check_elsewhere();
	check_length();
	check_failures();
	check_unwritten();
	check_largest();
	free(good);
	free(stored);
	return tap_done();
}
