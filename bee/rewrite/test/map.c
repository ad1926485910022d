/* SPDX-License-Identifier: MIT */
/*
 * The map of a rewritten image as bytes: each field comes back, each bound is
 * accepted up to its edge and refused beyond; and what a PC stands for.
 */
#include <string.h>

#include "bee/rewrite/rewrite.h"
#include "tests/tap.h"

#define TEXT 0x401000ull
#define STUBS 0x410000ull
#define USED 0x80ull

/* Offsets in the bytes of a map. */
enum {
	SITES = 8,
	PCS = 12,
	STUBS_ADDR = 16,
	SITE = 32, /* addr, patch, stub, cave, lengths and kind, form */
	PC = SITE + 4 * 40,
	SIZE = PC + 3 * 24,
};

static const struct bee_site site[4] = {
	{.addr = TEXT + 2, .patch = TEXT, .patch_len = 12},
	{.addr = TEXT + 8,
	 .patch = TEXT + 8,
	 .patch_len = 5,
	 .stub = STUBS,
	 .stub_len = 0x20,
	 .kind = BEE_SITE_FS,
	 .form = BEE_FORM_JMP},
	{.addr = TEXT + 0x20,
	 .patch = TEXT + 0x18,
	 .patch_len = 9,
	 .stub = STUBS + 0x20,
	 .stub_len = 0x20,
	 .kind = BEE_SITE_CPUID,
	 .form = BEE_FORM_CALL},
	{.addr = TEXT + 0x32,
	 .patch = TEXT + 0x30,
	 .patch_len = 4,
	 .stub = STUBS + 0x40,
	 .stub_len = 0x40,
	 .cave = TEXT + 0x70,
	 .kind = BEE_SITE_MOVED,
	 .form = BEE_FORM_CAVE},
};
static const struct bee_stub_pc pc[3] = {
	{.stub = STUBS, .guest = TEXT + 8, .scratch = 16, .scratch2 = 2},
	{.stub = STUBS + 0x20, .guest = TEXT + 0x20, .scratch2 = 16},
	{.stub = STUBS + 0x40, .guest = TEXT + 0x32, .pushed = 1},
};
static const struct bee_map map = {.site = site,
				   .pc = pc,
				   .sites = 4,
				   .pcs = 3,
				   .stubs_addr = STUBS,
				   .stubs_used = USED};

static u8 bytes[SIZE + 8];
static struct bee_site got_site[5];
static struct bee_stub_pc got_pc[4];
static struct bee_map got;

/* Reads the map's bytes with `len` of them replaced. */
static s64 read_with(u32 at, u64 value, u32 len)
{
	memset(bytes, 0, sizeof(bytes));
	if (bee_map_write(&map, bytes, SIZE) != SIZE)
		return 1;
	memcpy(bytes + at, &value, len);
	return bee_map_read(&got, bytes, SIZE, got_site, 4, got_pc, 3);
}

static void check_bytes(void)
{
	tap_ok(bee_map_size(&map) == SIZE &&
		       bee_map_write(&map, bytes, SIZE - 1) == -12 && !bytes[0],
	       "a buffer that is a byte short stays as it is");
	tap_ok(!read_with(0, 0x50414d45, 4) && got.sites == 4 && got.pcs == 3 &&
		       got.stubs_addr == STUBS && got.stubs_used == USED &&
		       got.site == got_site && got.pc == got_pc,
	       "a map is read");
	tap_ok(!memcmp(site, got_site, sizeof(site)) &&
		       !memcmp(pc, got_pc, sizeof(pc)) && !bytes[SIZE],
	       "with each field of its sites and PCs");
	tap_ok(bee_map_read(&got, bytes, SIZE + 1, got_site, 5, got_pc, 4) ==
		       -22,
	       "a byte more is refused");
	tap_ok(bee_map_read(&got, bytes, SIZE, got_site, 3, got_pc, 3) == -12 &&
		       bee_map_read(&got, bytes, SIZE, got_site, 4, got_pc,
				    2) == -12,
	       "and arrays that are too small");
}

