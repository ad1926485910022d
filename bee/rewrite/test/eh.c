/* SPDX-License-Identifier: MIT */
/*
 * Unwind tables made by hand: each way to write a function's address, each
 * letter of an augmentation, and records that must not count.
 */
#include <string.h>

#include "bee/rewrite/rewrite.h"
#include "tests/tap.h"

enum { BASE = 0x500000, MAX = 8 };

/* The bytes so far; a record begins with its length, filled in at its end. */
static u8 table[4096];
static u64 len, record;
static struct bee_range range[MAX];

static void put_value(u64 value, u32 bytes)
{
	for (u32 i = 0; i < bytes; i++)
		table[len++] = (u8)(value >> 8 * i);
}

static void put_text(const char *text)
{
	memcpy(table + len, text, strlen(text) + 1);
	len += strlen(text) + 1;
}

static void begin_record(void)
{
	record = len;
	put_value(0, 4);
}

static void end_record(void)
{
	u64 at = len;

	len = record;
	put_value(at - record - 4, 4);
	len = at;
}

/* `data`: what belongs to the letters behind 'z', `bytes` of it. */
static u64 put_cie(u8 version, const char *letters, u64 data, u32 bytes)
{
	begin_record();
	put_value(0, 4);
	put_value(version, 1);
	put_text(letters);
	if (version == 4)
		put_value(8, 2); /* address size, no segment selector */
	put_value(0x81, 1);	 /* code alignment: 129 of two bytes */
	put_value(1, 1);
	put_value(0x78, 1); /* data alignment */
	put_value(0x90,
		  version == 1 ? 1 : 2); /* return address: a byte, or 16 */
	if (version != 1)
		table[len - 1] = 0;
	if (*letters == 'z') {
		put_value(bytes, 1);
		put_value(data, bytes);
	}
	end_record();
	return record;
}

static void begin_fde(u64 cie)
{
	begin_record();
	put_value(len - cie, 4);
}

/* A function of `size` bytes, as an FDE with fields of `bytes` bytes. */
static void put_fde(u64 cie, u64 start, u64 size, u32 bytes)
{
	begin_fde(cie);
	put_value(start, bytes);
	put_value(size, bytes);
	end_record();
}

static u32 read_table(void)
{
	u32 n = bee_eh_ranges(table, len, BASE, range, MAX);

	len = 0;
	return n;
}

static int is_range(u32 i, u64 start, u64 end_)
{
	return range[i].start == start && range[i].end == end_;
}

static void test_formats(void)
{
	static const struct {
		u8 encoding, bytes;
		u64 written, start;
	} forms[] = {
		{0x00, 8, 0x1122334455667788, 0x1122334455667788},
		{0x04, 8, 0x1122334455667788, 0x1122334455667788},
		{0x0c, 8, 0x1122334455667788, 0x1122334455667788},
		{0x03, 4, 0x91223344, 0x91223344},
		{0x0b, 4, 0x91223344, 0xffffffff91223344},
		{0x02, 2, 0x9182, 0x9182},
		{0x0a, 2, 0x9182, 0xffffffffffff9182},
	};
	u32 i;

	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		u64 cie = put_cie(1, "zR", forms[i].encoding, 1), from;

		put_fde(cie, forms[i].written, 0x10, forms[i].bytes);
		tap_ok(read_table() == 1 && is_range(0, forms[i].start,
						     forms[i].start + 0x10),
		       "an address of form %#x is read", forms[i].encoding);
		cie = put_cie(1, "zR", forms[i].encoding | 0x10, 1);
		from = BASE + len + 8;
		put_fde(cie, forms[i].written, 0x10, forms[i].bytes);
		tap_ok(read_table() == 1 &&
			       is_range(0, forms[i].start + from,
					forms[i].start + from + 0x10),
		       "and relative to its place");
	}
}

static void test_refused_forms(void)
{
	static const u8 bad[] = {0x01, 0x09, 0x0f, 0x20, 0x30, 0x80, 0x90};
	u32 i;

	for (i = 0; i < sizeof(bad); i++) {
		u64 cie = put_cie(1, "zR", bad[i], 1);

		put_fde(cie, 0x1000, 0x10, 8);
		tap_ok(!read_table(), "form %#x of an address is not read",
		       bad[i]);
	}
}

