/* SPDX-License-Identifier: MIT */
/*
 * The functions that the entry code calls, the thread slots, and the gated host
 * table. Owns `bee` and the table; both are written before guest threads exist.
 *
 * Everything here may run with the guest's vector state in the registers and,
 * on Linux, with FS at the guard: so it uses general registers only, and no
 * libc.
 */
#include "abi/include/thread_state.h"
#include "bee/core/bee.h"
#include "bee/core/core.h"
#include "bee/core/freeze.h"
#include "bee/core/snapshot.h"

#define FLAG_DF 0x400
#define BEE_THREADS 1024 /* as many as abi has */

struct bee bee;
struct abi_host bee_gated;
void *bee_gate_real[BEE_GATE_OPS];
static s64 (*gated_thread_start)(u32 thread);
static s64 (*gated_clock)(u32 clock);
s64 (*bee_clock_quick)(u32 clock);

SKEP_ASSERT_SIZE(struct abi_host, BEE_GATE_OPS * 8);

/*
 * What a new thread inherits of its parent's floating point: MXCSR and the x87
 * control word, as clone(2) copies them. By index; written by the parent
 * before the child exists. Thread 0 starts as execve(2) does.
 */
struct floats {
	u32 mxcsr;
	u16 control;
};
static struct floats floats[BEE_THREADS] = {{0x1f80, 0x37f}};

/* A gs: slot of the calling thread. */
#define SLOT_SET(slot, value)                                                  \
	__asm__ volatile("mov %0, %%gs:%c1"                                    \
			 :                                                     \
			 : "r"((u64)(value)), "i"(BEE_SLOT(slot))              \
			 : "memory")

struct bee_thread *bee_self(void)
{
	struct bee_thread *t;

	__asm__("mov %%gs:%c1, %0" : "=r"(t) : "i"(BEE_SLOT(SKEP_SLOT_THREAD)));
	return t;
}

void bee_slots_fill(struct bee_thread *t)
{
	SLOT_SET(SKEP_SLOT_TP, 0);
	SLOT_SET(SKEP_SLOT_CANARY, 0);
	SLOT_SET(SKEP_SLOT_ENTRY, (__UINTPTR_TYPE__)bee_entry_syscall);
	SLOT_SET(SKEP_SLOT_THREAD, (__UINTPTR_TYPE__)t);
	SLOT_SET(SKEP_SLOT_CPU_ENTRY, (__UINTPTR_TYPE__)bee_entry_cpu);
}

/* glibc keeps the stack protector's canary at fs:0x28. */
void bee_slots_tp(u64 tp)
{
	u64 canary = 0;

	if (tp && abi_mapped(bee.proc, tp + 0x28, 8, ABI_PROT_READ))
		canary = *(const u64 *)(__UINTPTR_TYPE__)(tp + 0x28);
	SLOT_SET(SKEP_SLOT_TP, tp);
	SLOT_SET(SKEP_SLOT_CANARY, canary);
}

u64 bee_slots_canary(void)
{
	u64 canary;

	__asm__ volatile("mov %%gs:%c1, %0"
			 : "=r"(canary)
			 : "i"(BEE_SLOT(SKEP_SLOT_CANARY)));
	return canary;
}

/* musl stores the canary after it has set the thread pointer, so frames on the
 * stack have that of the slot. */
static void enter_forked(u64 tp)
{
	if (tp == bee.canary_tp)
		SLOT_SET(SKEP_SLOT_CANARY, bee.canary);
	(void)bee_vec_load(bee.vec, bee_xsave_size());
}

#define SLOT_GET(slot, value)                                                  \
	__asm__ volatile("mov %%gs:%c1, %0" : "=r"(value) : "i"(BEE_SLOT(slot)))

void bee_slots_read(u64 slot[3])
{
	SLOT_GET(SKEP_SLOT_CANARY, slot[0]);
	SLOT_GET(SKEP_SLOT_SCRATCH, slot[1]);
	SLOT_GET(SKEP_SLOT_SCRATCH2, slot[2]);
}

void bee_slots_write(const u64 slot[3])
{
	SLOT_SET(SKEP_SLOT_CANARY, slot[0]);
	SLOT_SET(SKEP_SLOT_SCRATCH, slot[1]);
	SLOT_SET(SKEP_SLOT_SCRATCH2, slot[2]);
}

/* abi also calls it for a new thread, which sets its slots itself when it
 * starts. */
static void thread_tp(u32 thread, u64 tp)
{
	if (bee_self()->index == thread)
		bee_slots_tp(tp);
}

/* Runs before the gate, with the parent's registers live. */
static s64 thread_start(u32 thread)
{
	struct floats *f = &floats[thread % BEE_THREADS];

	__asm__ volatile("stmxcsr %0\n\tfnstcw %1"
			 : "=m"(f->mxcsr), "=m"(f->control));
	return gated_thread_start(thread);
}

static s64 read_clock(u32 clock)
{
	s64 now = clock <= ABI_CLOCK_MONOTONIC ? bee_clock_quick(clock) : -1;

	return now < 0 ? gated_clock(clock) : now;
}

