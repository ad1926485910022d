/* SPDX-License-Identifier: MIT */
/* The word of a futex with an owner: see FUTEX_LOCK_PI in futex(2). */
#ifndef ABI_WORD_H
#define ABI_WORD_H

#define FUTEX_TID_MASK 0x3fffffffu
#define FUTEX_OWNER_DIED 0x40000000u
#define FUTEX_WAITERS 0x80000000u

#endif
