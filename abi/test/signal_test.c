/* SPDX-License-Identifier: MIT */
/* Signals: frames, masks, queues, restarts, and what hostile frames get. */
#include "guest.h"

#define SIG_BLOCK 0
#define SIG_UNBLOCK 1
#define SIG_SETMASK 2
#define HANDLER (text + 0x800)
#define RESTORER (text + 0x900)
#define BIT(signo) (1ull << ((signo)-1))
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define STACK (page + 0xe000)
#define NR_SIGRETURN ABI_NR_rt_sigreturn

/* Offsets in a guest's frame, counted from rsp at the handler's entry. */
#define UC 8
#define UC_STACK (UC + 16)
#define MC (UC + 40)
#define MC_RSP (MC + 15 * 8)
#define MC_RIP (MC + 16 * 8)
#define MC_FLAGS (MC + 17 * 8)
#define MC_CS (MC + 18 * 8)
#define MC_ERR (MC + 19 * 8)
#define MC_TRAPNO (MC + 20 * 8)
#define MC_CR2 (MC + 22 * 8)
#define MC_FP (MC + 23 * 8)
#define UC_MASK (UC + 296)
#define INFO (UC + 304)

static s64 set_action(u32 signo, u64 handler, u64 flags, u64 mask)
{
	u64 *act = (u64 *)(page + 0x100);

	act[0] = handler;
	act[1] = flags | ABI_SA_RESTORER;
	act[2] = RESTORER;
	act[3] = mask;
	return CALL(rt_sigaction, signo, page + 0x100, 0, 8);
}

static s64 mask_at(u32 t, u32 how, u64 mask)
{
	*(u64 *)(page + 0x140 + t * 8) = mask;
	return CALL_AT(t, rt_sigprocmask, how, page + 0x140 + t * 8, 0, 8);
}

static s64 set_mask(u32 how, u64 set)
{
	return mask_at(0, how, set);
}

static enum abi_return do_call(struct abi_regs *r, u32 nr, u64 a, u64 b, u64 c)
{
	r->rax = nr;
	r->rdi = a;
	r->rsi = b;
	r->rdx = c;
	return abi_syscall(p, 0, r);
}

/* What the restorer does after the handler's ret. */
static enum abi_return sigreturn_at(u32 t, struct abi_regs *r)
{
	r->rsp += 8;
	r->rax = NR_SIGRETURN;
	return abi_syscall(p, t, r);
}

/* 1 when `statement` ends the process. */
#define ENDS(statement)                                                        \
	__extension__({                                                        \
		volatile int ended_ = 0;                                       \
		if (setjmp(guest_end))                                         \
			ended_ = 1;                                            \
		else                                                           \
			statement;                                             \
		ended_;                                                        \
	})

static void reset_proc(void)
{
	if (p)
		guest_free();
	guest_new();
	fake.host.proc_exit = guest_end_jump;
}

static void test_arguments(void)
{
	reset_proc();
	TAP(CALL(rt_sigaction, 10, 0, 0, 4) == -LINUX_EINVAL);
	TAP(CALL(rt_sigaction, 0, 0, 0, 8) == -LINUX_EINVAL);
	TAP(CALL(rt_sigaction, 65, 0, 0, 8) == -LINUX_EINVAL);
	TAP(CALL(rt_sigaction, 10, 0x1000, 0, 8) == -LINUX_EFAULT);
	TAP(set_action(ABI_SIGKILL, HANDLER, 0, 0) == -LINUX_EINVAL);
	TAP(set_action(ABI_SIGSTOP, HANDLER, 0, 0) == -LINUX_EINVAL);
	TAP(set_action(10, HANDLER, 0, ~0ull) == 0);
	TAP(CALL(rt_sigaction, 10, 0, page + 0x200, 8) == 0);
	tap_ok(u64_at(page + 0x200) == HANDLER &&
		       u64_at(page + 0x210) == RESTORER,
	       "sigaction returns the old action");
	tap_ok(u64_at(page + 0x218) == ~(BIT(9) | BIT(19)),
	       "KILL and STOP cannot be masked");
	TAP(set_mask(SIG_SETMASK, ~0ull) == 0);
	TAP(p->threads.thread[0].blocked == ~(BIT(9) | BIT(19)));
	TAP(set_mask(3, 0) == -LINUX_EINVAL);
	TAP(set_mask(SIG_UNBLOCK, BIT(10)) == 0);
	TAP(!(p->threads.thread[0].blocked & BIT(10)));
	TAP(CALL(kill, 4242, 65) == -LINUX_EINVAL);
	TAP(CALL(kill, 4241, 10) == -LINUX_ESRCH);
	TAP(CALL(kill, 4242, 0) == 0);
	TAP(CALL(tgkill, 4242, 4243, 10) == -LINUX_ESRCH);
	TAP(CALL(tgkill, 4242, 4242, 0) == 0);
	TAP(CALL(tkill, 0, 10) == -LINUX_EINVAL);
	TAP(CALL(rt_sigpending, page, 9) == -LINUX_EINVAL);
}

