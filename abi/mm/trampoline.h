/* SPDX-License-Identifier: MIT */
#ifndef ABI_TRAMPOLINE_H
#define ABI_TRAMPOLINE_H

#include <skep/types.h>
#include "abi/include/host.h"
#include "abi/state/space.h"

struct abi_proc;
struct abi_regs;

/*
 * Whether the area has code that is written through another mapping of the same
 * file; the host maps it without the right to execute.
 */
static inline int abi_area_is_alias(const struct abi_area *a)
{
	u32 alias = ABI_AREA_SHARED | ABI_AREA_DIRECT;

	return (a->bits & alias) == alias && a->prot & ABI_PROT_EXEC;
}

/*
 * The thread faulted at regs->rip because it is in such an area. 1: there is a
 * trampoline, and regs are as after its jump. 0: not such an area, or other
 * code, which was logged once.
 */
int abi_trampoline_run(struct abi_proc *p, struct abi_regs *regs);

#endif
