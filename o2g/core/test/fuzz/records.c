/* SPDX-License-Identifier: MIT */
/*
 * Fuzzes the wire between two ends of an encrypted connection. The input says
 * what is sealed, and what an attacker does to the bytes on the wire. Whatever
 * that is, what opens is the beginning of what was sealed.
 */
#include <o2g/core/record.h>
#include "base/errno.h"

#define WIRE 0x20000u
#define TEXTS 4096u

static const u8 *input;
static u64 left;
static u8 wire[WIRE], texts[TEXTS], old[O2G_RECORD_MAX];
static u32 wire_length, sealed, opened, old_length;

static u8 next_byte(void)
{
	if (!left)
		return 0;
	left--;
	return *input++;
}

static u32 next_word(void)
{
	u32 a = next_byte();

	return a << 8 | next_byte();
}

static void seal_some(struct o2g_seal *seal)
{
	u32 length = 1 + next_byte();
	u8 *to = wire + wire_length;

	if (length > TEXTS - sealed || wire_length + O2G_RECORD_MAX > WIRE)
		return;
	for (u32 i = 0; i < length; i++)
		texts[sealed + i] = to[O2G_RECORD_HEAD + i] =
			(u8)(sealed + i * 31);
	sealed += length;
	wire_length += o2g_record_seal(seal, to, length);
}

static void insert_byte(u32 at)
{
	if (wire_length == WIRE)
		return;
	for (u32 i = wire_length++; i > at; i--)
		wire[i] = wire[i - 1];
	wire[at] = next_byte();
}

static void remove_bytes(u32 at, u32 length)
{
	if (length > wire_length - at)
		length = wire_length - at;
	for (u32 i = at; i + length < wire_length; i++)
		wire[i] = wire[i + length];
	wire_length -= length;
}

/* Puts the last opened record, as it was on the wire, in front. */
static void repeat_record(void)
{
	if (wire_length + old_length > WIRE)
		return;
	for (u32 i = wire_length; i > 0; i--)
		wire[i - 1 + old_length] = wire[i - 1];
	__builtin_memcpy(wire, old, old_length);
	wire_length += old_length;
}

static void attack_wire(u8 how)
{
	const u32 at = wire_length ? next_word() % wire_length : 0;

	if (how == 3)
		repeat_record();
	else if (!wire_length)
		return;
	else if (how == 0)
		wire[at] ^= next_byte();
	else if (how == 1)
		insert_byte(at);
	else
		remove_bytes(at, 1 + next_byte());
}

/* Opens the first record: 0, or the error that ends the connection. */
static int open_first(struct o2g_seal *seal)
{
	const s32 size = o2g_record_size(wire, wire_length);
	s32 text;

	if (size < 0)
		return size;
	if (!size || (u32)size > wire_length)
		return 0;
	if ((u32)size > O2G_RECORD_MAX || size <= O2G_RECORD_HEAD)
		__builtin_trap();
	__builtin_memcpy(old, wire, (u32)size);
	text = o2g_record_open(seal, wire, (u32)size);
	if (text < 0) {
		if (__builtin_memcmp(old, wire, (u32)size))
			__builtin_trap(); /* something was decrypted */
		return text;
	}
	old_length = (u32)size;
	if ((u32)text > sealed - opened ||
	    __builtin_memcmp(wire + O2G_RECORD_HEAD, texts + opened, (u32)text))
		__builtin_trap();
	opened += (u32)text;
	remove_bytes(0, (u32)size);
	return 0;
}

int LLVMFuzzerTestOneInput(const u8 *data, __SIZE_TYPE__ length);

int LLVMFuzzerTestOneInput(const u8 *data, __SIZE_TYPE__ length)
{
	u8 key[O2G_KEY_SIZE] = {1};
	struct o2g_seal out, in;
	int attacked = 0;

	input = data;
	left = length;
	wire_length = sealed = opened = old_length = 0;
	o2g_seal_start(&out, key);
	o2g_seal_start(&in, key);
	out.number = in.number = O2G_RECORD_KEY - 3;
	while (left) {
		const u8 what = next_byte();

		if (what & 8) {
			seal_some(&out);
		} else if (what & 4) {
			attack_wire(what & 3);
			attacked = 1;
		} else if (open_first(&in)) {
			if (!attacked)
				__builtin_trap();
			return 0;
		}
	}
	return 0;
}
