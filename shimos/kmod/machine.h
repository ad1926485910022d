/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIMOS_KMOD_MACHINE_H
#define SHIMOS_KMOD_MACHINE_H

#include <shimos/core/request.h>

/* A description of this machine for the core; release it with put. The caller
 * fills in what is lent. Null: no memory.
 */
struct shimos_machine *shimos_machine_get(void);
void shimos_machine_put(struct shimos_machine *m);

#endif
