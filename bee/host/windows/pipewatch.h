/* SPDX-License-Identifier: MIT */
/*
 * Tells a pipe's writer that no reader is left: a read that waits at the
 * writer's handle, which may read, and where nobody writes. It ends when the
 * last reader's handle is closed. The stream's lock guards all but `armed`.
 */
#ifndef BEE_HOST_WINDOWS_PIPEWATCH_H
#define BEE_HOST_WINDOWS_PIPEWATCH_H

#include "win.h"

struct pipe_watch {
	OVERLAPPED read;
	HANDLE wait; /* for the event of `read` */
	u32 armed;   /* atomic: when the read ends, all threads are rung */
	u8 byte;
};

int pipewatch_init(struct pipe_watch *w); /* -1: no memory */
/* Begins to watch, unless it does already or cannot. */
void pipewatch_arm(struct pipe_watch *w, HANDLE h);
/* Ends the read, before `h` is closed. */
void pipewatch_stop(struct pipe_watch *w, HANDLE h);
void pipewatch_exit(struct pipe_watch *w);

static inline int pipewatch_armed(const struct pipe_watch *w)
{
	return (int)__atomic_load_n(&w->armed, __ATOMIC_SEQ_CST);
}

#endif
