/* SPDX-License-Identifier: MIT */
/*
 * Trampolines in a file that is mapped twice, once writable and once
 * executable, as libffi makes them for callbacks: in the forms of libffi 3.4
 * and 3.2 and of GCC's nested functions. What is written shows at once.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "say.h"

#define LEN 8192

static unsigned char *writable, *runs;

/* endbr64; lea -0xb(%rip),%r10; jmp *7(%rip); nopl 0(%rax); the target */
static const unsigned char of_ffi[24] = {
	0xf3, 0x0f, 0x1e, 0xfa, 0x4c, 0x8d, 0x15, 0xf5, 0xff, 0xff, 0xff, 0xff,
	0x25, 0x07, 0,	  0,	0,    0x0f, 0x1f, 0x80, 0,    0,    0,	  0};

/* What they jump to: r10 and the carry flag as results. */
__attribute__((naked, noinline)) static long give_r10(void)
{
	__asm__("endbr64; mov %r10, %rax; ret");
}

__attribute__((naked, noinline)) static long give_carry(void)
{
	__asm__("endbr64; sbb %rax, %rax; xor %r10, %rax; ret");
}

/* Data behind the trampoline, read through the executable mapping. */
__attribute__((naked, noinline)) static long give_data(void)
{
	__asm__("endbr64; mov 32(%r10), %rax; ret");
}

typedef long function(void);

static function *code_at(int offset)
{
	return (function *)(runs + offset);
}

static void put_bytes(int offset, const void *bytes, int len)
{
	memcpy(writable + offset, bytes, len);
}

static void make_ffi(int offset, function *target, long data)
{
	put_bytes(offset, of_ffi, sizeof(of_ffi));
	put_bytes(offset + 24, &target, 8);
	put_bytes(offset + 32, &data, 8);
}

/* [stc or clc]; movabs target,%r11; movabs value,%r10; jmp *%r11 */
static void make_moves(int offset, unsigned char flag, function *target,
		       long value)
{
	writable[offset] = flag;
	put_bytes(offset + 1, "\x49\xbb", 2);
	put_bytes(offset + 3, &target, 8);
	put_bytes(offset + 11, "\x49\xba", 2);
	put_bytes(offset + 13, &value, 8);
	put_bytes(offset + 21, "\x49\xff\xe3", 3);
}

static int open_file(void)
{
	char name[] = "trampolines-XXXXXX";
	int fd = mkstemp(name);

	CHECK(fd >= 0 && unlink(name) == 0 && ftruncate(fd, LEN) == 0);
	return fd;
}

static void *call_often(void *arg)
{
	long i, wrong = 0;

	for (i = 0; i < 200; i++)
		wrong += ((function *)arg)() != (long)arg;
	return (void *)wrong;
}

static void check_threads(void)
{
	pthread_t thread[4];
	void *wrong;
	int i;

	for (i = 0; i < 4; i++)
		make_ffi(64 * i, give_r10, 0);
	for (i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, call_often,
			       (void *)code_at(64 * i));
	for (i = 0; i < 4; i++)
		CHECK(pthread_join(thread[i], &wrong) == 0 && !wrong);
}

int main(void)
{
	int fd = open_file();

	runs = mmap(NULL, LEN, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	writable = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(runs != MAP_FAILED && writable != MAP_FAILED);
	make_ffi(0, give_r10, 0);
	CHECK(code_at(0)() == (long)runs);
	make_ffi(4096 - 40, give_data, 77);
	CHECK(code_at(4096 - 40)() == 77);
	make_ffi(4096 - 40, give_data, 78);
	CHECK(code_at(4096 - 40)() == 78);
	make_moves(4096 + 64, 0xf8, give_carry, 5);
	CHECK(code_at(4096 + 64)() == 5);
	make_moves(4096 + 64, 0xf9, give_carry, 5);
	CHECK(code_at(4096 + 64)() == ~5);
	/* mov $imm32,%r10d; jmp rel32 to one that jumps */
	put_bytes(128, "\x41\xba\x2a\0\0\0\xe9\x35\0\0\0", 11);
	put_bytes(192, "\x49\xbb", 2);
	put_bytes(194, &(function *){give_r10}, 8);
	put_bytes(202, "\x41\xff\xe3", 3);
	CHECK(code_at(128)() == 42);
	check_threads();
	CHECK(FAILS(mprotect(runs, LEN, PROT_READ | PROT_WRITE | PROT_EXEC),
		    EACCES) ||
	      errno == 0);
	CHECK(mprotect(runs, LEN, PROT_READ) == 0);
	CHECK(mprotect(writable, LEN, PROT_READ) == 0);
	CHECK(close(fd) == 0 && munmap(runs, LEN) == 0);
	return say_done();
}
