/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Jumps that C cannot express. None changes an argument, or uses more than rax
 * and the stack.
 *
 * They jump by `ret`, not through a register: the middle of a function has no
 * ENDBR, nor has a function whose ENDBR the kernel removed, so an indirect jump
 * would fault under IBT. The call before it keeps the return stack buffer
 * balanced, and an `int3` follows it to stop speculation.
 */
#include <linux/linkage.h>
#include <linux/objtool.h>
#include <asm/nospec-branch.h>
#include <asm/unwind_hints.h>

#include "each.h"

/* Jumps to the address in rax, as if the caller had called it. */
.macro JUMP_BY_RET
	ANNOTATE_INTRA_FUNCTION_CALL
	call .Lgo\@
	int3
.Lgo\@:
	movq %rax, (%rsp)
	UNWIND_HINT_FUNC
	RET
.endm

/* Where ftrace calls a slot: drops the return address into the hooked function,
 * so that the wrapper returns to that function's caller. */
.macro ENTRY_OF n
SYM_FUNC_START(dynamos_entry_\n)
	addq $8, %rsp
	UNWIND_HINT_FUNC
	jmp dynamos_wrapper_\n
SYM_FUNC_END(dynamos_entry_\n)
.endm

/* Continues in the original function, after its ftrace call site. */
.macro KERNEL_OF n
SYM_FUNC_START(dynamos_kernel_\n)
	movq dynamos_kernel_places + 8 * \n(%rip), %rax
	JUMP_BY_RET
SYM_FUNC_END(dynamos_kernel_\n)
.endm

#define ENTRY_AND_KERNEL(n) ENTRY_OF n; KERNEL_OF n;

.text
DYNAMOS_EACH(ENTRY_AND_KERNEL)

/* dynamos_jump(a, b, c, d, e, function) returns function(a, b, c, d, e), for a
 * function that is not exported. */
SYM_FUNC_START(dynamos_jump)
	movq %r9, %rax
	JUMP_BY_RET
SYM_FUNC_END(dynamos_jump)
