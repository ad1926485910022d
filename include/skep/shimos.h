/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * /dev/shimos: making, driving and giving back partitions.
 *
 *            CREATE                 START
 *   (none) ---------> lent -> idle -------> running
 *             ^                ^  \            | STOP, close of the proxy's
 *             |                |   RELEASE     | file, fault of the image
 *             +----------------|---+           v
 *                              +----------- stopping
 *
 * A partition belongs to the user who made it and outlives that program. A
 * file that called OPEN is its proxy: one at a time, and for one START. Closing
 * it, for whatever reason, stops the image, clears kernel and mail and leaves
 * the partition idle; a mapping or a second descriptor keeps it open. The pool
 * is cleared when another user opens it. Only its
 * owner or root opens or releases it.
 *
 * Calls return 0 or -errno. Where a request is refused `why` says, in a
 * sentence for people, what was wrong and what would work.
 */
#ifndef SKEP_SHIMOS_H
#define SKEP_SHIMOS_H

#include <skep/partition.h>

#define SHIMOS_DEVICE_NAME "shimos"
#define SHIMOS_REVISION 1
#define SHIMOS_NODES 64
#define SHIMOS_CPU_WORDS 64 /* 4096 processors */
#define SHIMOS_WHY 192
#define SHIMOS_NAME 32

/* Root's allowance: what others may have together. Root needs none. */
struct shimos_allow {
	u32 revision;
	u32 gid; /* ~0: nobody but root */
	u64 cpus[SHIMOS_CPU_WORDS];
	u64 bytes[SHIMOS_NODES]; /* per node */
	char why[SHIMOS_WHY];
};

#define SHIMOS_SPLIT 1 /* leave the other half of a core to Linux */
#define SHIMOS_FILE 2  /* released when this file is closed */

struct shimos_create {
	u32 revision;
	u32 id; /* out */
	u32 flags, zero;
	u64 cpus[SHIMOS_CPU_WORDS];
	u64 bytes[SHIMOS_NODES]; /* per node, multiples of 2 MiB: pool, mail
				    and kernel together */
	char name[SHIMOS_NAME];	 /* or empty */
	char why[SHIMOS_WHY];
};

struct shimos_release {
	u32 id, zero;
	char why[SHIMOS_WHY];
};

enum shimos_state {
	SHIMOS_LENT = 1,
	SHIMOS_IDLE,
	SHIMOS_RUNNING,
	SHIMOS_STOPPING
};

struct shimos_info {
	u32 id; /* in: the first partition with at least this number; out */
	u32 state, uid, cores;
	u64 cpus[SHIMOS_CPU_WORDS];
	u64 pool, mail, kernel; /* bytes */
	u64 runs;
	s32 proxy; /* pid in the caller's namespace, or 0 */
	u32 zero;
	char name[SHIMOS_NAME];
	char image[24];
	char end[SHIMOS_WHY]; /* how the last run ended, if not by itself */
};

struct shimos_open {
	u32 id, cores;
	u64 pool, mail; /* out: bytes to map */
	char why[SHIMOS_WHY];
};
/* Offsets for mmap of a file that called OPEN. The pages have no references
 * to take: O_DIRECT and the like fail with EFAULT there, copying calls work.
 */
#define SHIMOS_MAP_MAIL 0
#define SHIMOS_MAP_POOL 0x100000000ull /* ranges one behind the other */

struct shimos_load { /* an image of the caller's own: CAP_SYS_ADMIN */
	u64 address, length;
	char why[SHIMOS_WHY];
};

struct shimos_start {
	char why[SHIMOS_WHY];
};

#define SHIMOS_WAIT_ANY 0xffffffffu /* whoever rings */
#define SHIMOS_WAIT_OTHER 0xfffffffeu

struct shimos_wait {
	u32 seen;    /* in and out: how often that one rang */
	u32 ms;	     /* most */
	u32 core;    /* which, or one of the above */
	u32 reasons; /* not 0: first an NMI to that core, as by NMI */
};

/* To this core, for these reasons: 1 to 0x7fff, which the image gives a sense.
 * Several may reach it with one NMI. */
struct shimos_nmi {
	u32 core, reasons;
};

#define SHIMOS_IOC_ALLOW _IOWR('3', 0, struct shimos_allow)
#define SHIMOS_IOC_CREATE _IOWR('3', 1, struct shimos_create)
#define SHIMOS_IOC_RELEASE _IOWR('3', 2, struct shimos_release)
#define SHIMOS_IOC_INFO                                                        \
	_IOWR('3', 3, struct shimos_info) /* -ENOENT: no more                  \
					   */
#define SHIMOS_IOC_OPEN _IOWR('3', 4, struct shimos_open)
#define SHIMOS_IOC_LOAD _IOWR('3', 5, struct shimos_load)
#define SHIMOS_IOC_START _IOWR('3', 6, struct shimos_start)
/* Until somebody rings after `seen`: 0, -ETIMEDOUT, -EINTR, -EPIPE: it does
 * not run (any more). */
#define SHIMOS_IOC_WAIT _IOWR('3', 7, struct shimos_wait)
#define SHIMOS_IOC_NMI _IOW('3', 8, struct shimos_nmi)
#define SHIMOS_IOC_STOP _IO('3', 9)
#define SHIMOS_IOC_ALLOWED _IOR('3', 10, struct shimos_allow)

#endif
