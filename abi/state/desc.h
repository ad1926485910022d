/* SPDX-License-Identifier: MIT */
/* An open file description; abi/fs/fd.h says which lock guards what. */
#ifndef ABI_STATE_DESC_H
#define ABI_STATE_DESC_H

#include "event.h"
#include "lock.h"

/* Attributes of an inode without a name, set by fchmod and futimens. */
struct abi_unnamed {
	u32 mode, has_mode;
	s64 times[2]; /* access, modification; ns since 1970; 0: not set */
};

/* A name of AF_UNIX as the program gave it; len 0: there is none. */
struct abi_unix_name {
	u32 len;
	u8 addr[110];
};

enum abi_desc_kind {
	ABI_DESC_FREE,
	ABI_DESC_FILE,	 /* handle: a regular file */
	ABI_DESC_DIR,	 /* handle */
	ABI_DESC_BLOCK,	 /* handle: a block device */
	ABI_DESC_STREAM, /* handle: a terminal, a device, a pipe of the host */
	ABI_DESC_SOCK,	 /* handle */
	ABI_DESC_PIPE,	 /* in or out is a ring */
	ABI_DESC_PAIR,	 /* socketpair: both are */
	ABI_DESC_UNIX,	 /* a socket of AF_UNIX without a peer */
	ABI_DESC_EVENT,
	ABI_DESC_COUNTER, /* an eventfd of the host: handle */
	ABI_DESC_TIMER,
	ABI_DESC_SIGNAL, /* signalfd; value: the set, atomic */
	ABI_DESC_EPOLL,
	ABI_DESC_TEXT,	  /* synthetic file: `code` says which */
	ABI_DESC_PROCESS, /* of /proc: `code` and `value` say which */
	ABI_DESC_NULL,	  /* /dev/null and its family: `code` says which */
	ABI_DESC_KINDS,
};

struct abi_timer {
	u32 clock;
	u64 next_ns, interval_ns; /* on CLOCK_MONOTONIC; 0: not armed */
	u64 ticks;		  /* expirations that were not read yet */
};

struct abi_file_id {
	u64 dev, ino;
};

struct abi_desc {
	u32 refs, numbers; /* fds->lock; numbers: slots that refer to it */
	u32 kind;
	u32 type; /* S_IF..., as fstat reports */
	u32 code;
	u32 flags;   /* O_ACCMODE and status flags; atomic */
	s32 handle;  /* FILE, SOCK */
	u32 in, out; /* ring index + 1, or 0 */
	/* pipe of the host: its number, the other end's index + 1; 0: another
	 * process made it */
	u32 pipe, peer;
	u32 identified;		 /* `file` is known; atomic */
	struct abi_file_id file; /* of what has a handle */
	u32 parked;    /* filelock.c keeps the handle open; fds->lock */
	u32 std;       /* 1 + the number of the stream that the host attached */
	u32 inherited; /* regular file: the host keeps the position */
	struct abi_lock lock; /* guards the fields up to event */
	u64 pos;
	u64 value; /* EVENT: the counter */
	struct abi_timer timer;
	u64 recv_ns, send_ns;		 /* SO_RCVTIMEO, SO_SNDTIMEO; 0: none */
	u32 domain, sock_type, protocol; /* SOCK, PAIR */
	u32 creator; /* the process that made a pair of abi; 0: no pair */
	struct abi_unix_name own, peer_name; /* SOCK of AF_UNIX */
	/* of all but PIPE, whose ring has it */
	struct abi_unnamed unnamed;
	u32 listening;
	struct abi_event event;
	u32 watch;	 /* EPOLL: first entry + 1; guarded by epoll_lock */
	u32 watched;	 /* entries that refer to this; epoll_lock */
	char path[4096]; /* files: absolute; others: as /proc/self/fd says */
};

#endif
