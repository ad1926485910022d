/* SPDX-License-Identifier: MIT */
/*
 * The ELF planner: a good file, then that file with one field wrong at a time;
 * and exec: what a program finds in memory when it starts.
 *
 * elf_test --corpus DIR writes the same files as seeds for the fuzzer.
 */
#include <elf.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "abi/uapi/linux.h"
#include "abi/test/internal.h"
#include "host_fake.h"
#include "tests/tap.h"

#define RW (ABI_PROT_READ | ABI_PROT_WRITE)
#define FILE_SIZE 0x3000ull

struct file {
	Elf64_Ehdr h;
	Elf64_Phdr ph[20];
	char text[64];
};

static struct file file;
static struct abi_elf_plan plan;
static struct abi_elf_use use; /* what the file is to be */
static const char *corpus;

static void base_file(u16 type, u64 base)
{
	memset(&file, 0, sizeof(file));
	memcpy(file.h.e_ident, "\177ELF\2\1\1", 7);
	file.h.e_type = type;
	file.h.e_machine = EM_X86_64;
	file.h.e_version = 1;
	file.h.e_entry = base + 0x1010;
	file.h.e_phoff = sizeof(Elf64_Ehdr);
	file.h.e_ehsize = sizeof(Elf64_Ehdr);
	file.h.e_phentsize = sizeof(Elf64_Phdr);
	file.h.e_phnum = 4;
	file.ph[0] = (Elf64_Phdr){PT_LOAD, PF_R,  0,	 base,
				  base,	   0x800, 0x800, 0x1000};
	file.ph[1] =
		(Elf64_Phdr){PT_LOAD,	    PF_R | PF_X, 0x1000, base + 0x1000,
			     base + 0x1000, 0x900,	 0x900,	 0x1000};
	file.ph[2] =
		(Elf64_Phdr){PT_LOAD,	    PF_R | PF_W, 0x2100, base + 0x3100,
			     base + 0x3100, 0x200,	 0x5000, 0x1000};
	file.ph[3] = (Elf64_Phdr){PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 0,
				  0x100000,	16};
}

static void save_input(const char *name)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", corpus, name);
	for (char *c = path + strlen(corpus) + 1; *c; c++)
		if (*c == ' ' || *c == '/')
			*c = '-';
	f = fopen(path, "wb");
	if (!f || fputc(2, f) == EOF || fputc((int)use.role | 4, f) == EOF ||
	    fwrite(&file, sizeof(file), 1, f) != 1) {
		perror(path);
		exit(99);
	}
	fclose(f);
}

static int plan_file(void)
{
	memset(&plan, 0xee, sizeof(plan));
	return abi_elf_plan(&use, &file, sizeof(file), FILE_SIZE, &plan);
}

static void expect_good(const char *name)
{
	if (corpus)
		save_input(name);
	else if (!tap_ok(!plan_file() && !plan.why, "%s", name))
		printf("# %s\n", plan.why);
}

/* Refused with a sentence that has `word` in it; the file is good again. */
static void expect_refused(const char *name, const char *word)
{
	if (corpus)
		save_input(name);
	else if (!tap_ok(plan_file() == -LINUX_ENOEXEC && plan.why &&
				 strstr(plan.why, word) &&
				 plan.why[strlen(plan.why) - 1] == '.',
			 "%s", name))
		printf("# %s\n", plan.why ?: "accepted");
	base_file(ET_EXEC, 0x400000);
}

static void test_accepted(void)
{
	base_file(ET_EXEC, 0x400000);
	expect_good("a static program at 0x400000");
	if (!corpus) {
		TAP(plan.start == 0x400000 && plan.end == 0x409000);
		TAP(plan.entry == 0x401010 && plan.bias == 0);
		TAP(plan.phdr == 0x400040 && plan.phnum == 4);
		TAP(plan.segments == 3 && plan.segment[2].prot == RW);
		TAP(plan.stack_size == 0x100000);
	}
	base_file(ET_DYN, 0);
	expect_good("a static-pie program");
	if (!corpus)
		TAP(plan.bias == SKEP_PIE_START &&
		    plan.entry == SKEP_PIE_START + 0x1010 &&
		    plan.segment[0].addr == SKEP_PIE_START);
	base_file(ET_EXEC, 0x400000);
}

