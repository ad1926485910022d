// SPDX-License-Identifier: MIT
/*
 * Hardware exceptions in guest code become signals.
 *
 * The parent is the debugger of this process and sends a faulting thread to
 * bee_fault_enter before Windows writes anything (debug.c). Without such a
 * parent, Windows first writes its exception record to the guest's stack, where
 * there may be no space (a Go stack may have only 2 KiB), and a vectored
 * handler handles it. Both only copy registers into the thread's frame and
 * continue on the host stack with the guest's vector registers; this file is
 * compiled for general registers only, so the rest does not touch them. Owns
 * `faults`, written before guest threads exist.
 */
#include "win.h"
#include "view.h"
#include <stdio.h>

#define SIGILL 4
#define SIGTRAP 5
#define SIGBUS 7
#define SIGFPE 8
#define SIGSEGV 11

#define SI_KERNEL 0x80
#define SEGV_MAPERR 1
#define SEGV_ACCERR 2

#define X86_DE 0
#define X86_DB 1
#define X86_BP 3
#define X86_UD 6
#define X86_GP 13
#define X86_PF 14
#define X86_MF 16
#define X86_AC 17
#define X86_XM 19

#define PF_WRITE 2
#define PF_USER 4
#define PF_FETCH 16

static const struct {
	DWORD status;
	u16 signo;
	s16 code;
	u16 trapno;
} plain[] = {
	{EXCEPTION_IN_PAGE_ERROR, SIGBUS, 2, X86_PF},
	{EXCEPTION_DATATYPE_MISALIGNMENT, SIGBUS, 1, X86_AC},
	{EXCEPTION_INT_DIVIDE_BY_ZERO, SIGFPE, 1, X86_DE},
	{EXCEPTION_INT_OVERFLOW, SIGFPE, 1, X86_DE},
	{EXCEPTION_FLT_DIVIDE_BY_ZERO, SIGFPE, 3, X86_XM},
	{EXCEPTION_FLT_OVERFLOW, SIGFPE, 4, X86_XM},
	{EXCEPTION_FLT_UNDERFLOW, SIGFPE, 5, X86_XM},
	{EXCEPTION_FLT_INEXACT_RESULT, SIGFPE, 6, X86_XM},
	{EXCEPTION_FLT_INVALID_OPERATION, SIGFPE, 7, X86_XM},
	{EXCEPTION_FLT_DENORMAL_OPERAND, SIGFPE, 7, X86_XM},
	{EXCEPTION_FLT_STACK_CHECK, SIGFPE, 7, X86_MF},
	{EXCEPTION_ILLEGAL_INSTRUCTION, SIGILL, 2, X86_UD},
	{EXCEPTION_PRIV_INSTRUCTION, SIGSEGV, SI_KERNEL, X86_GP},
	{EXCEPTION_BREAKPOINT, SIGTRAP, SI_KERNEL, X86_BP},
	{EXCEPTION_SINGLE_STEP, SIGTRAP, 2, X86_DB},
};
#define PLAIN (sizeof(plain) / sizeof(plain[0]))

static const struct win_fault *faults; /* NULL: no parent handles them */

static void from_access(struct abi_fault *f, const EXCEPTION_RECORD *r)
{
	ULONG_PTR how = r->ExceptionInformation[0];

	f->signo = SIGSEGV;
	f->addr = r->ExceptionInformation[1];
	f->trapno = X86_PF;
	f->error = PF_USER;
	if (how == 1)
		f->error |= PF_WRITE;
	if (how == 8)
		f->error |= PF_FETCH;
	f->code = SEGV_MAPERR;		/* fault_finish may change it */
	if (f->addr == ~0ull && !how) { /* the address is not canonical */
		f->code = SI_KERNEL;
		f->addr = 0;
		f->trapno = X86_GP;
		f->error = 0;
	}
}

/* The index in `plain` of a status; the array's length if there is none. */
static u32 plain_find(DWORD status)
{
	u32 i;

	for (i = 0; i < PLAIN; i++)
		if (plain[i].status == status)
			break;
	return i;
}

/* Linux executes calls of this page under Wine. One that fails is a fault of
 * the program there, of which Wine makes an illegal instruction. */
static int in_vsyscall(const EXCEPTION_RECORD *r)
{
	return (u64)r->ExceptionAddress >> 12 == 0xffffffffff600;
}

