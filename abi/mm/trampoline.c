/* SPDX-License-Identifier: MIT */
/*
 * Trampolines: a few instructions that load constants and jump, generated at
 * run time. libffi writes its callbacks through one mapping of a file and runs
 * them in another, so no check before execution could cover them. Therefore
 * that memory is never executable: each call of a trampoline faults, and its
 * instructions are interpreted here, as they are at that moment. No state.
 */
#include "trampoline.h"
#include "space.h"
#include "abi/include/abi.h"
#include "abi/include/user.h"
#include "abi/proc/log.h"
#include "abi/state/proc.h"

#define STEPS 8 /* instructions of one trampoline, at most */
#define LONGEST 10
#define FLAG_CF 1

enum verdict { NO_TRAMPOLINE, NEXT, JUMPED };

static u64 *reg_at(struct abi_regs *r, u32 number)
{
	u64 *const order[16] = {
		&r->rax, &r->rcx, &r->rdx, &r->rbx, &r->rsp, &r->rbp,
		&r->rsi, &r->rdi, &r->r8,  &r->r9,  &r->r10, &r->r11,
		&r->r12, &r->r13, &r->r14, &r->r15,
	};

	return order[number & 15];
}

static u64 read_number(const u8 *at, u32 bytes)
{
	u64 value = 0;

	while (bytes--)
		value = value << 8 | at[bytes];
	return value;
}

static u64 read_s32(const u8 *at)
{
	return (u64)(s64)(s32)(u32)read_number(at, 4);
}

static enum verdict jump_to(struct abi_regs *r, u64 to)
{
	r->rip = to;
	return JUMPED;
}

/* jmp *disp(%rip), jmp *%reg: `op` is the byte after an optional REX. */
static enum verdict jump_indirect(struct abi_proc *p, struct abi_regs *r,
				  const u8 *op, u32 rex_b, u64 at)
{
	u64 to;

	if (op[1] >= 0xe0 && op[1] <= 0xe7)
		return jump_to(r, *reg_at(r, (op[1] & 7u) | rex_b));
	if (op[1] != 0x25 || ABI_GET(p, &to, at + 6 + read_s32(op + 2)))
		return NO_TRAMPOLINE;
	return jump_to(r, to);
}

static enum verdict go_on(struct abi_regs *r, u64 to)
{
	r->rip = to;
	return NEXT;
}

/* With a REX prefix: lea disp(%rip),%reg, mov $imm64,%reg, mov $imm32,%reg. */
static enum verdict run_rex(struct abi_proc *p, struct abi_regs *r,
			    const u8 *code)
{
	u32 rex = code[0], high = rex & 1 ? 8 : 0, wide = rex & 8;
	u64 next = r->rip + 7;

	if (code[1] == 0xff)
		return jump_indirect(p, r, code + 1, high, r->rip + 1);
	if (wide && code[1] == 0x8d && (code[2] & 0xc7) == 5) {
		*reg_at(r, (code[2] >> 3 & 7u) | (rex & 4 ? 8 : 0)) =
			next + read_s32(code + 3);
		return go_on(r, next);
	}
	if ((code[1] & 0xf8) != 0xb8)
		return NO_TRAMPOLINE;
	*reg_at(r, (code[1] & 7u) | high) = read_number(code + 2, wide ? 8 : 4);
	return go_on(r, r->rip + (wide ? 10 : 6));
}

static enum verdict run_one(struct abi_proc *p, struct abi_regs *r)
{
	u8 code[LONGEST];

	if (abi_user_get(p, code, r->rip, sizeof(code)))
		return NO_TRAMPOLINE;
	if (code[0] >> 4 == 4)
		return run_rex(p, r, code);
	switch (code[0]) {
	case 0xf3: /* endbr64 */
		return read_number(code, 4) == 0xfa1e0ff3 ? go_on(r, r->rip + 4)
							  : NO_TRAMPOLINE;
	case 0xf8: /* clc */
		r->rflags &= ~(u64)FLAG_CF;
		return go_on(r, r->rip + 1);
	case 0xf9: /* stc */
		r->rflags |= FLAG_CF;
		return go_on(r, r->rip + 1);
	case 0xe9: /* jmp */
		return jump_to(r, r->rip + 5 + read_s32(code + 1));
	case 0xff:
		return jump_indirect(p, r, code, 0, r->rip);
	default:
		return NO_TRAMPOLINE;
	}
}

static int is_alias_at(struct abi_proc *p, u64 addr)
{
	struct abi_area a;

	return abi_space_next(p, addr, &a) && a.start <= addr &&
	       abi_area_is_alias(&a);
}

int abi_trampoline_run(struct abi_proc *p, struct abi_regs *regs)
{
	struct abi_regs r = *regs;
	enum verdict how = NEXT;
	u32 steps;

	if (!is_alias_at(p, r.rip))
		return 0;
	for (steps = 0; steps < STEPS && how == NEXT; steps++)
		how = run_one(p, &r);
	if (how == JUMPED) {
		*regs = r;
		return 1;
	}
	abi_log_once(p, &p->space.said_alias,
		     "code in a shared mapping of a file that is open for "
		     "writing refused (SIGSEGV): only trampolines run there, "
		     "as libffi makes them for callbacks");
	return 0;
}
