/* SPDX-License-Identifier: MIT */
/* The one-time authenticator Poly1305 (RFC 8439, section 2.5). */
#ifndef O2G_CORE_POLY_H
#define O2G_CORE_POLY_H

#include <skep/types.h>

#define O2G_POLY_KEY 32
#define O2G_POLY_TAG 16

struct o2g_poly {
	u64 r[2], s[2]; /* the two halves of the key */
	u64 h[3];	/* the sum so far, below 2^131 */
};

void o2g_poly_start(struct o2g_poly *poly, const u8 key[O2G_POLY_KEY]);
/* Adds a part. A last block of less than 16 bytes is filled up with zeros, as
 * the parts of a record are. */
void o2g_poly_padded(struct o2g_poly *poly, const u8 *part, u64 length);
/* Adds the end of a message as Poly1305 itself defines it. */
void o2g_poly_last(struct o2g_poly *poly, const u8 *part, u64 length);
void o2g_poly_finish(struct o2g_poly *poly, u8 tag[O2G_POLY_TAG]);

#endif