/* Everything about one frame, and back. */
static void test_frame(void)
{
	struct abi_regs r, before;
	u64 *reg = &r.rax, i;
	u64 fp;

	reset_proc();
	set_action(10, HANDLER, ABI_SA_SIGINFO, BIT(12));
	for (i = 0; i < 16; i++)
		reg[i] = 0x1111111111111111ull * i;
	r.rsp = STACK - 24;
	r.rip = text + 0x123;
	r.rflags = GUEST_FLAGS | 0x400 | 1;
	before = r;
	TAP(do_call(&r, ABI_NR_tgkill, 4242, 4242, 10) == ABI_RETURN_FULL);
	TAP(r.rip == HANDLER && r.rdi == 10 && r.rax == 0);
	tap_ok(r.rsp % 16 == 8, "the stack is aligned as after a call");
	tap_ok(r.rsi == r.rsp + INFO && r.rdx == r.rsp + UC,
	       "siginfo and ucontext are where Linux has them");
	tap_ok(!(r.rflags & 0x400), "the direction flag is clear");
	tap_ok(u64_at(r.rsp) == RESTORER,
	       "the handler returns to the restorer");
	fp = u64_at(r.rsp + MC_FP);
	tap_ok(fp % 64 == 0 && fp + 576 + 4 <= before.rsp - 128,
	       "vector state is aligned and leaves the red zone alone");
	tap_ok(u32_at(fp + 464) == 0x46505853 &&
		       u32_at(fp + 576) == 0x46505845 &&
		       u32_at(fp + 468) == 580 && u32_at(fp + 480) == 576,
	       "both magic numbers of extended state are present");
	TAP(u32_at(r.rsi) == 10 && (s32)u32_at(r.rsi + 8) == ABI_SI_TKILL &&
	    u32_at(r.rsi + 16) == 4242);
	TAP(u64_at(r.rsp + MC_RIP) == before.rip);
	TAP(u64_at(r.rsp + MC_RSP) == before.rsp);
	TAP(u64_at(r.rsp + MC_CS) == 0x002b000000000033ull);
	TAP(u64_at(r.rsp + UC_MASK) == 0);
	tap_ok(p->threads.thread[0].blocked == (BIT(10) | BIT(12)),
	       "the handler runs with its mask and its own signal blocked");
	TAP(sigreturn_at(0, &r) == ABI_RETURN_FULL);
	tap_ok(p->threads.thread[0].blocked == 0,
	       "sigreturn restores the mask");
	before.rax = 0;
	before.rdi = before.rsi = 4242;
	before.rdx = 10;
	tap_ok(!memcmp(&r, &before, sizeof(r)),
	       "sigreturn restores every register");
}

