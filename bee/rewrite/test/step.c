/* SPDX-License-Identifier: MIT */
/*
 * Snippets run step by step under ptrace(2), as they are and rewritten. At
 * every PC of the rewritten run, the map must take the registers back to what
 * the original had at that guest PC.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "native.h"
#include "tests/tap.h"

#define ROOM 0x10000
#define STEPS_MAX 2000

static struct user_regs_struct seen[4096];
static u8 known[4096];

struct snippet {
	const char *name, *bytes;
	u64 len;
};
#define SNIPPET(name, bytes)                                                   \
	{                                                                      \
		name, bytes, sizeof(bytes) - 1                                 \
	}

/* Loads and stores that need a scratch register, calls, cpuid, getuid. */
static const struct snippet snippets[] = {
	SNIPPET("load", "\x64\x48\x8b\x04\x25\x10\0\0\0"),
	SNIPPET("load in place", "\x64\x48\x8b\x04\x25\0\0\0\0"),
	SNIPPET("store through a register", "\xba\x40\0\0\0\x64\x89\x02\x90"),
	SNIPPET("add with flags", "\x48\x83\xf8\x07\x64\x48\x03\x04\x25\x10\0"
				  "\0\0\x0f\x92\xc1"),
	SNIPPET("canary store", "\x64\x48\x89\x04\x25\x28\0\0\0"),
	SNIPPET("push", "\x64\xff\x34\x25\x10\0\0\0\x58"),
	SNIPPET("before a call",
		"\xba\x40\0\0\0\xeb\0\x64\x89\x02\xe8\0\0\0\0\x58"),
	SNIPPET("call through fs", "\x64\xff\x14\x25\x60\0\0\0\x58"),
	SNIPPET("system call", "\xb8\x66\0\0\0\x0f\x05\x48\x85\xc0"),
	SNIPPET("cpuid", "\x31\xc0\x31\xc9\x0f\xa2\x31\xc0\x31\xdb\x31\xd2"),
	SNIPPET("xgetbv", "\x31\xc9\x0f\x01\xd0\x48\x89\xc3"),
};

static void map_at(u64 addr)
{
	if (mmap((void *)(addr - ROOM), 2 * ROOM,
		 PROT_READ | PROT_WRITE | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
		 0) == MAP_FAILED)
		abort();
}

/* The snippet, then jmp *(%rip) to native_exit. */
static u64 put_text(const struct snippet *s)
{
	u8 *p = (u8 *)TEXT;
	u64 back = (u64)native_exit;

	memset(p, 0x90, 256);
	memcpy(p, s->bytes, s->len);
	memcpy(p + s->len, "\x90\x90\x90\x90\xff\x25\0\0\0\0", 10);
	memcpy(p + s->len + 10, &back, 8);
	/* where the call through fs goes: behind itself */
	back = TEXT + 8;
	memcpy((u8 *)TP + 0x60, &back, 8);
	back = TP;
	memcpy((u8 *)TP, &back, 8);
	return s->len + 10;
}

static int rewrite_snippet(u64 len, struct bee_map *map)
{
	struct bee_rewrite rw;

	set_slots();
	if (rewrite_text(len, &rw)) {
		printf("# %s\n", rw.why);
		return -1;
	}
	bee_map_from(map, &rw);
	return 0;
}

static pid_t start_tracee(u64 fs)
{
	pid_t pid;

	for (int i = 0; i < 16; i++)
		native_cpu.gpr[i] = 0x1111111111111111ull * (u64)(i + 1);
	native_cpu.gpr[4] = STACK;
	native_cpu.flags = 0x202;
	native_cpu.fs = fs;
	native_cpu.gs = (u64)teb;
	native_cpu.code = TEXT;
	pid = fork();
	if (pid)
		return pid;
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	native_run();
	_exit(0);
}

static u64 peek_slot(pid_t pid, u32 slot)
{
	return (u64)ptrace(PTRACE_PEEKDATA, pid,
			   teb + SKEP_TEB_SLOT_BASE + 8 * slot, 0);
}