static void bad_header(void)
{
	file.h.e_ident[0] = '#';
	expect_refused("not ELF", "not an ELF");
	file.h.e_ident[EI_CLASS] = ELFCLASS32;
	expect_refused("a 32-bit program", "32-bit");
	file.h.e_ident[EI_DATA] = 2;
	expect_refused("a big-endian program", "byte order");
	file.h.e_machine = EM_AARCH64;
	expect_refused("another machine", "another processor");
	file.h.e_type = ET_REL;
	expect_refused("an object file", "object file");
	file.h.e_type = ET_CORE;
	expect_refused("a core file", "not a program");
	file.h.e_phentsize = 32;
	expect_refused("program headers of a wrong size", "program headers");
	file.h.e_phnum = 0;
	expect_refused("no program headers", "program headers");
	file.h.e_phnum = 0xffff;
	expect_refused("65535 program headers", "program headers");
	file.h.e_phoff = ~0ull - 8;
	expect_refused("program headers outside the file", "outside");
	file.h.e_phoff = sizeof(file) - 100;
	expect_refused("program headers half outside", "outside");
	file.h.e_entry = 0x403100;
	expect_refused("an entry in data", "entry");
	file.h.e_entry = 0;
	expect_refused("an entry outside", "entry");
}

static void bad_segment(void)
{
	file.ph[1].p_filesz = 0x901;
	expect_refused("more bytes in the file than in memory", "more bytes");
	file.ph[1].p_offset = ~0xfffull;
	expect_refused("a segment whose offset overflows", "outside the file");
	file.ph[2].p_filesz = 0x1000;
	expect_refused("a segment that ends behind the file",
		       "outside the file");
	file.ph[2].p_memsz = ~0ull - 0x400000;
	expect_refused("a segment whose size overflows", "overflow");
	file.ph[2].p_vaddr = ~0xfffull + 0x100;
	expect_refused("a segment at the end of all addresses", "overflow");
	file.ph[1].p_vaddr += 8;
	expect_refused("a misaligned segment", "max-page-size");
	file.ph[1].p_flags |= PF_W;
	expect_refused("a writable and executable segment",
		       "writable and executable");
	file.ph[1].p_vaddr = 0x400000;
	expect_refused("overlapping segments", "overlap");
	file.ph[2].p_vaddr = 0x401100;
	expect_refused("segments that share a page", "share a page");
	file.ph[0].p_vaddr = 0x410000;
	expect_refused("segments that are not sorted", "overlap");
	file.ph[2].p_memsz = 0x60000000;
	expect_refused("an image larger than its range", "1531 MiB");
	file.ph[0].p_type = PT_NULL;
	expect_refused("program headers in no segment", "no");
	file.ph[0].p_type = file.ph[1].p_type = file.ph[2].p_type = PT_NULL;
	expect_refused("no segment at all", "no segment");
	base_file(ET_EXEC, 0x10000);
	expect_refused("a program linked at 0x10000", "below 0x400000");
	base_file(ET_EXEC, 0x70000000);
	expect_refused("a program linked at 0x70000000", "above");
	base_file(ET_DYN, 0);
	file.ph[2].p_memsz = 0x7ff00000;
	expect_refused("a static-pie larger than its range", "2047 MiB");
	base_file(ET_DYN, 0xffff800000000000);
	expect_refused("a static-pie at a kernel address", "2047 MiB");
}

