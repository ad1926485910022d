// SPDX-License-Identifier: MIT
/*
 * The functions that start.S calls when a core enters ring 0, and sms's panic,
 * which stops the partition, never the machine.
 */
#include "kernel.h"

#define PF_WRITE 2
#define PF_RESERVED 8
#define PF_FETCH 16
#define TRAP_PAGE 14

#define SIGILL 4
#define SIGTRAP 5
#define SIGBUS 7
#define SIGFPE 8
#define SIGSEGV 11
#define CODE_KERNEL 0x80

/* In the order in which start.S pushes the registers. */
struct trap_nmi {
	u64 rax, rbx, rcx, rdx, rsi, rdi, rbp;
	u64 r8, r9, r10, r11, r12, r13, r14, r15;
	u64 rip, cs, rflags, rsp, ss;
};

enum abi_return sms_trap_call(struct core *c, struct abi_regs *regs);
void sms_trap_tick(struct core *c, struct abi_regs *regs);
void sms_trap_user(struct core *c, struct abi_regs *regs, u64 vector,
		   u64 error);
void sms_trap_wild(struct core *c, struct abi_regs *regs);
void sms_trap_own(u64 vector, u64 error, u64 *at);
void sms_trap_nmi(struct core *c, struct trap_nmi *n);

static u64 fault_address(void)
{
	u64 addr;

	__asm__ volatile("mov %%cr2, %0" : "=r"(addr));
	return addr;
}

enum abi_return sms_trap_call(struct core *c, struct abi_regs *regs)
{
	enum abi_return how;

	SMS_COUNT(c, calls);
	how = abi_syscall(sms_proc, c->thread, regs);
	sms_poll_look(sms_core());
	return how;
}

void sms_trap_tick(struct core *c, struct abi_regs *regs)
{
	__atomic_store_n(&c->kicked, 0, __ATOMIC_SEQ_CST);
	sms_events_take();
	/* Threads whose wait for a handle is over run first. */
	if (sms_poll_look(c))
		__atomic_store_n(&c->turn, 1, __ATOMIC_SEQ_CST);
	sms_thread_turn();
	abi_tick(sms_proc, sms_core()->thread, regs);
}

static u32 prot_of(u64 error)
{
	if (error & PF_FETCH)
		return ABI_PROT_EXEC;
	return error & PF_WRITE ? ABI_PROT_WRITE : ABI_PROT_READ;
}

static void put_mib(struct abi_text *t, const char *before, u64 bytes,
		    const char *after)
{
	abi_text_str(t, before);
	abi_text_dec(t, bytes >> 20);
	abi_text_str(t, after);
}

/* Appends which resource is exhausted. */
static void explain_lack(char *line, u64 size)
{
	u64 left = sms_pool_free_bytes(), all = sms_pool_bytes();
	struct abi_text t;

	abi_text_init(&t, line, size);
	abi_text_str(&t, "out of memory: ");
	if (!left) {
		put_mib(&t, "the program uses all ", all,
			" MiB that the partition has for programs: create it "
			"with more (skep part create --mem)");
		return;
	}
	put_mib(&t, "no space is left for page tables, of ",
		sms_partition->kernel_size, " MiB for sms itself; ");
	put_mib(&t, "", left,
		" MiB for programs are free: the memory in use is too "
		"scattered; use a larger partition");
}

/* 1: the page is mapped now, else 0. */
static int page_fault(struct core *c, u64 error, struct abi_fault *f)
{
	char line[256];
	int got;

	f->addr = fault_address();
	if (error & PF_RESERVED)
		sms_panic("page tables are damaged, address", f->addr, error);
	got = sms_memory_touch(f->addr, prot_of(error));
	if (got > 0)
		return 1;
	f->signo = SIGSEGV;
	f->code = abi_mapped(sms_proc, f->addr, 1, 0) ? 2 : 1;
	if (got < 0) {
		explain_lack(line, sizeof(line));
		sms_forward_log(line);
		f->signo = SIGBUS;
		f->code = 2; /* BUS_ADRERR */
	}
	(void)c;
	return 0;
}

static void other_fault(const struct abi_regs *regs, u64 vector,
			struct abi_fault *f)
{
	f->signo = SIGSEGV;
	f->code = CODE_KERNEL;
	switch (vector) {
	case 0:
		f->signo = SIGFPE;
		f->code = 1; /* FPE_INTDIV */
		f->addr = regs->rip;
		break;
	case 1:
		f->signo = SIGTRAP;
		f->code = 2; /* TRAP_TRACE */
		f->addr = regs->rip;
		break;
	case 3:
		f->signo = SIGTRAP;
		break;
	case 6:
		f->signo = SIGILL;
		f->code = 2; /* ILL_ILLOPN */
		f->addr = regs->rip;
		break;
	case 16:
	case 19:
		f->signo = SIGFPE;
		f->code = 3; /* FPE_FLTDIV: the most likely cause */
		f->addr = regs->rip;
		break;
	case 17:
		f->signo = SIGBUS;
		f->code = 1; /* BUS_ADRALN */
		break;
	}
}

void sms_trap_user(struct core *c, struct abi_regs *regs, u64 vector, u64 error)
{
	struct abi_fault f = {.trapno = vector, .error = error};

	SMS_COUNT(c, faults);
	if (vector != TRAP_PAGE)
		other_fault(regs, vector, &f);
	else if (page_fault(c, error, &f))
		return;
	abi_fault(sms_proc, c->thread, regs, &f);
	sms_poll_look(sms_core());
}

