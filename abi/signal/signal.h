/* SPDX-License-Identifier: MIT */
/*
 * Signals: actions, pending sets, delivery.
 *
 * Sending: the signal is queued and its bit set under signals.lock, then the
 * target gets a park token and a host->thread_kick. Waiting: every wait looks
 * at abi_pending after it published that it waits (the park word, or the
 * host's own record inside io_wait), so one of the two sees the other.
 *
 * A call that a signal interrupts returns one of the restart codes below;
 * dispatch passes every result to abi_signal_finish, which delivers, and
 * then turns the code into -EINTR, or has the call run again. When a handler
 * with SA_RESTART runs first, the number of the call is written into the
 * signal frame, and rt_sigreturn of that very frame runs the call again. The
 * guest's own instruction cannot be repeated: it is a rewritten jump.
 *
 * Stop signals (SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU) are ignored by default:
 * nothing outside the process could continue it.
 */
#ifndef ABI_SIGNAL_H
#define ABI_SIGNAL_H

#include "abi/include/abi.h"
#include "abi/proc/call.h"
#include "abi/thread/lock.h"

#define ABI_SIGNALS 64	      /* numbers 1 to 64 */
#define ABI_SIGNAL_QUEUE 1024 /* entries in one process */
#define ABI_SIGNAL_RT 32      /* the first that queues */

/* Bounds of info.xsave_size: the header, and room for AVX-512 and PKRU. */
#define ABI_VEC_MIN 576
#define ABI_VEC_MAX 4096

#define ABI_SIGHUP 1
#define ABI_SIGQUIT 3
#define ABI_SIGILL 4
#define ABI_SIGTRAP 5
#define ABI_SIGABRT 6
#define ABI_SIGBUS 7
#define ABI_SIGFPE 8
#define ABI_SIGKILL 9
#define ABI_SIGSEGV 11
#define ABI_SIGPIPE 13
#define ABI_SIGALRM 14
#define ABI_SIGCHLD 17
#define ABI_SIGCONT 18
#define ABI_SIGSTOP 19
#define ABI_SIGTSTP 20
#define ABI_SIGTTIN 21
#define ABI_SIGTTOU 22
#define ABI_SIGURG 23
#define ABI_SIGXCPU 24
#define ABI_SIGXFSZ 25
#define ABI_SIGWINCH 28
#define ABI_SIGSYS 31

/*
 * Results of interrupted calls, never seen by a guest (numbers as in Linux).
 * SYS: again if the handler has SA_RESTART. NOHAND, BLOCK: -EINTR whenever a
 * handler ran. BLOCK is for waits of a relative time: they go through
 * abi_thread_deadline, so running again does not lengthen them.
 */
#define ABI_ERESTARTSYS 512
#define ABI_ERESTARTNOINTR 513
#define ABI_ERESTARTNOHAND 514
#define ABI_ERESTARTBLOCK 516

#define ABI_SA_SIGINFO 4u
#define ABI_SA_RESTORER 0x04000000u
#define ABI_SA_ONSTACK 0x08000000u
#define ABI_SA_RESTART 0x10000000u
#define ABI_SA_NODEFER 0x40000000u
#define ABI_SA_RESETHAND 0x80000000u

#define ABI_SIG_DFL 0
#define ABI_SIG_IGN 1

#define ABI_SI_USER 0
#define ABI_SI_KERNEL 0x80
#define ABI_SI_QUEUE (-1)
#define ABI_SI_TIMER (-2)
#define ABI_SI_TKILL (-6)

#define ABI_SS_ONSTACK 1u
#define ABI_SS_DISABLE 2u
#define ABI_SS_AUTODISARM 0x80000000u

struct abi_thread;

/* As in the guest: struct siginfo of x86-64. */
struct abi_siginfo {
	s32 signo, err, code, pad;
	union {
		struct {
			u32 pid, uid;
			u64 value;
		} user; /* kill, tgkill, rt_sigqueueinfo */
		struct {
			s32 id, overrun;
			u64 value;
		} timer;
		struct {
			u64 addr;
		} fault;
		u64 word[14];
	};
};
SKEP_ASSERT_SIZE(struct abi_siginfo, 128);

