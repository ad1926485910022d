/* SPDX-License-Identifier: MIT */
/* The stream cipher ChaCha20 (RFC 8439, section 2.4). */
#ifndef O2G_CORE_CHACHA_H
#define O2G_CORE_CHACHA_H

#include <skep/types.h>

#define O2G_CHACHA_KEY 32
#define O2G_CHACHA_NONCE 12

/* XORs `length` bytes in place with the key stream from block `counter` on. */
void o2g_chacha_xor(const u8 key[O2G_CHACHA_KEY],
		    const u8 nonce[O2G_CHACHA_NONCE], u32 counter, u8 *text,
		    u64 length);

#endif
