/* SPDX-License-Identifier: MIT */
/*
 * Records on a wire that an attacker owns: two endpoints talk through records,
 * and each change of what lies on the wire is noticed before a byte of it
 * arrives.
 */
#define _GNU_SOURCE /* memmem */
#include "base/errno.h"
#include <o2g/core/record.h>

#include "pair.h"
#include "suite.h"

#define WIRE (1u << 20)

static check_fn *check;
static struct pair p;
/* of end 0 and of end 1: what they seal with, and what they open with */
static struct o2g_seal out[2], in[2];
static u8 wire[WIRE], record[O2G_RECORD_MAX], copy[O2G_RECORD_MAX];

#define TRUE(condition) check(!!(condition), #condition)
#define NAMED(condition, name) check(!!(condition), name)

static void start_seals(void)
{
	u8 key[2][O2G_KEY_SIZE];

	for (u32 i = 0; i < O2G_KEY_SIZE; i++) {
		key[0][i] = (u8)(3 * i + 1);
		key[1][i] = (u8)(5 * i + 2);
	}
	for (int i = 0; i < 2; i++) {
		o2g_seal_start(&out[i], key[i]);
		o2g_seal_start(&in[!i], key[i]);
	}
}

/* A record with this text of one byte's value; returns its size. */
static u32 seal_text(struct o2g_seal *seal, u8 *to, u8 byte, u32 length)
{
	memset(to + O2G_RECORD_HEAD, byte, length);
	return o2g_record_seal(seal, to, length);
}

static int holds_text(const u8 *at, u8 byte, u32 length)
{
	for (u32 i = 0; i < length; i++)
		if (at[O2G_RECORD_HEAD + i] != byte)
			return 0;
	return 1;
}

/* ---- one record ---- */

/* Whether this record is refused with this error, and left as it was. */
static int is_refused(struct o2g_seal *seal, u8 *at, u32 size, int error)
{
	const u64 number = seal->number;
	int r;

	memcpy(copy, at, size);
	r = o2g_record_open(seal, at, size);
	return r == error && !memcmp(copy, at, size) && seal->number == number;
}

static void test_tampering(void)
{
	const u32 length = 77, lengths = O2G_RECORD_HEAD;
	u32 size, missed = 0;

	start_seals();
	size = seal_text(&out[0], record, 'a', length);
	TRUE(size == length + O2G_RECORD_HEAD + O2G_RECORD_TAG);
	for (u32 i = 0; i < size; i++)
		for (u32 by = 1; by < 256; by++) {
			record[i] ^= (u8)by;
			missed += !is_refused(&in[1], record, size,
					      i < lengths ? -LINUX_EPROTO
							  : -LINUX_EBADMSG);
			record[i] ^= (u8)by;
		}
	NAMED(!missed, "any change of any byte of a record is noticed");
	NAMED(o2g_record_open(&in[1], record, size) == (s32)length &&
		      holds_text(record, 'a', length),
	      "the unchanged record opens");
}

/* A record whose length and bytes agree, but not as they were sealed. */
static void test_lengths(void)
{
	u32 size, missed = 0, n;

	start_seals();
	size = seal_text(&out[0], record, 'b', 300);
	for (n = 0; n < size; n++)
		missed += !is_refused(&in[1], record, n, -LINUX_EPROTO);
	NAMED(!missed, "a record that is cut is refused");
	missed = 0;
	for (n = 1; n < 300; n++) {
		memcpy(record, &n, sizeof(n));
		missed += !is_refused(&in[1], record,
				      n + O2G_RECORD_HEAD + O2G_RECORD_TAG,
				      -LINUX_EBADMSG);
	}
	NAMED(!missed, "so is one that says that it is shorter");
	missed = 0;
	for (u32 i = 0; i < 32; i++) {
		const u32 wrong[] = {0, O2G_RECORD_TEXT + (1u << i % 18),
				     ~0u >> i % 14, 0u - O2G_RECORD_HEAD - i};

		memcpy(record, &wrong[i % 4], sizeof(u32));
		missed += o2g_record_size(record, 4) != -LINUX_EPROTO;
	}
	NAMED(!missed, "no record is empty or too long");
	n = O2G_RECORD_TEXT;
	memcpy(record, &n, sizeof(n));
	TRUE(o2g_record_size(record, 4) == (s32)O2G_RECORD_MAX);
	TRUE(o2g_record_size(record, 3) == 0);
	n = 300;
	memcpy(record, &n, sizeof(n));
	TRUE(o2g_record_open(&in[1], record, size) == 300);
}

