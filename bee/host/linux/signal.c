/* SPDX-License-Identifier: MIT */
/*
 * Kicks and faults. The handler runs on the thread's alternate stack with all
 * signals blocked, touches only its own thread, and continues at one of the
 * labels of bee/core/entry.S; see bee.h, "Kicks".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ucontext.h>
#include <ucontext.h>

#include "host.h"

void lin_signal(int sig, siginfo_t *info, void *context, u64 fs);

extern const u8 __executable_start[], etext[]; /* symbols of the linker */

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};

static u64 read_slot(const struct lin_thread *t, u32 number)
{
	u64 value;

	memcpy(&value, t->teb + BEE_SLOT(number), 8);
	return value;
}

static void regs_from(struct abi_regs *r, const greg_t *g)
{
	r->rax = (u64)g[REG_RAX];
	r->rbx = (u64)g[REG_RBX];
	r->rcx = (u64)g[REG_RCX];
	r->rdx = (u64)g[REG_RDX];
	r->rsi = (u64)g[REG_RSI];
	r->rdi = (u64)g[REG_RDI];
	r->rbp = (u64)g[REG_RBP];
	r->rsp = (u64)g[REG_RSP];
	r->r8 = (u64)g[REG_R8];
	r->r9 = (u64)g[REG_R9];
	r->r10 = (u64)g[REG_R10];
	r->r11 = (u64)g[REG_R11];
	r->r12 = (u64)g[REG_R12];
	r->r13 = (u64)g[REG_R13];
	r->r14 = (u64)g[REG_R14];
	r->r15 = (u64)g[REG_R15];
	r->rip = (u64)g[REG_RIP];
	r->rflags = (u64)g[REG_EFL];
}

/*
 * Whether the guest has jumped to an address without code. bee's own code would
 * be inside bee's text, or have the host's FS, or run on its host stack.
 */
static int wild_jump(const struct lin_thread *t, const greg_t *g, u64 fs)
{
	u64 pc = (u64)g[REG_RIP], rsp = (u64)g[REG_RSP];
	u64 top = (u64)(__UINTPTR_TYPE__)t->bee.frame;

	return fs == LIN_GUARD && t->bee.guest_fs == LIN_GUARD &&
	       (pc < (u64)(__UINTPTR_TYPE__)__executable_start ||
		pc >= (u64)(__UINTPTR_TYPE__)etext) &&
	       (rsp > top || rsp < top - LIN_HOST_STACK);
}

/* Copies the guest's registers into the frame; 0 if bee's code was
 * interrupted. */
static int take_frame(struct lin_thread *t, const greg_t *g, u64 fs)
{
	struct abi_regs *frame = t->bee.frame;

	switch (bee_pc_where((u64)g[REG_RIP])) {
	case BEE_PC_GUEST:
		regs_from(frame, g);
		return 1;
	case BEE_PC_STUB:
		regs_from(frame, g);
		bee_stub_undo(frame, read_slot(t, SKEP_SLOT_SCRATCH),
			      read_slot(t, SKEP_SLOT_SCRATCH2));
		return 1;
	case BEE_PC_EXIT:
		return 1;
	case BEE_PC_BEE:
		break;
	}
	if (!wild_jump(t, g, fs))
		return 0;
	regs_from(frame, g);
	return 1;
}

static void on_kick(struct lin_thread *t, greg_t *g, u64 fs)
{
	if (take_frame(t, g, fs)) {
		g[REG_RIP] = (greg_t)(__UINTPTR_TYPE__)bee_resume_tick;
		return;
	}
	__atomic_store_n(&t->bee.kicked, 1, __ATOMIC_SEQ_CST);
	if ((u64)g[REG_RIP] >= (u64)(__UINTPTR_TYPE__)lin_block_begin &&
	    (u64)g[REG_RIP] < (u64)(__UINTPTR_TYPE__)lin_block_end)
		g[REG_RIP] = (greg_t)(__UINTPTR_TYPE__)lin_block_out;
}

static void say_pc(const char *what, u64 pc, u64 addr)
{
	struct abi_text text;
	char line[200];

	abi_text_init(&text, line, sizeof(line));
	abi_text_str(&text, what);
	abi_text_str(&text, " at pc 0x");
	abi_text_hex(&text, pc, 1);
	abi_text_str(&text, ", address 0x");
	abi_text_hex(&text, addr, 1);
	bee_os_message(line);
}

static void on_fault(struct lin_thread *t, int sig, const siginfo_t *info,
		     greg_t *g, u64 fs)
{
	u64 addr = (u64)(__UINTPTR_TYPE__)info->si_addr;
	u64 pc = (u64)g[REG_RIP];

	if (sig == SIGSEGV && addr >= LIN_GUARD_START &&
	    addr < LIN_GUARD_START + LIN_GUARD_SIZE) {
		say_pc("defect: the program accessed the host's fs:", pc, addr);
		lin_proc_exit(SIGSEGV);
	}
	if (!take_frame(t, g, fs)) {
		say_pc("defect: bee itself failed", pc, addr);
		lin_proc_exit((u32)sig);
	}
	t->bee.fault.signo = (u32)sig;
	t->bee.fault.code = info->si_code;
	t->bee.fault.addr = addr;
	t->bee.fault.trapno = (u64)g[REG_TRAPNO];
	t->bee.fault.error = (u64)g[REG_ERR];
	g[REG_RIP] = (greg_t)(__UINTPTR_TYPE__)bee_resume_fault;
}

/* abi was accessing guest memory that another thread has unmapped, and handles
 * that. */
static int go_on(greg_t *g)
{
	u64 next = abi_copy_resume((u64)g[REG_RIP]);

	if (next)
		g[REG_RIP] = (greg_t)next;
	return next != 0;
}

/* fs: the FS base of the interrupted code. A non-canonical pointer has no fault
 * address on Linux. */
void lin_signal(int sig, siginfo_t *info, void *context, u64 fs)
{
	ucontext_t *uc = context;
	greg_t *g = uc->uc_mcontext.gregs;
	struct lin_thread *t = lin_self();
	int saved = errno;

	if (sig == LIN_KICK && info->si_code == SI_QUEUE)
		lin_helper_call(info);
	else if (sig == LIN_KICK)
		on_kick(t, g, fs);
	else if (info->si_code > 0 && !go_on(g))
		on_fault(t, sig, info, g, fs);
	else if (info->si_code <= 0)
		lin_signal_sent(sig, info);
	errno = saved;
}

int lin_signal_init(void)
{
	struct sigaction sa;
	u32 i;

	memset(&sa, 0, sizeof(sa));
	sigfillset(&sa.sa_mask);
	sa.sa_flags = SA_SIGINFO | SA_ONSTACK;
	sa.sa_sigaction = (void (*)(int, siginfo_t *, void *))lin_signal_entry;
	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (sigaction(faults[i], &sa, NULL))
			return -errno;
	if (sigaction(LIN_KICK, &sa, NULL))
		return -errno;
	sa.sa_flags = 0;
	sa.sa_handler = SIG_IGN;
	return sigaction(SIGPIPE, &sa, NULL) ? -errno : 0;
}