static const struct {
	const char *what;
	u32 at;
	u64 value;
	u32 len;
	int refused;
} fields[] = {
	{"another magic", 0, 0x50414d44, 4, 1},
	{"revision 0", 4, 0, 4, 1},
	{"a site less", SITES, 3, 4, 1},
	{"a PC more", PCS, 4, 4, 1},
	{"stubs at the end of memory", STUBS_ADDR, ~0ull - USED + 2, 8, 1},
	{"the first byte of a patch", SITE, TEXT, 8, 0},
	{"an address before its patch", SITE, TEXT - 1, 8, 1},
	{"an address behind its patch", SITE, TEXT + 12, 8, 1},
	{"in place, but with a stub", SITE + 16, STUBS, 8, 1},
	{"in place, but with a stub's length", SITE + 32, 0x0c0001, 4, 1},
	{"the last kind", SITE + 35, BEE_SITE_KINDS - 1, 1, 0},
	{"an unknown kind", SITE + 35, BEE_SITE_KINDS, 1, 1},
	{"an unknown form", SITE + 40 + 36, BEE_FORM_CAVE + 1, 4, 1},
	{"a form of two bytes", SITE + 40 + 36, 0x100, 4, 1},
	{"a stub before the stubs", SITE + 40 + 16, STUBS - 1, 8, 1},
	{"a stub behind the stubs", SITE + 40 + 16, STUBS + USED, 8, 1},
	{"a stub up to the end", SITE + 40 + 16, STUBS + USED - 0x20, 8, 0},
	{"a stub beyond the end", SITE + 40 + 16, STUBS + USED - 0x1f, 8, 1},
	{"a stub of no length at the last byte", SITE + 120 + 16,
	 STUBS + USED - 0x40, 8, 0},
	{"two sites at one address", SITE, TEXT + 8, 8, 0},
	{"sites out of order", SITE, TEXT + 9, 8, 1},
	{"an unknown register", PC + 16, 17, 1, 1},
	{"an unknown second register", PC + 17, 17, 1, 1},
	{"the last register", PC + 24 + 16, 16, 1, 0},
	{"two pushed addresses", PC + 18, 2, 1, 1},
	{"one pushed address", PC + 18, 1, 1, 0},
	{"a fourth byte of a PC", PC + 19, 1, 1, 1},
	{"more bytes of a PC", PC + 20, 1, 4, 1},
	{"a PC before the stubs", PC, STUBS - 1, 8, 1},
	{"a PC at the end of the stubs", PC + 48, STUBS + USED, 8, 0},
	{"a PC behind the stubs", PC + 48, STUBS + USED + 1, 8, 1},
	{"two PCs at one address", PC, STUBS + 0x20, 8, 0},
	{"PCs out of order", PC, STUBS + 0x21, 8, 1},
};

static void check_fields(void)
{
	u32 i;

	for (i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		tap_ok(read_with(fields[i].at, fields[i].value,
				 fields[i].len) ==
			       (fields[i].refused ? -22 : 0),
		       "%s: %s", fields[i].what,
		       fields[i].refused ? "refused" : "read");
}

static const struct {
	u64 pc, guest; /* 0: it is no code of the rewriter */
} finds[] = {
	{STUBS - 1, 0},
	{STUBS, TEXT + 8},
	{STUBS + 0x1f, TEXT + 8},
	{STUBS + 0x20, TEXT + 0x20},
	{STUBS + 0x3f, TEXT + 0x20},
	{STUBS + 0x40, TEXT + 0x32},
	{STUBS + USED - 1, TEXT + 0x32},
	{STUBS + USED, 0},
	{TEXT + 2, 0},
	{TEXT + 0x18, 0}, /* the first byte of nops and a call */
	{TEXT + 0x19, TEXT + 0x18},
	{TEXT + 0x20, TEXT + 0x18},
	{TEXT + 0x21, 0},
	{TEXT + 0x31, 0},
	{TEXT + 0x6f, 0},
	{TEXT + 0x70, TEXT + 0x32}, /* a cave */
	{TEXT + 0x71, 0},
	{0, 0},
};

static void check_finds(void)
{
	struct bee_map late = map;
	struct bee_stub_pc state;
	u32 i;

	for (i = 0; i < sizeof(finds) / sizeof(*finds); i++) {
		u64 at = finds[i].pc, guest = finds[i].guest;
		int found = bee_map_find(&map, at, &state);

		tap_ok(found == !!guest && (!found || state.guest == guest) &&
			       bee_map_guest_pc(&map, at) ==
				       (guest ? guest : at),
		       "%#llx stands for %#llx", at, guest);
	}
	bee_map_find(&map, TEXT + 0x70, &state);
	tap_ok(state.stub == TEXT + 0x70 && !state.scratch && !state.pushed,
	       "in a cave nothing is saved");
	late.pc = pc + 1;
	late.pcs = 2;
	tap_ok(!bee_map_find(&late, STUBS + 0x1f, &state) &&
		       bee_map_find(&late, STUBS + 0x20, &state),
	       "a stub before the first PC stands for nothing");
}

int main(void)
{
	check_bytes();
	check_fields();
	check_finds();
	return tap_done();
}
