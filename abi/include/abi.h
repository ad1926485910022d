/* SPDX-License-Identifier: MIT */
/*
 * The Linux ABI core: its interface for a substrate (bee, sms).
 *
 * There is one process per address space. All guest state is plain data inside
 * struct abi_proc: no host pointers, and no handles except the host's small
 * numbers. Guest memory is directly addressable at its guest address.
 *
 * Order of calls: abi_proc_init; abi_exec; the host starts thread 0 at its
 * registers; abi_syscall and abi_fault from guest threads, abi_tick after a
 * kick; host->proc_exit.
 */
#ifndef ABI_ABI_H
#define ABI_ABI_H

#include <skep/types.h>
#include <skep/guest.h>
#include "host.h"

/* General registers; the order is part of the contract with entry code. */
struct abi_regs {
	u64 rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp;
	u64 r8, r9, r10, r11, r12, r13, r14, r15;
	u64 rip, rflags;
};
SKEP_ASSERT_SIZE(struct abi_regs, 144);

/* Loading ------------------------------------------------------------- */

#define ABI_ELF_SEGMENTS_MAX 16
#define ABI_ELF_INTERP_MAX 256

struct abi_elf_segment {
	u64 addr, filesz, memsz, offset; /* addr is the final guest address */
	u32 prot;
};

/* Mappings planned from the file alone. Every field has been checked. */
struct abi_elf_plan {
	u64 bias; /* 0, or the load address of a position-independent file */
	u64 entry;
	u64 phdr, phnum, phent; /* for auxv; phdr 0: a library's is not loaded
				 */
	u64 start, end;		/* page-aligned span of all segments */
	u32 segments;
	struct abi_elf_segment segment[ABI_ELF_SEGMENTS_MAX];
	u64 stack_size;	 /* 0: the file does not say */
	const char *why; /* after an error: one sentence for the user */
	char interp[ABI_ELF_INTERP_MAX]; /* of a dynamic program; else empty */
};

/* The role of the file. */
enum abi_elf_role {
	ABI_ELF_STATIC,	 /* a program that needs no other file */
	ABI_ELF_PROGRAM, /* a program; interp says whether it is dynamic */
	ABI_ELF_LOADER,	 /* the interpreter of a dynamic program */
	ABI_ELF_LIBRARY, /* mapped by the guest, see abi_elf_use */
};

struct abi_elf_use {
	enum abi_elf_role role;
	/* LIBRARY: bytes from `offset` on are mapped at `addr`. An executable
	 * segment begins there, which determines the bias. */
	u64 addr, offset;
};

/*
 * head: the first `head_len` bytes of the file (the headers must be in them; 64
 * KiB suffice); file_size: its length. -ENOEXEC with plan->why: not ELF,
 * 32-bit, dynamic, corrupt, out of range.
 */
int abi_elf_plan(const struct abi_elf_use *use, const void *head, u64 head_len,
		 u64 file_size, struct abi_elf_plan *plan);

struct abi_proc;

struct abi_exec {
	const struct abi_elf_plan *plan;
	u64 image_end; /* first free byte after image and stubs */
	/* The same for the interpreter; NULL: the program is static. */
	const struct abi_elf_plan *loader;
	u64 loader_end;
	const char *const *argv; /* NULL terminated */
	const char *const *envp;
	const char *path; /* AT_EXECFN, /proc/self/exe */
	const char *cwd;  /* absolute, Linux form */
	u64 stack_size;	  /* bytes; 0 for 8 MiB */
	/* An ELF file for vdso(7), which the substrate provides outside of the
	 * guest's map. Both 0: there is none. */
	u64 vdso, vdso_end;
	u64 hwcap, hwcap2; /* AT_HWCAP; hwcap2 without FSGSBASE under bee */
};

/* Bytes to allocate for struct abi_proc (opaque here, zeroed by the caller). */
u64 abi_proc_size(void);
int abi_proc_init(struct abi_proc *p, const struct abi_host *host);
/* The guest's process id (getpid). */
u32 abi_proc_pid(const struct abi_proc *p);

/*
 * The segments must be in memory with their final protection (set by the
 * substrate, which rewrites text). Adds them to the address map, builds stack
 * and auxv, and prepares thread 0 and its registers.
 */
int abi_exec(struct abi_proc *p, const struct abi_exec *exec);

/* Attaches a host stream as descriptor fd, for example 0, 1, 2. */
int abi_fd_attach(struct abi_proc *p, u32 fd, s32 handle, u32 type, u32 flags);
/* The same for a handle of any type, which it takes over. 0; -EBADF: fd is at
 * or above RLIMIT_NOFILE; -ENFILE; or why a folder has no name below the root.
 */
