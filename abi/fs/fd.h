/* SPDX-License-Identifier: MIT */
/*
 * File descriptors: numbers, and the open file descriptions behind them.
 *
 * A description ("desc") is counted: one reference for each number and one for
 * each call that works on it, so that close by one thread never takes it from
 * under another (whose call then finishes, as on Linux). All links are indexes,
 * so a snapshot is a copy.
 *
 * Locks, outer first: fds->epoll_lock (all interest lists), desc->lock (the
 * position and the like; over one host transfer of a regular file, which never
 * waits for the guest), fds->lock (numbers and counts) and ring->lock, both
 * leaves. None is held while a thread waits.
 */
#ifndef ABI_FD_H
#define ABI_FD_H

#include <skep/types.h>
#include "abi/include/host.h"
#include "abi/thread/lock.h"

struct abi_proc;
struct abi_call;

#define ABI_FD_MAX 1024
#define ABI_DESC_MAX 1024
#define ABI_RING_MAX 512 /* half of the numbers: every pipe has two */
#define ABI_RING_SIZE 65536
#define ABI_WATCH_MAX 4096	 /* entries of all epoll interest lists */
#define ABI_LOCKED_FILES 256	 /* that a process holds record locks on */
#define ABI_WAITER_WORDS 16	 /* threads that can wait: 64 for each word */
#define ABI_IO_MAX 0x7ffff000ull /* most bytes of one transfer, as Linux */

enum abi_desc_kind {
	ABI_DESC_FREE,
	ABI_DESC_FILE, /* handle: file, directory, terminal or host pipe */
	ABI_DESC_SOCK, /* handle */
	ABI_DESC_PIPE, /* in or out is a ring */
	ABI_DESC_PAIR, /* socketpair: both are */
	ABI_DESC_EVENT,
	ABI_DESC_TIMER,
	ABI_DESC_EPOLL,
	ABI_DESC_TEXT, /* synthetic file: `code` says which */
	ABI_DESC_NULL, /* /dev/null and its family: `code` says which */
};

/*
 * Something whose state a thread can wait for: a bit for each waiting thread,
 * and how often input and output became possible anew (the edges of epoll).
 * wait.c has the protocol. Atomic.
 */
struct abi_event {
	u64 waiters[ABI_WAITER_WORDS];
	u32 edge_in, edge_out;
	u32 spent; /* an edge of this was reported and awaits the next one */
};

struct abi_ring {
	struct abi_lock lock; /* guards all but event */
	u32 used;
	u32 readers, writers; /* descriptions that hold an end */
	u32 eof, broken; /* shutdown: nothing will be written, nothing read */
	u32 start, len;
	struct abi_event event;
	u8 data[ABI_RING_SIZE];
};

struct abi_timer {
	u32 clock;
	u64 next_ns, interval_ns; /* on CLOCK_MONOTONIC; 0: not armed */
	u64 ticks;		  /* expirations counted but not yet read */
};

struct abi_file_id {
	u64 dev, ino;
};

struct abi_desc {
	u32 refs, numbers; /* guarded by fds->lock; numbers: slots with it */
	u32 kind;
	u32 type; /* S_IF..., as fstat tells */
	u32 code;
	u32 flags;		 /* O_ACCMODE and status flags; atomic */
	s32 handle;		 /* FILE, SOCK */
	u32 in, out;		 /* ring index + 1, or 0 */
	u32 identified;		 /* `file` is known; atomic */
	struct abi_file_id file; /* of what has a handle */
	u32 parked;    /* filelock.c keeps the handle open; fds->lock */
	u32 inherited; /* regular file: the host keeps the position, not pos */
	struct abi_lock lock; /* guards what follows, up to event */
	u64 pos;
	u64 value; /* EVENT: the counter */
	struct abi_timer timer;
	u64 recv_ns, send_ns;		 /* SO_RCVTIMEO, SO_SNDTIMEO; 0: none */
	u32 domain, sock_type, protocol; /* SOCK, PAIR */
	u32 listening;
	struct abi_event event;
	u32 watch;	 /* EPOLL: first entry + 1; guarded by epoll_lock */
	u32 watched;	 /* entries of others that name this; epoll_lock */
	char path[4096]; /* files: absolute; others: as /proc/self/fd says */
};

/* One line of an interest list. All guarded by fds->epoll_lock. */
struct abi_watch {
	u32 used, next; /* next entry + 1 of the same epoll */
	u32 fd, desc; /* desc is an index; closing the last number frees this */
	u32 events;
	u32 off;	       /* EPOLLONESHOT has fired */
	u32 last;	       /* EPOLLET: what was reported */
	u32 seen_in, seen_out; /* EPOLLET: the edges that were reported */
	u64 data;
};

