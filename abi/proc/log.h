/* SPDX-License-Identifier: MIT */
/* Messages for the user. */
#ifndef ABI_PROC_LOG_H
#define ABI_PROC_LOG_H

#include <skep/types.h>

struct abi_proc;

/* Logs the line unless *said is set, and sets it. */
void abi_log_once(struct abi_proc *p, u32 *said, const char *line);

#endif
