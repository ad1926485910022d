/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * /dev/o2g: the kernel engine as a program sees it. One open file is one
 * endpoint's engine. What passes through the rings (o2g_ring.h) needs no call;
 * these calls make the endpoint, hand it sockets, and kick, sleep and wake.
 *
 *   open /dev/o2g        O2G_IOC_OPEN, then mmap offset 0, `area_size` bytes,
 *                        MAP_SHARED: once; a child of fork() does not get it
 *   a socket whose       setsockopt(TCP_ULP, "o2g"), O2G_IOC_ATTACH; from then
 *   opening is done      on the engine alone reads and writes it, and the
 *                        program may close its descriptor
 *   poll                 readable from a completion for which the program set
 *                        O2G_NEED_WAKE, or O2G_IOC_WAKE, until O2G_IOC_CALM
 *   the end              O2G_IOC_FINISH, then O2G_IOC_CLOSE. close() alone
 *                        ends nothing while the area is mapped; without the
 *                        area, by munmap() or exit, an endpoint ends
 *
 * Only the process that opened an endpoint may use it: a child gets -EPERM.
 * Calls return 0 or -errno; -ENXIO before O2G_IOC_OPEN, -ESHUTDOWN after the
 * end, -EPROTO once the rings' indices were impossible, -ENOMEM where the
 * user's share of memory is used up. Reserved fields are zero, else -EINVAL.
 */
#ifndef SKEP_O2G_DEVICE_H
#define SKEP_O2G_DEVICE_H

#include <skep/o2g_wire.h>
#include <skep/types.h>

#define O2G_DEVICE_NAME "o2g" /* of the device and of the TCP ULP */
#define O2G_DEVICE_REVISION 5 /* 4: atomic access, invited; 5: keys */

struct o2g_device_open {
	u32 revision; /* O2G_DEVICE_REVISION, else -EPROTO */
	u32 sq_entries, cq_entries;
	u32 postings, peers; /* as in struct o2g_limits */
	u32 slab_message;    /* at least 1: see struct o2g_limits */
	u64 unexpected;	     /* most bytes of the slab; it grows up to that */
	u64 write_off;
	u64 area_size; /* out: bytes to map */
	u64 invited;
	u64 zero[2];
};
SKEP_ASSERT_SIZE(struct o2g_device_open, 72);

struct o2g_device_peer { /* PEER: value is `self`; LOST: -errno */
	u32 peer;
	s32 value;
};
SKEP_ASSERT_SIZE(struct o2g_device_peer, 8);

struct o2g_device_attach {
	s32 socket; /* a descriptor; -ENOTSOCK, -EINVAL without the ULP,
		       -EBUSY when attached, -ENOTCONN when not established */
	u32 peer;   /* or O2G_NO_PEER */
	u32 credit_out, credit_in;
	u32 link;      /* out */
	u32 encrypted; /* 1: records follow the opening; 0: keys are zero */
	u8 key_out[O2G_KEY_SIZE], key_in[O2G_KEY_SIZE]; /* out: zeros */
};
SKEP_ASSERT_SIZE(struct o2g_device_attach, 88);

struct o2g_device_identify {
	u32 link, peer;
};
SKEP_ASSERT_SIZE(struct o2g_device_identify, 8);

/* Memory of the program that peers may access; see <o2g/lib/o2g.h>. After its
 * removal nothing reads or writes it for them any more. */
struct o2g_device_region {
	u64 key; /* -EEXIST; to remove: -ENOENT */
	u64 address, length;
	u64 first; /* how peers name its first byte */
	u64 cookie;
	u32 rights; /* of struct o2g_region_options, else -EINVAL */
	u32 zero;
};
SKEP_ASSERT_SIZE(struct o2g_device_region, 48);

/* What `skep o2g status` and the tests look at. Grows at its end only; the
 * program tells how much of it it knows. */
struct o2g_device_counts {
	u32 size, zero; /* in: of this struct */
	/* struct o2g_counts of the core, in its order */
	u64 sent, sent_bytes, received, received_bytes;
	u64 expected, unexpected, requested, waited, self;
	u64 frames_in, frames_out, kicks, unmatched, unmatched_bytes, posted;
	/* the kernel engine's own */
	u64 softirq_bytes;   /* read where they arrived */
	u64 worker_bytes;    /* read by a worker */
	u64 over_budget;     /* work that a softirq left to a worker */
	u64 direct_bytes;    /* put straight into the program's memory */
	u64 slab_pages;	     /* now */
	u64 stopped_reading; /* times that a socket was not read for memory */
	u64 wakes, sleeps;
	u64 refused_memory; /* allocations that failed */
};

#define O2G_IOC_OPEN _IOWR('2', 0, struct o2g_device_open)
#define O2G_IOC_PEER _IOW('2', 1, struct o2g_device_peer)
#define O2G_IOC_LOST _IOW('2', 2, struct o2g_device_peer)
#define O2G_IOC_ATTACH _IOWR('2', 3, struct o2g_device_attach)
#define O2G_IOC_IDENTIFY _IOW('2', 4, struct o2g_device_identify)
#define O2G_IOC_KICK _IO('2', 5)
/* Most microseconds, which may be none. 1: rung, 0: time is up; -EINTR. */
#define O2G_IOC_SLEEP _IOW('2', 6, u64)
#define O2G_IOC_WAKE _IO('2', 7)
#define O2G_IOC_CALM _IO('2', 8)
#define O2G_IOC_FINISH _IOW('2', 9, u32) /* most milliseconds; -ETIMEDOUT */
#define O2G_IOC_COUNTS _IOWR('2', 10, struct o2g_device_counts)
#define O2G_IOC_CLOSE _IO('2', 11)
#define O2G_IOC_REGION_ADD _IOW('2', 12, struct o2g_device_region)
/* -EINTR, if the caller is killed: then it may still be accessed. */
#define O2G_IOC_REGION_REMOVE _IOW('2', 13, u64) /* its key */

#endif