static unsigned long long *reg_of(struct user_regs_struct *r, u32 n)
{
	unsigned long long *const order[16] = {
		&r->rax, &r->rcx, &r->rdx, &r->rbx, &r->rsp, &r->rbp,
		&r->rsi, &r->rdi, &r->r8,  &r->r9,  &r->r10, &r->r11,
		&r->r12, &r->r13, &r->r14, &r->r15};

	return order[n & 15];
}

/* As bee_stub_undo does it. */
static void undo_stub(pid_t pid, const struct bee_map *map,
		      struct user_regs_struct *r)
{
	struct bee_stub_pc state;

	if (!bee_map_find(map, r->rip, &state))
		return;
	if (state.scratch)
		*reg_of(r, state.scratch - 1u) =
			peek_slot(pid, SKEP_SLOT_SCRATCH);
	if (state.scratch2)
		*reg_of(r, state.scratch2 - 1u) =
			peek_slot(pid, SKEP_SLOT_SCRATCH2);
	if (state.pushed)
		r->rsp += 8;
	r->rip = state.guest;
}

/* rcx before a system call, r11 and flags after it, have no defined value. */
static int registers_agree(const struct snippet *s, struct user_regs_struct *r)
{
	const int system_call = !strcmp(s->name, "system call");
	struct user_regs_struct *want = &seen[(r->rip - TEXT) & 4095];

	if (!known[(r->rip - TEXT) & 4095])
		return 0;
	for (u32 i = 0; i < 16; i++) {
		if ((i == 1 || i == 11) && system_call)
			continue;
		if (*reg_of(r, i) != *reg_of(want, i))
			return 0;
	}
	return system_call || !((r->eflags ^ want->eflags) & ARITH_FLAGS);
}

/* map NULL: record; else compare. Steps compared, or negative. */
static int trace_snippet(const struct snippet *s, pid_t pid,
			 const struct bee_map *map)
{
	struct user_regs_struct r;
	int status, steps, in_stubs = 0, bad = 0;
	u64 pc;

	waitpid(pid, &status, 0);
	for (steps = 0; steps < STEPS_MAX && WIFSTOPPED(status); steps++) {
		ptrace(PTRACE_GETREGS, pid, 0, &r);
		pc = r.rip;
		if (!map && pc - TEXT < 4096) {
			seen[pc - TEXT] = r;
			known[pc - TEXT] = 1;
		}
		if (map && (pc - TEXT < 4096 || pc - STUBS < 4096)) {
			in_stubs += pc - STUBS < 4096;
			undo_stub(pid, map, &r);
			if (!registers_agree(s, &r) && !bad++)
				printf("# pc 0x%llx as 0x%llx\n", pc,
				       (u64)r.rip);
		}
		if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) ||
		    waitpid(pid, &status, 0) < 0)
			break;
		if (WIFSTOPPED(status) && WSTOPSIG(status) != SIGTRAP)
			break;
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return bad ? -1 : in_stubs;
}

static void test_snippet(const struct snippet *s)
{
	struct bee_map map;
	u64 len = put_text(s);
	int in_stubs;

	memset(known, 0, sizeof(known));
	trace_snippet(s, start_tracee(TP), 0);
	if (rewrite_snippet(len, &map)) {
		tap_ok(0, "%s: rewritten", s->name);
		return;
	}
	in_stubs = trace_snippet(s, start_tracee(0x1000), &map);
	tap_ok(in_stubs > 0 || (!in_stubs && strstr(s->name, "in place")),
	       "%s: every step stands for a state of the original", s->name);
	printf("# %d steps in stubs\n", in_stubs);
}

int main(void)
{
	map_at(TEXT);
	map_at(STUBS);
	map_at(STACK);
	map_at(TP);
	__asm__ volatile("xsave64 %0"
			 : "=m"(native_vectors)
			 : "a"(-1), "d"(-1));
	for (u32 i = 0; i < sizeof(snippets) / sizeof(snippets[0]); i++)
		test_snippet(&snippets[i]);
	return tap_done();
}
