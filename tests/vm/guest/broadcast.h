/* SPDX-License-Identifier: MIT */
/*
 * Interrupts that Linux sends to all its processors, from a process of its own:
 * barriers among threads on CPUs 0, 1 and 2, which go out to CPU 3 too.
 */
#ifndef TESTS_VM_GUEST_BROADCAST_H
#define TESTS_VM_GUEST_BROADCAST_H

#include <skep/types.h>

#define BROADCAST_SPARES 8 /* CPU 3: a bit for lend_create */

/* 0, or -errno. One at a time. */
int broadcast_begin(void);
/* Until there were so many more: polls for some minutes. */
int broadcast_goes_on(u64 more);
void broadcast_end(void);

#endif
