/* SPDX-License-Identifier: MIT */
#include "log.h"
#include "abi/state/proc.h"

void abi_log_once(struct abi_proc *p, u32 *said, const char *line)
{
	if (!__atomic_exchange_n(said, 1, __ATOMIC_RELAXED))
		p->host->log(line);
}
