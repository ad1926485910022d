/* SPDX-License-Identifier: MIT */
/* The bytes between the two ends of a pipe or a socket pair. */
#ifndef ABI_STATE_RING_H
#define ABI_STATE_RING_H

#include "desc.h"
#include "event.h"
#include "lock.h"

#define ABI_RING_MAX 512 /* half of the numbers: every pipe has two */
#define ABI_RING_SIZE 65536

struct abi_ring {
	struct abi_lock lock; /* guards all but event */
	u32 used;
	u32 readers, writers; /* descriptions that hold an end */
	u32 eof, broken; /* shutdown: nothing will be written, nothing read */
	u32 start, len;
	u32 size; /* bytes that fit: a power of two pages */
	struct abi_unnamed unnamed;
	struct abi_event event;
	u8 data[ABI_RING_SIZE];
};

#endif