void bee_thread_init(struct bee_thread *t, u32 index, void *stack, u64 len,
		     u8 *vec)
{
	u64 top =
		((u64)(__UINTPTR_TYPE__)stack + len - BEE_FRAME_SIZE) & ~15ull;

	t->frame = (struct abi_regs *)(__UINTPTR_TYPE__)top;
	t->vec = vec;
	t->index = index;
	t->proc = bee.proc;
	/* A kick before the thread was registered must not be lost. */
	t->kicked = 1;
}

void bee_thread_enter(struct bee_thread *t)
{
	const struct floats *f = &floats[t->index % BEE_THREADS];

	*t->frame = *abi_thread_regs(bee.proc, t->index);
	t->frame->rip = bee_pc_resume(t->frame->rip);
	bee_slots_tp(abi_thread_tp(bee.proc, t->index));
	__asm__ volatile("ldmxcsr %0\n\tfldcw %1"
			 :
			 : "m"(f->mxcsr), "m"(f->control));
	if (bee.vec && !t->index)
		enter_forked(abi_thread_tp(bee.proc, 0));
	bee_restore_state(t->index);
	bee_enter(t);
}

static void trace_call(const struct bee_thread *t, const struct abi_regs *regs)
{
	const char *name = abi_syscall_name((u32)regs->rax);
	struct abi_text text;
	char line[160];

	abi_text_init(&text, line, sizeof(line));
	abi_text_str(&text, "trace ");
	abi_text_dec(&text, t->index);
	abi_text_str(&text, " ");
	if (name)
		abi_text_str(&text, name);
	else
		abi_text_dec(&text, regs->rax);
	abi_text_str(&text, "(0x");
	abi_text_hex(&text, regs->rdi, 1);
	abi_text_str(&text, ", 0x");
	abi_text_hex(&text, regs->rsi, 1);
	abi_text_str(&text, ", 0x");
	abi_text_hex(&text, regs->rdx, 1);
	abi_text_str(&text, ")");
	bee_gated.log(line);
}

static void trace_result(const struct bee_thread *t,
			 const struct abi_regs *regs)
{
	struct abi_text text;
	char line[80];

	abi_text_init(&text, line, sizeof(line));
	abi_text_str(&text, "trace ");
	abi_text_dec(&text, t->index);
	abi_text_str(&text, " = ");
	if ((s64)regs->rax < 0 && (s64)regs->rax > -4096) {
		abi_text_str(&text, "-");
		abi_text_dec(&text, -regs->rax);
	} else {
		abi_text_str(&text, "0x");
		abi_text_hex(&text, regs->rax, 1);
	}
	bee_gated.log(line);
}

/* A freeze has ended the call before the thread was kicked: it goes on in
 * bee_tick. */
static void check_redo(struct bee_thread *t)
{
	if (abi_thread_get(t->proc, t->index)->redo)
		__atomic_store_n(&t->kicked, 1, __ATOMIC_SEQ_CST);
}

u32 bee_call(struct bee_thread *t, struct abi_regs *regs)
{
	u64 flags = regs->rflags;
	enum abi_return how;

	if (bee.options->trace)
		trace_call(t, regs);
	how = abi_syscall(t->proc, t->index, regs);
	if (bee.options->trace)
		trace_result(t, regs);
	if (how == ABI_RETURN_FULL)
		regs->rip = bee_pc_resume(regs->rip);
	/* the fast return does not load flags, but C needs DF clear */
	else if (flags & FLAG_DF)
		how = ABI_RETURN_FULL;
	check_redo(t);
	return how;
}

void bee_tick(struct bee_thread *t)
{
	/* Cleared first, so that a later kick is not lost. */
	__atomic_store_n(&t->kicked, 0, __ATOMIC_SEQ_CST);
	bee_rest_here(t);
	abi_tick(t->proc, t->index, t->frame);
	check_redo(t);
	t->frame->rip = bee_pc_resume(t->frame->rip);
}

void bee_fault(struct bee_thread *t)
{
	abi_fault(t->proc, t->index, t->frame, &t->fault);
	t->frame->rip = bee_pc_resume(t->frame->rip);
}

void bee_cpu_call(struct abi_regs *regs, u32 is_xgetbv)
{
	u32 out[4];
	u64 value;

	if (is_xgetbv) {
		value = bee_xgetbv((u32)regs->rcx);
		regs->rax = (u32)value;
		regs->rdx = value >> 32;
		return;
	}
	bee_cpuid((u32)regs->rax, (u32)regs->rcx, out);
	regs->rax = out[0];
	regs->rbx = out[1];
	regs->rcx = out[2];
	regs->rdx = out[3];
}

/* Uses thunks for all functions, then the functions themselves where the gate
 * is not needed. */
void bee_gate_init(const struct abi_host *os)
{
	void **gated = (void **)&bee_gated;
	u32 i;

	abi_memcpy(bee_gate_real, os, sizeof(bee_gate_real));
	for (i = 0; i < BEE_GATE_OPS; i++)
		gated[i] = bee_gate_real[i]
				   ? (void *)(__UINTPTR_TYPE__)&bee_gate_thunks
					     [16 * i]
				   : 0;
	gated_clock = bee_gated.clock;
	if (bee_clock_quick)
		bee_gated.clock = read_clock;
	gated_thread_start = bee_gated.thread_start;
	bee_gated.thread_start = thread_start;
	bee_gated.thread_tp = thread_tp;
	bee_gated.vec_save = bee_vec_save;
	bee_gated.text_pc = bee_text_pc;
	bee_gated.vec_load = bee_vec_load;
}