/* 0: the guest cannot have caused this exception. */
static int fault_from(struct abi_fault *f, const EXCEPTION_RECORD *r)
{
	u32 i = plain_find(r->ExceptionCode);

	f->error = 0;
	if (r->ExceptionCode == EXCEPTION_ACCESS_VIOLATION) {
		from_access(f, r);
		return 1;
	}
	if (i == PLAIN)
		return 0;
	if (in_vsyscall(r)) {
		f->signo = SIGSEGV;
		f->code = SEGV_MAPERR;
		f->trapno = X86_PF;
		f->error = PF_USER | PF_FETCH;
		f->addr = (u64)r->ExceptionAddress;
		return 1;
	}
	f->signo = plain[i].signo;
	f->code = plain[i].code;
	f->trapno = plain[i].trapno;
	f->addr = (u64)r->ExceptionAddress;
	if (r->ExceptionCode == EXCEPTION_IN_PAGE_ERROR)
		f->addr = r->ExceptionInformation[1];
	return 1;
}

static int guest_address(u64 a)
{
	return (a >= SKEP_IMAGE_START && a < SKEP_IMAGE_END) ||
	       (a >= SKEP_ARENA_START && a < SKEP_ARENA_END);
}

/*
 * After a jump to a wrong address there is no code at pc. The stack shows
 * whether the guest or bee jumped.
 */
static int wild_jump(const EXCEPTION_RECORD *r, const CONTEXT *c)
{
	if ((u64)r->ExceptionAddress != c->Rip || !guest_address(c->Rsp))
		return 0;
	if (in_vsyscall(r))
		return 1;
	return r->ExceptionCode == EXCEPTION_ACCESS_VIOLATION &&
	       (r->ExceptionInformation[0] == 8 ||
		r->ExceptionInformation[1] == c->Rip);
}

/* Called in the parent, which knows only the address in the child. */
int bee_fault_is_guest(const EXCEPTION_RECORD *r, const CONTEXT *c)
{
	if (r->ExceptionCode != EXCEPTION_ACCESS_VIOLATION &&
	    plain_find(r->ExceptionCode) == PLAIN)
		return 0;
	return guest_address((u64)r->ExceptionAddress) || wild_jump(r, c);
}

/*
 * This function makes no calls, because the guest's vector registers may be
 * live.
 */
static u64 slot_scratch(void)
{
	u64 value;

	__asm__("mov %%gs:%c1, %0"
		: "=r"(value)
		: "i"(BEE_SLOT(SKEP_SLOT_SCRATCH)));
	return value;
}

static u64 slot_scratch2(void)
{
	u64 value;

	__asm__("mov %%gs:%c1, %0"
		: "=r"(value)
		: "i"(BEE_SLOT(SKEP_SLOT_SCRATCH2)));
	return value;
}

static void regs_copy(struct abi_regs *r, const CONTEXT *c, enum bee_pc where)
{
	r->rax = c->Rax;
	r->rbx = c->Rbx;
	r->rcx = c->Rcx;
	r->rdx = c->Rdx;
	r->rsi = c->Rsi;
	r->rdi = c->Rdi;
	r->rbp = c->Rbp;
	r->rsp = c->Rsp;
	r->r8 = c->R8;
	r->r9 = c->R9;
	r->r10 = c->R10;
	r->r11 = c->R11;
	r->r12 = c->R12;
	r->r13 = c->R13;
	r->r14 = c->R14;
	r->r15 = c->R15;
	r->rip = c->Rip;
	r->rflags = c->EFlags;
	if (where != BEE_PC_STUB)
		return;
	bee_stub_undo(r, slot_scratch(), slot_scratch2());
}

/* Runs on the host stack with the guest's vector registers. */
static void fault_finish(void)
{
	struct bee_thread *t = &bee_thread_self()->bee;
	struct abi_fault *f = &t->fault;

	if (f->trapno == X86_PF && f->signo == SIGSEGV &&
	    abi_mapped(t->proc, f->addr, 1, 0)) {
		f->code = SEGV_ACCERR;
		f->error |= 1;
	}
	bee_resume_fault();
}

static void report_defect(const EXCEPTION_RECORD *r, const CONTEXT *c)
{
	const char *name = bee_win_status_name(r->ExceptionCode);
	char line[200];

	snprintf(line, sizeof(line),
		 "defect in bee: %s (0x%08lx) at 0x%llx, address 0x%llx; "
		 "please report it with this line",
		 name ? name : "exception", r->ExceptionCode, c->Rip,
		 (u64)(r->NumberParameters > 1 ? r->ExceptionInformation[1]
					       : 0));
	bee_os_message(line);
}

