/* SPDX-License-Identifier: MIT */
/* A signal as it is sent: siginfo of x86-64 Linux, and sending. */
#ifndef ABI_INCLUDE_SIGINFO_H
#define ABI_INCLUDE_SIGINFO_H

#include "abi.h"

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
#define ABI_SIGVTALRM 26
#define ABI_SIGPROF 27
#define ABI_SIGWINCH 28
#define ABI_SIGSYS 31

#define ABI_SI_USER 0
#define ABI_SI_KERNEL 0x80
#define ABI_BUS_ADRERR 2 /* with SIGBUS */
#define ABI_SI_QUEUE (-1)
#define ABI_SI_TIMER (-2)
#define ABI_SI_TKILL (-6)
#define ABI_CLD_STOPPED 5 /* with SIGCHLD */
#define ABI_CLD_CONTINUED 6

/* The guest's layout: struct siginfo of x86-64. */
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

struct abi_thread;

/*
 * Sends info->signo (1 to 64) to thread `tid`, or if that is 0 to the process.
 * `from` is the calling thread, NULL outside of guest threads. 0; -ESRCH;
 * -EAGAIN: the queue is full.
 */
s64 abi_signal_send(struct abi_proc *p, struct abi_thread *from, u32 tid,
		    const struct abi_siginfo *info);

#endif