/* P: personality of form 3, L: a form, R: form 3 as well. */
static void test_letters(void)
{
	static const struct {
		const char *letters;
		u64 data;
		u32 bytes, fields;
	} kinds[] = {
		{"", 0, 0, 8},
		{"z", 0, 0, 8},
		{"zR", 0x03, 1, 4},
		{"zLR", 0x031b, 2, 4},
		{"zPR", 0x031234567803, 6, 4},
		{"zPLR", 0x031b1234567803, 7, 4},
		{"zRB", 0x03, 1, 4}, /* B has no data */
	};
	u32 i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		u64 cie = put_cie(1, kinds[i].letters, kinds[i].data,
				  kinds[i].bytes);

		put_fde(cie, 0x1000, 0x20, kinds[i].fields);
		tap_ok(read_table() == 1 && is_range(0, 0x1000, 0x1020),
		       "augmentation \"%s\" is read", kinds[i].letters);
	}
	put_fde(put_cie(1, "zPR", 0x0301, 2), 0x1000, 0x20, 4);
	tap_ok(!read_table(), "not with a personality of an unknown form");
	put_fde(put_cie(1, "zRS", 0x03, 1), 0x1000, 0x20, 4);
	tap_ok(!read_table(), "code that returns from a signal is left out");
}

static void test_versions(void)
{
	u8 version;

	for (version = 1; version <= 4; version++) {
		put_fde(put_cie(version, "zR", 0x03, 1), 0x1000, 0x20, 4);
		tap_ok(read_table() == 1 && is_range(0, 0x1000, 0x1020),
		       "version %d is read", version);
	}
}

/* Each FDE names its own CIE, which need not be the last one. */
static void test_owners(void)
{
	u64 wide = put_cie(1, "z", 0, 0), narrow = put_cie(1, "zR", 0x02, 1);

	put_fde(wide, 0x1000, 0x10, 8);
	put_fde(narrow, 0x2000, 0x10, 2);
	put_fde(narrow, 0x2100, 0x10, 2);
	put_fde(wide, 0x3000, 0x10, 8);
	tap_ok(read_table() == 4 && is_range(0, 0x1000, 0x1010) &&
		       is_range(1, 0x2000, 0x2010) &&
		       is_range(2, 0x2100, 0x2110) &&
		       is_range(3, 0x3000, 0x3010),
	       "each function has the form of its own head");
	wide = put_cie(1, "z", 0, 0);
	put_fde(wide, 0x1000, 0x10, 8);
	put_fde(record, 0x2000, 0x10, 8);
	tap_ok(read_table() == 1 && is_range(0, 0x1000, 0x1010),
	       "a function whose head is a function is left out");
	put_cie(1, "z", 0, 0);
	begin_record();
	put_value(5, 4); /* the head would begin before the table */
	put_value(0x1000, 8);
	put_value(0x10, 8);
	end_record();
	put_fde(0, 0x2000, 0x10, 8);
	tap_ok(read_table() == 1 && is_range(0, 0x2000, 0x2010),
	       "one whose head lies in a record is left out");
	begin_record();
	put_value(100, 4);
	put_value(0x1000, 8);
	put_value(0x10, 8);
	end_record();
	tap_ok(!read_table(), "one whose head lies before all is left out");
}

static void test_order(void)
{
	static const u32 order[] = {3, 6, 0, 5, 2, 7, 1, 4};
	u64 cie = put_cie(1, "z", 0, 0);
	u32 i, ordered = 0;

	for (i = 0; i < MAX; i++)
		put_fde(cie, 0x1000 + 0x100ull * order[i], 0x10, 8);
	put_fde(cie, 0x9000, 0x10, 8);
	if (read_table() == MAX)
		for (i = 0; i < MAX; i++)
			ordered += is_range(i, 0x1000 + 0x100ull * i,
					    0x1010 + 0x100ull * i);
	tap_ok(ordered == MAX, "functions are sorted, and not more than fit");
	cie = put_cie(1, "z", 0, 0);
	put_fde(cie, 0x1008, 0x10, 8);
	put_fde(cie, 0x1000, 0x10, 8);
	put_fde(cie, 0x1018, 0x10, 8);
	put_fde(cie, 0x1020, 0x08, 8);
	tap_ok(read_table() == 3 && is_range(0, 0x1000, 0x1010) &&
		       is_range(1, 0x1010, 0x1018) &&
		       is_range(2, 0x1018, 0x1028),
	       "where functions overlap the later one is cut");
}

