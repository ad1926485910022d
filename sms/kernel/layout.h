/* SPDX-License-Identifier: MIT */
/*
 * The layout of the address space of sms, and offsets for assembly. The
 * program's part is in skep/guest.h.
 *
 *	0x00007ffff6fff000  the clock, which the program reads
 *	0x00007ffff7000000  the vDSO
 *	0xffff800000000000  the pool: its ranges, without gaps
 *	0xffffffff80000000  `kernel`, which begins with the image
 *	0xffffffffc0000000  tables of abi and sms, mapped on first touch
 *	0xffffffffd0000000  stacks, with an unmapped gap below each
 *	0xffffffffe0000000  the mail
 *	0xfffffffffee00000  the local APIC
 */
#ifndef SMS_KERNEL_LAYOUT_H
#define SMS_KERNEL_LAYOUT_H

#define AT_CLOCK 0x7ffff6fff000
#define AT_VDSO 0x7ffff7000000
#define AT_POOL 0xffff800000000000
#define AT_KERNEL 0xffffffff80000000
#define AT_LAZY 0xffffffffc0000000
#define AT_LAZY_END 0xffffffffcfc00000
#define AT_STACKS 0xffffffffd0000000
#define AT_MAIL 0xffffffffe0000000
#define AT_APIC 0xfffffffffee00000

/* One stack for each core, then those of threads. The deepest path, the
 * links of two file names and a signal frame, takes about 30 KiB. One page is
 * for vector state. */
#define STACK_STEP 0x20000
#define STACK_SIZE 0xd000
#define STACKS ((AT_MAIL - AT_STACKS) / STACK_STEP)
/* a stack's struct abi_regs begins so far below its end */
#define FRAME_BELOW 0x100

/* A core's block in `kernel`: struct core, then stacks for NMIs and faults. */
#define BLOCK_SIZE 0x5000
#define BLOCK_NMI 0x2ff0 /* offset of the address of struct core */
#define BLOCK_DOUBLE 0x4000
#define BLOCK_MACHINE 0x5000

#define SELECT_CODE 0x08
#define SELECT_DATA 0x10
#define SELECT_USER_DATA 0x1b
#define SELECT_USER_CODE 0x23
#define SELECT_TASK 0x28

/* Offsets in struct core. */
#define C_SELF 0
#define C_USER_RSP 8
#define C_FRAME 16
#define C_KICKED 24
#define C_ROOT 32
#define C_TOP 40
#define C_POKED 48

/* Offsets in struct abi_regs. */
#define R_RAX 0
#define R_RBX 8
#define R_RCX 16
#define R_RDX 24
#define R_RSI 32
#define R_RDI 40
#define R_RBP 48
#define R_RSP 56
#define R_R8 64
#define R_R9 72
#define R_R10 80
#define R_R11 88
#define R_R12 96
#define R_R13 104
#define R_R14 112
#define R_R15 120
#define R_RIP 128
#define R_RFLAGS 136

#endif