static void test_flags(void)
{
	struct abi_regs r;
	u64 *st = (u64 *)(page + 0x300), inner;

	reset_proc();
	set_action(10, HANDLER, ABI_SA_RESETHAND | ABI_SA_NODEFER, 0);
	r = guest_regs();
	do_call(&r, ABI_NR_tkill, 4242, 10, 0);
	tap_ok(p->threads.thread[0].blocked == 0, "SA_NODEFER");
	tap_ok(p->signals.action[9].handler == ABI_SIG_DFL, "SA_RESETHAND");
	st[0] = page + 0x4000;
	st[1] = 0;
	st[2] = 1024;
	TAP(CALL(sigaltstack, page + 0x300, 0) == -LINUX_ENOMEM);
	st[2] = 0x2000;
	TAP(CALL(sigaltstack, page + 0x300, 0) == 0);
	set_action(10, HANDLER, ABI_SA_ONSTACK | ABI_SA_NODEFER, 0);
	r = guest_regs();
	do_call(&r, ABI_NR_tkill, 4242, 10, 0);
	tap_ok(r.rsp > page + 0x4000 && r.rsp < page + 0x6000, "SA_ONSTACK");
	tap_ok(u64_at(r.rsp + UC_STACK) == page + 0x4000,
	       "the frame describes the alternate stack");
	inner = r.rsp;
	TAP(do_call(&r, ABI_NR_sigaltstack, page + 0x300, 0, 0) ==
		    ABI_RETURN_FAST &&
	    (s64)r.rax == -LINUX_EPERM);
	do_call(&r, ABI_NR_tkill, 4242, 10, 0);
	tap_ok(r.rsp < inner - 128 && r.rsp > page + 0x4000,
	       "a nested signal stays on the alternate stack");
	sigreturn_at(0, &r);
	TAP(r.rsp == inner);
	sigreturn_at(0, &r);
	TAP(r.rsp == guest_regs().rsp);
	st[1] = 2;
	TAP(CALL(sigaltstack, page + 0x300, page + 0x340) == 0);
	TAP(u64_at(page + 0x340) == page + 0x4000 &&
	    u64_at(page + 0x350) == 0x2000);
}

static void test_blocked(void)
{
	struct abi_regs r = {0};

	reset_proc();
	set_action(10, HANDLER, 0, 0);
	set_action(12, HANDLER + 16, 0, 0);
	set_mask(SIG_BLOCK, BIT(10) | BIT(12));
	TAP(CALL(kill, 4242, 10) == 0);
	TAP(CALL(tkill, 4242, 12) == 0);
	TAP(CALL(rt_sigpending, page, 8) == 0 &&
	    u64_at(page) == (BIT(10) | BIT(12)));
	TAP(!abi_pending(p, 0));
	r = guest_regs();
	*(u64 *)page = BIT(10) | BIT(12);
	r.r10 = 8;
	tap_ok(do_call(&r, ABI_NR_rt_sigprocmask, SIG_UNBLOCK, page, 0) ==
		       ABI_RETURN_FULL,
	       "unblocking a pending signal delivers it");
	TAP(r.rip == HANDLER); /* pending for the process: delivered last */
	sigreturn_at(0, &r);
	TAP(r.rip == HANDLER + 16);
	sigreturn_at(0, &r);
	TAP(r.rip == guest_regs().rip && r.rax == 0);
	TAP(!p->signals.pending && !p->threads.thread[0].pending);
}

static void queue_value(u32 signo, u64 value, s32 code)
{
	s32 *info = (s32 *)(page + 0x400);

	memset(info, 0, 128);
	info[2] = code;
	*(u64 *)(page + 0x400 + 24) = value;
	CALL(rt_sigqueueinfo, 4242, signo, page + 0x400);
}

static u64 wait_value(u64 set, s64 *signo)
{
	*(u64 *)page = set;
	memset((void *)(page + 0x500), 0, 16);
	*signo = CALL(rt_sigtimedwait, page, page + 0x480, page + 0x500, 8);
	return u64_at(page + 0x480 + 24);
}

static void test_queue(void)
{
	u64 i, bad = 0;
	s64 signo, rc = 0;

	reset_proc();
	set_mask(SIG_BLOCK, BIT(40) | BIT(10) | BIT(41));
	for (i = 0; i < 20; i++)
		queue_value(40, i, ABI_SI_QUEUE);
	for (i = 0; i < 3; i++)
		queue_value(10, 100 + i, ABI_SI_QUEUE);
	tap_ok(wait_value(BIT(40) | BIT(10), &signo) == 100 && signo == 10,
	       "the signal with the lowest number is delivered first");
	for (i = 0; i < 20; i++)
		bad += wait_value(BIT(40) | BIT(10), &signo) != i ||
		       signo != 40;
	tap_ok(!bad, "real-time signals queue in order, others once");
	wait_value(BIT(40) | BIT(10), &signo);
	tap_ok(signo == -LINUX_EAGAIN,
	       "sigtimedwait without a pending signal times out");
	for (i = 0; i < 2000 && !rc; i++) {
		memset((void *)(page + 0x400), 0, 128);
		((s32 *)(page + 0x400))[2] = ABI_SI_QUEUE;
		rc = CALL(rt_sigqueueinfo, 4242, 41, page + 0x400);
	}
	tap_ok(rc == -LINUX_EAGAIN && i == ABI_SIGNAL_QUEUE + 1,
	       "the signal queue has a limit");
	queue_value(10, 1, ABI_SI_QUEUE);
	wait_value(BIT(10), &signo);
	tap_ok(signo == 10,
	       "a standard signal is delivered although the queue is full");
	set_action(41, ABI_SIG_IGN, 0, 0);
	tap_ok(!p->signals.pending, "ignoring a signal discards a pending one");
	for (i = 0; i < ABI_SIGNAL_QUEUE; i++)
		queue_value(40, i, ABI_SI_QUEUE);
	for (i = 0; i < ABI_SIGNAL_QUEUE; i++)
		bad += wait_value(BIT(40), &signo) != i;
	tap_ok(!bad, "no entry of the queue leaks");
}

