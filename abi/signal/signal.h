/* SPDX-License-Identifier: MIT */
/*
 * Signals: actions, pending sets, delivery.
 *
 * Sending: the signal is queued and its bit set under signals.lock; then the
 * target gets a park token and a host->thread_kick. Waiting: every wait checks
 * abi_pending after it has announced that it waits (in the park word, or in the
 * host's own record inside io_wait), so one of the two sees the other.
 *
 * A call that a signal interrupts returns one of the restart codes below.
 * dispatch passes every result to abi_signal_finish, which delivers signals,
 * and then converts the code to -EINTR, or restarts the call. If a handler with
 * SA_RESTART runs first, the number of the call is stored in the signal frame,
 * and rt_sigreturn of that frame restarts the call. The guest's own instruction
 * cannot be executed again: it is a rewritten jump.
 *
 * On a host without a family, stop signals (SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU)
 * are ignored by default, because nothing outside of the process could continue
 * it.
 */
#ifndef ABI_SIGNAL_H
#define ABI_SIGNAL_H

#include "abi/include/abi.h"
#include "abi/include/siginfo.h"
#include "abi/state/signals.h"

/* Bounds of info.xsave_size: the header, and room for AVX-512 and PKRU. */
#define ABI_VEC_MIN 576
#define ABI_VEC_MAX 4096

/*
 * Results of interrupted calls, never seen by a guest (numbers as in Linux).
 * SYS: restarted if the handler has SA_RESTART. NOHAND, BLOCK: -EINTR if any
 * handler ran. BLOCK is for waits of a relative time: they use
 * abi_thread_deadline, so a restart does not lengthen them.
 */
#define ABI_ERESTARTSYS 512
#define ABI_ERESTARTNOINTR 513
#define ABI_ERESTARTNOHAND 514
#define ABI_ERESTARTBLOCK 516

#define ABI_SA_NOCLDSTOP 1u
#define ABI_SA_NOCLDWAIT 2u
#define ABI_SA_SIGINFO 4u
#define ABI_SA_RESTORER 0x04000000u
#define ABI_SA_ONSTACK 0x08000000u
#define ABI_SA_RESTART 0x10000000u
#define ABI_SA_NODEFER 0x40000000u
#define ABI_SA_RESETHAND 0x80000000u

#define ABI_SIG_DFL 0
#define ABI_SIG_IGN 1

#define ABI_SS_ONSTACK 1u
#define ABI_SS_DISABLE 2u
#define ABI_SS_AUTODISARM 0x80000000u

struct abi_call;
struct abi_thread;

int abi_signals_init(struct abi_proc *p);

static inline u64 abi_signal_bit(u32 signo)
{
	return 1ull << (signo - 1);
}

/* Makes a signal pending, before any guest thread runs. -EINVAL, -EAGAIN. */
s64 abi_signal_queue(struct abi_proc *p, u32 thread,
		     const struct abi_siginfo *info);
/* Sends a signal to the calling thread because of its own call (SIGPIPE). */
void abi_signal_raise(struct abi_proc *p, struct abi_thread *t, u32 signo);

/*
 * Replaces the mask until the end of the call (ppoll, pselect6, epoll_pwait,
 * rt_sigsuspend). abi_signal_finish restores it: before delivery, or if the
 * call was interrupted, after it. `size` is the guest's sigsetsize. 0, -EINVAL
 * or -EFAULT. If gaddr is 0, nothing changes.
 */
s64 abi_signal_mask_push(struct abi_call *c, u64 gaddr, u64 size);
/* Sets the calling thread's mask. */
void abi_signal_mask_set(struct abi_proc *p, struct abi_thread *t, u64 mask);

/*
 * The end of every call: stores `result` in rax (unless how is FULL) and
 * delivers signals. 1: read number and arguments from c->regs and dispatch
 * again. 0: return c->how.
 */
int abi_signal_finish(struct abi_call *c, s64 result);

/* Parts of signal.c that sigframe.c and the system calls need. */
int abi_signal_take(struct abi_proc *p, struct abi_thread *t, u64 set,
		    struct abi_siginfo *info);
/* rt_sigaction(2), with checked numbers: exchanges *action with the present
 * one. */
void abi_signal_action(struct abi_proc *p, u32 signo,
		       const struct abi_sigaction *fresh,
		       struct abi_sigaction *old);
/* `t` exits: empties its queue, and passes on what is pending for the
 * process. */
void abi_signal_thread_end(struct abi_proc *p, struct abi_thread *t);
const char *abi_signal_name(u32 signo);
void abi_signal_kill(struct abi_proc *p, struct abi_thread *t, u32 signo,
		     const struct abi_regs *regs,
		     const struct abi_fault *fault);
/* A fault that abi has found: as abi_fault, with SIGSEGV at `addr`. */
void abi_signal_segv(struct abi_proc *p, struct abi_thread *t,
		     struct abi_regs *regs, u64 addr);
/* What sigaltstack(2) reports about the current stack. */
u32 abi_signal_altstack_flags(const struct abi_thread *t, u64 rsp);
s64 abi_signal_altstack(struct abi_thread *t, u64 rsp, u64 sp, u64 size,
			u32 flags);

#endif