static void test_longest(void)
{
	start_seals();
	TRUE(seal_text(&out[0], record, 'l', O2G_RECORD_TEXT) ==
	     O2G_RECORD_MAX);
	TRUE(o2g_record_open(&in[1], record, O2G_RECORD_MAX) ==
	     O2G_RECORD_TEXT);
	TRUE(holds_text(record, 'l', O2G_RECORD_TEXT));
	TRUE(seal_text(&out[0], record, 'l', 1) == 21);
	TRUE(o2g_record_open(&in[1], record, 21) == 1 &&
	     holds_text(record, 'l', 1));
}

/* ---- their order ---- */

static void test_order(void)
{
	u8 r[3][64], again[64];
	u32 size = 0;

	start_seals();
	for (u32 i = 0; i < 3; i++)
		size = seal_text(&out[0], r[i], (u8)('a' + i), 40);
	NAMED(is_refused(&in[1], r[1], size, -LINUX_EBADMSG),
	      "a record that overtakes another is refused");
	memcpy(again, r[0], size);
	TRUE(o2g_record_open(&in[1], r[0], size) == 40);
	NAMED(is_refused(&in[1], again, size, -LINUX_EBADMSG),
	      "a repeated record is refused");
	NAMED(is_refused(&in[1], r[2], size, -LINUX_EBADMSG),
	      "a record after a missing one is refused");
	NAMED(is_refused(&in[0], r[1], size, -LINUX_EBADMSG),
	      "a record that is sent back is refused");
	TRUE(o2g_record_open(&in[1], r[1], size) == 40);
	TRUE(o2g_record_open(&in[1], r[2], size) == 40);
	start_seals();
	seal_text(&out[1], r[0], 'x', 40);
	seal_text(&out[0], r[1], 'x', 40);
	NAMED(memcmp(r[0] + 4, r[1] + 4, 56), "each direction has its key");
	seal_text(&out[0], r[2], 'x', 40);
	NAMED(memcmp(r[1] + 4, r[2] + 4, 56),
	      "equal texts have different records");
}

/* Two seals of one key: one renews it where the other does not. */
static void test_renewal(void)
{
	struct o2g_seal old;
	u32 size, missed = 0;

	start_seals();
	out[0].number = in[1].number = O2G_RECORD_KEY - 1;
	old = in[1];
	size = seal_text(&out[0], record, 'k', 10);
	TRUE(o2g_record_open(&in[1], record, size) == 10);
	NAMED(memcmp(out[0].key, old.key, sizeof(old.key)),
	      "a key is used for a limited number of records");
	NAMED(!memcmp(out[0].key, in[1].key, sizeof(old.key)),
	      "both sides renew it at once");
	old.number++;
	for (u32 i = 0; i < 3; i++) {
		size = seal_text(&out[0], record, 'k', 10);
		missed += !is_refused(&old, record, size, -LINUX_EBADMSG);
		missed += o2g_record_open(&in[1], record, size) != 10;
		old.number++;
	}
	NAMED(!missed, "then the old key opens nothing");
	old = out[0];
	out[0].number = in[1].number = 2 * O2G_RECORD_KEY - 1;
	size = seal_text(&out[0], record, 'k', 10);
	TRUE(o2g_record_open(&in[1], record, size) == 10);
	NAMED(memcmp(out[0].key, old.key, sizeof(old.key)),
	      "and again after as many");
	TRUE(out[0].number == 2 * O2G_RECORD_KEY);
}

/* ---- two endpoints ---- */

static u32 some_length(u32 most)
{
	static u32 state = 12345;

	state = state * 1664525 + 1013904223;
	return 1 + (state >> 8) % most;
}

/* What an end wants to write, as records on the wire; returns their bytes. */
static u32 write_wire(int from, u32 most)
{
	struct bed_pipe *pipe = p.end[from].out;
	u32 length = 0;

	while (bed_write(&p.end[from], 1u << 18) > 0)
		continue;
	while (pipe->head != pipe->tail) {
		u32 n = some_length(most);

		if (n > pipe->tail - pipe->head)
			n = pipe->tail - pipe->head;
		memcpy(wire + length + O2G_RECORD_HEAD, pipe->byte + pipe->head,
		       n);
		pipe->head += n;
		length += o2g_record_seal(&out[from], wire + length, n);
	}
	pipe->head = pipe->tail = 0;
	return length;
}

