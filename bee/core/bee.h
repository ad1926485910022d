/* SPDX-License-Identifier: MIT */
/*
 * The interface inside bee between core and its hosts.
 *
 * core/ is freestanding: it loads the image, drives the rewriter, owns the
 * way from guest code into abi and back (entry_*.S, gate.S), the CPU as
 * guests see it, options and report. host/linux and host/windows own every
 * call to the operating system, threads, signals or exceptions, and main().
 *
 * Who runs with which registers:
 *   guest   -> bee_entry_*  (assembly; switches to the thread's host stack)
 *           -> bee_call*, abi (general registers only: vector state is the
 *              guest's, live in the registers; on Linux FS is the guard)
 *           -> gate.S (saves vector state, on Linux restores the host's FS)
 *           -> host functions in struct abi_host (ordinary C)
 *
 * This file is also read by assembly; the offsets are asserted below.
 */
#ifndef BEE_CORE_BEE_H
#define BEE_CORE_BEE_H

#include <skep/guest.h>

/*
 * Thread slots have the same numbers on every host, so that a rewritten image
 * can be used on all hosts without changes, and assembly can use constants. The
 * Windows host takes exactly these TLS indices (it calls TlsAlloc until it has
 * them, and frees the others) and does not start without them.
 */
#define BEE_SLOT_FIRST 48
#define BEE_SLOT(slot) (SKEP_TEB_SLOT_BASE + 8 * (BEE_SLOT_FIRST + (slot)))

/* Offsets in struct bee_thread. */
#define BEE_T_FRAME 0
#define BEE_T_HOST_FS 8
#define BEE_T_GUEST_FS 16
#define BEE_T_VEC 24
#define BEE_T_KICKED 32

/* Offsets in struct abi_regs. */
#define BEE_R_RAX 0
#define BEE_R_RBX 8
#define BEE_R_RCX 16
#define BEE_R_RDX 24
#define BEE_R_RSI 32
#define BEE_R_RDI 40
#define BEE_R_RBP 48
#define BEE_R_RSP 56
#define BEE_R_R8 64
#define BEE_R_R9 72
#define BEE_R_R10 80
#define BEE_R_R11 88
#define BEE_R_R12 96
#define BEE_R_R13 104
#define BEE_R_R14 112
#define BEE_R_R15 120
#define BEE_R_RIP 128
#define BEE_R_RFLAGS 136

/* Bytes of struct abi_regs on the host stack. */
#define BEE_FRAME_SIZE 144

/* Functions in struct abi_host, asserted in call.c. */
#define BEE_GATE_OPS 51

/* Bytes of bee_thread.vec: every XSAVE component except AMX. */
#define BEE_VEC_SIZE 4096

#ifndef __ASSEMBLER__

#include <skep/types.h>
#include <skep/version.h>
#include "abi/include/abi.h"
#include "abi/include/mem.h"
#include "base/sha256.h"
#include "bee/rewrite/rewrite.h"

/* Exit codes of bee itself; all others are the guest's. */
#define BEE_EXIT_USAGE 2
#define BEE_EXIT_REFUSED 126
#define BEE_EXIT_NOT_FOUND 127
#define BEE_EXIT_SIGNAL 128 /* + signal number */

/*
 * One per guest thread, created by the host, owned by that thread. `kicked` is
 * the only field that other threads write.
 */
struct bee_thread {
	/* Where guest registers are saved: at the end of the host stack,
	 * 16-byte aligned. C uses the stack below it. */
	struct abi_regs *frame;
	u64 host_fs;  /* Linux: FS base of the host's libc */
	u64 guest_fs; /* Linux: FS base outside host code (the guard) */
	u8 *vec;      /* BEE_VEC_SIZE bytes, 64-aligned: the gate's save area */
	/* Set by a kick that interrupted bee's code. It is the last thing that
	 * the return to the guest checks; see "Kicks". */
	u32 kicked;
	u32 index; /* abi's thread index */
	struct abi_proc *proc;
	struct abi_fault fault; /* for bee_resume_fault */
	void *os;		/* for the host */
};

