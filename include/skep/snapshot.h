/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * The SOCK_SEQPACKET socket of --control. bee sends one byte when the program
 * is about to run, or to go on. Then it is asked, as often as one likes: an
 * ask, with the descriptor of a file or pipe that is open for writing, which
 * bee closes before the answer; the answer; and if the program was saved and
 * `end` is not 0, one byte: 0 lets it go on, 1 ends it. If the ask is `live`,
 * most of the memory is written while the program runs, and with
 * SKEP_SNAPSHOT_AWAIT the program rests only after a byte of
 * SKEP_SNAPSHOT_FITS; until the answer a byte of SKEP_SNAPSHOT_HURRY may bring
 * it to rest earlier. Before the byte of a program that goes on bee sends
 * SKEP_SNAPSHOT_FITS, if the files that it has mapped are the same here, which
 * it knows before the rest of the snapshot has come. The user of the socket
 * is trusted with the program's memory. Both sides are of one machine and one
 * release.
 */
#ifndef SKEP_SNAPSHOT_H
#define SKEP_SNAPSHOT_H

#include <skep/types.h>

enum skep_snapshot_end {
	SKEP_SNAPSHOT_GO = 0,	/* it goes on at once */
	SKEP_SNAPSHOT_END = 1,	/* it rests, and goes on if the socket closes */
	SKEP_SNAPSHOT_HOLD = 2, /* it rests, and ends if the socket closes */
};

#define SKEP_SNAPSHOT_HURRY 2
#define SKEP_SNAPSHOT_FITS 3

#define SKEP_SNAPSHOT_LIVE 1 /* values of `live` */
#define SKEP_SNAPSHOT_AWAIT 2
/* Of bee to another process of the same run: it answers when it is at rest, is
 * saved after a byte of SKEP_SNAPSHOT_SAVE, and answers again. */
#define SKEP_SNAPSHOT_MEMBER 3

#define SKEP_SNAPSHOT_SAVE 4 /* the byte */

struct skep_snapshot_ask {
	u32 end;  /* enum skep_snapshot_end */
	u32 live; /* or 0 */
};

struct skep_snapshot_answer {
	u32 saved;
	u32 watches;	     /* the kernel tells which pages are written */
	u64 bytes, pause_ns; /* of the file; at rest until it was saved */
	u64 early;	     /* bytes that were written before that */
	u64 pages;	     /* whose contents were read at rest */
	u64 rest_ns;	     /* of the pause: until all threads were at rest */
	u64 used_ns;	     /* processor time of the pause */
	char why[320];	     /* if it was not saved: a part of a sentence */
};

#endif
