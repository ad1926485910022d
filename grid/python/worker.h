/* SPDX-License-Identifier: MIT */
/*
 * A worker's session for a Python that runs in its process: what `boot.py`
 * calls through ctypes. The Python's one thread that serves calls may call
 * these; a thread of this library says PING while it computes.
 */
#ifndef GRID_PYTHON_WORKER_H
#define GRID_PYTHON_WORKER_H

#include <skep/session.h>
#include <sys/uio.h>

#define SKEP_PYTHON_REVISION 1

struct skep_python_order {
	u64 call; /* 0: the data of Initialize */
	u8 *data; /* data[n] as it was sent, freed by skep_python_drop */
	u64 bytes;
	u64 most; /* that the result may have */
};
SKEP_ASSERT_SIZE(struct skep_python_order, 32);

u32 skep_python_revision(void);
/* HELLO and READY on the stream that SKEP_STREAM names. 0, or an exit status.
 */
s32 skep_python_serve(void);
/* 1: an order, 0: the session ended well, or minus an exit status. */
s32 skep_python_order(struct skep_python_order *order);
/* Initialize is done. 0, 1 (it has ended) or minus an exit status. */
s32 skep_python_ready(void);
/* One text of all pieces. The same. */
s32 skep_python_answer(u64 call, const struct iovec *piece, u32 pieces,
		       u64 exec_ns);
/* The order cannot be carried out: an enum skep_error_code and a sentence. */
s32 skep_python_refuse(u64 call, u32 code, const char *text);
void skep_python_drop(void *data);

#endif
