/* SPDX-License-Identifier: MIT */
/* Instructions that probe_cpu.c steps over in its exception handler. */
	.text
	.globl bee_probe_trap
bee_probe_trap:
	mov	%rsp, %r8
	mov	%rcx, %rsp
	.globl bee_probe_trap_at
bee_probe_trap_at:
	ud2
	mov	%r8, %rsp
	ret

	.globl bee_probe_fs
bee_probe_fs:
	mov	$-1, %rax
	.globl bee_probe_fs_at
bee_probe_fs_at:
	rdfsbase %rax
	ret
