/* SPDX-License-Identifier: MIT */
/*
 * The mailbox of a partition: the memory that sms and its proxy share.
 *
 *	0               the clock (skep/partition.h)
 *	MAIL_BOOT       struct mail_boot, written by the proxy before START
 *	MAIL_EVENTS     struct mail_events, asynchronous events
 *	MAIL_SLOT(i)    struct mail_slot of core i
 *
 * A core makes one call at a time. It fills in its slot, sets `state` to
 * MAIL_CALL and rings the doorbell; the proxy's worker for that core executes
 * the call with the functions of abi/linux and sets MAIL_DONE. The core polls
 * `state` for a while, then sets `notify` and halts. There is one operation
 * for each function of struct abi_host. Its struct is in `data`. Pointers in it
 * are not followed: what they point to is at the offsets below. Large reads
 * and writes list parts of the pool instead.
 *
 * Signals and timers go the other way: the proxy records each as an event and
 * sends core 0 an NMI; the first core that checks handles it. The reasons of
 * an NMI are not in the mailbox but in the words of skep/nmi.h.
 *
 * Each side treats the other as hostile: it copies once, checks, then uses.
 */
#ifndef SMS_MAIL_H
#define SMS_MAIL_H

#include "abi/include/host.h"

#define MAIL_MAGIC 0x4c49414d /* "MAIL" */
#define MAIL_REVISION 7
#define MAIL_AREA 0x40000 /* bytes for each core, and for the first part */
#define MAIL_BOOT 0x1000
#define MAIL_EVENTS (MAIL_AREA - 0x1000)
#define MAIL_SLOT(core) ((u64)MAIL_AREA * ((core) + 1))

enum mail_op {
	MAIL_NONE,
	MAIL_FILE_OPEN,	 /* struct abi_open; MAIL_PATH */
	MAIL_FILE_CLOSE, /* handle */
	MAIL_FILE_READ,	 /* handle, arg: length, offset; MAIL_BULK or parts */
	MAIL_FILE_WRITE, /* the same */
	MAIL_FILE,	 /* handle, struct abi_file_op; out: MAIL_BULK */
	MAIL_NAME,	 /* struct abi_path_op; both paths, MAIL_BULK */
	MAIL_SOCK_OPEN,	 /* arg: domain, type, protocol */
	MAIL_SOCK,	 /* handle, struct abi_sock_op; MAIL_BULK or parts */
	MAIL_IO_WAIT,	 /* arg: count, deadline; list at MAIL_BULK */
	/* struct abi_family_op, without waiting; MAIL_PATH; in and out:
	 * struct abi_siginfo at MAIL_BULK */
	MAIL_FAMILY,
	MAIL_PIPE,  /* arg: type; out: two handles at MAIL_BULK */
	MAIL_LOG,   /* a line at MAIL_BULK */
	MAIL_EXIT,  /* arg: status, as for wait(2) */
	MAIL_PANIC, /* a line at MAIL_BULK; the image stops */
	MAIL_OPS
};

/* In the list of MAIL_IO_WAIT: a child of the program may have ended, stopped
 * or continued since this core last got the event. */
#define MAIL_CHILD (-2)

enum mail_state { MAIL_IDLE, MAIL_CALL, MAIL_DONE };

#define MAIL_PARTS 256
struct mail_part {
	u64 offset, length; /* offset in the pool, as the proxy maps it */
};

/* Why a core got an NMI: bits 1 << these in its word of skep/nmi.h. */
enum mail_nmi {
	MAIL_NMI_FOREIGN, /* no request: from Linux or the hardware */
	MAIL_NMI_START,	  /* an idle core got a thread */
	MAIL_NMI_SIGNAL,
	MAIL_NMI_MAPPING, /* rights were removed: flush the TLB */
	MAIL_NMI_EVENT,	  /* from the proxy: a signal of Linux or a timer */
	MAIL_NMI_SLICE,	  /* from the proxy: the time slice is over */
	MAIL_NMI_ANSWER,  /* from the proxy: for a call that was cancelled */
	MAIL_NMIS
};

#define MAIL_CALLS 512 /* ABI_NR_MAX */

/* A core's counts since the start of the image; written by sms. */
struct mail_ledger {
	u64 calls;  /* system calls */
	u64 faults; /* of the program: page faults served, and those refused */
	u64 nmi[MAIL_NMIS];
	u64 threads;  /* threads that ran on this core */
	u64 crowded;  /* threads refused for lack of memory */
	u64 switches; /* switches between threads */
	u64 forwarded[MAIL_OPS];
	u64 pages, large; /* pages mapped on first touch: 4 KiB, 2 MiB */
	/* refused system calls of the whole run; written by core 0 at its
	 * end */
	u32 refused[MAIL_CALLS];
};

#define MAIL_DATA 0x4000
#define MAIL_PATH_SIZE 0x1000
/* Offsets in `data`. */
#define MAIL_STRUCT 0
#define MAIL_PATH 0x1000
#define MAIL_PATH2 0x2000
#define MAIL_BULK 0x3000
#define MAIL_BULK_SIZE (MAIL_AREA - MAIL_DATA - MAIL_BULK)
/* ABI_FILE_READDIR: the most entries in one reply, at MAIL_BULK */
#define MAIL_ENTRIES 64
_Static_assert(MAIL_ENTRIES * sizeof(struct abi_dirent) <= MAIL_BULK_SIZE,
	       "entries");

struct mail_slot {
	u32 state; /* enum mail_state; atomic */
	u32 op;
	s32 handle;
	u32 parts;
	u64 arg[4];
	s64 result;
	u32 cancel; /* sms cancels an io_wait; atomic */
	u32 notify; /* the core does not poll: reply by an NMI; atomic */
	u32 slice;  /* the core has threads that need time slices; atomic */
	u32 zero;
	struct mail_part part[MAIL_PARTS];
	struct mail_ledger ledger;
	u8 pad[MAIL_DATA - 72 - 16 * MAIL_PARTS - sizeof(struct mail_ledger)];
	u8 data[MAIL_AREA - MAIL_DATA];
};
SKEP_ASSERT_SIZE(struct mail_slot, MAIL_AREA);

struct mail_stream {
	s32 handle; /* -1: the stream is closed */
	u32 type, flags;
	/* 1 + an earlier stream with the same open file description */
	u32 same;
};

struct mail_events {
	/* bits 1 << (signal - 1); set by the proxy, cleared by sms; atomic */
	u64 signals;
	/* of CLOCK_MONOTONIC; ABI_FOREVER: none; written by sms */
	u64 deadline;
	u32 due; /* the deadline has passed; atomic, like signals */
	u32 zero;
};

struct mail_boot {
	u32 magic, revision;
	u32 pid, uid, gid, umask;
	u64 stack; /* bytes of the main stack; 0: sms's default */
	struct mail_stream stream[3];
	char node[65], machine[65];
	char path[4096], cwd[4096];
	u32 argc, envc;
	u32 bytes; /* bytes of `text` in use */
	char text[MAIL_EVENTS - MAIL_BOOT -
		  0x3000]; /* argv, envp; each with NUL */
};
_Static_assert(sizeof(struct mail_boot) <= MAIL_EVENTS - MAIL_BOOT, "boot");

#endif