int abi_fd_adopt(struct abi_proc *p, u32 fd, const struct abi_right *r);

/* Running ------------------------------------------------------------- */

enum abi_return {
	ABI_RETURN_FAST, /* only rax changed: resume after the call */
	ABI_RETURN_FULL, /* all registers changed: load every one of them */
};

/*
 * Executes a system call of thread `t`. regs->rax is the number, regs->rip the
 * return address. Stores the result in regs->rax. Does not return if the thread
 * or process exits.
 */
enum abi_return abi_syscall(struct abi_proc *p, u32 t, struct abi_regs *regs);

/*
 * A synchronous fault in guest code, or in host code that accessed guest memory
 * for it. Builds a signal frame, or ends the process with a message.
 */
struct abi_fault {
	u32 signo;	   /* SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP */
	s32 code;	   /* si_code */
	u64 addr;	   /* si_addr */
	u64 trapno, error; /* x86 vector and error code, for the frame */
};
void abi_fault(struct abi_proc *p, u32 t, struct abi_regs *regs,
	       const struct abi_fault *fault);

/*
 * Call it after thread_kick, if `t` was in guest code: delivers pending
 * signals. ABI_RETURN_FAST if there were none and regs are unchanged.
 */
enum abi_return abi_tick(struct abi_proc *p, u32 t, struct abi_regs *regs);

/* Whether `t` has a deliverable signal; to be checked before a wait (see
 * thread_kick). */
int abi_pending(const struct abi_proc *p, u32 t);

/* The record of a thread: thread_state.h. */
struct abi_thread;
struct abi_thread *abi_thread_get(struct abi_proc *p, u32 index);
/* The word on which threads wait that want to vfork while another one is the
 * child of a vfork: they hold no lock. */
const u32 *abi_vfork_turn(const struct abi_proc *p);

/* The registers with which a new thread starts, and its thread pointer. */
struct abi_regs *abi_thread_regs(struct abi_proc *p, u32 t);
u64 abi_thread_tp(const struct abi_proc *p, u32 t);

/*
 * The host thread of `t` has ended, or will end without using index `t` any
 * more: from now on thread_start may use the index again. The substrate calls
 * it once for each thread_exit, as late as it can.
 */
void abi_thread_gone(struct abi_proc *p, u32 t);

/*
 * Guest timers. The substrate has one helper thread that sleeps until the
 * deadline (CLOCK_MONOTONIC) and calls abi_timer_fire, which sends the due
 * signals and returns the next deadline or ABI_FOREVER. abi calls
 * host->timer_arm when the deadline changes.
 */
u64 abi_timer_fire(struct abi_proc *p, u64 now);

/*
 * Fault handlers call this first for a fault in abi's or bee's own code. If abi
 * expects faults at `pc` (guest memory that another thread has unmapped), it
 * returns the address at which to continue with unchanged registers; else 0.
 */
u64 abi_copy_resume(u64 pc);

/*
 * host->robust: no thread of the process runs any more; its memory is as they
 * left it. Marks the robust futexes that they held, and has one waiter of each
 * woken. Takes no lock and calls no host.
 */
void abi_robust_dead(struct abi_proc *p, void (*wake)(u64 gaddr));

/* Whether [addr, addr + len) is mapped with at least `prot`; for fault
 * handlers. */
int abi_mapped(const struct abi_proc *p, u64 addr, u64 len, u32 prot);

/* For reports: the number of completed calls of all threads, and how often a
 * system call was refused. */
#define ABI_NR_MAX 512 /* all x86-64 numbers are below it */
u64 abi_count_calls(const struct abi_proc *p);
u32 abi_count_refused(const struct abi_proc *p, u32 nr);

/* A bee extension, which no kernel implements: the run's nonce. See
 * docs/design/bee.md */
#define ABI_NR_PROOF 0xBEE
void abi_proof_set(struct abi_proc *p, u64 nonce);

/* The list of system calls, for --list-syscalls; NULL after the last one. */
const char *abi_syscall_name(u32 nr);
const char *abi_syscall_route(u32 nr); /* core, host, refused or probed */
/* The arguments' types as a trace prints them ("fd,ptr,size"), or NULL. */
const char *abi_syscall_args(u32 nr);
/* What is missing in the call on this host, or NULL. */
const char *abi_syscall_limit(const struct abi_host *host, u32 nr);

#endif
