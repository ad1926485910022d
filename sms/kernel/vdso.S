/* SPDX-License-Identifier: MIT */
/* The linked vDSO, which load.c maps. */
	.section .rodata
	.globl	sms_vdso, sms_vdso_end
	.balign	4096
sms_vdso:
	.incbin	"build/lib/sms-vdso.so"
sms_vdso_end:
	.section .note.GNU-stack, "", @progbits
