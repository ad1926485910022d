/* SPDX-License-Identifier: MIT */
/* Mappings of files: private, shared, with an offset, past the end. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include "say.h"

#define PAGE 4096
#define RW (PROT_READ | PROT_WRITE)

static int fd;

static int byte_at(off_t offset)
{
	unsigned char byte;

	return pread(fd, &byte, 1, offset) == 1 ? byte : -1;
}

static void fill_file(void)
{
	unsigned char page[PAGE];
	int i;

	for (i = 0; i < 4; i++) {
		memset(page, 'a' + i, PAGE);
		CHECK(write(fd, page, PAGE) == PAGE);
	}
	CHECK(write(fd, "tail", 4) == 4);
}

static void check_private(void)
{
	char *p = mmap(NULL, 5 * PAGE, RW, MAP_PRIVATE, fd, 0);

	CHECK(p != MAP_FAILED);
	CHECK(p[0] == 'a' && p[PAGE] == 'b' && p[4 * PAGE - 1] == 'd');
	CHECK(!memcmp(p + 4 * PAGE, "tail\0\0", 6));
	p[0] = 'X';
	CHECK(byte_at(0) == 'a');
	CHECK(munmap(p, 5 * PAGE) == 0);
	p = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, 2 * PAGE);
	CHECK(p != MAP_FAILED && p[0] == 'c' && p[PAGE] == 'd');
	CHECK(munmap(p, 2 * PAGE) == 0);
}

static void check_shared(void)
{
	char *p = mmap(NULL, 2 * PAGE, RW, MAP_SHARED, fd, PAGE);

	CHECK(p != MAP_FAILED);
	CHECK(p[0] == 'b' && p[PAGE] == 'c');
	p[10] = 'S';
	p[PAGE + 10] = 'T';
	CHECK(msync(p, 2 * PAGE, MS_SYNC) == 0);
	CHECK(byte_at(PAGE + 10) == 'S' && byte_at(2 * PAGE + 10) == 'T');
	p[11] = 'U';
	CHECK(munmap(p, 2 * PAGE) == 0);
	CHECK(byte_at(PAGE + 11) == 'U');
	CHECK(byte_at(PAGE + 12) == 'b');
}

static void check_refusals(void)
{
	int other = open("map.txt", O_RDONLY);
	char *p;

	p = mmap(NULL, PAGE, RW, MAP_SHARED, other, 0);
	CHECK(p == MAP_FAILED && errno == EACCES);
	p = mmap(NULL, PAGE, RW, MAP_PRIVATE, other, 0);
	CHECK(p != MAP_FAILED);
	CHECK(close(other) == 0);
	CHECK(p[0] == 'a');
	p[0] = 'Z';
	CHECK(p[0] == 'Z' && byte_at(0) == 'a');
	CHECK(munmap(p, PAGE) == 0);
	p = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 100);
	CHECK(p == MAP_FAILED && errno == EINVAL);
}

static void check_fixed(void)
{
	char *p = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	CHECK(mmap(p + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) ==
	      p + PAGE);
	CHECK(p[PAGE] == 'a' && p[2 * PAGE - 1] == 'a');
	CHECK(munmap(p, 4 * PAGE) == 0);
	p = mmap(NULL, 2 * PAGE, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED && p[PAGE] == 0);
	p[PAGE] = 1;
	CHECK(p[PAGE] == 1 && munmap(p, 2 * PAGE) == 0);
}

/* What is mapped stays, and the name is free at once. */
static void check_unlinked(void)
{
	int f = open("gone.txt", O_RDWR | O_CREAT | O_TRUNC, 0644);
	char *p;

	CHECK(f >= 0 && write(f, "mapped", 6) == 6);
	p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, f, 0);
	CHECK(p != MAP_FAILED && close(f) == 0);
	CHECK(unlink("gone.txt") == 0 &&
	      FAILS(open("gone.txt", O_RDONLY), ENOENT));
	CHECK(memcmp(p, "mapped", 6) == 0);
	f = open("gone.txt", O_RDWR | O_CREAT | O_EXCL, 0644);
	CHECK(f >= 0 && close(f) == 0 && unlink("gone.txt") == 0);
	CHECK(memcmp(p, "mapped", 6) == 0 && munmap(p, PAGE) == 0);
}

int main(void)
{
	fd = open("map.txt", O_RDWR | O_CREAT | O_TRUNC, 0644);
	CHECK(fd >= 0);
	fill_file();
	check_private();
	check_shared();
	check_refusals();
	check_fixed();
	check_unlinked();
	CHECK(close(fd) == 0);
	CHECK(unlink("map.txt") == 0);
	return say_done();
}
