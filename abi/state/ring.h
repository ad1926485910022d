/* SPDX-License-Identifier: MIT */
/* The bytes between the two ends of a pipe or a socket pair. */
#ifndef ABI_STATE_RING_H
#define ABI_STATE_RING_H

#include "desc.h"
#include "event.h"
#include "lock.h"

#define ABI_RING_MAX 512 /* half of the numbers, because a pipe has two */
#define ABI_RING_SIZE 65536

struct abi_ring {
	struct abi_lock lock; /* guards all but event */
	u32 used;
	u32 readers, writers; /* descriptions that have an end */
	u32 eof, broken; /* after shutdown: no more writes, no more reads */
	u32 moved;	 /* the host has the bytes; never used again */
	u32 start, len;
	u32 size; /* capacity: a power of two pages */
	struct abi_unnamed unnamed;
	struct abi_event event;
	u8 data[ABI_RING_SIZE];
};

#endif
