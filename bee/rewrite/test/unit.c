/* SPDX-License-Identifier: MIT */
/* Decisions of the rewriter, its refusals, its map, and the pure parsers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bee/rewrite/rewrite.h"
#include "tests/tap.h"

#define TEXT 0x401000ULL
#define DATA 0x403000ULL
#define STUBS 0x410000ULL

static u8 text[256], data[64], stubs[4096], marks[256];
static struct bee_site sites[64];
static struct bee_stub_pc pcs[256];
static struct bee_rewrite rw;

static void prepare_text(const char *bytes, u64 n)
{
	memset(text, 0x90, sizeof(text));
	memset(data, 0, sizeof(data));
	memset(marks, 0, sizeof(marks));
	memcpy(text, bytes, n);
	rw = (struct bee_rewrite){
		.text = {{text, TEXT, n}},
		.texts = 1,
		.entry = TEXT,
		.data = {{data, DATA, sizeof(data), 0}},
		.datas = 1,
		.stubs = stubs,
		.stubs_addr = STUBS,
		.stubs_len = sizeof(stubs),
		.site = sites,
		.sites_max = 64,
		.pc = pcs,
		.pcs_max = 256,
		.marks = marks,
	};
	for (int i = 0; i < SKEP_SLOT_COUNT; i++)
		rw.slot[i] = SKEP_TEB_SLOT_BASE + 8 * i;
}
#define PREPARE(s) prepare_text(s, sizeof(s) - 1)

static int is_refused(const char *bytes, u64 n, const char *word)
{
	prepare_text(bytes, n);
	return bee_rewrite(&rw) == -8 && strstr(rw.why, word) &&
	       !memcmp(text, bytes, n);
}
#define REFUSED(s, word) is_refused(s, sizeof(s) - 1, word)

static void test_refusals(void)
{
	tap_ok(REFUSED("\xcd\x80\xc3", "int 0x80") &&
		       strstr(rw.why, "0x401000"),
	       "int 0x80 is refused by name and address");
	tap_ok(REFUSED("\x0f\x34", "sysenter"), "sysenter is refused");
	tap_ok(REFUSED("\x65\x48\x8b\x04\x25\0\0\0\0", "gs:"),
	       "gs: is refused");
	tap_ok(REFUSED("\xf3\x48\x0f\xae\xd0", "wrfsbase"),
	       "wrfsbase is refused");
	tap_ok(REFUSED("\xf3\x0f\xae\xc8", "rdgsbase"), "rdgsbase is refused");
	tap_ok(REFUSED("\xf3\x48\x0f\xae\xd8\xc3", "wrgsbase"),
	       "wrgsbase is refused");
	tap_ok(REFUSED("\x64\xa4\xc3", "string"), "string with fs: is refused");
	tap_ok(REFUSED("\x8e\xe0", "selector"), "mov to fs is refused");
	tap_ok(REFUSED("\xb8\x27\0\0\0\x0f\x05\x0f\x34", "sysenter"),
	       "a refusal after good sites changes nothing");
	tap_ok(REFUSED("\x0f\x05\xc3", "no space"),
	       "a site without room is refused");
	PREPARE("\xb8\x27\0\0\0\x0f\x05\xc3");
	rw.stubs_len = 10;
	tap_ok(bee_rewrite(&rw) == -12 && text[0] == 0xb8,
	       "too little stub space changes nothing");
	PREPARE("\xb8\x27\0\0\0\x0f\x05\xc3");
	rw.stubs_addr = 0x200000000000;
	tap_ok(bee_rewrite(&rw) == -8 && text[0] == 0xb8,
	       "stubs out of reach are refused");
}

/* nop; mov $39, %eax; syscall; test %rax, %rax; nops */
#define CALL "\x90\xb8\x27\0\0\0\x0f\x05\x48\x85\xc0\x90\x90\x90"

static u64 patch_with(u64 word, u64 at)
{
	PREPARE(CALL);
	memcpy(data + at, &word, 8);
	return bee_rewrite(&rw) ? 0 : sites[0].patch;
}

