/* SPDX-License-Identifier: MIT */
/* Terminals and pseudo-terminals of the host: ioctl_tty(2), pts(4). */
#ifndef ABI_FS_TERMINAL_H
#define ABI_FS_TERMINAL_H

#include <skep/types.h>

struct abi_call;
struct abi_desc;

/* ioctl of a terminal, with the call's arguments. -ENOSYS: the request is none
 * of a terminal, or the host passes none on; nothing was done then. */
s64 abi_terminal_control(struct abi_call *c, struct abi_desc *d);

#endif
