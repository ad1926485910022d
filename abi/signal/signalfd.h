/* SPDX-License-Identifier: MIT */
#ifndef ABI_SIGNALFD_H
#define ABI_SIGNALFD_H

#include "abi/fs/ops.h"

extern const struct abi_desc_ops abi_signalfd_ops;

/* A signal was sent: wakes threads that wait for a descriptor that accepts
 * it. */
void abi_signalfd_wake(struct abi_proc *p, u32 signo);

#endif