static void test_targets(void)
{
	s32 entries[3] = {(s32)(TEXT + 8 - DATA), (s32)(TEXT - DATA), 7};

	tap_ok(patch_with(0, 8) == TEXT + 6, "following instructions go first");
	tap_ok(patch_with(TEXT + 8, 8) == TEXT + 1 &&
		       patch_with(TEXT + 8, 0) == TEXT + 1 &&
		       patch_with(TEXT + 8, sizeof(data) - 8) == TEXT + 1,
	       "a pointer in the data is a target, in its last word too");
	PREPARE(CALL);
	rw.bias = 0x400000;
	data[8 + 1] = 0x10;
	data[8] = 8;
	tap_ok(!bee_rewrite(&rw) && sites[0].patch == TEXT + 1,
	       "a pointer before relocation is a target");
	/* the same behind lea table(%rip), %rax */
	PREPARE("\x48\x8d\x05\xf9\x1f\0\0\xb8\x27\0\0\0\x0f\x05\x48\x85\xc0"
		"\x90\x90\x90");
	entries[0] = (s32)(TEXT + 14 - DATA);
	memcpy(data, entries, sizeof(entries));
	tap_ok(!bee_rewrite(&rw) && sites[0].patch == TEXT + 7,
	       "a jump table of offsets gives targets");
}

/* The pointer at `at` is in constant data, where [from, to) holds pointers. */
static u64 patch_constant(u64 at, u64 from, u64 to)
{
	u64 word = TEXT + 8;

	PREPARE(CALL);
	memcpy(data + at, &word, 8);
	rw.data[0].constant = 1;
	rw.pointer[0] = (struct bee_range){0x1000, 0x2000};
	rw.pointer[1] = (struct bee_range){DATA + from, DATA + to};
	rw.pointers = 2;
	return bee_rewrite(&rw) ? 0 : sites[0].patch;
}