static void bad_kind(void)
{
	u32 i;

	file.ph[3] = (Elf64_Phdr){.p_type = PT_INTERP,
				  .p_offset = offsetof(struct file, text),
				  .p_filesz = 28};
	strcpy(file.text, "/lib64/ld-linux-x86-64.so.2");
	expect_refused("a dynamic program for glibc",
		       "/lib64/ld-linux-x86-64.so.2");
	file.ph[3] = (Elf64_Phdr){.p_type = PT_INTERP,
				  .p_offset = offsetof(struct file, text),
				  .p_filesz = 26};
	strcpy(file.text, "/lib/ld-musl-x86_64.so.1");
	expect_refused("a dynamic program for musl",
		       "/lib/ld-musl-x86_64.so.1");
	file.ph[3] = (Elf64_Phdr){.p_type = PT_INTERP, .p_offset = ~0ull};
	expect_refused("a loader's name outside the file", "damaged");
	file.ph[3].p_flags |= PF_X;
	expect_refused("an executable stack", "executable stack");
	file.ph[3] = (Elf64_Phdr){.p_type = PT_TLS, .p_memsz = 1ull << 40};
	expect_refused("thread-local data of 1 TiB", "thread-local");
	file.h.e_phnum = 20;
	for (i = 3; i < 20; i++) {
		file.ph[i] = file.ph[1];
		file.ph[i].p_vaddr = 0x410000 + i * 0x1000;
	}
	expect_refused("20 segments", "16 segments");
}

/* A PIE that names a loader of `len` bytes with its NUL. */
static void dynamic_file(const char *name, u64 len)
{
	base_file(ET_DYN, 0);
	file.ph[3] = (Elf64_Phdr){.p_type = PT_INTERP,
				  .p_offset = offsetof(struct file, text),
				  .p_filesz = len};
	strcpy(file.text, name);
}

static void test_dynamic(void)
{
	use.role = ABI_ELF_PROGRAM;
	base_file(ET_EXEC, 0x400000);
	expect_good("a static program where a dynamic one may be");
	if (!corpus)
		TAP(!*plan.interp);
	dynamic_file("/lib/ld.so", 11);
	expect_good("a dynamic program");
	if (!corpus)
		TAP(!strcmp(plan.interp, "/lib/ld.so") &&
		    plan.bias == SKEP_PIE_START);
	dynamic_file("/lib/ld.so", 10);
	expect_refused("a loader's name without an end", "absolute path");
	dynamic_file("lib/ld.so", 10);
	expect_refused("a loader's name that is no path", "absolute path");
	dynamic_file("/", ABI_ELF_INTERP_MAX + 1);
	expect_refused("a loader's name that is too long", "too long");
	dynamic_file("", 1);
	expect_refused("a loader without a name", "damaged");
	use.role = ABI_ELF_LOADER;
	base_file(ET_DYN, 0);
	expect_good("a loader");
	if (!corpus)
		TAP(plan.bias == SKEP_MMAP_START &&
		    plan.entry == SKEP_MMAP_START + 0x1010);
	dynamic_file("/lib/ld.so", 11);
	expect_refused("a loader with a loader", "dynamic program itself");
	expect_refused("a loader at a fixed address", "fixed address");
	base_file(ET_DYN, 0x4000000);
	expect_refused("a loader of 64 MiB", "64 MiB");
	use.role = ABI_ELF_STATIC;
}

static void test_library(void)
{
	const u64 at = SKEP_MMAP_END - 0x100000;

	use = (struct abi_elf_use){ABI_ELF_LIBRARY, at, 0x1000};
	dynamic_file("/lib/ld.so", 11);
	file.h.e_entry = 0;
	file.h.e_phoff = sizeof(Elf64_Ehdr);
	expect_good("a library that names a loader and has no entry");
	if (!corpus)
		TAP(plan.bias == at - 0x1000 && plan.start == at - 0x1000 &&
		    plan.segment[1].addr == at &&
		    plan.segment[2].addr == at + 0x2100);
	use.offset = 0;
	dynamic_file("/lib/ld.so", 11);
	expect_refused("a mapping of a segment without code", "no text");
	use.offset = 0x1000;
	use.addr = SKEP_MMAP_END - 0x1000;
	dynamic_file("/lib/ld.so", 11);
	expect_refused("a library that ends outside the range", "no text");
	use.addr = SKEP_IMAGE_START;
	dynamic_file("/lib/ld.so", 11);
	expect_refused("a library that begins below the range", "no text");
	use.addr = 0x1000;
	dynamic_file("/lib/ld.so", 11);
	expect_refused("a library outside of both ranges", "no text");
	use = (struct abi_elf_use){ABI_ELF_STATIC, 0, 0};
	base_file(ET_EXEC, 0x400000);
}

