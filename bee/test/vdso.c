/* SPDX-License-Identifier: MIT */
/*
 * Which clock functions of a vDSO bee calls while the guest's vector registers
 * are live: a vDSO that is made here, with one function, which is never run.
 */
#include <elf.h>
#include <string.h>

#include "bee/core/core.h"
#include "bee/host/linux/host.h"
#include "tests/tap.h"

s64 lin_clock_ahead;

#define CODE 0x800u /* each case has a place of its own */
#define STEP 32u

s64 (*bee_clock_quick)(u32 clock);
unsigned long __wrap_getauxval(unsigned long type);
unsigned long __real_getauxval(unsigned long type);

static struct {
	Elf64_Ehdr head;
	Elf64_Phdr segment[2];
	Elf64_Dyn dynamic[3];
	Elf64_Sym symbol[2];
	char names[64];
	u8 rest[0x4000];
} vdso __attribute__((aligned(4096)));

unsigned long __wrap_getauxval(unsigned long type)
{
	return type == 33 /* AT_SYSINFO_EHDR */ ? (unsigned long)&vdso
						: __real_getauxval(type);
}

static void make_vdso(void)
{
	u64 base = (u64)(__UINTPTR_TYPE__)&vdso;

	vdso.head.e_phoff = (u64)(__UINTPTR_TYPE__)vdso.segment - base;
	vdso.head.e_phnum = 2;
	vdso.segment[0].p_type = PT_LOAD;
	vdso.segment[0].p_filesz = sizeof(vdso);
	vdso.segment[1].p_type = PT_DYNAMIC;
	vdso.segment[1].p_offset = (u64)(__UINTPTR_TYPE__)vdso.dynamic - base;
	vdso.dynamic[0].d_tag = DT_SYMTAB;
	vdso.dynamic[0].d_un.d_ptr = (u64)(__UINTPTR_TYPE__)vdso.symbol - base;
	vdso.dynamic[1].d_tag = DT_STRTAB;
	vdso.dynamic[1].d_un.d_ptr = (u64)(__UINTPTR_TYPE__)vdso.names - base;
	vdso.symbol[1].st_name = 1;
	strcpy(vdso.names + 1, "__vdso_clock_gettime");
}

#define YES(code) code, sizeof(code) - 1, 1
#define NO(code) code, sizeof(code) - 1, 0
static const struct {
	const char *code; /* before a `ret` */
	u32 len, quick;
	const char *name;
} c[] = {
	{YES(""), "nothing"},
	{YES("\x0f\x31"), "rdtsc"},
	{YES("\x0f\x01\xf9"), "rdtscp"},
	{YES("\x0f\xae\xe8"), "lfence"},
	{YES("\x0f\x1f\xc0"), "nop, 0f 1f"},
	{YES("\x0f\x40\xc0"), "cmovo, 0f 40"},
	{YES("\x0f\x4f\xc0"), "cmovg, 0f 4f"},
	{YES("\x0f\xc1\xc0"), "xadd, 0f c1"},
	{YES("\x0f\xc8"), "bswap, 0f c8"},
	{YES("\x0f\xcf"), "bswap, 0f cf"},
	{YES("\x48\xf7\xe1"), "mul"},
	{YES("\xeb\x02\x0f\x10\xf3\x90"), "bytes that a jump skips"},
	{NO("\x0f\x10\xc0"), "movups, 0f 10"},
	{NO("\x0f\x16\xc0"), "movlhps, 0f 16"},
	{NO("\x0f\x17\x00"), "movhps, 0f 17"},
	{NO("\x0f\x28\xc0"), "movaps, 0f 28"},
	{NO("\x0f\x2f\xc0"), "comiss, 0f 2f"},
	{NO("\x0f\x50\xc0"), "movmskps, 0f 50"},
	{NO("\x0f\x77"), "emms, 0f 77"},
	{NO("\x0f\x7f\xc0"), "movq, 0f 7f"},
	{NO("\x0f\xc2\xc0\x00"), "cmpps, 0f c2"},
	{NO("\x0f\xc4\xc0\x00"), "pinsrw, 0f c4"},
	{NO("\x0f\xc6\xc0\x00"), "shufps, 0f c6"},
	{NO("\x66\x0f\xd0\xc0"), "addsubpd, 0f d0"},
	{NO("\x0f\xef\xc0"), "pxor, 0f ef"},
	{NO("\x0f\xae\x00"), "fxsave, 0f ae"},
	{NO("\xd8\xc0"), "fadd, d8"},
	{NO("\xdf\xe0"), "fnstsw, df"},
	{NO("\xc5\xf8\x77"), "vzeroupper"},
	{NO("\x66\x0f\x38\x00\xc0"), "pshufb, 0f 38"},
	{NO("\x64\x48\x8b\x04\x25\0\0\0"), "fs:"},
	{NO("\xff\xe0"), "a jump to a register"},
	{NO("\xe8\0\0\0\x70"), "a call out of the vDSO"},
	{NO("\x74\x01\x90\x0f\x10\xc0"), "code that only a branch reaches"},
};

static int is_quick(u32 i)
{
	u8 *at = (u8 *)&vdso + CODE + i * STEP;

	memcpy(at, c[i].code, c[i].len);
	at[c[i].len] = 0xc3;
	vdso.symbol[1].st_value = CODE + i * STEP;
	bee_clock_quick = NULL;
	lin_vdso_init();
	return bee_clock_quick != NULL;
}

int main(void)
{
	u32 i;

	make_vdso();
	for (i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		tap_ok(is_quick(i) == (int)c[i].quick, "%s: %s", c[i].name,
		       c[i].quick ? "called" : "not called");
	return tap_done();
}
