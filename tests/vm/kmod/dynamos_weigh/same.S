/* SPDX-License-Identifier: GPL-2.0-only */
/* New versions that are the old ones: one jump behind ftrace's place. */
#include <linux/linkage.h>
#include <asm/nospec-branch.h>

.macro SAME n
SYM_FUNC_START(weigh_same_\n)
	ANNOTATE_RETPOLINE_SAFE
	jmp *weigh_place + 8 * \n(%rip)
SYM_FUNC_END(weigh_same_\n)
.endm

.text
SAME 0
SAME 1
SAME 2
SAME 3
SAME 4
SAME 5
SAME 6
SAME 7
