/* SPDX-License-Identifier: MIT */
/*
 * Checks XSAVE areas that a program wrote, because XRSTOR would fault on
 * invalid ones. No state.
 */
#ifndef ABI_VEC_H
#define ABI_VEC_H

#include <skep/types.h>

#define ABI_VEC_AREA 4096 /* bytes of the copy that is checked and loaded */

/* Bytes of an area in standard form with these components. */
u64 abi_vec_size(u64 mask);
/*
 * Copies buf, which the program may be changing, to the caller's area and
 * checks whether the processor would accept it: 0 or -EINVAL. mask: enabled
 * components; 0: there is no XSAVE, only FXSAVE.
 */
s64 abi_vec_take(void *area, const void *buf, u64 len, u64 mask);

#endif
