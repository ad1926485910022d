/* SPDX-License-Identifier: MIT */
/*
 * Guest threads at rest: between two of the guest's instructions, or before a
 * call that waits, with all registers saved. docs/design/snapshot.md.
 */
#ifndef BEE_CORE_FREEZE_H
#define BEE_CORE_FREEZE_H

#include "abi/include/snapshot.h"
#include "bee/core/bee.h"

/* Registers of a thread at rest, on its host stack; valid until bee_thaw. */
struct bee_rest {
	const struct abi_regs *regs;
	u64 slot[3];			   /* CANARY, SCRATCH, SCRATCH2 */
	_Alignas(64) u8 vec[BEE_VEC_SIZE]; /* standard XSAVE form */
};

/*
 * Called outside of guest threads, one caller at a time. After bee_freeze
 * threads come to rest soon. bee_frozen: 1 if all are; 0 and the index of one
 * that is not. bee_thaw returns when all go on.
 */
void bee_freeze(void);
int bee_frozen(u32 *busy);
const struct bee_rest *bee_rest_of(u32 thread);
void bee_thaw(void);
/* In a child of fork, by its only thread, which is not at rest: there is no
 * freeze here, and whoever began the parent's does not know the child. */
void bee_freeze_forget(void);

/* Called by a guest thread whose frame is complete: rests while there is a
 * freeze. */
void bee_rest_here(struct bee_thread *t);

#endif
