/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SHIMOS_KMOD_MACHINE_H
#define SHIMOS_KMOD_MACHINE_H

#include <shimos/core/request.h>

/* Returns a description of this machine, to be released with put. The caller
 * fills in what is lent. NULL: no memory. */
struct shimos_machine *shimos_machine_get(void);
void shimos_machine_put(struct shimos_machine *m);

#endif