/* Old programs call fixed addresses, which not every kernel has. */
static void call_fixed(struct abi_regs *r, u64 offset, u64 argument)
{
	struct abi_fault fault = {ABI_SIGSEGV, 1, 0xffffffffff600000, 14, 20};

	*(u64 *)page = text + 0x40;
	*r = guest_regs();
	r->rip = fault.addr += offset;
	r->rsp = page;
	r->rdi = argument;
	r->rsi = r->rdx = 0;
	abi_fault(p, 0, r, &fault);
}

static void test_vsyscall(void)
{
	u64 now = guest_now(ABI_CLOCK_REALTIME) / ABI_NS;
	struct abi_regs r;

	reset_proc();
	call_fixed(&r, 0, page + 64);
	TAP(!r.rax && r.rip == text + 0x40 && r.rsp == page + 8 &&
	    u64_at(page + 64) - now < 10);
	call_fixed(&r, 0x400, 0);
	tap_ok(r.rax - now < 10 && r.rip == text + 0x40,
	       "calls of the vsyscall page return their result");
	call_fixed(&r, 0x800, page + 64);
	TAP(!r.rax && r.rip == text + 0x40);
	TAP(ENDS(call_fixed(&r, 0, 0x10)) && fake.exit_status == 11);
	reset_proc();
	TAP(ENDS(call_fixed(&r, 0x401, 0)) && fake.exit_status == 11);
	reset_proc();
	tap_ok(ENDS(call_fixed(&r, 0xc00, 0)) && fake.exit_status == 11,
	       "other addresses there and bad pointers are faults");
}

static void test_default(void)
{
	struct abi_fault fault = {ABI_SIGSEGV, 1, 0xdead000, 14, 6};
	struct abi_regs r;

	reset_proc();
	TAP(CALL(kill, 4242, ABI_SIGCHLD) == 0 && !p->signals.pending);
	TAP(CALL(kill, 4242, ABI_SIGTSTP) == 0 && !p->signals.pending);
	tap_ok(ENDS(CALL(kill, 4242, 15)) && fake.exit_status == 15 &&
		       strstr(fake.last_log, "killed by SIGTERM"),
	       "SIGTERM ends the process with a message");
	reset_proc();
	set_mask(SIG_SETMASK, ~0ull);
	tap_ok(ENDS(CALL(tkill, 4242, 9)) && fake.exit_status == 9,
	       "SIGKILL cannot be blocked");
	reset_proc();
	r = guest_regs();
	tap_ok(ENDS(abi_fault(p, 0, &r, &fault)) && fake.exit_status == 11 &&
		       fake.logs == 8 &&
		       strstr(fake.last_log, "the address is not mapped"),
	       "a fault ends the process with a dump of registers");
	reset_proc();
	set_action(11, HANDLER, ABI_SA_SIGINFO, 0);
	r = guest_regs();
	abi_fault(p, 0, &r, &fault);
	TAP(r.rip == HANDLER && u64_at(r.rsp + MC_TRAPNO) == 14 &&
	    u64_at(r.rsp + MC_ERR) == 6 && u64_at(r.rsp + MC_CR2) == 0xdead000);
	TAP(u64_at(r.rsi + 16) == 0xdead000 && u32_at(r.rsi + 8) == 1);
	tap_ok(ENDS(abi_fault(p, 0, &r, &fault)) && fake.exit_status == 11,
	       "a fault inside its own handler ends the process");
	reset_proc();
	set_action(11, HANDLER, ABI_SA_SIGINFO, 0);
	r = guest_regs();
	r.rsp = 0x1000;
	tap_ok(ENDS(abi_fault(p, 0, &r, &fault)) && fake.exit_status == 11,
	       "a stack without space for a frame ends the process");
	reset_proc();
	set_action(10, HANDLER, 0, 0);
	r = guest_regs();
	r.rsp = page + 64;
	tap_ok(ENDS(do_call(&r, ABI_NR_tkill, 4242, 10, 0)) &&
		       fake.exit_status == 11,
	       "no frame is written below the stack");
}

