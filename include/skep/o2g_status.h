/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * What an open endpoint shows of itself to `skep o2g status`: one file of this
 * layout, $XDG_RUNTIME_DIR/skep-o2g/PID-ID, or /dev/shm/skep-o2g-UID/PID-ID
 * without that variable; ID are 8 hexadecimal digits. The folder is its owner's
 * alone (0700), the file 0600. The endpoint maps it and writes a few times a
 * second while there is traffic and once after; each number is whole, though
 * not all of one moment. `magic` is written last when the file is made.
 *
 * The file goes when the endpoint closes. As long as its process lives its
 * mapping holds an exclusive flock(): a file that lets itself be locked was
 * left by a killed process, in this pid namespace or another, and is removed by
 * whoever finds it, who locks it shared so that two who look do not meet each
 * other's lock. Little endian, no padding; readers trust no length in it.
 */
#ifndef SKEP_O2G_STATUS_H
#define SKEP_O2G_STATUS_H

#include <skep/types.h>

#define O2G_STATUS_MAGIC 0x54473253 /* "S2GT" */
#define O2G_STATUS_REVISION 4

struct o2g_status {
	u32 magic;
	u32 revision;
	u32 pid; /* as the process itself sees it */
	u32 zero;
	u64 opened;	 /* seconds since 1970 */
	u8 name[40];	 /* of the endpoint, as o2g_name() gives it */
	u8 engine[16];	 /* "user" or "kernel", zero-filled */
	u8 program[64];	 /* the same, file name of the program */
	u32 named;	 /* peers that the program named */
	u32 connected;	 /* connections made so far */
	u32 unreachable; /* peers that could not be reached */
	u32 refused;	 /* unauthenticated peers that were refused */
	u64 sent;	 /* messages; these are struct o2g_counts */
	u64 sent_bytes;	 /* of bodies */
	u64 received;
	u64 received_bytes;
	u64 expected;	/* arrived after their receive was posted */
	u64 unexpected; /* arrived before */
	u64 requested;	/* sent beyond credit, by rendezvous */
	u64 waited;	/* sends that had no credit left */
	u64 self;	/* of the sent ones: to the same endpoint */
	u64 frames_in;
	u64 frames_out;
	u64 unmatched; /* messages that no receive has matched, now */
	u64 unmatched_bytes;
	u64 posted; /* receives that no message has matched, now */
	/* The kernel engine's own (struct o2g_device_counts), else 0. */
	u64 softirq_bytes;
	u64 worker_bytes;
	u64 over_budget;
	u64 direct_bytes;
	u64 slab_pages;
	u64 stopped_reading;
	u64 wakes;
	u64 sleeps;
	u64 refused_memory;
	/* The user engine's own, of which the last is once a second. */
	u32 known;  /* 1: the following are counted */
	u32 links;  /* open connections */
	u64 resent; /* TCP segments that were sent again, on all connections */
};
SKEP_ASSERT_SIZE(struct o2g_status, 360);

#endif