static void test_truncated(void)
{
	u8 *copy;
	u64 n;
	u32 wrong = 0;

	base_file(ET_EXEC, 0x400000);
	for (n = 0; n < 64 + 4 * 56; n++) {
		copy = malloc(n ? n : 1); /* so that ASan sees its end */
		memcpy(copy, &file, n);
		wrong +=
			abi_elf_plan(&use, copy, n, n, &plan) != -LINUX_ENOEXEC;
		free(copy);
	}
	tap_ok(!wrong, "every shorter file is refused");
}

/* exec --------------------------------------------------------------------- */

static const char *const argv[] = {"/bin/prog", "one", "", 0};
static const char *const envp[] = {"A=b", "LONG=0123456789", 0};

static u64 find_auxv(const u64 *aux, u64 type)
{
	for (; aux[0]; aux += 2)
		if (aux[0] == type)
			return aux[1];
	return ~0ull;
}

static struct abi_exec exec_args(void)
{
	base_file(ET_EXEC, 0x400000);
	plan_file();
	return (struct abi_exec){.plan = &plan,
				 .image_end = plan.end + 0x2345,
				 .argv = argv,
				 .envp = envp,
				 .path = "/bin/prog",
				 .cwd = "/home",
				 .stack_size = 1 << 20,
				 .hwcap = 0x178bfbff,
				 .hwcap2 = 0};
}

static void check_stack(struct abi_proc *p)
{
	struct abi_regs *regs = abi_thread_regs(p, 0);
	const u64 *sp = (const u64 *)regs->rsp;
	const u64 *aux = sp + 1 + 4 + 3;

	tap_ok(regs->rip == 0x401010 && !(regs->rsp & 15) && !regs->rdx,
	       "registers at the entry");
	tap_ok(sp[0] == 3 && !strcmp((char *)sp[1], "/bin/prog") &&
		       !strcmp((char *)sp[2], "one") && !*(char *)sp[3] &&
		       !sp[4],
	       "argc and argv");
	tap_ok(!strcmp((char *)sp[5], "A=b") &&
		       !strcmp((char *)sp[6], "LONG=0123456789") && !sp[7],
	       "envp");
	TAP(find_auxv(aux, AT_PHDR) == 0x400040 &&
	    find_auxv(aux, AT_PHNUM) == 4);
	TAP(find_auxv(aux, AT_PHENT) == 56 &&
	    find_auxv(aux, AT_PAGESZ) == 4096);
	TAP(find_auxv(aux, AT_ENTRY) == 0x401010 &&
	    find_auxv(aux, AT_BASE) == 0);
	TAP(find_auxv(aux, AT_HWCAP) == 0x178bfbff &&
	    find_auxv(aux, AT_HWCAP2) == 0);
	TAP(find_auxv(aux, AT_UID) == 1000 && find_auxv(aux, AT_SECURE) == 0);
	TAP(find_auxv(aux, AT_CLKTCK) == 100 &&
	    find_auxv(aux, 51) >= 576 + 128);
	TAP(!strcmp((char *)find_auxv(aux, AT_EXECFN), "/bin/prog"));
	TAP(!strcmp((char *)find_auxv(aux, AT_PLATFORM), "x86_64"));
	TAP(find_auxv(aux, AT_SYSINFO_EHDR) == ~0ull);
	TAP(((u64 *)find_auxv(aux, AT_RANDOM))[0] != 0);
	TAP(p->arg_end - p->arg_start == 15 && p->auxv_start == (u64)aux);
	TAP(!memcmp((char *)p->arg_start, "/bin/prog\0one\0", 15));
}

