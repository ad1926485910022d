/* SPDX-License-Identifier: MIT */
/* Code made at run time. usage: jit clean|again|syscall|fs|rwx|both|alias */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const unsigned char answer[] = {0xb8, 42, 0, 0, 0, 0xc3};
static const unsigned char other[] = {0xb8, 43, 0, 0, 0, 0xc3};
/* mov $39, %eax; syscall; ret */
static const unsigned char call[] = {0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3};
/* mov %fs:0, %rax; ret */
static const unsigned char fs[] = {0x64, 0x48, 0x8b, 4, 0x25, 0, 0, 0, 0, 0xc3};
/* mov $0x050f, %eax; ret: no system call, but one byte later it is */
static const unsigned char hidden[] = {0xb8, 0x0f, 0x05, 0, 0, 0xc3};

static int run_code(unsigned char *p, const unsigned char *code, size_t len)
{
	if (mprotect(p, 4096, PROT_READ | PROT_WRITE))
		return -1;
	memcpy(p, code, len);
	if (mprotect(p, 4096, PROT_READ | PROT_EXEC)) {
		printf("mprotect: %s\n", strerror(errno));
		return errno == EACCES ? 13 : 1;
	}
	printf("%d\n", ((int (*)(void))p)());
	return 0;
}

/* In a file that is mapped twice: more than a trampoline. */
static int run_alias(void)
{
	FILE *file = tmpfile();
	unsigned char *p, *code;

	if (!file || ftruncate(fileno(file), 4096))
		return 1;
	p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	code = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fileno(file),
		    0);
	if (p == MAP_FAILED || code == MAP_FAILED)
		return 2;
	memcpy(p, answer, sizeof(answer));
	printf("%d\n", ((int (*)(void))code)());
	return 0;
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "clean";
	unsigned char *p = mmap(0, 4096, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (!strcmp(how, "clean"))
		return run_code(p, answer, sizeof(answer));
	if (!strcmp(how, "again"))
		return run_code(p, answer, sizeof(answer)) ||
		       run_code(p, other, sizeof(other));
	if (!strcmp(how, "late"))
		return run_code(p, answer, sizeof(answer)) ||
		       run_code(p, call, sizeof(call));
	if (!strcmp(how, "syscall"))
		return run_code(p, call, sizeof(call));
	if (!strcmp(how, "fs"))
		return run_code(p, fs, sizeof(fs));
	if (!strcmp(how, "hidden"))
		return run_code(p, hidden, sizeof(hidden));
	if (!strcmp(how, "alias"))
		return run_alias();
	if (!strcmp(how, "both") &&
	    !mprotect(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
		return 0;
	if (!strcmp(how, "rwx") &&
	    mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		return 0;
	printf("%s: %s\n", how, strerror(errno));
	return 14;
}
