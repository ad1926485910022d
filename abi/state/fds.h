/* SPDX-License-Identifier: MIT */
/* Descriptors: numbers, descriptions and their objects. */
#ifndef ABI_STATE_FDS_H
#define ABI_STATE_FDS_H

#include "desc.h"
#include "ring.h"
#include "watch.h"

/* More than numbers, so that those end first, with EMFILE. */
#define ABI_DESC_MAX (ABI_FD_MAX + 64)
#define ABI_LOCKED_FILES 256 /* that a process holds record locks on */

struct abi_slot {
	u16 desc; /* index + 1, or 0 */
	u16 cloexec;
};

struct abi_waiting {
	u32 parked; /* sleeps in thread.c rather than in io_wait */
};

struct abi_fds {
	struct abi_lock lock; /* slot, desc[].refs, ring[].used, the highs */
	struct abi_lock epoll_lock;
	struct abi_lock bounce_lock; /* never held over a wait */
	u32 said_exec;		     /* execve closed an epoll; atomic */
	u32 said_parted; /* an eventfd was copied by a fork; atomic */
	u32 said_lock;	 /* the host has no file locks, which was logged; atomic
			  */
	u32 said_type;	 /* a type of socket was refused; atomic */
	u32 said_unix;	 /* that AF_UNIX sockets get no peer; atomic */
	u32 said_node;	 /* so was mknod; atomic */
	u32 said_ioctl;	 /* so was an ioctl of a socket; atomic */
	u32 said_async;	 /* that no SIGIO is sent; atomic */
	u32 said_fifo;	 /* that open of a FIFO cannot wait; atomic */
	u32 said_lease;	 /* so was a lease of a file; atomic */
	u32 said_pipe;	 /* so was a large pipe; atomic */
	u32 said_seal;	 /* so were seals of a file; atomic */
	u32 said_xattr;	 /* so was an extended attribute; atomic */
	u32 said_control;	  /* so was ancillary data; atomic */
	u32 said_dropped;	  /* that ancillary data was dropped */
	u32 said_oob;		  /* so was data out of band; atomic */
	u32 locked_files, parked; /* filelock.c */
	struct abi_file_id locked_file[ABI_LOCKED_FILES];
	u32 pipes;	 /* number of the last pipe of the host; atomic */
	u64 said_family; /* bits: domains that socket(2) refused, which was
			    logged; atomic */
	u32 signalfds;	 /* 1: one was made; atomic */
	u32 high;	 /* descriptions above this were never used */
	struct abi_slot slot[ABI_FD_MAX];
	struct abi_waiting waiting[ABI_WAITER_WORDS * 64];
	struct abi_desc desc[ABI_DESC_MAX];
	struct abi_watch watch[ABI_WATCH_MAX];
	struct abi_ring ring[ABI_RING_MAX];
	u32 ring_high; /* one more than the highest that was ever used */
	struct abi_set_space set[ABI_SET_POOL];
	u32 set_high;		  /* the same of set[] */
	u8 bounce[ABI_RING_SIZE]; /* gathers small vectors into one packet */
};

#endif