/* The other end gets the records. Returns 0, or what it says to them. */
static int read_wire(int from, u32 length)
{
	struct bed_end *end = &p.end[!from];
	int r = 0;

	for (u32 at = 0; at < length && r >= 0;) {
		const s32 size = o2g_record_size(wire + at, length - at);
		s32 text;

		if (size <= 0 || (u32)size > length - at)
			return -LINUX_EPROTO;
		text = o2g_record_open(&in[!from], wire + at, (u32)size);
		if (text < 0)
			return text;
		memcpy(end->in->byte, wire + at + O2G_RECORD_HEAD, (u32)text);
		end->in->head = 0;
		end->in->tail = (u32)text;
		r = bed_read(end, (u32)text);
		at += (u32)size;
	}
	end->in->head = end->in->tail = 0;
	return r < 0 ? r : 0;
}

static void test_traffic(void)
{
	static u8 body[60000], got[60000];
	u32 length, wrong = 0, plain = 0;

	start_seals();
	pair_open(&p, &pair_plain, 0x40000);
	for (u32 i = 0; i < sizeof(body); i++)
		body[i] = (u8)(i * 7 + i / 251);
	for (u32 round = 0; round < 40; round++) {
		const u32 most = round % 4 ? O2G_RECORD_TEXT : 1 + round;
		const u32 n = round % 3 ? some_length(sizeof(body)) : round;

		memset(got, 0, sizeof(got));
		bed_send(&p.bed[0], 1, round, body, n, 1);
		bed_recv(&p.bed[1], 0, round, 0, got, n, 2);
		length = write_wire(0, most);
		plain += n >= 32 && memmem(wire, length, body, 32) != 0;
		wrong += read_wire(0, length) != 0 || !pair_took(&p, 1, 2, 0) ||
			 memcmp(body, got, n);
		wrong += read_wire(1, write_wire(1, most)) != 0 ||
			 !pair_took(&p, 0, 1, 0);
	}
	NAMED(!wrong, "messages arrive through records of any length");
	NAMED(!plain, "none of their bytes lies on the wire");
	TRUE(pair_close(&p));
}

/* Nothing of a message completes while the last record of it is missing, and
 * nothing is stored of a record that was changed. */
static void test_damage(void)
{
	static u8 body[40000], got[40000];
	u32 length, touched = 0;

	start_seals();
	pair_open(&p, &pair_plain, 0x40000);
	memset(body, 'd', sizeof(body));
	bed_recv(&p.bed[1], 0, 1, 0, got, sizeof(got), 2);
	bed_send(&p.bed[0], 1, 1, body, sizeof(body), 1);
	length = write_wire(0, O2G_RECORD_TEXT);
	wire[length - O2G_RECORD_TAG - 1] ^= 1; /* the last byte of all */
	NAMED(read_wire(0, length) == -LINUX_EBADMSG && pair_none(&p, 1),
	      "a message with a changed byte is not received");
	for (u32 i = 0; i < 40; i++) /* of the last, changed record */
		touched += got[sizeof(got) - 1 - i] != 0;
	NAMED(!touched, "and no byte of the changed record is stored");
	bed_end(&p.end[1], -LINUX_EBADMSG);
	TRUE(pair_took(&p, 1, 2, -LINUX_ECONNRESET));
	TRUE(pair_close(&p));
}

/* The stream ends where a record does; only BYE makes that a clean end. */
static void test_truncation(void)
{
	u8 got[64];

	start_seals();
	pair_open(&p, &pair_plain, 0x40000);
	bed_recv(&p.bed[1], 0, 9, 0, got, sizeof(got), 2);
	bed_send(&p.bed[0], 1, 1, "whole", 5, 1);
	TRUE(read_wire(0, write_wire(0, O2G_RECORD_TEXT)) == 0);
	bed_end(&p.end[1], 0);
	NAMED(pair_took(&p, 1, 2, -LINUX_ECONNRESET),
	      "a stream that is cut between two records has failed");
	TRUE(pair_close(&p));
	start_seals();
	pair_open(&p, &pair_plain, 0x40000);
	bed_recv(&p.bed[1], 0, 9, 0, got, sizeof(got), 2);
	o2g_conn_bye(p.end[0].conn);
	TRUE(read_wire(0, write_wire(0, O2G_RECORD_TEXT)) == 0);
	bed_end(&p.end[1], 0);
	NAMED(pair_took(&p, 1, 2, -LINUX_ESHUTDOWN),
	      "one that ends after BYE has not");
	TRUE(pair_close(&p));
}

void record_run(check_fn *judge)
{
	check = judge;
	test_tampering();
	test_lengths();
	test_longest();
	test_order();
	test_renewal();
	test_traffic();
	test_damage();
	test_truncation();
}