/* As in the guest: the kernel's struct sigaction of x86-64. */
struct abi_sigaction {
	u64 handler, flags, restorer, mask;
};
SKEP_ASSERT_SIZE(struct abi_sigaction, 32);

/* One queued signal; a list per thread and one for the process. */
struct abi_sigentry {
	struct abi_siginfo info;
	u32 next; /* index or ABI_NONE */
};

struct abi_signals {
	struct abi_lock lock;
	u64 pending; /* for the process; also read without the lock */
	u32 queue;
	u32 free;      /* first free entry */
	u32 said_kill; /* somebody writes the last words */
	struct abi_sigaction action[ABI_SIGNALS]; /* [signo - 1] */
	struct abi_sigentry entry[ABI_SIGNAL_QUEUE];
};

static inline u64 abi_signal_bit(u32 signo)
{
	return 1ull << (signo - 1);
}

/*
 * Sends info->signo (1 to 64) to thread `tid`, or to the process when it is 0.
 * `from` is the calling thread, NULL outside guest threads. 0; -ESRCH;
 * -EAGAIN: the queue is full.
 */
s64 abi_signal_send(struct abi_proc *p, struct abi_thread *from, u32 tid,
		    const struct abi_siginfo *info);
/* A signal that the system sends a thread for its own call (SIGPIPE). */
void abi_signal_raise(struct abi_proc *p, struct abi_thread *t, u32 signo);

/*
 * Replace the mask until the end of the call (ppoll, pselect6, epoll_pwait,
 * rt_sigsuspend). abi_signal_finish puts the old one back: before delivery,
 * or, when the call was interrupted, after it. `size` is the guest's
 * sigsetsize. 0, -EINVAL or -EFAULT. A gaddr of 0 changes nothing.
 */
s64 abi_signal_mask_push(struct abi_call *c, u64 gaddr, u64 size);
/* Sets the calling thread's mask. */
void abi_signal_mask_set(struct abi_proc *p, struct abi_thread *t, u64 mask);

/*
 * The end of every call: stores `result` in rax (unless how is FULL),
 * delivers signals. 1: read number and arguments from c->regs and dispatch
 * again. 0: return c->how.
 */
int abi_signal_finish(struct abi_call *c, s64 result);

/* Parts of signal.c that sigframe.c and the system calls need. */
int abi_signal_take(struct abi_proc *p, struct abi_thread *t, u64 set,
		    struct abi_siginfo *info);
/* rt_sigaction(2), the numbers checked: swaps *action with the present one. */
void abi_signal_action(struct abi_proc *p, u32 signo,
		       const struct abi_sigaction *fresh,
		       struct abi_sigaction *old);
/* `t` exits: its queue is emptied, what the process has pending moves on. */
void abi_signal_thread_end(struct abi_proc *p, struct abi_thread *t);
const char *abi_signal_name(u32 signo);
void abi_signal_kill(struct abi_proc *p, struct abi_thread *t, u32 signo,
		     const struct abi_regs *regs,
		     const struct abi_fault *fault);
/* A fault that abi found: as abi_fault, with SIGSEGV at `addr`. */
void abi_signal_segv(struct abi_proc *p, struct abi_thread *t,
		     struct abi_regs *regs, u64 addr);
/* What sigaltstack(2) tells of the present stack. */
u32 abi_signal_altstack_flags(const struct abi_thread *t, u64 rsp);
s64 abi_signal_altstack(struct abi_thread *t, u64 rsp, u64 sp, u64 size,
			u32 flags);

/* sigframe.c */
struct abi_delivery {
	const struct abi_siginfo *info;
	const struct abi_sigaction *action;
	const struct abi_fault *fault; /* or NULL */
	u64 mask;		       /* to restore when the handler returns */
	u32 again; /* number of the call to run again, or ABI_NONE */
};
/* 0, or -EFAULT: no room for the frame. */
s64 abi_sigframe_push(struct abi_proc *p, struct abi_thread *t,
		      struct abi_regs *regs, const struct abi_delivery *d);
/* 0, or -EFAULT: the frame is not one. *again as in abi_delivery. */
s64 abi_sigframe_pop(struct abi_proc *p, struct abi_thread *t,
		     struct abi_regs *regs, u32 *again);

#endif