/* Hostile frames ------------------------------------------------------------
 */

static u64 frame_make(struct abi_regs *r)
{
	reset_proc();
	set_action(10, HANDLER, ABI_SA_SIGINFO, 0);
	*r = guest_regs();
	do_call(r, ABI_NR_tkill, 4242, 10, 0);
	return r->rsp;
}

static u32 load_refuses;

static s64 vec_load(const void *buf, u64 len)
{
	u32 mxcsr;

	memcpy(&mxcsr, (const u8 *)buf + 24, 4);
	load_refuses += mxcsr >> 16 || len < 576;
	return 0;
}

static void test_hostile(void)
{
	struct abi_regs r;
	u64 f = frame_make(&r);

	*(u64 *)(f + MC_RIP) = page;
	tap_ok(ENDS(sigreturn_at(0, &r)) && fake.exit_status == 11,
	       "sigreturn to data ends the process");
	f = frame_make(&r);
	p->vdso = page;
	p->vdso_end = page + 0x100;
	*(u64 *)(f + MC_RIP) = page + 0xff;
	tap_ok(!ENDS(sigreturn_at(0, &r)) && r.rip == page + 0xff,
	       "sigreturn into the vDSO goes on there");
	f = frame_make(&r);
	p->vdso = page;
	p->vdso_end = page + 0x100;
	*(u64 *)(f + MC_RIP) = page + 0x100;
	tap_ok(ENDS(sigreturn_at(0, &r)), "sigreturn behind the vDSO");
	f = frame_make(&r);
	*(u64 *)(f + MC_RIP) = 0x8000000000000000ull;
	tap_ok(ENDS(sigreturn_at(0, &r)), "sigreturn to no address");
	f = frame_make(&r);
	*(u64 *)(f + MC_RSP) = 0xffff800000000000ull;
	tap_ok(ENDS(sigreturn_at(0, &r)), "sigreturn to a kernel stack");
	f = frame_make(&r);
	*(u64 *)(f + MC_FP) = page + 8;
	tap_ok(ENDS(sigreturn_at(0, &r)), "vector state that is not aligned");
	f = frame_make(&r);
	*(u32 *)(u64_at(f + MC_FP) + 24) = 0x10000;
	tap_ok(ENDS(sigreturn_at(0, &r)), "reserved bits of mxcsr");
	f = frame_make(&r);
	*(u64 *)(u64_at(f + MC_FP) + 520) = 1;
	tap_ok(ENDS(sigreturn_at(0, &r)), "a compacted header");
	f = frame_make(&r);
	*(u64 *)(f + MC_FP) = 0;
	TAP(!ENDS(sigreturn_at(0, &r)));
	f = frame_make(&r);
	*(u64 *)(f + MC_FLAGS) = ~0ull;
	sigreturn_at(0, &r);
	tap_ok(r.rflags == 0xed7, "sigreturn sets only flags of its own");
	f = frame_make(&r);
	*(u64 *)(f + UC_MASK) = ~0ull;
	sigreturn_at(0, &r);
	TAP(p->threads.thread[0].blocked == ~(BIT(9) | BIT(19)));
	reset_proc();
	r = guest_regs();
	r.rsp = 0;
	tap_ok(ENDS(sigreturn_at(0, &r)), "sigreturn without a frame");
}

static void test_random(void)
{
	struct abi_regs r;
	volatile u64 i, ended = 0;
	u64 f;
	volatile u32 seed = 1;
	u32 n, k;
	volatile u32 bad = 0;

	f = frame_make(&r);
	fake.host.vec_load = vec_load;
	for (i = 0; i < 3000; i++) {
		r = guest_regs();
		p->signals.action[9].handler = HANDLER;
		p->threads.thread[0].blocked = 0;
		p->threads.thread[0].alt_flags = ABI_SS_DISABLE;
		if (ENDS(do_call(&r, ABI_NR_tkill, 4242, 10, 0)))
			continue;
		f = r.rsp;
		n = 1 + i % 4;
		for (k = 0; k < n; k++) {
			seed = seed * 1664525 + 1013904223;
			*(u8 *)(f + (seed >> 8) % (STACK - f)) ^=
				(u8)(1 + seed % 255);
		}
		if (ENDS(sigreturn_at(0, &r)))
			ended++;
		else
			bad += r.rip >> 47 || r.rsp >> 47 ||
			       (r.rflags & ~0xed7ull);
	}
	tap_ok(!bad && !load_refuses && ended > 10 && ended < 2900,
	       "3000 damaged frames give clean registers or an end");
}

