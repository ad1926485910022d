/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The jumps that C cannot say. None moves an argument, none uses more than rax
 * and the stack.
 *
 * A jump by `ret` where others would jump through a register: the middle of a
 * function has no ENDBR, and a function whose ENDBR the kernel took away has
 * none either, so an indirect jump there would fault where the processor looks
 * (IBT). The call before it keeps the processor's stack of returns in balance,
 * and nothing runs on the guess.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/nospec-branch.h>
#include <asm/unwind_hints.h>

#include "each.h"

/* To the address in rax, as if our caller had called it. */
.macro JUMP_BY_RET
	ANNOTATE_INTRA_FUNCTION_CALL
	call .Lgo\@
	int3
.Lgo\@:
	movq %rax, (%rsp)
	UNWIND_HINT_FUNC
	RET
.endm

/* Where ftrace calls for a slot: forget the return into the function, so that
 * the wrapper returns to the function's caller. */
.macro ENTRY_OF n
SYM_FUNC_START(dynamos_entry_\n)
	addq $8, %rsp
	UNWIND_HINT_FUNC
	jmp dynamos_wrapper_\n
SYM_FUNC_END(dynamos_entry_\n)
.endm

/* The kernel's own function, behind ftrace's place in it. */
.macro KERNEL_OF n
SYM_FUNC_START(dynamos_kernel_\n)
	movq dynamos_kernel_places + 8 * \n(%rip), %rax
	JUMP_BY_RET
SYM_FUNC_END(dynamos_kernel_\n)
.endm

#define ENTRY_AND_KERNEL(n) ENTRY_OF n; KERNEL_OF n;

.text
DYNAMOS_EACH(ENTRY_AND_KERNEL)

/* dynamos_jump(a, b, c, d, e, function): function(a, b, c, d, e) for one that
 * is not exported. */
SYM_FUNC_START(dynamos_jump)
	movq %r9, %rax
	JUMP_BY_RET
SYM_FUNC_END(dynamos_jump)
