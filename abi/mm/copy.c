/* SPDX-License-Identifier: MIT */
/*
 * The few instructions of abi that access guest memory. A check holds only at
 * that moment: another guest thread may unmap the memory afterwards. So after a
 * fault at one of these instructions execution continues after it, and the rest
 * is reported as not done: locks are released as usual, and the call returns
 * EFAULT.
 *
 * Each function exists only once (noinline, noclone), because its two labels
 * are global names. No state.
 */
#include "abi/include/abi.h"
#include "base/errno.h"
#include "abi/include/user.h"

#define ONCE __attribute__((noinline, noclone))
#ifdef __clang__
#undef ONCE
#define ONCE __attribute__((noinline))
#endif

/* `name` is the instruction that may fault; execution continues at name_end. */
#define MAY_FAULT(name, text)                                                  \
	".globl " #name "\n" #name ":\n" text "\n"                             \
	".globl " #name "_end\n" #name "_end:\n"

#define LABELS(name) extern const char name[], name##_end[]

LABELS(abi_copy_move);
LABELS(abi_copy_zero);
LABELS(abi_copy_load);
LABELS(abi_copy_store);
LABELS(abi_copy_swap);

ONCE u64 abi_user_move(void *to, const void *from, u64 n)
{
	__asm__ volatile(MAY_FAULT(abi_copy_move, "rep movsb")
			 : "+D"(to), "+S"(from), "+c"(n)
			 :
			 : "memory");
	return n;
}

ONCE u64 abi_user_zero(void *to, u64 n)
{
	__asm__ volatile(MAY_FAULT(abi_copy_zero, "rep stosb")
			 : "+D"(to), "+c"(n)
			 : "a"(0)
			 : "memory");
	return n;
}

ONCE int abi_user_load(u64 gaddr, u32 *value)
{
	s32 rc = -LINUX_EFAULT;
	u32 v = 0;

	__asm__ volatile(MAY_FAULT(abi_copy_load, "movl (%2), %0; xorl %1, %1")
			 : "+r"(v), "+r"(rc)
			 : "r"(gaddr)
			 : "memory", "cc");
	*value = v;
	return rc;
}

ONCE int abi_user_store(u64 gaddr, u32 value)
{
	s32 rc = -LINUX_EFAULT;

	__asm__ volatile(
		MAY_FAULT(abi_copy_store, "xchgl %0, (%2); xorl %1, %1")
		: "+r"(value), "+r"(rc)
		: "r"(gaddr)
		: "memory", "cc");
	return rc;
}

ONCE int abi_user_swap(u64 gaddr, u32 *old, u32 fresh)
{
	s32 rc = -LINUX_EFAULT;
	u32 was = *old;

	__asm__ volatile(
		MAY_FAULT(abi_copy_swap, "lock cmpxchgl %3, (%2); movl $0, %1")
		: "+a"(was), "+r"(rc)
		: "r"(gaddr), "r"(fresh)
		: "memory", "cc");
	if (rc)
		return rc;
	rc = was == *old;
	*old = was;
	return rc;
}

u64 abi_copy_resume(u64 pc)
{
	static const struct {
		const char *at, *end;
	} places[] = {
		{abi_copy_move, abi_copy_move_end},
		{abi_copy_zero, abi_copy_zero_end},
		{abi_copy_load, abi_copy_load_end},
		{abi_copy_store, abi_copy_store_end},
		{abi_copy_swap, abi_copy_swap_end},
	};
	u32 i;

	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (pc == (u64)places[i].at)
			return (u64)places[i].end;
	return 0;
}
