/* SPDX-License-Identifier: MIT */
/* Descriptors: numbers, descriptions and their objects. */
#ifndef ABI_STATE_FDS_H
#define ABI_STATE_FDS_H

#include "desc.h"
#include "ring.h"
#include "watch.h"

/* More than numbers, so that numbers run out first, with EMFILE. */
#define ABI_DESC_MAX (ABI_FD_MAX + 64)
#define ABI_LOCKED_FILES ABI_DESC_MAX /* files with record locks */

struct abi_slot {
	u16 desc; /* index + 1, or 0 */
	u16 cloexec;
};

struct abi_waiting {
	u32 parked; /* sleeps in thread.c instead of io_wait */
};

struct abi_fds {
	/* guards slot, desc[].refs, ring[].used, and the highs */
	struct abi_lock lock;
	struct abi_lock epoll_lock;
	struct abi_lock bounce_lock; /* never held during a wait */
	/* messages that were logged, atomic: execve closed an epoll */
	u32 said_exec;
	u32 said_lock;	  /* the host has no file locks */
	u32 said_type;	  /* a socket type was refused */
	u32 said_unix;	  /* AF_UNIX sockets get no peer */
	u32 said_node;	  /* mknod was refused */
	u32 said_ioctl;	  /* an ioctl of a socket was refused */
	u32 said_device;  /* one of a device */
	u32 said_async;	  /* no SIGIO is sent */
	u32 said_fifo;	  /* open of a FIFO cannot wait */
	u32 said_lease;	  /* a lease of a file was refused */
	u32 said_pipe;	  /* a large pipe was refused */
	u32 said_seal;	  /* seals of a file were refused */
	u32 said_xattr;	  /* a change of extended attributes was refused */
	u32 said_control; /* ancillary data was refused */
	u32 said_dropped; /* ancillary data was dropped */
	u32 said_oob;	  /* out-of-band data was refused */
	u32 locked_files, parked; /* filelock.c */
	struct abi_file_id locked_file[ABI_LOCKED_FILES];
	u32 pipes; /* number of the last pipe of the host; atomic */
	/* bits of the domains that socket(2) refused; atomic */
	u64 said_family;
	u32 signalfds; /* 1: there was a signalfd; atomic */
	u32 high;      /* descriptions from here on were never used */
	struct abi_slot slot[ABI_FD_MAX];
	struct abi_waiting waiting[ABI_WAITER_WORDS * 64];
	struct abi_desc desc[ABI_DESC_MAX];
	struct abi_watch watch[ABI_WATCH_MAX];
	struct abi_ring ring[ABI_RING_MAX];
	u32 ring_high; /* rings from here on were never used */
	struct abi_set_space set[ABI_SET_POOL];
	u32 set_high;		  /* the same for set[] */
	u8 bounce[ABI_RING_SIZE]; /* gathers small vectors into one packet */
};

#endif