/* What a thread in poll or epoll_wait looks at; filled anew for each round. */
#define ABI_SET_SMALL 32
#define ABI_SET_LARGE 1280
#define ABI_SET_POOL 128 /* threads at once that wait for many */

struct abi_set_item {
	struct abi_poll poll;
	u16 tag;    /* whose: index of the pollfd or watch */
	u16 nested; /* found inside an epoll that is itself watched */
};

struct abi_set {
	u32 size, items, holds;
	u32 overflow; /* more than size */
	u64 due;      /* when something becomes ready by time alone */
	struct abi_set_item *item;
	u16 *hold;	       /* descriptions joined and held */
	struct abi_poll *list; /* what io_wait gets */
};

struct abi_set_space {
	u32 used; /* guarded by fds->lock */
	struct abi_pollfd_item {
		s32 fd;
		u16 events, revents;
		u32 desc; /* index + 1 */
	} fd[ABI_FD_MAX];
	struct abi_set_item item[ABI_SET_LARGE];
	u16 hold[ABI_SET_LARGE];
	struct abi_poll list[ABI_SET_LARGE];
};

struct abi_slot {
	u16 desc; /* index + 1, or 0 */
	u16 cloexec;
};

struct abi_waiting {
	u32 parked; /* sleeps in thread.c rather than in io_wait */
};

struct abi_fds {
	struct abi_lock lock; /* slot, desc[].refs, ring[].used */
	struct abi_lock epoll_lock;
	struct abi_lock bounce_lock; /* never held over a wait */
	u32 said_lock; /* the host has no file locks, and said so; atomic */
	u32 locked_files, parked; /* filelock.c */
	struct abi_file_id locked_file[ABI_LOCKED_FILES];
	u64 said_family; /* bits: socket(2) refused and said so; atomic */
	u32 high;	 /* descriptions above this were never used */
	struct abi_slot slot[ABI_FD_MAX];
	struct abi_waiting waiting[ABI_WAITER_WORDS * 64];
	struct abi_desc desc[ABI_DESC_MAX];
	struct abi_watch watch[ABI_WATCH_MAX];
	struct abi_ring ring[ABI_RING_MAX];
	struct abi_set_space set[ABI_SET_POOL];
	u8 bounce[ABI_RING_SIZE]; /* gathers small vectors into one packet */
};

/* A reference to the description of `fd`, or 0 (EBADF). Give it back. */
struct abi_desc *abi_desc_get(struct abi_proc *p, u64 fd);
void abi_desc_hold(struct abi_proc *p, struct abi_desc *d);
void abi_desc_put(struct abi_proc *p, struct abi_desc *d);

/* A fresh one with one reference, kind set by the caller; 0: ENFILE. */
struct abi_desc *abi_desc_new(struct abi_proc *p, u32 kind, u32 flags);
/* Gives it the lowest number from `least` on and takes the reference over. */
s64 abi_desc_install(struct abi_proc *p, struct abi_desc *d, u32 least,
		     u32 cloexec);
/* Both ends, their numbers written to s32[2] at gaddr; all or nothing. */
s64 abi_desc_install_two(struct abi_proc *p, struct abi_desc *end[2],
			 u32 cloexec, u64 gaddr);
int abi_fd_close(struct abi_proc *p, u32 fd); /* 0 or -EBADF */
u32 abi_desc_index(const struct abi_proc *p, const struct abi_desc *d);

static inline u32 abi_desc_flags(const struct abi_desc *d)
{
	return __atomic_load_n(&d->flags, __ATOMIC_RELAXED);
}

/* For exec and the tools that report: closes every number. */
void abi_fd_close_all(struct abi_proc *p);
/* The process ends: pending output of the host is not abi's, so: as above. */
void abi_fds_exit(struct abi_proc *p);

/*
 * A regular file for a mapping: by number once, then by description, which
 * outlives the number. abi_fd_hold gives an index (>= 0) or -EBADF, -ENODEV,
 * -EACCES when the file is not open for what `prot` and `shared` need.
 */
s64 abi_fd_hold(struct abi_proc *p, u32 fd, u32 prot, u32 shared);
void abi_fd_release(struct abi_proc *p, u32 desc);
s64 abi_fd_held_pread(struct abi_proc *p, u32 desc, void *buf, u64 len,
		      u64 offset);
s64 abi_fd_held_pwrite(struct abi_proc *p, u32 desc, const void *buf, u64 len,
		       u64 offset);
const char *abi_fd_held_path(struct abi_proc *p, u32 desc);

/* By number. All of `len` unless the file ends; buffers are not checked. */
s64 abi_fd_pread(struct abi_proc *p, u32 fd, void *buf, u64 len, u64 offset);
s64 abi_fd_pwrite(struct abi_proc *p, u32 fd, const void *buf, u64 len,
		  u64 offset);

#endif
