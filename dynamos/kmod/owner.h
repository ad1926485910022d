/* SPDX-License-Identifier: GPL-2.0-only */
/* Who else changes a function of the kernel. */
#ifndef DYNAMOS_KMOD_OWNER_H
#define DYNAMOS_KMOD_OWNER_H

#include <skep/types.h>

struct klp_patch;

int dynamos_owner_init(void);
/* Whether a livepatch other than `ours` changes the function at this address;
 * writes its name. */
bool dynamos_owner_livepatch(unsigned long address,
			     const struct klp_patch *ours, char *name,
			     size_t room);
/* The same for livepatches and for the owner of the trampoline that this place
 * calls directly. */
bool dynamos_owner_find(unsigned long address, unsigned long place, char *name,
			size_t room);
/* Whether livepatch's mutex is locked now. */
bool dynamos_owner_busy(void);

#endif