#define BEE_OFFSET(type, field, at)                                            \
	_Static_assert(__builtin_offsetof(type, field) == (at), #field)
BEE_OFFSET(struct bee_thread, frame, BEE_T_FRAME);
BEE_OFFSET(struct bee_thread, host_fs, BEE_T_HOST_FS);
BEE_OFFSET(struct bee_thread, guest_fs, BEE_T_GUEST_FS);
BEE_OFFSET(struct bee_thread, vec, BEE_T_VEC);
BEE_OFFSET(struct bee_thread, kicked, BEE_T_KICKED);
BEE_OFFSET(struct abi_regs, rip, BEE_R_RIP);
BEE_OFFSET(struct abi_regs, rflags, BEE_R_RFLAGS);
BEE_OFFSET(struct abi_regs, r15, BEE_R_R15);

/* Command line -------------------------------------------------------- */

#define BEE_ENV_MAX 512

struct bee_options {
	u8 probe, list, trace, idle, help, version, child;
	u8 no_debugger; /* Windows: the vectored handler handles faults */
	u8 load_only;	/* the program is loaded, not run */
	u64 memory;	/* maximum of bytes the guest may commit; 0: no limit */
	u64 nonce;
	u64 stream;  /* the host's number of guest descriptor 3; 0: none */
	u64 control; /* a socket that asks for snapshots; 0: none */
	u64 resume;  /* descriptor of the state saved by execve, see
			abi/include/exec.h */
	/* host path: of the snapshot that is made of the process `pid`, or that
	 * the program is restored from; or NULL */
	const char *snapshot, *restore;
	const char *restored; /* what execve of a restored program passes on */
	u64 pid;
	u8 end;		     /* after the snapshot the program ends */
	const char *report;  /* host path, or NULL */
	const char *cache;   /* host directory of rewritten images, or NULL */
	const char *root;    /* host directory that the guest sees as "/" */
	const char *cwd;     /* guest path, or NULL */
	const char *cpu;     /* to compare with; "-": print this one */
	const char *program; /* host path as given */
	const char *name;    /* argv[0] if it is not program, or NULL */
	char **argv; /* the guest's; argv[0] is program; NULL terminated */
	/* --env NAME=VALUE, in order. With clean_env the guest gets only these
	 * variables; otherwise the host adds them to its own environment. */
	u8 clean_env;
	u32 envs;
	const char *env[BEE_ENV_MAX + 1];
};

/*
 * Keeps pointers into argv. 0, or BEE_EXIT_USAGE with a sentence in why.
 */
int bee_options_parse(struct bee_options *o, int argc, char **argv,
		      char why[160]);
extern const char bee_usage[];

/* The image and the report -------------------------------------------- */

/* Which file it was: another one has another id, and so has a changed one. */
struct bee_file_id {
	u64 dev, ino, size;
	s64 mtime_ns;
};

/* A rewritten file: the program, its loader, or a library. */
struct bee_image {
	struct abi_elf_plan plan;
	u64 stubs, stubs_end; /* guest range of the stubs, page aligned */
	u64 text, text_end;   /* of a library: the pages of its text, */
	u64 offset;	      /* and where in its file they begin */
	/* of a library: bytes of text still mapped; never changes for other
	 * images */
	u64 text_left;
	/* Of a library and the loader: its path, and which file that was. */
	char path[ABI_PATH_MAX];
	struct bee_file_id id;
	struct bee_rewrite rw; /* counts; `site` and `pc` remain allocated */
	struct bee_map map;    /* what a PC in a stub stands for */
	u8 sha_file[32];       /* of the whole file */
	u8 sha_load[32];       /* of the PT_LOAD contents, in order */
	/* Only of the program: */
	u64 started_ns; /* host->clock(MONOTONIC) when bee began; host sets it
			 */
	u64 entered_ns; /* ... when thread 0 entered the guest */
	u64 load_ns;	/* time spent on loading */
};

/* Totals over all images of a run, including those that are gone. */
struct bee_sums {
	u32 images, cached; /* `cached`: those that came from the cache */
	u32 found[BEE_SITE_KINDS], patched[BEE_SITE_KINDS];
	u64 stub_bytes, rewrite_ns;
};

/* The only process of this address space. Written before threads start. */
struct bee {
	const struct bee_options *options;
	const struct abi_host *os; /* the host's table, without the gate */
	struct abi_proc *proc;
	struct bee_image image; /* of the program */
	/* its dynamic loader; plan.segments is 0 if there is none */
	struct bee_image loader;
	struct bee_sums sums;
	/* 1 + an earlier stream that is the same open file description (2>&1),
	 * else 0. Set by bee_os_std if the host knows it. */
	u32 std_same[3];
	/* The state that execve saved for this process, which replaces all of
	 * these; or NULL. */
	const void *resume;
	u64 resume_len;
	/* With which thread 0 enters in a child of fork on Windows: vector
	 * registers, or NULL; the canary slot, which may differ from memory,
	 * valid with this thread pointer. */
	const void *vec;
	u64 canary, canary_tp;
	/* What a snapshot has, which replaces all of these too; or NULL. */
	const struct bee_snapshot *snapshot;
};
extern struct bee bee;

/* The same table, through gate.S; abi gets this one. */
extern struct abi_host bee_gated;

/*
 * Loads and rewrites options->program, prepares abi, attaches descriptors 0 to
 * 2. Called by the thread that becomes guest thread 0, after bee_thread_enable.
 * 0, or an exit code (BEE_EXIT_REFUSED, NOT_FOUND) after bee_os_message
 * reported why.
 */
int bee_load(const struct bee_options *o, const struct abi_host *os,
	     const char *const *envp);

/* In place of bee_load, in a child of fork that is a new process; images: what
 * bee_images_save wrote. 0 or -ENOMEM. */
int bee_load_forked(const struct bee_options *o, const struct abi_host *os,
		    const u8 *images);

/* Enters guest thread t->index at abi_thread_regs. Runs on any stack. */
__attribute__((noreturn)) void bee_thread_enter(struct bee_thread *t);

/*
 * stack: the thread's host stack [stack, stack + len), at least 64 KiB; the
 * caller may run on its upper part only if it never returns.
 */
void bee_thread_init(struct bee_thread *t, u32 index, void *stack, u64 len,
		     u8 *vec);

/* Sets the thread slots of the calling thread; its GS must be set up. */
void bee_slots_fill(struct bee_thread *t);

/* Sets the thread pointer and canary slots of the calling thread. */
void bee_slots_tp(u64 tp);
u64 bee_slots_canary(void); /* of the calling thread */

#ifndef _WIN32
enum bee_fs_mode { BEE_FS_INSN = 1, BEE_FS_CALL = 2 };
extern u32 bee_fs_mode; /* set before the first guest thread */
/* Changes the FS base from t->host_fs to t->guest_fs; after this no libc
 * function may be called. */
void bee_fs_enter(struct bee_thread *t);
#endif

/* Writes the report, one "key value" per line; returns its length. */
u64 bee_report(char *buf, u64 len, u32 status);
/* The text of --list-syscalls, in static memory: one line for each call of
 * `host`. */
const char *bee_list(const struct abi_host *host);

/* host->text_seal for both hosts. */
s64 bee_text_seal(u64 addr, u64 len);
/* host->text_file for both hosts. */
s64 bee_text_file(struct abi_text_file *op);
/* Called in the child of a fork, before the guest runs. */
void bee_images_forked(void);
/* host->text_pc for both hosts; is never called through the gate. */
u64 bee_text_pc(u64 pc);

/* Kicks and faults ----------------------------------------------------- */
/*
 * A kick or a fault interrupts a thread at pc. pc decides what to do:
 *
 * BEE_PC_GUEST   copy the interrupted registers into *t->frame, then resume
 *                at bee_resume_tick (kick) or bee_resume_fault (fault, with
 *                t->fault filled in); these load rsp from t->frame. Leave
 *                the vector registers as they are: they are the guest's.
 * BEE_PC_STUB    as GUEST, but first take the copy back to the guest's own
 *                state with bee_stub_undo(frame, slot SCRATCH, SCRATCH2).
 * bee_pc_resume handles a return into the middle of a patch. BEE_PC_EXIT    the
 * last instructions before the guest, after the check of t->kicked: *t->frame
 * is complete. Kick: resume at bee_resume_tick. BEE_PC_BEE     anything else.
 * Kick: set t->kicked and continue; the exit code checks it. Fault: a defect of
 * bee, or a bad pointer that abi did not check: print a message and end the
 * process.
 */
enum bee_pc { BEE_PC_GUEST, BEE_PC_STUB, BEE_PC_EXIT, BEE_PC_BEE };
enum bee_pc bee_pc_where(u64 pc);
void bee_stub_undo(struct abi_regs *regs, u64 scratch, u64 scratch2);
u64 bee_pc_resume(u64 rip);

void bee_resume_tick(void); /* labels, never called */
void bee_resume_fault(void);
extern const u8 bee_exit_begin[], bee_exit_end[];

/* The two entries, whose addresses go into slots. */
void bee_entry_syscall(void);
void bee_entry_cpu(void);

/* The CPU as guests see it --------------------------------------------- */

void bee_cpu_init(void); /* chooses how the gate saves vector state */
void bee_cpuid(u32 leaf, u32 sub, u32 out[4]);
u64 bee_xgetbv(u32 index);
u64 bee_cpu_hwcap(void);
u64 bee_xsave_mask(void), bee_xsave_size(void);
/* host->vec_save and vec_load for both hosts; are never called through the
 * gate. */
s64 bee_vec_save(void *buf, u64 len);
s64 bee_vec_load(const void *buf, u64 len);

/* What each host provides ---------------------------------------------- */
/*
 * In addition each host provides main(), a struct abi_host, the parent that
 * starts the child and reports how it ended, and `bee --probe`.
 */

/* Zeroed memory for bee itself (outside of IMAGE and ARENA); NULL if there is
 * none. */
void *bee_os_alloc(u64 len);
void bee_os_free(void *p, u64 len);
/* Reads a complete file by its host path; later changes of the file are not
 * seen. -ENOENT, -EACCES, ... */
s64 bee_os_file_read(const char *path, const u8 **bytes, u64 *len);
void bee_os_file_free(const u8 *bytes, u64 len);
/* Returns a handle for the host's stream fd (0 to 2), its type (S_IF*) and O_*
 * flags; negative if the host has no such stream. */
s64 bee_os_std(u32 fd, u32 *type, u32 *flags);
/* The inherited descriptor fd (3 or above), which the program gets with its
 * number. -EBADF: there is none. On Windows programs inherit no others. */
s64 bee_os_inherited(u32 fd, struct abi_right *out);
/* A number above all of them, or at most 3 if there are none; negative: not
 * known. */
s64 bee_os_inherited_end(void);
/* The same for options->stream, a two-way byte stream that no other process
 * uses. */
s64 bee_os_stream(u64 number, u32 *type, u32 *flags);
/* Writes one sentence to the error stream: "bee: <line>\n". */
void bee_os_message(const char *line);
/* Writes to buf the guest's path ("/...", for AT_EXECFN and /proc/self/exe) of
 * a host path, or the guest's working directory. */
s64 bee_os_guest_path(const char *host, char *buf, u64 len);
s64 bee_os_guest_cwd(char *buf, u64 len);

/* Text, copies and comparisons: abi/include/mem.h; SHA-256: base/sha256.h. */

#endif
#endif
