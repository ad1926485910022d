/* SPDX-License-Identifier: GPL-2.0-only */
/* C declarations of the functions in jump.S. */
#ifndef DYNAMOS_KMOD_JUMP_H
#define DYNAMOS_KMOD_JUMP_H

/* Calls a function that is not exported, with or without ENDBR. */
unsigned long dynamos_jump(unsigned long a, unsigned long b, unsigned long c,
			   unsigned long d, unsigned long e, void *function);

extern void *dynamos_kernel_places[];

#endif
