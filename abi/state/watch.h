/* SPDX-License-Identifier: MIT */
/* Interest lists of epoll, and sets of descriptions to sleep on. */
#ifndef ABI_STATE_WATCH_H
#define ABI_STATE_WATCH_H

#include "abi/include/host.h"

#define ABI_FD_MAX 1024
#define ABI_WATCH_MAX 4096 /* entries of all epoll interest lists */

/* One entry of an interest list, guarded by fds->epoll_lock. */
struct abi_watch {
	u32 used, next; /* next entry + 1 of the same epoll */
	u32 fd, desc; /* desc is an index; closing the last number frees this */
	u32 events;
	u32 off;	       /* EPOLLONESHOT has fired */
	u32 last;	       /* EPOLLET: what was reported */
	u32 seen_in, seen_out; /* EPOLLET: the edge counts that were reported */
	u64 data;
};

/* What a thread in poll or epoll_wait polls; filled again in each round. */
#define ABI_SET_SMALL 32
#define ABI_SET_LARGE 1280
#define ABI_SET_POOL 128 /* threads with a large set at the same time */

struct abi_set_item {
	struct abi_poll poll;
	u16 tag;    /* index of the pollfd or watch that it belongs to */
	u16 nested; /* is inside an epoll that is itself watched */
};

struct abi_set {
	u32 size, items, holds;
	u32 overflow; /* there were more than size */
	u64 due;      /* when something becomes ready by time */
	struct abi_set_item *item;
	u16 *hold;	       /* descriptions with a reference, joined */
	struct abi_poll *list; /* argument of io_wait */
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

#endif
