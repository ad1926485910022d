/* SPDX-License-Identifier: MIT */
/* Anonymous mappings: fixed, protected, with holes, and their refusals. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "say.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define PAGE 4096
#define RW (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static int channel[2];

/* Readable by the kernel: a pipe write of it succeeds. */
static int is_readable(const char *p)
{
	char byte;

	if (write(channel[1], p, 1) != 1)
		return errno == EFAULT ? 0 : -1;
	return read(channel[0], &byte, 1) == 1 && byte == *p;
}

static int is_writable(char *p)
{
	char byte = 42;

	if (write(channel[1], &byte, 1) != 1)
		return -1;
	if (read(channel[0], p, 1) == 1)
		return *p == 42;
	if (errno != EFAULT)
		return -1;
	return read(channel[0], &byte, 1) == 1 ? 0 : -1;
}

static void check_holes(void)
{
	char *p = mmap(NULL, 16 * PAGE, RW, ANON, -1, 0);

	CHECK(p != MAP_FAILED);
	memset(p, 1, 16 * PAGE);
	CHECK(munmap(p + 4 * PAGE, 3 * PAGE) == 0);
	CHECK(is_readable(p + 4 * PAGE - 1) == 1);
	CHECK(is_readable(p + 4 * PAGE) == 0);
	CHECK(is_readable(p + 7 * PAGE - 1) == 0);
	CHECK(is_readable(p + 7 * PAGE) == 1);
	CHECK(mmap(p + 5 * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0) ==
	      p + 5 * PAGE);
	CHECK(p[5 * PAGE] == 0);
	CHECK(is_readable(p + 6 * PAGE) == 0);
	CHECK(munmap(p + 4 * PAGE, 12 * PAGE) == 0);
	CHECK(munmap(p + 4 * PAGE, 12 * PAGE) == 0);
	CHECK(is_readable(p) == 1 && is_readable(p + 5 * PAGE) == 0);
	CHECK(munmap(p, 4 * PAGE) == 0);
}

static void check_protect(void)
{
	char *p =
		mmap(NULL, 1024 * PAGE, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);

	CHECK(p != MAP_FAILED);
	CHECK(is_readable(p) == 0);
	CHECK(mprotect(p + 8 * PAGE, 8 * PAGE, RW) == 0);
	CHECK(is_writable(p + 8 * PAGE) == 1 &&
	      is_writable(p + 16 * PAGE - 1) == 1);
	CHECK(is_writable(p + 8 * PAGE - 1) == 0 &&
	      is_writable(p + 16 * PAGE) == 0);
	CHECK(mprotect(p + 9 * PAGE, PAGE, PROT_READ) == 0);
	CHECK(is_writable(p + 9 * PAGE) == 0 && is_readable(p + 9 * PAGE) == 1);
	CHECK(mprotect(p + 8 * PAGE, 8 * PAGE, PROT_NONE) == 0);
	CHECK(mprotect(p + 8 * PAGE, 8 * PAGE, RW) == 0);
	CHECK(p[8 * PAGE] == 42);
	CHECK(munmap(p, 1024 * PAGE) == 0);
	CHECK(FAILS(mprotect(p, PAGE, RW), ENOMEM));
	CHECK(FAILS(syscall(SYS_mprotect, p + 1, PAGE, RW), EINVAL));
}