/* Windows also reports debug output and names of threads as exceptions. */
static int is_error(DWORD code)
{
	return code >= 0xC0000000 && code != 0xE06D7363;
}

/*
 * abi accessed guest memory that another thread had unmapped, and handles the
 * fault. If a file is mapped there and its view can be extended to the page,
 * the access is repeated.
 */
static int go_on(const EXCEPTION_RECORD *r, CONTEXT *c)
{
	DWORD code = r->ExceptionCode;
	u64 next = 0;

	if (code == EXCEPTION_ACCESS_VIOLATION ||
	    code == EXCEPTION_IN_PAGE_ERROR)
		next = abi_copy_resume(c->Rip);
	if (!next)
		return 0;
	if (code == EXCEPTION_IN_PAGE_ERROR ||
	    !bee_in_window(r->ExceptionInformation[1]) ||
	    !abi_mapped(bee.proc, r->ExceptionInformation[1], 1,
			r->ExceptionInformation[0] == 1 ? ABI_PROT_WRITE
							: ABI_PROT_READ) ||
	    bee_view_reach(r->ExceptionInformation[1], 1, 1))
		c->Rip = next;
	return 1;
}

/*
 * Stores the fault and the guest's registers in the thread. 0: it is not a
 * fault of the guest.
 */
static int fault_take(struct bee_thread *t, const EXCEPTION_RECORD *r,
		      const CONTEXT *c)
{
	enum bee_pc where = bee_pc_where((u64)r->ExceptionAddress);

	if (where == BEE_PC_BEE && wild_jump(r, c))
		where = BEE_PC_GUEST;
	if ((where != BEE_PC_GUEST && where != BEE_PC_STUB) ||
	    !fault_from(&t->fault, r))
		return 0;
	regs_copy(t->frame, c, where);
	/* Linux reports the next instruction; Windows reports this one. */
	if (r->ExceptionCode == EXCEPTION_BREAKPOINT)
		t->frame->rip = (u64)r->ExceptionAddress + 1;
	return 1;
}

static LONG WINAPI on_exception(EXCEPTION_POINTERS *e)
{
	const EXCEPTION_RECORD *r = e->ExceptionRecord;
	struct win_thread *t = bee_thread_self();
	CONTEXT *c = e->ContextRecord;

	if (!t || !bee.proc)
		return EXCEPTION_CONTINUE_SEARCH;
	if (go_on(r, c))
		return EXCEPTION_CONTINUE_EXECUTION;
	if (!fault_take(&t->bee, r, c)) {
		if (is_error(r->ExceptionCode))
			report_defect(r, c);
		return EXCEPTION_CONTINUE_SEARCH;
	}
	c->Rip = (u64)fault_finish;
	c->Rsp = (u64)t->bee.frame - 40; /* as after a call instruction */
	c->EFlags &= ~0x500u;		 /* TF, DF */
	return EXCEPTION_CONTINUE_EXECUTION;
}

/*
 * The parent sends the thread here, on the host stack with the guest's vector
 * registers. The parent has checked the address. So if the fault cannot be
 * handled, the thread does not run the guest yet.
 */
__attribute__((used)) static void fault_enter(u32 index)
{
	struct bee_thread *t = &bee_thread_self()->bee;
	const struct win_fault *f = &faults[index];

	if (!fault_take(t, &f->record, &f->context))
		bee_proc_exit(SIGSEGV);
	fault_finish();
}

/* ecx is the index. The stack pointer may have any value. */
__attribute__((naked)) void bee_fault_enter(void)
{
	__asm__ volatile("mov %%gs:%c0, %%rdx\n\t"
			 "mov %c1(%%rdx), %%rsp\n\t"
			 "sub $32, %%rsp\n\t"
			 "call fault_enter\n\t"
			 "ud2"
			 :
			 : "i"(BEE_SLOT(SKEP_SLOT_THREAD)), "i"(BEE_T_FRAME));
}

int bee_fault_map(HANDLE section)
{
	faults = MapViewOfFile(section, FILE_MAP_READ, 0, 0, 0);
	return faults ? 0 : (int)GetLastError();
}

void bee_fault_install(void)
{
	AddVectoredExceptionHandler(1, on_exception);
}