/* The fault that a processor would report: general protection at the target. */
void sms_trap_wild(struct core *c, struct abi_regs *regs)
{
	struct abi_fault f = {
		.signo = SIGSEGV, .code = CODE_KERNEL, .trapno = 13};

	SMS_COUNT(c, faults);
	abi_fault(sms_proc, c->thread, regs, &f);
}

/* Handles faults in ring 0: abi's tables on first touch, and the program's
 * memory in abi's copies. */
void sms_trap_own(u64 vector, u64 error, u64 *at)
{
	u64 addr = vector == TRAP_PAGE ? fault_address() : 0, next;

	if (vector == TRAP_PAGE &&
	    (addr >= SKEP_ARENA_END
		     ? sms_page_lazy(addr)
		     : sms_memory_touch(addr, prot_of(error)) > 0))
		return;
	next = abi_copy_resume(at[0]);
	if (!next)
		sms_panic(vector == TRAP_PAGE ? "sms itself failed at"
					      : "sms itself got a trap at",
			  at[0], vector == TRAP_PAGE ? addr : vector);
	at[0] = next;
}

static void take_regs(struct abi_regs *to, const struct trap_nmi *n)
{
	*to = (struct abi_regs){
		.rax = n->rax,
		.rbx = n->rbx,
		.rcx = n->rcx,
		.rdx = n->rdx,
		.rsi = n->rsi,
		.rdi = n->rdi,
		.rbp = n->rbp,
		.rsp = n->rsp,
		.r8 = n->r8,
		.r9 = n->r9,
		.r10 = n->r10,
		.r11 = n->r11,
		.r12 = n->r12,
		.r13 = n->r13,
		.r14 = n->r14,
		.r15 = n->r15,
		.rip = n->rip,
		.rflags = n->rflags,
	};
}

/* For an NMI in the program, or on the way back to it: abi checks first. */
static void redirect_program(struct core *c, struct trap_nmi *n)
{
	if (n->cs & 3)
		take_regs(c->frame, n);
	else if (n->rip < (u64)sms_exit_begin || n->rip >= (u64)sms_exit_end)
		return; /* the exit path checks by itself */
	n->rip = (u64)sms_resume_tick;
	n->rdi = (u64)c;
	n->rsp = (u64)c->frame;
	n->cs = SELECT_CODE;
	n->ss = SELECT_DATA;
	n->rflags = 2;
}

/* Reasons for which the proxy may send an NMI. */
#define PROXY_REASONS                                                          \
	(1u << MAIL_NMI_EVENT | 1u << MAIL_NMI_SLICE | 1u << MAIL_NMI_ANSWER)

/* One NMI may have several reasons; one without a reason is foreign. */
static void count_nmi(struct core *c, u32 reasons)
{
	u32 i;

	for (i = 1; i < MAIL_NMIS; i++)
		if (reasons >> i & 1)
			SMS_COUNT(c, nmi[i]);
	if (!reasons)
		SMS_COUNT(c, nmi[MAIL_NMI_FOREIGN]);
}

static int is_between(const struct trap_nmi *n, const void *begin,
		      const void *end)
{
	return !(n->cs & 3) && n->rip >= (u64)begin && n->rip < (u64)end;
}

/* The reasons are cleared before the requests are handled, so a later request
 * comes with its own NMI. */
static void take_reasons(struct core *c)
{
	u32 word = skep_nmi_take(&sms_partition->nmi[c->number]);
	u32 proxys = word >> SKEP_NMI_LINUX_SHIFT & PROXY_REASONS;

	count_nmi(c, (word & SKEP_NMI_IMAGE) | proxys);
	if (proxys >> MAIL_NMI_SLICE & 1)
		__atomic_store_n(&c->turn, 1, __ATOMIC_SEQ_CST);
	if (proxys >> MAIL_NMI_ANSWER & 1)
		__atomic_store_n(&c->answered, 1, __ATOMIC_SEQ_CST);
	if (proxys)
		__atomic_store_n(&c->kicked, 1, __ATOMIC_SEQ_CST);
}

void sms_trap_nmi(struct core *c, struct trap_nmi *n)
{
	if (!c->ledger) { /* sms_cpu_open() was not called yet */
		c->count.nmi[MAIL_NMI_FOREIGN]++;
		return;
	}
	take_reasons(c);
	sms_core_flush(c);
	__atomic_store_n(&c->poked, 1, __ATOMIC_SEQ_CST);
	if (is_between(n, sms_idle_look, sms_idle_end + 1))
		n->rip = (u64)sms_idle_begin;
	else if (is_between(n, sms_wait_begin, sms_wait_end))
		n->rip = (u64)sms_wait_end;
	else if (is_between(n, sms_halt_begin, sms_halt_end))
		n->rip = (u64)sms_halt_end;
	else if (__atomic_load_n(&c->kicked, __ATOMIC_SEQ_CST))
		redirect_program(c, n);
}

void sms_panic(const char *what, u64 a, u64 b)
{
	static u32 said;
	struct abi_text text;
	char line[200];

	if (!sms_proc || __atomic_exchange_n(&said, 1, __ATOMIC_SEQ_CST))
		for (;;)
			__asm__ volatile("cli\n\thlt");
	abi_text_init(&text, line, sizeof(line));
	abi_text_str(&text, "defect: ");
	abi_text_str(&text, what);
	abi_text_str(&text, " 0x");
	abi_text_hex(&text, a, 1);
	abi_text_str(&text, ", 0x");
	abi_text_hex(&text, b, 1);
	sms_forward_panic(line);
}
