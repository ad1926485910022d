/* SPDX-License-Identifier: MIT */
/*
 * Access to guest memory: at its own address, but only after a check against
 * the address map. A check holds only at that moment, because another guest
 * thread may unmap the range afterwards. So abi accesses guest memory only with
 * the functions of copy.c, whose faults return -EFAULT (abi_copy_resume), also
 * while locks are held.
 */
#ifndef ABI_USER_H
#define ABI_USER_H

#include <skep/types.h>
#include "base/errno.h"
#include "abi/include/host.h"
#include "abi/include/mem.h"

struct abi_proc;

/* 0, or -EFAULT if not all of [gaddr, gaddr + len) is mapped with `prot`. */
int abi_user_check(struct abi_proc *p, u64 gaddr, u64 len, u32 prot);

/*
 * Copies a string with its NUL. Returns its length without NUL; -EFAULT; or
 * `too_long`, a negative errno such as -ENAMETOOLONG, if it does not end within
 * `size`.
 */
s64 abi_user_string(struct abi_proc *p, char *to, u64 size, u64 gaddr,
		    s64 too_long);

/* Checks and copies; 0 or -EFAULT. */
int abi_user_get(struct abi_proc *p, void *to, u64 gaddr, u64 len);
int abi_user_put(struct abi_proc *p, u64 gaddr, const void *from, u64 len);

/*
 * To be called after a check (copy.c). move and zero return how many bytes were
 * not done. The others access a word of four bytes: 0 or -EFAULT. abi_user_swap
 * compares and exchanges: 1 if it did, 0 if not; *old is the earlier value.
 */
u64 abi_user_move(void *to, const void *from, u64 n);
u64 abi_user_zero(void *to, u64 n);
int abi_user_load(u64 gaddr, u32 *value);
int abi_user_store(u64 gaddr, u32 value);
int abi_user_swap(u64 gaddr, u32 *old, u32 fresh);

/*
 * The first half of FUTEX_WAKE_OP, on a word that was checked: changes it as
 * `op` says. 1: the comparison with its old value holds; 0: not; or a negative
 * errno. For host->futex.
 */
s64 abi_futex_word(u64 gaddr, u32 op);

/* The same for one object; its type gives the size. */
#define ABI_GET(p, object, gaddr)                                              \
	abi_user_get(p, object, gaddr, sizeof(*(object)))
#define ABI_PUT(p, gaddr, object)                                              \
	abi_user_put(p, gaddr, object, sizeof(*(object)))

static inline void *abi_user_ptr(u64 gaddr)
{
	return (void *)gaddr;
}

#endif