static void test_exec(void)
{
	struct abi_proc *p = fake_proc();
	struct abi_exec args = exec_args();

	if (!tap_ok(!abi_exec(p, &args), "exec of a small program"))
		return;
	check_stack(p);
	tap_ok(abi_space_check(p, 0x401000, 4096, ABI_PROT_EXEC) &&
		       !abi_space_check(p, 0x402000, 4096, 0) &&
		       abi_space_check(p, 0x403000, 0x6000, RW) &&
		       abi_space_check(p, plan.end, 0x3000, ABI_PROT_EXEC),
	       "segments and stubs are in the map");
	tap_ok(abi_space_check(p, SKEP_MMAP_END - (1 << 20), 1 << 20, RW) &&
		       !abi_space_check(p, SKEP_MMAP_END - (1 << 20) - 1, 1,
					ABI_PROT_READ) &&
		       abi_space_check(p, SKEP_MMAP_END - (1 << 20) - 1, 1, 0),
	       "a closed page lies below the stack");
	TAP(!strcmp(p->comm, "prog") && !strcmp(p->cwd, "/home"));
	TAP(!abi_space_wrong(&p->space));
	fake_free(p);
}

/* Control starts in the loader; the program's addresses are beside. */
static void test_exec_dynamic(void)
{
	struct abi_proc *p = fake_proc();
	struct abi_exec args = exec_args();
	struct abi_elf_plan program = plan;
	const struct abi_regs *regs = abi_thread_regs(p, 0);
	const u64 *aux;

	use.role = ABI_ELF_LOADER;
	base_file(ET_DYN, 0);
	plan_file();
	use.role = ABI_ELF_STATIC;
	strcpy(program.interp, "/lib/ld.so");
	args.plan = &program;
	args.loader = &plan;
	args.loader_end = plan.end + 0x1800;
	if (!tap_ok(!abi_exec(p, &args), "exec of a dynamic program"))
		return;
	aux = (const u64 *)regs->rsp + 1 + 4 + 3;
	TAP(regs->rip == SKEP_MMAP_START + 0x1010);
	TAP(find_auxv(aux, AT_BASE) == SKEP_MMAP_START &&
	    find_auxv(aux, AT_ENTRY) == 0x401010 &&
	    find_auxv(aux, AT_PHDR) == 0x400040);
	tap_ok(abi_space_check(p, plan.start + 0x1000, 4096, ABI_PROT_EXEC) &&
		       abi_space_check(p, plan.end, 0x2000, ABI_PROT_EXEC),
	       "the loader's segments and stubs are in the map");
	TAP(!strcmp(p->interp, "/lib/ld.so") && !abi_space_wrong(&p->space));
	fake_free(p);
}

static void exec_refused(void)
{
	static char big[300000];
	const char *many[] = {"x", big, 0};
	struct abi_proc *p = fake_proc();
	struct abi_exec args = exec_args();

	memset(big, 'b', sizeof(big) - 1);
	args.argv = many;
	tap_ok(abi_exec(p, &args) == -LINUX_E2BIG, "too long arguments: E2BIG");
	fake_free(p);
	p = fake_proc();
	args = exec_args();
	args.stack_size = 2ull << 30;
	tap_ok(abi_exec(p, &args) == -LINUX_ENOMEM,
	       "a stack above the memory limit: ENOMEM");
	fake_free(p);
}

int main(int argc, char **args)
{
	if (argc == 3 && !strcmp(args[1], "--corpus"))
		corpus = args[2];
	test_accepted();
	bad_header();
	bad_segment();
	bad_kind();
	test_dynamic();
	test_library();
	if (corpus)
		return 0;
	test_truncated();
	test_exec();
	test_exec_dynamic();
	exec_refused();
	return tap_done();
}