static void test_constants(void)
{
	static const struct {
		const char *what;
		s64 at, from, to, target;
	} cases[] = {
		{"before the pointers", 8, 16, 32, 0},
		{"first of them", 16, 16, 32, 1},
		{"last of them", 24, 16, 32, 1},
		{"behind them", 32, 16, 32, 0},
		{"cut by their end", 24, 16, 31, 0},
		{"of pointers that begin before the data", 0, -64, 8, 1},
		{"of pointers that end behind the data", 56, 56, 4096, 1},
		{"beside pointers before the data", 0, -64, 0, 0},
		{"beside pointers behind the data", 56, 64, 128, 0},
		{"behind the unaligned start of pointers", 16, 9, 24, 1},
		{"cut by the start of pointers", 16, 17, 24, 0},
	};

	for (u32 i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		tap_ok(patch_constant(cases[i].at, cases[i].from,
				      cases[i].to) ==
			       (cases[i].target ? TEXT + 1 : TEXT + 6),
		       "a word %s is %s", cases[i].what,
		       cases[i].target ? "a target" : "a number");
	PREPARE(CALL);
	rw.bias = 0x400000;
	memcpy(data + 8, "\x08\x10", 2);
	rw.data[0].constant = rw.pointers = 1;
	rw.pointer[0] = (struct bee_range){DATA, DATA + 16};
	tap_ok(!bee_rewrite(&rw) && sites[0].patch == TEXT + 1,
	       "a pointer before relocation is a target among constants");
}

enum { LEA = 7, TABLES = 34 };

/* `tables` lea that name words of `len` bytes of data, one after the other. */
static int read_tables(u32 tables, u64 len)
{
	static s32 words[1024];
	u8 code[TABLES * LEA + 1];
	u64 n = 0;

	for (u32 i = 0; i < len / 4; i++)
		words[i] = (s32)(TEXT - DATA);
	for (u32 i = 0; i < tables; i++) {
		s32 to = (s32)(DATA + 4 * i - (TEXT + n + LEA));

		memcpy(code + n, "\x48\x8d\x05", 3);
		memcpy(code + n + 3, &to, 4);
		n += LEA;
	}
	code[n++] = 0xc3;
	prepare_text((const char *)code, n);
	rw.data[0] = (struct bee_data){(const u8 *)words, DATA, len, 0};
	return bee_rewrite(&rw);
}

static void test_many_tables(void)
{
	tap_ok(!read_tables(1, 1024), "a table may be longer than the text");
	tap_ok(!read_tables(TABLES, 1024), "and may be read from many starts");
	tap_ok(read_tables(TABLES, 4096) == -8 &&
		       strstr(rw.why, "unbounded jump tables") &&
		       rw.bad_addr >= DATA && rw.bad_addr < DATA + 4 * TABLES,
	       "but not without end");
}

/* Each way in which an instruction names TEXT + 8, so that what stands there
 * must stay. */
static void test_named_targets(void)
{
	static const struct {
		const char *what, *bytes;
		u64 n;
	} ways[] = {
#define WAY(what, s) {"a target is named by " what, CALL s, sizeof(CALL s) - 1}
		WAY("an address of 64 bits", "\x48\xb8\x08\x10@\0\0\0\0\0\xc3"),
		WAY("an address of 32 bits", "\xb8\x08\x10@\0\xc3"),
		WAY("a short jmp", "\xeb\xf8"),
		WAY("a short jcc", "\x74\xf8\xc3"),
		WAY("a jmp", "\xe9\xf5\xff\xff\xff"),
		WAY("a jcc", "\x0f\x84\xf4\xff\xff\xff\xc3"),
		WAY("a call", "\xe8\xf5\xff\xff\xff\xc3"),
		WAY("a lea", "\x48\x8d\x05\xf3\xff\xff\xff\xc3"),
		WAY("a read of code", "\x48\x8b\x05\xf3\xff\xff\xff\xc3"),
#undef WAY
	};

	PREPARE(CALL "\xc3");
	tap_ok(!bee_rewrite(&rw) && sites[0].patch == TEXT + 6,
	       "what nothing names may go");
	for (u32 i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		prepare_text(ways[i].bytes, ways[i].n);
		tap_ok(!bee_rewrite(&rw) && sites[0].patch == TEXT + 1,
		       ways[i].what);
	}
	PREPARE("\x90\xb8\x27\0\0\0\x0f\x05\xf3\x0f\x1e\xfa\x90\x90\x90\xc3");
	tap_ok(!bee_rewrite(&rw) && sites[0].patch == TEXT + 1,
	       "endbr64 is a target");
}

static void test_gaps(void)
{
	static const struct bee_range code[] = {{TEXT, TEXT + 8}};

	/* function; gap: not code (06), then bytes like a syscall */
	PREPARE("\xb8\x27\0\0\0\x0f\x05\xc3\x06\x06\x0f\x05\x90\x90\x90\x90");
	rw.code = code;
	rw.codes = 1;
	tap_ok(!bee_rewrite(&rw) && rw.found[BEE_SITE_SYSCALL] == 1 &&
		       text[10] == 0x0f && rw.skipped == 8,
	       "a table between functions stays as it is");
	/* function jumps into the gap */
	PREPARE("\xb8\x27\0\0\0\x90\xeb\x02\x06\x06\x0f\x05\x90\x90\x90\xc3");
	rw.code = code;
	rw.codes = 1;
	tap_ok(!bee_rewrite(&rw) && rw.found[BEE_SITE_SYSCALL] == 1 &&
		       text[10] == 0xe9 && rw.skipped > 0,
	       "bytes in a gap that known code reaches are code");
	PREPARE("\xb8\x27\0\0\0\x90\x90\xc3\x90\x0f\x05\x90\x90\x90\x90\xc3");
	rw.code = code;
	rw.codes = 1;
	tap_ok(!bee_rewrite(&rw) && rw.found[BEE_SITE_SYSCALL] == 1 &&
		       !rw.skipped,
	       "a gap that decodes without error is code");
	/* mov gap(%rip), %eax; the gap decodes as code, but nothing jumps
	 * there */
	PREPARE("\x8b\x05\x03\0\0\0\x90\xc3\x06\x0f\x05\x90\x90\x90\xc3");
	rw.code = code;
	rw.codes = 1;
	tap_ok(!bee_rewrite(&rw) && !rw.found[BEE_SITE_SYSCALL] &&
		       text[9] == 0x0f,
	       "bytes that are only read are not code");
	/* the same with lea: to code, and to a table that names mov %fs */
	PREPARE("\x48\x8d\x05\x02\0\0\0\xc3\x06\x0f\x05\x90\x90\x90\xc3");
	rw.code = code;
	rw.codes = 1;
	tap_ok(!bee_rewrite(&rw) && rw.found[BEE_SITE_SYSCALL] == 1,
	       "bytes that decode and that a pointer names are code");
	PREPARE("\x48\x8d\x05\x02\0\0\0\xc3\x06\x0f\x05\x8c\xe0\x90\xc3");
	rw.code = code;
	rw.codes = 1;
	tap_ok(!bee_rewrite(&rw) && !rw.found[BEE_SITE_SYSCALL],
	       "a table that a pointer names causes no refusal");
}

#define NOPS "\x90\x90\x90\x90\x90\x90\x90\x90"
#define CASE(bytes, n)                                                         \
	{                                                                      \
		bytes, sizeof(bytes) - 1, n                                    \
	}
static const struct {
	const char *bytes;
	u64 len;
	u32 n;
} sized[] = {
	CASE("", 0),
	CASE(NOPS, 0),
	CASE("\x0f", 0),
	CASE("\x64", 0),
	CASE("\x0f\x05", 1),
	CASE("\x0f\xa2", 1),
	CASE("\x0f\x01", 0),
	CASE("\x0f\x01\xd0", 1),
	CASE("\x0f\x01\xd1", 0),
	CASE("\x0f\xae", 0),
	CASE("\x0f\xae\xc0", 1),
	CASE("\x0f\xae\xc7", 1),
	CASE("\x0f\xae\xc8", 0),
	CASE("\x0f\x02\xd0", 0),
	CASE("\x64\x8b\x07", 1),
	CASE("\x64\x8b", 0),
	CASE("\x64\x90\x90", 0),
	CASE(NOPS "\x0f\x05", 1),
	CASE(NOPS "\x90\x90\x90\x90\x90\x90\x0f\x05", 1),
	CASE("\x90\x90\x90\x90\x90\x90\x90\x0f\x05\x90\x90\x90"
	     "\x90\x90\x90\x90",
	     1),
	CASE(NOPS NOPS "\x0f\x05\x0f\xa2", 2),
	CASE("\x90\x90\x90\x90\x90\x64\x8b\x07" NOPS, 1),
};
#undef CASE

/* Candidates are counted in a block of just the text's length. */
static void test_sizes(void)
{
	struct bee_rewrite_need need;
	u64 n;

	for (u32 i = 0; i < sizeof(sized) / sizeof(*sized); i++) {
		u8 *bytes = malloc(sized[i].len);

		memcpy(bytes, sized[i].bytes, sized[i].len);
		rw = (struct bee_rewrite){.text = {{bytes, TEXT, sized[i].len}},
					  .texts = 1};
		bee_rewrite_sizes(&rw, &need);
		n = sized[i].n;
		tap_ok(need.sites == 2 * n + 16 && need.pcs == 12 * n + 64 &&
			       need.stubs_len == (n ? 8192 : 4096) &&
			       need.marks_len == sized[i].len,
		       "text %u: %u candidates", i, (u32)n);
		free(bytes);
	}
	for (n = 64; n <= 66; n += 2) {
		memset(text, 0x90, sizeof(text));
		for (u64 i = 0; i < n; i++)
			memcpy(text + 2 * i, "\x0f\x05", 2);
		rw = (struct bee_rewrite){
			.text = {{text, TEXT, n}, {text + n, TEXT + n, n}},
			.texts = 2};
		bee_rewrite_sizes(&rw, &need);
		tap_ok(need.marks_len == 2 * n &&
			       need.stubs_len == (n <= 64 ? 12288 : 16384),
		       "stubs for two texts of %u bytes: %u", (u32)n,
		       (u32)need.stubs_len);
	}
}

/* Texts that follow one another at once, and an empty one, are accepted. */
static void test_ranges(void)
{
	PREPARE("\xc3\x90");
	rw.text[0].len = 0;
	tap_ok(!bee_rewrite(&rw), "an empty text");
	PREPARE("\xc3\x90");
	rw.texts = 2;
	rw.text[1] = (struct bee_text){text + 2, TEXT + 2, 2};
	tap_ok(!bee_rewrite(&rw), "a text behind another");
	PREPARE("\xc3\x90");
	rw.texts = 2;
	rw.text[1] = (struct bee_text){text + 1, TEXT + 1, 2};
	tap_ok(bee_rewrite(&rw) == -8 && strstr(rw.why, "out of order"),
	       "a text that begins in another is refused");
	PREPARE("\xc3\x90");
	rw.text[0].addr = ~0ull;
	tap_ok(bee_rewrite(&rw) == -8 && strstr(rw.why, "out of order"),
	       "so is one beyond all addresses");
}

/* A lea names what stands in a gap that is partly data, behind one byte. */
static void test_blocks(void)
{
	static const struct bee_range code[] = {{TEXT, TEXT + 8}};
	static const struct {
		const char *what, *bytes;
		u64 len;
		u32 found;
	} blocks[] = {
#define CASE(what, s, found)                                                   \
	{what, "\x48\x8d\x05\x02\0\0\0\xc3\x06" s, sizeof(s) + 8, found}
		CASE("that returns", "\x0f\x05\x90\x90\x90\xc3", 1),
		CASE("that halts", "\x0f\x05\x90\x90\x90\xf4", 1),
		CASE("that traps", "\x0f\x05\x90\x90\x90\x0f\x0b", 1),
		CASE("that jumps by a register", "\x0f\x05\x90\x90\x90\xff\xe0",
		     1),
		CASE("that jumps within the text",
		     "\x0f\x05\x90\x90\x90\xeb\xf1", 1),
		CASE("that jumps out of the text",
		     "\x0f\x05\x90\x90\x90\xeb\x7f", 0),
		CASE("that calls out of the text",
		     "\x0f\x05\x90\xe8\0\x10\0\0\xc3", 0),
		CASE("that branches out of the text",
		     "\x0f\x05\x90\x90\x90\x74\x70\xc3", 0),
		CASE("with a byte that is no code",
		     "\x0f\x05\x90\x90\x90\x06\xc3", 0),
		CASE("that is no code at its end", "\x0f\x05\x90\x90\x90\x06",
		     0),
		CASE("that does not end", "\x0f\x05\x90\x90\x90\x90", 0),
		CASE("that is cut", "\x0f\x05\x90\x90\x90\xe9", 0),
	};

	for (u32 i = 0; i < sizeof(blocks) / sizeof(*blocks); i++) {
		prepare_text(blocks[i].bytes, blocks[i].len);
		rw.code = code;
		rw.codes = 1;
		tap_ok(!bee_rewrite(&rw) &&
			       rw.found[BEE_SITE_SYSCALL] == blocks[i].found,
		       "a block %s is %s", blocks[i].what,
		       blocks[i].found ? "code" : "data");
	}
}

/* Padding of zeros between sections swallows the first bytes after it. */
static void test_edges(void)
{
	static const struct bee_range code[] = {{TEXT, TEXT + 8}};
	static const struct {
		u64 edge[4];
		u32 edges, found;
	} cases[] = {
		{{0}, 0, 0},
		{{TEXT + 11}, 1, 1},
		{{TEXT + 10}, 1, 0},
		{{TEXT + 12}, 1, 0},
		{{TEXT, TEXT + 11}, 2, 1},
		{{TEXT + 8, TEXT + 11}, 2, 1},
		{{TEXT + 11, TEXT + 18}, 2, 1},
		{{TEXT + 11, TEXT + 13}, 2, 1},
		{{TEXT, TEXT + 8, TEXT + 11, TEXT + 18}, 4, 1},
		{{TEXT, TEXT + 4, TEXT + 8, TEXT + 18}, 4, 0},
	};

	for (u32 i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		/* a function; three zeros; a syscall and what follows */
		PREPARE("\xb8\x27\0\0\0\x90\x90\xc3\0\0\0"
			"\x0f\x05\x90\x90\x90\x90\xc3");
		rw.code = code;
		rw.codes = 1;
		rw.edge = cases[i].edge;
		rw.edges = cases[i].edges;
		tap_ok(!bee_rewrite(&rw) &&
			       rw.found[BEE_SITE_SYSCALL] == cases[i].found,
		       "decoding starts afresh at edges only: case %u", i);
	}
}

/* The file's headers: one program header, a note at 120 of `len` bytes. */
static void put_headers(u8 len)
{
	memset(text, 0, sizeof(text));
	memcpy(text,
	       "\x7f"
	       "ELF",
	       4);
	text[32] = 64;
	text[56] = 1;
	text[64] = 4;
	text[64 + 8] = 120;
	text[64 + 32] = len;
}

/* A text that begins with the file's headers and a note full of fs and gs. */
static void test_headers(void)
{
	PREPARE("");
	put_headers(16);
	memset(text + 120, 'e', 16);
	memcpy(text + 136, "\xb8\x27\0\0\0\x0f\x05\xc3", 8);
	rw.text[0].len = 144;
	rw.entry = TEXT + 136;
	tap_ok(!bee_rewrite(&rw) && rw.skipped == 136 &&
		       rw.found[BEE_SITE_SYSCALL] == 1,
	       "headers and notes before the code are not code");
}

/* A build id that reads as gs: moves, with no program header (Go's linker). */
static int rewrite_build_id(const char *owner)
{
	static const char code[] = "\xb8\x27\0\0\0\x0f\x05\xc3";

	PREPARE("");
	put_headers(8);
	memcpy(text + 128, "\4\0\0\0\x08\0\0\0\3\0\0\0", 12);
	memcpy(text + 140, owner, 4);
	memcpy(text + 144, "\x90\x90\x65\x8b\0\x65\x8b\0", 8);
	memcpy(text + 152, code, 8);
	rw.text[0].len = 160;
	rw.entry = TEXT + 152;
	return bee_rewrite(&rw);
}

static void test_build_id(void)
{
	tap_ok(rewrite_build_id("GMU") && strstr(rw.why, "gs:"),
	       "a note that is not the linker's is decoded as code");
	tap_ok(!rewrite_build_id("GNU") && rw.skipped == 152 &&
		       rw.found[BEE_SITE_SYSCALL] == 1,
	       "a build id without a program header is not code");
}

static void test_map(void)
{
	struct bee_stub_pc state;
	struct bee_map map;
	u8 bytes[4096];
	struct bee_site site[64];
	struct bee_stub_pc pc[256];
	s64 size;
	int good = 1;

	/* mov %eax, %fs:0x100(%rdx) in 7 bytes; ret */
	PREPARE("\x64\x89\x82\0\x01\0\0\xc3");
	tap_ok(!bee_rewrite(&rw), "one fs: store is rewritten");
	bee_map_from(&map, &rw);
	tap_ok(bee_map_guest_pc(&map, STUBS) == TEXT &&
		       bee_map_find(&map, STUBS + 9, &state) &&
		       state.guest == TEXT && state.scratch == 9,
	       "a PC in a stub gives the guest's PC and the saved register");
	tap_ok(bee_map_guest_pc(&map, STUBS + rw.stubs_used - 1) == TEXT + 7,
	       "after the instruction the guest's PC is the next one");
	tap_ok(bee_map_guest_pc(&map, TEXT + 7) == TEXT + 7,
	       "a PC outside stubs is unchanged");
	size = bee_map_write(&map, bytes, sizeof(bytes));
	for (s64 n = 0; n < size; n++)
		good &= bee_map_read(&map, bytes, n, site, 64, pc, 256) < 0;
	tap_ok(good, "a map cut short is refused at every length");
	tap_ok(!bee_map_read(&map, bytes, size, site, rw.sites, pc, rw.pcs) &&
		       bee_map_read(&map, bytes, size, site, rw.sites - 1, pc,
				    256) == -12 &&
		       bee_map_read(&map, bytes, size, site, 64, pc,
				    rw.pcs - 1) == -12,
	       "a map with more than there is room for is refused");
	bytes[4]++;
	tap_ok(bee_map_read(&map, bytes, size, site, 64, pc, 256) == -22,
	       "a map of another revision is refused");
}

static int check_text(const char *bytes, u64 n, u64 *bad)
{
	char why[160];

	return bee_text_check((const u8 *)bytes, n, bad, why);
}
#define CHECK(s, bad) check_text(s, sizeof(s) - 1, bad)

static void test_check(void)
{
	static const char nops[16] = "\x90\x90\x90\x90\x90\x90\x90\x90"
				     "\x90\x90\x90\x90\x90\x90\x90\x90";
	u64 bad = 0;

	tap_ok(!check_text(nops, 16, &bad), "plain run-time code is allowed");
	tap_ok(CHECK("\xb8\x0f\x05\0\0\xc3", &bad) == -13 && bad == 1,
	       "a syscall inside an immediate is refused");
	tap_ok(CHECK("\x90\x64\x8b\x00\xc3", &bad) == -13 && bad == 1,
	       "fs: is refused");
	tap_ok(CHECK("\xc3\x0f\xa2\xc3", &bad) == -13, "cpuid is refused");
	tap_ok(CHECK("\xc3\xcd\x80", &bad) == -13, "int 0x80 is refused");
	tap_ok(CHECK("\xc3\xf3\x0f\xae\xd0", &bad) == -13,
	       "wrfsbase is refused in run-time code");
	tap_ok(CHECK("\xc3\x64", &bad) == -13, "a truncated prefix is refused");
}

/* A CIE (zR, pcrel sdata4), one FDE of 0x20 bytes at -0x100. */
static const u8 frames[] = {
	0x10, 0,    0,	0, 0,	 0,    0,    0,	   1,	 'z', 'R', 0,
	1,    0x78, 16, 1, 0x1b, 0,    0,    0,	   0x0c, 0,   0,   0,
	0x18, 0,    0,	0, 0,	 0xff, 0xff, 0xff, 0x20, 0,   0,   0,
};

static void test_eh(void)
{
	struct bee_range r[4];
	u64 at, sum = 0;

	tap_ok(bee_eh_ranges(frames, sizeof(frames), 0x500000, r, 4) == 1 &&
		       r[0].start == 0x500000 + 28 - 0x100 &&
		       r[0].end == r[0].start + 0x20,
	       "a function range is read from .eh_frame");
	for (u64 n = 0; n < sizeof(frames); n++) {
		u8 *copy = malloc(n + 1);

		memcpy(copy, frames, n);
		sum += bee_eh_ranges(copy, n, 0x500000, r, 4);
		free(copy);
	}
	tap_ok(!sum, "a table cut short gives no range");
	tap_ok(bee_eh_find((const u8 *)"\1\x1b\3\x3b\x10\0\0\0", 8, 0x1000,
			   &at) == 0 &&
		       at == 0x1014,
	       ".eh_frame is found from its header");
}

/* Bit 3 of its second byte is reserved. */
static void test_evex(void)
{
	static const char code[] = "\x62\xf1\x74\x48\x58\xc1";
	struct bee_insn decoded;
	u8 bytes[16] = {0};

	memcpy(bytes, code, sizeof(code));
	tap_ok(bee_decode(bytes, 16, &decoded) == 6,
	       "vaddps of zmm is decoded");
	bytes[1] |= 8;
	tap_ok(bee_decode(bytes, 16, &decoded) < 0, "not with a reserved bit");
}

int main(void)
{
	test_evex();
	test_refusals();
	test_targets();
	test_constants();
	test_many_tables();
	test_named_targets();
	test_gaps();
	test_sizes();
	test_ranges();
	test_blocks();
	test_edges();
	test_headers();
	test_build_id();
	test_map();
	test_check();
	test_eh();
	return tap_done();
}