/* Interrupted calls ----------------------------------------------------------
 */

struct blocked {
	u32 index;
	struct abi_regs regs;
	enum abi_return how;
	u32 done;
	pthread_t id;
};

static void *blocked_main(void *arg)
{
	struct blocked *b = arg;

	b->how = abi_syscall(p, b->index, &b->regs);
	__atomic_store_n(&b->done, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void blocked_start(struct blocked *b, u32 nr, u64 a0, u64 a1, u64 a2,
			  u64 a3)
{
	b->done = 0;
	b->regs.rax = nr;
	b->regs.rdi = a0;
	b->regs.rsi = a1;
	b->regs.rdx = a2;
	b->regs.r10 = a3;
	pthread_create(&b->id, NULL, blocked_main, b);
	TAP(WAIT_FOR(__atomic_load_n(&p->threads.thread[b->index].park,
				     __ATOMIC_SEQ_CST) == ABI_PARK_ASLEEP));
}

static u32 tid_of(const struct blocked *b)
{
	return p->threads.thread[b->index].tid;
}

static void blocked_new(struct blocked *b)
{
	reset_proc();
	b->index = guest_thread()->index;
	b->regs = guest_regs();
}

static void test_eintr(void)
{
	struct blocked b;

	blocked_new(&b);
	set_action(10, HANDLER, 0, 0);
	*(u32 *)page = 0;
	blocked_start(&b, ABI_NR_futex, page, FUTEX_WAIT, 0, 0);
	TAP(CALL(tgkill, 4242, tid_of(&b), 10) == 0);
	pthread_join(b.id, NULL);
	TAP(b.how == ABI_RETURN_FULL && b.regs.rip == HANDLER);
	tap_ok(fake.kicks == 1, "the target is kicked once");
	sigreturn_at(b.index, &b.regs);
	tap_ok((s64)b.regs.rax == -LINUX_EINTR, "without SA_RESTART: EINTR");

	((u64 *)page)[8] = 5;
	((u64 *)page)[9] = 0;
	set_action(10, HANDLER, ABI_SA_RESTART, 0);
	blocked_start(&b, ABI_NR_nanosleep, page + 64, page + 96, 0, 0);
	CALL(tgkill, 4242, tid_of(&b), 10);
	pthread_join(b.id, NULL);
	sigreturn_at(b.index, &b.regs);
	tap_ok((s64)b.regs.rax == -LINUX_EINTR && ((u64 *)page)[12] <= 4 &&
		       ((u64 *)page)[13] < ABI_NS,
	       "a sleep is not restarted and returns the remaining time");
}

static void test_restart(void)
{
	struct blocked b;

	blocked_new(&b);
	set_action(10, HANDLER, ABI_SA_RESTART, 0);
	*(u32 *)page = 0;
	b.regs.rbx = 77;
	blocked_start(&b, ABI_NR_futex, page, FUTEX_WAIT, 0, 0);
	CALL(tgkill, 4242, tid_of(&b), 10);
	pthread_join(b.id, NULL);
	TAP(b.regs.rip == HANDLER);
	TAP(u64_at(b.regs.rsp + MC + 13 * 8) == ABI_NR_futex);
	TAP(u64_at(b.regs.rsp + MC_RIP) == guest_regs().rip - 2);
	/* The handler returns: the wait goes on. */
	b.regs.rsp += 8;
	blocked_start(&b, NR_SIGRETURN, 0, 0, 0, 0);
	TAP(CALL(futex, page, FUTEX_WAKE, 1) == 1);
	pthread_join(b.id, NULL);
	tap_ok(b.how == ABI_RETURN_FULL && b.regs.rax == 0 &&
		       b.regs.rip == guest_regs().rip && b.regs.rbx == 77 &&
		       b.regs.rsp == guest_regs().rsp,
	       "with SA_RESTART the call goes on and then returns");
	/* A handler that goes elsewhere: no call is run again. */
	b.regs = guest_regs();
	blocked_start(&b, ABI_NR_futex, page, FUTEX_WAIT, 0, 0);
	CALL(tgkill, 4242, tid_of(&b), 10);
	pthread_join(b.id, NULL);
	*(u64 *)(b.regs.rsp + MC_RIP) = text + 0x40;
	sigreturn_at(b.index, &b.regs);
	tap_ok(b.regs.rip == text + 0x40 && b.regs.rax == ABI_NR_futex,
	       "after a handler changed rip, rax holds the call's number");
}

/* The signal is gone when the waiter looks: it waits on as if never woken. */
static void test_no_handler(void)
{
	struct blocked b;
	u64 start = guest_now(ABI_CLOCK_MONOTONIC), took, i;

	blocked_new(&b);
	set_mask(SIG_SETMASK, BIT(10));
	mask_at(b.index, SIG_SETMASK, 0);
	set_action(10, HANDLER, 0, 0);
	((u64 *)page)[8] = 0;
	((u64 *)page)[9] = 200000000;
	blocked_start(&b, ABI_NR_nanosleep, page + 64, 0, 0, 0);
	for (i = 0; i < 20; i++) {
		/* Takes the action away between the kick and delivery. */
		abi_lock(p, &p->signals.lock);
		p->signals.pending = BIT(10);
		p->signals.action[9].handler = ABI_SIG_IGN;
		abi_unlock(p, &p->signals.lock);
		abi_thread_unpark(p, abi_thread_get(p, b.index));
		WAIT_FOR(!__atomic_load_n(&p->signals.pending,
					  __ATOMIC_SEQ_CST));
	}
	pthread_join(b.id, NULL);
	took = guest_now(ABI_CLOCK_MONOTONIC) - start;
	tap_ok(b.regs.rax == 0 && b.how == ABI_RETURN_FAST &&
		       took >= 200000000 && took < 3 * ABI_NS,
	       "an ignored signal neither ends nor lengthens a sleep");
}

static void test_suspend(void)
{
	struct blocked b;

	blocked_new(&b);
	set_action(10, HANDLER, 0, 0);
	mask_at(b.index, SIG_SETMASK, BIT(10) | BIT(12));
	*(u64 *)(page + 64) = BIT(12);
	blocked_start(&b, ABI_NR_rt_sigsuspend, page + 64, 8, 0, 0);
	CALL(tgkill, 4242, tid_of(&b), 10);
	pthread_join(b.id, NULL);
	TAP(b.regs.rip == HANDLER);
	TAP(u64_at(b.regs.rsp + UC_MASK) == (BIT(10) | BIT(12)));
	sigreturn_at(b.index, &b.regs);
	tap_ok((s64)b.regs.rax == -LINUX_EINTR &&
		       p->threads.thread[b.index].blocked ==
			       (BIT(10) | BIT(12)),
	       "sigsuspend gives EINTR and the old mask back");
	b.regs = guest_regs();
	*(u64 *)(page + 64) = BIT(12);
	blocked_start(&b, ABI_NR_rt_sigtimedwait, page + 64, page + 128, 0, 8);
	CALL(tgkill, 4242, tid_of(&b), 12);
	pthread_join(b.id, NULL);
	tap_ok(b.regs.rax == 12 && u32_at(page + 128) == 12 &&
		       b.how == ABI_RETURN_FAST,
	       "sigtimedwait takes a blocked signal, even one not handled");
}

static void test_shared(void)
{
	struct blocked b;

	blocked_new(&b);
	set_action(10, HANDLER, 0, 0);
	set_mask(SIG_SETMASK, BIT(10));
	blocked_start(&b, ABI_NR_pause, 0, 0, 0, 0);
	CALL(kill, 4242, 10);
	pthread_join(b.id, NULL);
	tap_ok(b.regs.rip == HANDLER, "a signal for the process goes to a "
				      "thread that does not block it");
	/* All block it; then one unblocks. */
	sigreturn_at(b.index, &b.regs);
	mask_at(b.index, SIG_SETMASK, BIT(10));
	CALL(kill, 4242, 10);
	TAP(!abi_pending(p, b.index));
	b.regs = guest_regs();
	*(u64 *)(page + 64) = 0;
	b.regs.rax = ABI_NR_rt_sigprocmask;
	b.regs.rdi = SIG_SETMASK;
	b.regs.rsi = page + 64;
	b.regs.r10 = 8;
	abi_syscall(p, b.index, &b.regs);
	TAP(b.regs.rip == HANDLER);
}

static void test_vec_size(void)
{
	static const u64 size[] = {0, 512, 575, 4097, 8192};
	struct abi_proc *other;
	u32 i, bad = 0;

	reset_proc();
	other = calloc(1, abi_proc_size());
	for (i = 0; i < 5; i++) {
		fake.info.xsave_size = size[i];
		memset(other, 0, abi_proc_size());
		bad += abi_proc_init(other, &fake.host) != -LINUX_EINVAL;
	}
	free(other);
	tap_ok(!bad && fake.logs == 5,
	       "vector state that fits no frame is refused");
}

static void test_tick(void)
{
	struct abi_regs r, before;

	reset_proc();
	r = before = guest_regs();
	TAP(abi_tick(p, 0, &r) == ABI_RETURN_FAST &&
	    !memcmp(&r, &before, sizeof(r)));
	set_action(10, HANDLER, 0, 0);
	guest_thread();
	CALL_AT(1, tgkill, 4242, 4242, 10);
	TAP(abi_pending(p, 0) && fake.kicks == 1);
	TAP(abi_tick(p, 0, &r) == ABI_RETURN_FULL && r.rip == HANDLER);
	sigreturn_at(0, &r);
	tap_ok(!memcmp(&r, &before, sizeof(r)),
	       "a signal between two instructions leaves no trace");
}

/* Storm: two threads hand a word back and forth while a third sends signals. */

#define TURNS 2000

static u32 storm_over, handled;

/* A call as a guest sees it: handlers run and return in between. */
static s64 storm_call(u32 t, u64 gaddr, u32 op, u32 value)
{
	struct abi_regs r = guest_regs();

	r.rsp = page + 0x4000 * (t + 1);
	r.rax = ABI_NR_futex;
	r.rdi = gaddr;
	r.rsi = op;
	r.rdx = value;
	abi_syscall(p, t, &r);
	while (r.rip == HANDLER) {
		__atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
		sigreturn_at(t, &r);
	}
	return (s64)r.rax;
}

static void *storm_player(void *arg)
{
	u32 t = (u32)(u64)arg, turn, value;
	u32 *word = (u32 *)page;

	for (turn = 0; turn < TURNS; turn++) {
		while ((value = __atomic_load_n(word, __ATOMIC_SEQ_CST)) % 2 !=
		       t - 1)
			storm_call(t, page, FUTEX_WAIT, value);
		__atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
		storm_call(t, page, FUTEX_WAKE, 1);
	}
	__atomic_add_fetch(&storm_over, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void test_storm(void)
{
	pthread_t id[2];
	u32 sent = 0;

	reset_proc();
	set_action(10, HANDLER, ABI_SA_RESTART, 0);
	set_action(12, HANDLER, 0, 0);
	set_mask(SIG_SETMASK, ~0ull);
	guest_thread();
	guest_thread();
	*(u32 *)page = 0;
	/* A signal waits before they begin: on a busy machine they may be
	 * done before this thread runs again. */
	CALL(tgkill, 4242, 4243, 12);
	sent += CALL(kill, 4242, 10) == 0;
	pthread_create(&id[0], NULL, storm_player, (void *)1);
	pthread_create(&id[1], NULL, storm_player, (void *)2);
	while (__atomic_load_n(&storm_over, __ATOMIC_SEQ_CST) < 2) {
		CALL(tgkill, 4242, 4243 + sent % 2, sent % 3 ? 10 : 12);
		sent += CALL(kill, 4242, 10) == 0;
		sched_yield();
	}
	pthread_join(id[0], NULL);
	pthread_join(id[1], NULL);
	tap_ok(*(u32 *)page == 2 * TURNS && handled > 0 && sent > 0,
	       "no wake-up is lost under a storm of signals");
}

int main(void)
{
	test_storm();
	test_arguments();
	test_frame();
	test_flags();
	test_blocked();
	test_queue();
	test_default();
	test_vsyscall();
	test_hostile();
	test_random();
	test_eintr();
	test_restart();
	test_no_handler();
	test_suspend();
	test_shared();
	test_tick();
	test_vec_size();
	guest_free();
	return tap_done();
}
