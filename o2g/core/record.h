/* SPDX-License-Identifier: MIT */
/*
 * Records: what an encrypted connection sends instead of its frames' bytes, as
 * <skep/o2g_wire.h> defines them. The engine collects bytes for a record, or
 * the bytes of one; nothing here knows what is in them.
 */
#ifndef O2G_CORE_RECORD_H
#define O2G_CORE_RECORD_H

#include <skep/o2g_wire.h>

struct o2g_keys { /* of a connection, from its opening */
	u8 out[O2G_KEY_SIZE], in[O2G_KEY_SIZE];
};

/* One direction of a connection; its engine's lock guards it. */
struct o2g_seal {
	u8 key[O2G_KEY_SIZE];
	u64 number; /* of the next record */
};

void o2g_seal_start(struct o2g_seal *seal, const u8 key[O2G_KEY_SIZE]);

/* Encrypts the `length` bytes (1 to O2G_RECORD_TEXT) at record +
 * O2G_RECORD_HEAD in place and puts head and tag around them: returns the bytes
 * of the record. A record is sealed once: what has to be sent again are the
 * same bytes. */
u32 o2g_record_seal(struct o2g_seal *seal, u8 *record, u32 length);

/* The bytes of the record whose first `have` bytes are at `record`: 0 if its
 * head is not complete, -EPROTO if there is no such record. */
s32 o2g_record_size(const u8 *record, u32 have);

/* Decrypts a complete record in place: returns the length of its text, at
 * record + O2G_RECORD_HEAD. -EPROTO: no such record; -EBADMSG: it is not the
 * one that the peer sealed next. Then nothing of it was decrypted, and the
 * connection must end. */
s32 o2g_record_open(struct o2g_seal *seal, u8 *record, u32 size);

#endif