static void check_fixed(void)
{
	char *p = mmap(NULL, 4 * PAGE, RW, ANON, -1, 0);
	char *q;

	p[0] = p[PAGE] = 5;
	CHECK(mmap(p + PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0) == p + PAGE);
	CHECK(p[0] == 5 && p[PAGE] == 0);
	q = mmap(p, PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	CHECK(q == MAP_FAILED && errno == EEXIST);
	CHECK(p[0] == 5);
	q = mmap(p, PAGE, RW, ANON, -1, 0);
	CHECK(q != MAP_FAILED && q != p);
	CHECK(munmap(q, PAGE) == 0);
	CHECK(munmap(p, 4 * PAGE) == 0);
	CHECK(mmap(p, 4 * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0) == p);
	CHECK(munmap(p, 4 * PAGE) == 0);
}

static void check_advice(void)
{
	char *p = mmap(NULL, 8 * PAGE, RW, ANON, -1, 0);

	memset(p, 3, 8 * PAGE);
	CHECK(madvise(p + PAGE, 2 * PAGE, MADV_DONTNEED) == 0);
	CHECK(p[PAGE - 1] == 3 && p[PAGE] == 0 && p[3 * PAGE] == 3);
	CHECK(madvise(p, 8 * PAGE, MADV_WILLNEED) == 0);
	CHECK(FAILS(madvise(p + 1, PAGE, MADV_DONTNEED), EINVAL));
	CHECK(munmap(p, 8 * PAGE) == 0);
}

static void check_refusals(void)
{
	CHECK(mmap(NULL, 0, RW, ANON, -1, 0) == MAP_FAILED && errno == EINVAL);
	CHECK(mmap(NULL, PAGE, RW, MAP_ANONYMOUS, -1, 0) == MAP_FAILED &&
	      errno == EINVAL);
	CHECK(mmap(NULL, PAGE, RW, MAP_PRIVATE, -1, 0) == MAP_FAILED &&
	      errno == EBADF);
	CHECK(mmap(NULL, 1ul << 62, RW, ANON, -1, 0) == MAP_FAILED &&
	      errno == ENOMEM);
	CHECK(mmap((void *)1, PAGE, RW, ANON | MAP_FIXED, -1, 0) ==
		      MAP_FAILED &&
	      errno == EINVAL);
	CHECK(FAILS(munmap((void *)1, PAGE), EINVAL));
	CHECK(FAILS(munmap((void *)PAGE, 0), EINVAL));
}

/* Many mappings, out of order, so that the map splits and merges. */
static void check_many(void)
{
	static char *p[400];
	int i, good = 1;

	for (i = 0; i < 400; i++) {
		p[i] = mmap(NULL, (1 + i % 7) * PAGE, RW, ANON, -1, 0);
		good &= p[i] != MAP_FAILED;
		*(int *)p[i] = i;
	}
	for (i = 0; i < 400; i += 2)
		good &= munmap(p[i], (1 + i % 7) * PAGE) == 0;
	for (i = 1; i < 400; i += 2)
		good &= *(int *)p[i] == i;
	for (i = 1; i < 400; i += 2)
		good &= munmap(p[i], (1 + i % 7) * PAGE) == 0;
	CHECK(good);
}

static sigjmp_buf after_fault;

static void on_fault(int sig)
{
	siglongjmp(after_fault, sig);
}

/* The program's own store, which no check of a call comes before. */
static int store_faults(volatile char *p)
{
	struct sigaction sa = {.sa_handler = on_fault}, old;
	int sig;

	sigaction(SIGSEGV, &sa, &old);
	sig = sigsetjmp(after_fault, 1);
	if (!sig)
		*p = 'f';
	sigaction(SIGSEGV, &old, NULL);
	return sig == SIGSEGV;
}

/* bee on Windows reserves addresses in pieces of 1 GiB: calls across the border
 * of two of them do what others do. */
static void check_border(void)
{
	const unsigned long border = 1ul << 30;
	char *all =
		mmap(NULL, 3 * border, PROT_NONE, ANON | MAP_NORESERVE, -1, 0);
	char *at = (char *)(((unsigned long)all + 2 * border) & -border);

	if (!CHECK(all != MAP_FAILED))
		return;
	CHECK(mprotect(at - 8 * PAGE, 16 * PAGE, RW) == 0);
	CHECK(is_writable(at - PAGE) && is_writable(at));
	at[-1] = at[0] = 'b';
	CHECK(madvise(at - PAGE, 2 * PAGE, MADV_DONTNEED) == 0);
	CHECK(at[-1] == 0 && at[0] == 0);
	CHECK(mprotect(at - PAGE, 2 * PAGE, PROT_READ) == 0);
	CHECK(store_faults(at - PAGE) && store_faults(at));
	CHECK(mprotect(at - PAGE, 2 * PAGE, RW) == 0);
	at[-1] = at[0] = 'b';
	CHECK(mmap(at - PAGE, 2 * PAGE, RW, ANON | MAP_FIXED, -1, 0) ==
	      at - PAGE);
	CHECK(at[-1] == 0 && at[0] == 0);
	CHECK(munmap(at - 2 * PAGE, 4 * PAGE) == 0);
	CHECK(!is_readable(at - 1) && !is_readable(at));
	CHECK(is_readable(at - 3 * PAGE) && is_readable(at + 2 * PAGE));
	CHECK(munmap(all, 3 * border) == 0);
	CHECK(!is_readable(at - 3 * PAGE) && !is_readable(at + 2 * PAGE));
	at = mmap(at - PAGE, 2 * PAGE, RW, ANON | MAP_FIXED, -1, 0);
	CHECK(at != MAP_FAILED && is_writable(at) && is_writable(at + PAGE));
	CHECK(munmap(at, 2 * PAGE) == 0);
}

int main(void)
{
	CHECK(pipe(channel) == 0);
	check_holes();
	check_protect();
	check_fixed();
	check_advice();
	check_refusals();
	check_many();
	check_border();
	return say_done();
}
