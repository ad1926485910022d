/* SPDX-License-Identifier: MIT */
/*
 * Copies between the library's memory and that of the program, which may give
 * any address: a wrong one fails its call and does not end the program. Pieces
 * of a few bytes are copied like any other, because a system call for each
 * would cost more than the call. So are all under bee, which has none.
 */
#ifndef GRID_LIB_MEMORY_H
#define GRID_LIB_MEMORY_H

#include <skep/types.h>

/* 0, or -EFAULT: some bytes of `from` are not the program's memory. */
int grid_memory_read(void *to, const void *from, u64 len);
/* 0, or -EFAULT: some bytes of `to` are not. */
int grid_memory_write(void *to, const void *from, u64 len);
/* The same for few bytes, checked too. */
int grid_memory_peek(void *to, const void *from, u64 len);

#endif