static void test_broken(void)
{
	u64 cie = put_cie(1, "z", 0, 0), at;

	put_fde(cie, 0x1000, 0, 8);
	put_fde(cie, ~0ull - 4, 5, 8);
	put_fde(cie, ~0ull - 4, 0x10, 8);
	put_value(0, 4); /* a terminator, of one of several tables */
	begin_record();
	put_value(0, 3);
	end_record();
	begin_fde(cie);
	put_value(0x1000, 8);
	end_record();
	put_fde(cie, 0x2000, 0x10, 8);
	tap_ok(read_table() == 1 && is_range(0, 0x2000, 0x2010),
	       "records without a function are passed over");
	cie = put_cie(1, "z", 0, 0);
	put_value(0xffffffff, 4);
	put_value(20, 8);
	put_value(len - cie, 4);
	put_value(0x1000, 8);
	put_value(0x10, 8);
	tap_ok(read_table() == 1 && is_range(0, 0x1000, 0x1010),
	       "a long length is read");
	cie = put_cie(1, "z", 0, 0);
	put_fde(cie, 0x1000, 0x10, 8);
	at = len;
	put_fde(cie, 0x2000, 0x10, 8);
	table[at]++;
	tap_ok(read_table() == 1 && is_range(0, 0x1000, 0x1010),
	       "a record longer than the table ends it");
	cie = put_cie(1, "zRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRR", 0,
		      1);
	put_fde(cie, 0x1000, 0x10, 8);
	tap_ok(!read_table(), "letters without their data are no head");
	begin_record();
	cie = record;
	put_value(0, 4);
	put_value(1, 1);
	put_text("");
	put_value(1, 1);
	put_value(0x78, 1);
	end_record(); /* without the return address */
	put_fde(cie, 0x1000, 0x10, 8);
	tap_ok(!read_table(), "a head that is cut is none");
	begin_record();
	cie = record;
	put_value(0, 4);
	put_value(1, 1);
	put_value(0x7a7a7a7a, 4);
	end_record();
	put_fde(cie, 0x1000, 0x10, 8);
	tap_ok(!read_table(), "nor one whose letters have no end");
	put_value(0, 3);
	tap_ok(!read_table(), "a table of three bytes has no functions");
}

/* The first bytes of a head, whose two lengths have a bit to say more follows.
 */
static void test_long_numbers(void)
{
	u32 more;

	for (more = 8; more <= 9; more++) {
		u64 cie;
		u32 i;

		begin_record();
		cie = record;
		put_value(0, 4);
		put_value(1, 1);
		put_text("zR");
		for (i = 0; i < more; i++)
			put_value(0x80, 1);
		put_value(0, 1);
		put_value(0x78, 1);
		put_value(16, 1);
		put_value(1, 1);
		put_value(0x03, 1);
		end_record();
		put_fde(cie, 0x1000, 0x10, 4);
		tap_ok(read_table() == (more == 8),
		       "a number of %d bytes is %s", more + 1,
		       more == 8 ? "read" : "too long");
	}
}

static void test_find(void)
{
	static const u8 good[] = {1, 0x1b, 3, 0x3b, 0x10, 0, 0, 0};
	u8 head[8];
	u64 at = 0;

	memcpy(head, good, 8);
	tap_ok(!bee_eh_find(head, 8, 0x1000, &at) && at == 0x1014,
	       "the table is found");
	tap_ok(bee_eh_find(head, 7, 0x1000, &at) &&
		       bee_eh_find(head, 3, 0x1000, &at) &&
		       bee_eh_find(head, 0, 0x1000, &at),
	       "not by a head that is cut");
	head[0] = 2;
	tap_ok(bee_eh_find(head, 8, 0x1000, &at), "nor by another version");
	memcpy(head, good, 8);
	head[1] = 0x9b;
	tap_ok(bee_eh_find(head, 8, 0x1000, &at), "nor by a pointer to one");
}

int main(void)
{
	test_formats();
	test_refused_forms();
	test_letters();
	test_versions();
	test_owners();
	test_order();
	test_broken();
	test_long_numbers();
	test_find();
	return tap_done();
}
