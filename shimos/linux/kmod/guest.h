/* SPDX-License-Identifier: GPL-2.0-only */
/* The parts of the module that runs in a kernel on a partition. */
#ifndef SHIMOS_GUEST_H
#define SHIMOS_GUEST_H

#include <linux/types.h>
#include <skep/linux.h>

extern struct skep_linux *shimos_guest_mail;

/* ring.c: bytes to and from the command that booted this kernel. Any context
 * but an NMI. */
u32 shimos_ring_room(void);
u32 shimos_ring_put(const u8 *from, u32 bytes); /* how many fitted */
u32 shimos_ring_take(u8 *to, u32 bytes);
/* For a kernel's messages: waits for room a while, and says what was lost. */
void shimos_ring_print(const char *text, u32 bytes);

/* tty.c */
int shimos_tty_init(void);
void shimos_tty_exit(void);

#endif
