/* SPDX-License-Identifier: GPL-2.0-only */
/* Who is to blame for what a stack shows. */
#ifndef DYNAMOS_KMOD_STACK_H
#define DYNAMOS_KMOD_STACK_H

int dynamos_stack_init(void);
void dynamos_stack_exit(void);
/* Tells of each processor that runs a stuck call now; returns at once. Tasks
 * that sleep in one show it in /proc. */
void dynamos_stack_seek(void);
/* Takes back the update that a report is about, and tells whether one is: the
 * text at `address`, or if that is 0 the stack from here outwards; `whole`:
 * also that of whom an interrupt interrupted. Any context, preemption off. */
bool dynamos_stack_accuse(const char *what, bool whole, unsigned long address);

/* report.c */
int dynamos_report_init(void);
void dynamos_report_exit(void);

#endif
