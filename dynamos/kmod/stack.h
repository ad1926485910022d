/* SPDX-License-Identifier: GPL-2.0-only */
/* Finds the update to blame for a report, by the stack. */
#ifndef DYNAMOS_KMOD_STACK_H
#define DYNAMOS_KMOD_STACK_H

int dynamos_stack_init(void);
void dynamos_stack_exit(void);
/* Reports each processor that runs a call of an update now; does not wait for
 * them. For tasks that sleep in a call see /proc/PID/stack. */
void dynamos_stack_seek(void);
/* Reverts the update that a report is about; returns whether there is one.
 * Searches the text at `address`, or if that is 0 the stack from here outwards,
 * including the interrupted stack if `interrupted`. Any context, preemption
 * off. */
bool dynamos_stack_accuse(const char *what, bool interrupted,
			  unsigned long address);

/* report.c */
int dynamos_report_init(void);
void dynamos_report_exit(void);

#endif
