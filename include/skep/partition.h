/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * A partition: cores and memory lent by a running Linux to a compute kernel
 * (SHIMOS, /dev/shimos). This file says what an image finds when it is booted;
 * shimos.h says how Linux programs make and drive partitions.
 *
 * Physical memory of a partition:
 *
 *   kernel   one contiguous range, image first, then memory of the image's
 *            own; no user space of Linux can ever map it
 *   mail     one contiguous range, shared with the proxy of the partition,
 *            which is hostile: copy once, check, use (mail.h)
 *   pool     a list of 2 MiB aligned ranges, each of one node, for the
 *            program; the proxy can map it too
 *
 * Kernel and mail are zero when an image starts, but for the image, this struct
 * with its tables, the clock, and what the proxy wrote to the mail since it
 * called OPEN. The pool holds zeros, or what this proxy wrote, or what earlier
 * programs of the same user left: an image clears what it gives to a program.
 *
 * Entry of the image, once per core, all cores at about the same time:
 *
 *   64-bit mode, ring 0, interrupts off (IF = 0), the local APIC's task
 *   priority class at 15, caches on, PAT as Linux has it, EFER.LME alone, and
 *   for the first instructions GDT, IDT (NMI returns, #MC halts) and a stack
 *   of 64 bytes of the trampoline. CR3: `kernel` at SKEP_PARTITION_BASE with
 *   2 MiB pages (writable, executable), and nothing else but the trampoline.
 *   rdi: address of struct skep_partition (in `kernel`, behind the image)
 *   rsi: number of this core, 0 to cores - 1
 *
 * A maskable interrupt must never be taken: Linux broadcasts to all processors
 * that ever ran. An NMI may come at any instruction; why, says nmi.h. Stopping
 * needs no help: INIT ends an image at any point.
 */
#ifndef SKEP_PARTITION_H
#define SKEP_PARTITION_H

#include <skep/types.h>

#define SKEP_PARTITION_MAGIC 0x54524150 /* "PART" */
#define SKEP_PARTITION_REVISION 3
#define SKEP_PARTITION_BASE 0xffffffff80000000ull
#define SKEP_PARTITION_CORES 256
#define SKEP_PARTITION_RANGES 65536 /* most */
#define SKEP_PARTITION_ALIGN 0x200000

/* The first bytes of an image file, a flat binary for SKEP_PARTITION_BASE.
 * struct skep_partition lies on the first page behind file_size, and its tables
 * behind it: memory that is to be zero comes from free_start on, or is part of
 * the file.
 */
#define SKEP_IMAGE_MAGIC 0x31534d53 /* "SMS1" */
#define SKEP_IMAGE_REVISION 2
#define SKEP_IMAGE_MAX 0x1000000 /* bytes of a file */

struct skep_image {
	u32 magic;
	u32 revision;	 /* of this header, else refused */
	u32 partition;	 /* SKEP_PARTITION_REVISION that it was built for */
	u32 entry;	 /* offset in the file */
	u64 file_size;	 /* of the whole file */
	u64 memory;	 /* of `kernel`: at least that many bytes */
	u32 core_memory; /* and that many more for each core, */
	u32 gib_memory;	 /* and for each GiB of memory that was lent */
	u32 flags;
	char name[20]; /* and version, for people; ends with 0 */
};
SKEP_ASSERT_SIZE(struct skep_image, 64);
/* The image keeps used_kernel and the bits at used_pool: only what they name
 * is cleared. Of others all memory is.
 */
#define SKEP_IMAGE_MARKS 1
/* The image gets memory below 1 MiB for the run, at low_start: one partition at
 * a time can.
 */
#define SKEP_IMAGE_LOW 2

struct skep_partition_core {
	u32 apic_id;
	u32 node;
};

struct skep_partition_range {
	u64 start, length; /* physical, bytes */
	u64 offset;	   /* in the pool: the sum of the lengths before */
	u32 node, zero;
};

/*
 * Time: ns = base + (((tsc - tsc_base) * mult + fraction) >> shift), in 128
 * bits: then it agrees with Linux to the nanosecond and never goes back.
 * Linux rewrites it as its own clock is corrected; an odd sequence says that
 * it is being written (as a seqlock). In `mail`, at SKEP_MAIL_CLOCK, since
 * Linux writes it while the image runs; a hostile proxy can spoil the time and
 * nothing else.
 */
struct skep_partition_clock {
	u32 sequence, shift;
	u64 tsc_base, mult;
	u64 realtime, monotonic; /* ns at tsc_base */
	u64 fraction; /* of a ns at tsc_base, in units of 1 >> shift */
	u64 zero[2];
};
SKEP_ASSERT_SIZE(struct skep_partition_clock, 64);
#define SKEP_MAIL_CLOCK 0 /* offset in mail */

/*
 * Who rang, in `mail` at SKEP_MAIL_DOORBELL: the image sets the bit of a core,
 * or `other`, and then rings; Linux takes them and wakes only who waits for
 * that. A hostile proxy can have its own threads woken, or not. All atomic.
 */
struct skep_partition_doorbell {
	u64 core[SKEP_PARTITION_CORES / 64];
	u64 other;
	u64 zero[3];
};
SKEP_ASSERT_SIZE(struct skep_partition_doorbell, 64);
#define SKEP_MAIL_DOORBELL 64 /* offset in mail */

struct skep_partition {
	u32 magic, revision;
	u32 id;
	u32 cores;
	u32 ranges;
	u32 tsc_khz;
	u64 kernel_start, kernel_size;
	u64 mail_start, mail_size;
	u64 free_start; /* offset in `kernel`: first byte behind the tables */
	/* Tables, by their distance from this struct: struct
	 * skep_partition_range[ranges], lowest address first; and a bit for
	 * each 2 MiB of the pool, in words of 64, which the image sets before
	 * it writes there. */
	u64 range_table, used_pool;
	u64 used_kernel; /* the image writes there: bytes of `kernel`, from its
			    start on, that it may have written to */
	/* Ringing Linux: a fixed interrupt to this processor. It says "look at
	 * the mail", who rang above all; several may arrive as one. */
	u32 doorbell_apic_id; /* may change: read it each time */
	u32 doorbell_vector;
	u64 apic_base; /* physical address of the xAPIC; 0: x2APIC */
	u8 random[32];
	u64 saved_hwp, saved_perf, saved_epb; /* full speed; 0: leave alone */
	u64 low_start, low_size; /* physical; 0 without SKEP_IMAGE_LOW */
	u64 zero[3];
	struct skep_partition_core core[SKEP_PARTITION_CORES];
	u32 nmi[SKEP_PARTITION_CORES]; /* reasons, of each core: nmi.h; atomic
					*/
};

static inline struct skep_partition_range *
skep_partition_ranges(struct skep_partition *p)
{
	return (struct skep_partition_range *)((u8 *)p + p->range_table);
}

#endif
