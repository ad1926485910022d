/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note OR MIT */
/*
 * Where a guest program lives under bee: the one place that says so.
 *
 * The loader, the rewriter, both guards (seccomp on the instruction pointer,
 * FS at unmapped memory), the linker scripts and the snapshot format take
 * their ranges from here. Plain numbers only: linker scripts and assembly
 * include this file too.
 *
 *   0x0000_0040_0000  IMAGE  ELF files linked at a fixed address, and their
 *                            stubs. On Windows it is the `.guest` section of
 *                            bee.exe, so nothing else can take it first. It
 *                            ends where Wine keeps its own libraries.
 *   0x0000_6000_0000  BEE    bee's own code (Windows image)
 *   0x2000_0000_0000  ARENA  one reservation: static-PIE images and their
 *                            stubs, the heap (brk), mmap, stacks.
 *                            Above the shadow of AddressSanitizer, far from
 *                            where Windows puts heaps and libraries.
 *
 * Inside ARENA: [PIE | BRK | MMAP], sizes below; mmap searches top-down.
 */
#ifndef SKEP_GUEST_H
#define SKEP_GUEST_H

#define SKEP_GUEST_REVISION 1

#define SKEP_PAGE_SIZE 0x1000

#define SKEP_IMAGE_START 0x400000
#define SKEP_IMAGE_END 0x60000000

#define SKEP_ARENA_START 0x200000000000
#ifdef SKEP_GUEST_LARGE /* a kernel of our own has all addresses to give */
#define SKEP_ARENA_SIZE 0x100000000000 /* 16 TiB */
#else
#define SKEP_ARENA_SIZE 0x4000000000 /* 256 GiB of address space */
#endif
#define SKEP_ARENA_END (SKEP_ARENA_START + SKEP_ARENA_SIZE)

#define SKEP_PIE_START SKEP_ARENA_START
#define SKEP_PIE_SIZE 0x80000000 /* stubs reach +-2 GiB */
#define SKEP_BRK_START 0x200080000000
#define SKEP_BRK_SIZE 0x1000000000 /* 64 GiB */
#define SKEP_MMAP_START 0x201080000000
#define SKEP_MMAP_END SKEP_ARENA_END

/*
 * Thread slots that rewritten text addresses as gs:[disp32]. On Windows they
 * are TLS slots of the TEB (0x1480 + 8 * index, index < 64); bee on Linux
 * points GS at a page laid out the same way. The rewriter gets the
 * displacements as data: hosts may hand out other indices.
 */
#define SKEP_SLOT_TP 0	      /* the guest's FS base (its thread pointer) */
#define SKEP_SLOT_CANARY 1    /* copy of [tp + 0x28], read by prologues */
#define SKEP_SLOT_ENTRY 2     /* address of the system call entry */
#define SKEP_SLOT_THREAD 3    /* bee's thread block */
#define SKEP_SLOT_SCRATCH 4   /* one saved register inside a stub */
#define SKEP_SLOT_SCRATCH2 5  /* another one */
#define SKEP_SLOT_CPU_ENTRY 6 /* cpuid, xgetbv: keeps flags, r11 */
#define SKEP_SLOT_COUNT 7
#define SKEP_TEB_SLOT_BASE 0x1480

#endif
