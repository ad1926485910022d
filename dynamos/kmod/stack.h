/* SPDX-License-Identifier: GPL-2.0-only */
/* Who is to blame for what a stack shows. */
#ifndef DYNAMOS_KMOD_STACK_H
#define DYNAMOS_KMOD_STACK_H

int dynamos_stack_init(void);
void dynamos_stack_exit(void);
/* Tells of each processor that runs a stuck call now; returns at once. Tasks
 * that sleep in one show it in /proc. */
void dynamos_stack_seek(void);

#endif
