/* SPDX-License-Identifier: MIT */
/*
 * Differential execution: each snippet runs as it is, with FS at a thread
 * block, and again rewritten, with FS at unmapped memory and GS at the slots.
 * Registers, flags, vector state and memory must come out the same.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "native.h"
#include "tests/tap.h"

#define BOTH (TP + STACK) /* fs: relative to the stack pointer */
#define HALF 0x40000

static u8 memory_before[3][2 * HALF], memory_native[3][2 * HALF];
static const u64 region[3] = {STACK, TP, BOTH};
static u32 seed = 12345;
/* The snippet has no fs: operand with registers: the canary's slot is exact. */
static int absolute;

static u32 random_below(u32 n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

static void *map_at(u64 addr, u64 len, int prot)
{
	void *p =
		mmap((void *)addr, len, prot,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	if (p != (void *)addr)
		abort();
	return p;
}

static void load_memory(u8 from[3][2 * HALF])
{
	for (int i = 0; i < 3; i++)
		memcpy(host_pointer(region[i] - HALF), from[i], 2 * HALF);
}

static void store_memory(u8 to[3][2 * HALF])
{
	for (int i = 0; i < 3; i++)
		memcpy(to[i], host_pointer(region[i] - HALF), 2 * HALF);
}

/* Code being made. */
static u8 *out;

static void emit_bytes(const char *bytes, int n)
{
	memcpy(out, bytes, n);
	out += n;
}
#define PUT(s) emit_bytes(s, sizeof(s) - 1)

static void emit_byte(int v)
{
	*out++ = v;
}

static void emit_u64(u64 v)
{
	memcpy(out, &v, 8);
	out += 8;
}

static struct bee_rewrite last;

static void run_once(const struct native_cpu *start, u64 fs, const u8 *vectors)
{
	native_cpu = *start;
	native_cpu.fs = fs;
	native_cpu.gs = (u64)(uintptr_t)teb;
	native_cpu.code = TEXT;
	memcpy(native_vectors, vectors, sizeof(native_vectors));
	native_run();
}

static void dump_bytes(const char *what, const u8 *p, u64 n)
{
	printf("# %s:", what);
	for (u64 i = 0; i < n; i++)
		printf(" %02x", p[i]);
	printf("\n");
}

static int states_differ(const struct native_cpu *a, const u8 *vectors,
			 int ignore)
{
	static u8 now[3][2 * HALF];
	u64 canary;

	for (int i = 0; i < 16; i++)
		if (a->gpr[i] != native_cpu.gpr[i] && !(ignore >> i & 1))
			return printf("# r%d %llx, %llx rewritten\n", i,
				      a->gpr[i], native_cpu.gpr[i]);
	if ((a->flags ^ native_cpu.flags) & ARITH_FLAGS)
		return printf("# flags %llx, %llx\n", a->flags,
			      native_cpu.flags);
	if (memcmp(vectors + 160, native_vectors + 160, 256) ||
	    memcmp(vectors + 576, native_vectors + 576, 2048))
		return printf("# vector registers differ\n");
	store_memory(now);
	if (memcmp(now, memory_native, sizeof(now)))
		return printf("# memory differs\n");
	memcpy(&canary, host_pointer(TP + 0x28), 8);
	if (absolute &&
	    canary != ((u64 *)(teb + SKEP_TEB_SLOT_BASE))[SKEP_SLOT_CANARY])
		return printf("# the canary's slot is stale\n");
	return 0;
}

/* [TEXT, TEXT + len) ends by a jump to native_exit. ignore: registers. */
static int runs_equal(u64 len, const struct native_cpu *start, int ignore)
{
	static u8 fresh[16384], vectors[16384], before[4096];
	struct native_cpu first;

	for (int i = 160; i < 416; i++)
		fresh[i] = random_below(256);
	fresh[512] = 3; /* XSTATE_BV: x87 and SSE, the rest as after reset */
	fresh[0] = 0x7f;
	fresh[1] = 3;
	memcpy(fresh + 24, "\x80\x1f\0\0\xff\xff\0", 8);
	memcpy(before, host_pointer(TEXT), len);
	load_memory(memory_before);
	run_once(start, TP, fresh);
	first = native_cpu;
	memcpy(vectors, native_vectors, sizeof(vectors));
	store_memory(memory_native);
	load_memory(memory_before);
	set_slots();
	if (rewrite_text(len, &last)) {
		printf("# %s\n", last.why);
		dump_bytes("refused", before, len);
		return 0;
	}
	run_once(start, 0x1000, fresh);
	if (!states_differ(&first, vectors, ignore))
		return 1;
	dump_bytes("original", before, len);
	dump_bytes("rewritten", host_pointer(TEXT), len);
	dump_bytes("stubs", last.stubs, last.stubs_used);
	return 0;
}

static void put_exit(u64 *len)
{
	PUT("\xff\x25\0\0\0\0");
	*len = out - host_pointer(TEXT);
	emit_u64((u64)(uintptr_t)native_exit);
}

/* Registers hold small multiples of 64, so every operand is in memory. */
static void random_cpu(struct native_cpu *cpu)
{
	memset(cpu, 0, sizeof(*cpu));
	for (int i = 0; i < 16; i++)
		cpu->gpr[i] = (u64)64 * ((s64)random_below(64) - 32);
	cpu->gpr[4] = STACK;
	cpu->flags = 0x202 | (random_below(65536) & ARITH_FLAGS);
}

static void random_memory(void)
{
	for (int r = 0; r < 3; r++)
		for (int i = 0; i < 2 * HALF; i += 4)
			*(u32 *)(memory_before[r] + i) =
				random_below(1 << 24) * 257;
	*(u64 *)(memory_before[1] + HALF) = TP;
}

struct form {
	const char *name;
	const char *prefix; /* before REX */
	u8 map, op;
	s8 reg;	      /* fixed ModRM.reg, -1: any */
	u8 imm, wide; /* wide: REX.W may be set */
};

static const struct form forms[] = {
	{"mov load", "", 0, 0x8b, -1, 0, 1},
	{"mov store", "", 0, 0x89, -1, 0, 1},
	{"mov byte load", "", 0, 0x8a, -1, 0, 0},
	{"mov byte store", "", 0, 0x88, -1, 0, 0},
	{"mov word store", "\x66", 0, 0x89, -1, 0, 0},
	{"mov imm32", "", 0, 0xc7, 0, 4, 1},
	{"mov imm8", "", 0, 0xc6, 0, 1, 0},
	{"mov imm16", "\x66", 0, 0xc7, 0, 2, 0},
	{"add load", "", 0, 0x03, -1, 0, 1},
	{"add store", "", 0, 0x01, -1, 0, 1},
	{"lock add", "\xf0", 0, 0x01, -1, 0, 1},
	{"sub load", "", 0, 0x2b, -1, 0, 1},
	{"xor load", "", 0, 0x33, -1, 0, 1},
	{"adc load", "", 0, 0x13, -1, 0, 1},
	{"cmp load", "", 0, 0x3b, -1, 0, 1},
	{"cmp store form", "", 0, 0x39, -1, 0, 1},
	{"cmp imm8", "", 0, 0x83, 7, 1, 1},
	{"add imm8", "", 0, 0x83, 0, 1, 1},
	{"cmp imm32", "", 0, 0x81, 7, 4, 1},
	{"cmp byte", "", 0, 0x80, 7, 1, 0},
	{"test imm", "", 0, 0xf7, 0, 4, 1},
	{"not", "", 0, 0xf7, 2, 0, 1},
	{"mul", "", 0, 0xf7, 4, 0, 1},
	{"inc", "", 0, 0xff, 0, 0, 1},
	{"lock dec", "\xf0", 0, 0xff, 1, 0, 1},
	{"shl by cl", "", 0, 0xd3, 4, 0, 1},
	{"push", "", 0, 0xff, 6, 0, 0},
	{"xchg", "", 0, 0x87, -1, 0, 1},
	{"imul imm", "", 0, 0x69, -1, 4, 1},
	{"movslq", "", 0, 0x63, -1, 0, 1},
	{"cmpxchg", "\xf0", 1, 0xb1, -1, 0, 1},
	{"cmpxchg8b", "", 1, 0xc7, 1, 0, 1},
	{"xadd", "", 1, 0xc1, -1, 0, 1},
	{"movzb", "", 1, 0xb6, -1, 0, 1},
	{"movsw", "", 1, 0xbf, -1, 0, 1},
	{"cmove", "", 1, 0x44, -1, 0, 1},
	{"sete", "", 1, 0x94, 0, 0, 0},
	{"bts imm", "", 1, 0xba, 5, 1, 1},
	{"popcnt", "\xf3", 1, 0xb8, -1, 0, 1},
	{"movups load", "", 1, 0x10, -1, 0, 0},
	{"movups store", "", 1, 0x11, -1, 0, 0},
	{"movaps load", "", 1, 0x28, -1, 0, 0},
	{"movdqu load", "\xf3", 1, 0x6f, -1, 0, 0},
	{"movdqa store", "\x66", 1, 0x7f, -1, 0, 0},
	{"movsd load", "\xf2", 1, 0x10, -1, 0, 0},
	{"cvtsi2sd", "\xf2", 1, 0x2a, -1, 0, 1},
	{"pshufd", "\x66", 1, 0x70, -1, 1, 0},
	{"pinsrw", "\x66", 1, 0xc4, -1, 1, 0},
	{"pshufb", "\x66", 2, 0x00, -1, 0, 0},
	{"movbe", "", 2, 0xf0, -1, 0, 1},
	{"crc32", "\xf2", 2, 0xf1, -1, 0, 1},
	{"palignr", "\x66", 3, 0x0f, -1, 1, 0},
	{"pextrq", "\x66", 3, 0x16, -1, 1, 1},
};

static u32 reg_not_rsp(int rex)
{
	u32 r;

	do
		r = random_below(rex ? 16 : 8);
	while (r == 4);
	return r;
}

static s32 random_disp(void)
{
	switch (random_below(4)) {
	case 0:
		return 0x28;
	case 1:
		return 0;
	default:
		return 64 * ((s32)random_below(256) - 128);
	}
}

/* A memory operand, and which extension bits it needs (X 2, B 1). */
struct operand {
	u8 bytes[6];
	int n, ext;
};

/* odd: other displacements than multiples of 64; big: EVEX disp8 */
static void random_operand(struct operand *o, int reg, int rex, int odd)
{
	u32 kind = random_below(6), base = reg_not_rsp(rex),
	    index = reg_not_rsp(rex);
	u32 mod = random_below(3);
	s32 disp = mod == 1 ? 64 * (s32)random_below(2) : random_disp();

	if (!odd && disp == 0x28)
		disp = 64;
	o->n = o->ext = 0;
	if (kind == 0) { /* absolute */
		o->bytes[o->n++] = reg << 3 | 4;
		o->bytes[o->n++] = 0x25;
		mod = 2;
	} else if (kind == 1) { /* index alone */
		o->bytes[o->n++] = reg << 3 | 4;
		o->bytes[o->n++] = random_below(4) << 6 | (index & 7) << 3 | 5;
		o->ext = index & 8 ? 2 : 0;
		mod = 2;
	} else if (kind == 2) { /* stack pointer, perhaps an index */
		o->bytes[o->n++] = mod << 6 | reg << 3 | 4;
		o->bytes[o->n++] =
			random_below(2) ? 0x24 : (index & 7) << 3 | 4;
		if (o->bytes[1] != 0x24)
			o->ext = index & 8 ? 2 : 0;
	} else if (kind == 3) { /* base and index */
		if (!mod && (base & 7) == 5)
			mod = 1, disp = 64;
		o->bytes[o->n++] = mod << 6 | reg << 3 | 4;
		o->bytes[o->n++] =
			random_below(4) << 6 | (index & 7) << 3 | (base & 7);
		o->ext = (index & 8 ? 2 : 0) | (base & 8 ? 1 : 0);
	} else { /* base alone */
		if (base == 12)
			base = 11;
		if (!mod && (base & 7) == 5)
			mod = 1, disp = 64;
		o->bytes[o->n++] = mod << 6 | reg << 3 | (base & 7);
		o->ext = base & 8 ? 1 : 0;
	}
	if (mod == 1)
		o->bytes[o->n++] = disp;
	if (mod == 2) {
		memcpy(o->bytes + o->n, &disp, 4);
		o->n += 4;
	}
}

/* Neighbours that move; those before a site leave its registers alone. */
static void put_before(int n)
{
	while (n--) {
		switch (random_below(6)) {
		case 0:
			PUT("\x48\x39\xdf"); /* cmp %rbx, %rdi */
			break;
		case 1:
			PUT("\x74\x01\xf5"); /* je over a cmc */
			break;
		case 2:
			PUT("\x0f\x82\x01\0\0\0\xf9");
			break;
		case 3:
			PUT("\xf5");
			break;
		case 4:
			PUT("\x66\x90");
			break;
		case 5:
			PUT("\xeb\0");
			break;
		}
	}
}

static void put_after(int n)
{
	while (n--) {
		switch (random_below(6)) {
		case 0:
			PUT("\x48\x89\xca"); /* mov %rcx, %rdx */
			break;
		case 1:
			PUT("\x48\x8d\x05\x11\x22\0\0"); /* lea (%rip), %rax */
			break;
		case 2:
			PUT("\x74\x02\xff\xc0"); /* je over an inc */
			break;
		case 3:
			PUT("\xff\xc6"); /* inc %esi */
			break;
		case 4:
			PUT("\x48\x11\xdf"); /* adc %rbx, %rdi */
			break;
		case 5:
			PUT("\xeb\0");
			break;
		}
	}
}

static void put_form(const struct form *f)
{
	static const char *const escape[] = {"", "\x0f", "\x0f\x38",
					     "\x0f\x3a"};
	int rex = random_below(3) != 0,
	    reg = f->reg < 0 ? (int)random_below(16) : f->reg;
	struct operand o;

	if (reg == 4) /* never the stack pointer as a result */
		reg = 5;
	if (!rex)
		reg &= 7;
	random_operand(&o, reg & 7, rex, f->map == 0);
	emit_byte(0x64);
	emit_bytes(f->prefix, strlen(f->prefix));
	if (rex)
		emit_byte(0x40 | (f->wide && random_below(2) ? 8 : 0) |
			  (reg & 8 ? 4 : 0) | o.ext);
	emit_bytes(escape[f->map], strlen(escape[f->map]));
	emit_byte(f->op);
	emit_bytes((char *)o.bytes, o.n);
	for (int i = 0; i < f->imm; i++)
		emit_byte(random_below(256));
}

static void test_forms(void)
{
	u32 count = sizeof(forms) / sizeof(forms[0]);

	for (u32 i = 0; i < count; i++) {
		int good = 0;

		for (int n = 0; n < 60; n++) {
			struct native_cpu cpu;
			u64 len;

			out = host_pointer(TEXT);
			random_cpu(&cpu);
			put_before(random_below(4));
			put_form(&forms[i]);
			put_after(random_below(4));
			put_exit(&len);
			good += runs_equal(len, &cpu, 0);
			if (good <= n)
				break;
		}
		tap_ok(good == 60, "fs: %s runs as before", forms[i].name);
	}
}

/* Vector encodings: map, pp, opcode; loads and stores of every width. */
static void put_vex(int op, int map, int pp, int len, int imm)
{
	struct operand o;
	int reg = random_below(16), v = 0;

	random_operand(&o, reg & 7, 1, 0);
	/* a second source or a count */
	if (op == 0x58 || op == 0xf7 || op == 0xf2)
		v = random_below(16);
	if ((op == 0xf7 || op == 0xf2) && reg == 4)
		reg = 5;
	emit_byte(0x64);
	if (map == 1 && !o.ext && random_below(2)) {
		emit_byte(0xc5);
		emit_byte((reg & 8 ? 0 : 0x80) | (~v & 15) << 3 | len << 2 |
			  pp);
	} else {
		emit_byte(0xc4);
		emit_byte((reg & 8 ? 0 : 0x80) | (o.ext & 2 ? 0 : 0x40) |
			  (o.ext & 1 ? 0 : 0x20) | map);
		emit_byte((~v & 15) << 3 | len << 2 | pp);
	}
	emit_byte(op);
	o.bytes[0] = (o.bytes[0] & ~0x38) | (reg & 7) << 3;
	emit_bytes((char *)o.bytes, o.n);
	if (imm)
		emit_byte(random_below(256));
}

static void put_evex(int op, int map, int pp, int len)
{
	struct operand o;
	int reg = random_below(32), v = op == 0x58 ? (int)random_below(32) : 0;

	random_operand(&o, reg & 7, 1, 0);
	emit_byte(0x64);
	emit_byte(0x62);
	emit_byte((reg & 8 ? 0 : 0x80) | (o.ext & 2 ? 0 : 0x40) |
		  (o.ext & 1 ? 0 : 0x20) | (reg & 16 ? 0 : 0x10) | map);
	emit_byte((~v & 15) << 3 | 4 | pp);
	emit_byte(len << 5 | (v & 16 ? 0 : 8));
	emit_byte(op);
	emit_bytes((char *)o.bytes, o.n);
}

static int run_vector(int evex, int op, int map, int pp, int len, int imm)
{
	struct native_cpu cpu;
	u64 size;

	for (int n = 0; n < 60; n++) {
		out = host_pointer(TEXT);
		random_cpu(&cpu);
		put_before(random_below(3));
		if (evex)
			put_evex(op, map, pp, len);
		else
			put_vex(op, map, pp, len, imm);
		put_after(random_below(3));
		put_exit(&size);
		if (!runs_equal(size, &cpu, 0))
			return 0;
	}
	return 1;
}

static void test_vectors(void)
{
	if (!__builtin_cpu_supports("avx2")) {
		tap_skip("VEX", "this processor has no AVX2");
		return;
	}
	tap_ok(run_vector(0, 0x6f, 1, 2, 1, 0), "fs: vmovdqu runs as before");
	tap_ok(run_vector(0, 0x7f, 1, 2, 0, 0), "fs: vmovdqu store");
	tap_ok(run_vector(0, 0x58, 1, 1, 1, 0), "fs: vaddpd");
	tap_ok(run_vector(0, 0x70, 1, 1, 1, 1), "fs: vpshufd");
	tap_ok(run_vector(0, 0xf7, 2, 1, 0, 0), "fs: shlx");
	tap_ok(run_vector(0, 0xf2, 2, 0, 0, 0), "fs: andn");
	tap_ok(run_vector(0, 0x18, 2, 1, 1, 0), "fs: vbroadcastss");
	if (!__builtin_cpu_supports("avx512f")) {
		tap_skip("EVEX", "this processor has no AVX-512");
		return;
	}
	tap_ok(run_vector(1, 0x6f, 1, 2, 2, 0), "fs: EVEX vmovdqu32");
	tap_ok(run_vector(1, 0x7f, 1, 2, 2, 0), "fs: EVEX store");
	tap_ok(run_vector(1, 0x58, 1, 0, 2, 0), "fs: EVEX vaddps");
	tap_ok(run_vector(1, 0x18, 2, 1, 2, 0), "fs: EVEX vbroadcastss");
}

static int run_bytes(const char *bytes, int n, int ignore)
{
	struct native_cpu cpu;
	u64 len;

	random_cpu(&cpu);
	out = host_pointer(TEXT);
	emit_bytes(bytes, n);
	put_exit(&len);
	return runs_equal(len, &cpu, ignore);
}
#define RUN(bytes, ignore) run_bytes(bytes, sizeof(bytes) - 1, ignore)

static void set_word(u64 addr, u64 v)
{
	memcpy(memory_before[1] + HALF + (addr - TP), &v, 8);
}

static void test_others(void)
{
	const int rcx_r11 = 1 << 1 | 1 << 11;

	tap_ok(RUN("\xb8\x27\0\0\0\x0f\x05", rcx_r11),
	       "syscall with the mov before it");
	tap_ok(RUN("\xeb\x05\xb8\x27\0\0\0\xb8\x27\0\0\0\x0f\x05\x48\x89\xc3",
		   rcx_r11),
	       "syscall with the instruction after it");
	tap_ok(RUN("\x31\xc0\x31\xc9\x0f\xa2\x31\xf6", 0), "cpuid");
	tap_ok(RUN("\x31\xc9\x0f\x01\xd0\x90\x90", 0), "xgetbv");
	tap_ok(RUN("\xf3\x48\x0f\xae\xc0", 0), "rdfsbase");
	tap_ok(RUN("\xf3\x41\x0f\xae\xc4\x90", 0), "rdfsbase of 32 bits");
	tap_ok(RUN("\x64\x48\xa1\0\x01\0\0\0\0\0\0", 0),
	       "mov from a 64-bit offset");
	tap_ok(RUN("\x64\xa2\0\x01\0\0\0\0\0\0", 0), "mov to a 64-bit offset");
	tap_ok(RUN("\x64\x48\xc7\x04\x25\x28\0\0\0\x11\x22\x33\x44", 0),
	       "a store to the canary reaches its slot");
	tap_ok(RUN("\x64\x48\xa3\x28\0\0\0\0\0\0\0", 0) &&
		       RUN("\x64\xa2\x2f\0\0\0\0\0\0\0", 0) &&
		       RUN("\x64\xa3\x25\0\0\0\0\0\0\0", 0),
	       "so does one to it by a 64-bit offset");
	tap_ok(RUN("\x64\x0f\x11\x04\x25\x20\0\0\0", 0),
	       "a wide store over the canary reaches its slot");
	/* its address, 0x100, is far below the text */
	tap_ok(RUN("\x64\x8b\x05\xf9\0\0\xb0", 0), "fs: relative to rip");
	/* callee at TEXT + 16: mov (%rsp), %rbx; ret */
	set_word(TP + 0x100, TEXT + 16);
	tap_ok(RUN("\x64\xff\x14\x25\0\x01\0\0\xeb\x0c"
		   "\x90\x90\x90\x90\x90\x90\x48\x8b\x1c\x24\xc3\x90",
		   0),
	       "call through fs:");
	tap_ok(RUN("\x64\xff\x24\x25\0\x01\0\0\xeb\x0a"
		   "\x90\x90\x90\x90\x90\x90\x48\x31\xdb\x90\x90\x90",
		   0),
	       "jmp through fs:");
}

static int sites_ascend(void)
{
	for (u32 i = 1; i < last.sites; i++)
		if (last.site[i].addr <= last.site[i - 1].addr)
			return 0;
	return last.sites > 1;
}

static void test_tricks(void)
{
	/* the call's target reads the return address */
	tap_ok(RUN("\x31\xd2\xeb\0\x64\x89\x02\xe8\x02\0\0\0\xeb\x05"
		   "\x48\x8b\x1c\x24\xc3",
		   0) &&
		       last.forms[BEE_FORM_CALL] == 1,
	       "a short store before a call goes with the call");
	/* xor; jmp over padding; push %fs:(%rdx); call; pop; the callee reads
	 * the return address and what was pushed */
	tap_ok(RUN("\x31\xd2\xeb\x07\x0f\x1f\x80\0\0\0\0\x64\xff\x32"
		   "\xe8\x03\0\0\0\x58\xeb\x0a\x48\x8b\x1c\x24"
		   "\x48\x8b\x4c\x24\x08\xc3",
		   0) &&
		       !last.forms[BEE_FORM_CALL],
	       "a push before a call stays below the return address");
	/* push 5; xor; jmp over padding; pop %fs:(%rdx); call; the same callee
	 */
	tap_ok(RUN("\x6a\x05\x31\xd2\xeb\x07\x0f\x1f\x80\0\0\0\0"
		   "\x64\x8f\x02\xe8\x02\0\0\0\xeb\x0a\x48\x8b\x1c\x24"
		   "\x48\x8b\x4c\x24\x08\xc3",
		   0) &&
		       !last.forms[BEE_FORM_CALL],
	       "a pop before a call takes what was pushed before it");
	/* xor; jc to the nop; jmp to the store; padding; store; nop */
	tap_ok(RUN("\x31\xd2\x72\x0c\xeb\x07\x0f\x1f\x80\0\0\0\0"
		   "\x64\x89\x02\x90",
		   0) &&
		       last.forms[BEE_FORM_CAVE] == 1 &&
		       !last.patched[BEE_SITE_MOVED],
	       "a short store between targets uses padding nearby");
	/* the same padding, but run through: xor; jc; padding; store; nop */
	tap_ok(RUN("\x31\xd2\x72\x0c\x73\0\x0f\x1f\x80\0\0\0\0"
		   "\x64\x89\x02\x90\xf8\x72\xf9",
		   0) &&
		       last.forms[BEE_FORM_CAVE] == 1,
	       "padding that is executed is jumped over");
	/* movabs; xor; jc; jae; store; nop */
	tap_ok(RUN("\x48\xb8\x11\x22\x33\x44\x55\x66\x77\x08\x31\xd2"
		   "\x72\x05\x73\0\x64\x89\x02\x90",
		   0) &&
		       last.patched[BEE_SITE_MOVED] == 1,
	       "a short store with no room nearby moves others away");
	/* xor; jc to the nop; jae; store; nop; load; movabs */
	tap_ok(RUN("\x31\xd2\x72\x05\x73\0\x64\x89\x02\x90"
		   "\x64\x48\x8b\x04\x25\x10\0\0\0"
		   "\x48\xbb\x11\x22\x33\x44\x55\x66\x77\x08",
		   0) &&
		       last.patched[BEE_SITE_MOVED] == 1 &&
		       last.forms[BEE_FORM_JMP] == 2 && sites_ascend(),
	       "what moves away holds no site, and sites are in order");
	/* xor; jc to the nop; jae into the padding; jmp over it; padding of
	 * three bytes and of four; store; nop */
	tap_ok(RUN("\x31\xd2\x72\x0e\x73\x05\xeb\x07\x0f\x1f\0"
		   "\x0f\x1f\x40\0\x64\x89\x02\x90",
		   0) &&
		       last.patched[BEE_SITE_MOVED] == 1,
	       "padding that is jumped into gives no room");
}

int main(void)
{
	for (int i = 0; i < 3; i++)
		map_at(region[i] - HALF, 2 * HALF, PROT_READ | PROT_WRITE);
	map_at(TEXT, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	map_at(STUBS, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	random_memory();
	absolute = 1;
	test_others();
	test_tricks();
	absolute = 0;
	test_forms();
	test_vectors();
	return tap_done();
}
