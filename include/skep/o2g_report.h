/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * What an endpoint tells its launcher when it closes: one record on a TCP
 * connection to $SKEP_O2G_REPORT (HOST:PORT), then the end of the stream.
 * Little endian, no padding. Counters are those of struct o2g_counts, bytes of
 * message bodies. mac = HMAC-SHA-256(S, "o2g report" | record less mac), S the
 * job's secret as in <skep/o2g_wire.h>; the launcher drops what does not prove
 * itself and counts one record per endpoint id. A launcher that does not answer
 * within a second is left alone.
 */
#ifndef SKEP_O2G_REPORT_H
#define SKEP_O2G_REPORT_H

#include <skep/types.h>

#define O2G_REPORT_MAGIC 0x50473253 /* "S2GP" */
#define O2G_REPORT_REVISION 2
#define O2G_REPORT_USER 0
#define O2G_REPORT_KERNEL 1

struct o2g_report {
	u32 magic;
	u32 revision;
	u8 id[16]; /* of the endpoint */
	u32 pid;
	u32 engine; /* O2G_REPORT_USER or O2G_REPORT_KERNEL */
	u64 sent;
	u64 sent_bytes;
	u64 received;
	u64 received_bytes;
	u64 expected;	/* received into a receive that waited for it */
	u64 unexpected; /* came first */
	u64 requested;	/* sent beyond credit, by rendezvous */
	u64 self;	/* of the sent ones: to the same endpoint */
	u64 waited;	/* sends that had no credit left */
	u64 resent;	/* TCP segments that were sent again: user engine */
	u8 mac[32];
};
SKEP_ASSERT_SIZE(struct o2g_report, 144);

#endif
