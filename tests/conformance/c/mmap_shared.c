/* SPDX-License-Identifier: MIT */
/* Mappings of files are the file: read, write, other mappings, its end. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "say.h"

#define PAGE 4096

static sigjmp_buf back;
static volatile int fault_code;
static char *volatile fault_at;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	fault_code = info->si_code;
	fault_at = info->si_addr;
	siglongjmp(back, 1);
}

/* 0: the byte can be read; else the si_code of the SIGBUS. */
static int touch(const volatile char *at)
{
	fault_code = 0;
	if (!sigsetjmp(back, 1))
		(void)*at;
	return fault_code;
}

static char *map(int fd, int pages, int prot, int flags)
{
	void *at = mmap(NULL, (size_t)pages * PAGE, prot, flags, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

static void check_coherent(int fd)
{
	char *one = map(fd, 2, PROT_READ | PROT_WRITE, MAP_SHARED);
	char *two = map(fd, 2, PROT_READ, MAP_SHARED);
	char *private = map(fd, 2, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char buf[8] = "";

	CHECK(one && two && private);
	CHECK(pwrite(fd, "written", 7, 100) == 7);
	CHECK(!memcmp(one + 100, "written", 7) &&
	      !memcmp(two + 100, "written", 7));
	CHECK(!memcmp(private + 100, "written", 7));
	memcpy(one + 200, "stored", 6);
	CHECK(!memcmp(two + 200, "stored", 6));
	CHECK(pread(fd, buf, 6, 200) == 6 && !memcmp(buf, "stored", 6));
	private[PAGE] = 'p';
	CHECK(pwrite(fd, "file", 4, PAGE) == 4);
	CHECK(private[PAGE] == 'p' && one[PAGE] == 'f');
	CHECK(!madvise(private + PAGE, PAGE, MADV_DONTNEED) &&
	      private[PAGE] == 'f');
	CHECK(!msync(one, 2 * PAGE, MS_SYNC) && !msync(two, PAGE, MS_ASYNC));
	CHECK(!mprotect(one, PAGE, PROT_READ) && one[100] == 'w');
	CHECK(!munmap(one, 2 * PAGE) && two[200] == 's');
	munmap(two, 2 * PAGE);
	munmap(private, 2 * PAGE);
}

static void check_end(int fd)
{
	char *at = map(fd, 3, PROT_READ | PROT_WRITE, MAP_SHARED);
	char *copy = map(fd, 3, PROT_READ, MAP_PRIVATE);
	struct stat st;

	CHECK(at && !ftruncate(fd, 3 * PAGE) && !touch(at + 2 * PAGE));
	CHECK(!ftruncate(fd, 10) && !touch(at + 100) && at[100] == 0);
	CHECK(touch(at + PAGE) == BUS_ADRERR && fault_at == at + PAGE);
	CHECK(touch(copy + PAGE) == BUS_ADRERR);
	CHECK(FAILS(write(fd, at + 2 * PAGE, 1), EFAULT));
	CHECK(FAILS(stat((char *)at + PAGE, &st), EFAULT));
	CHECK(!ftruncate(fd, 2 * PAGE) && !touch(at + PAGE));
	at[PAGE + 1] = 'x';
	CHECK(copy[PAGE + 1] == 'x');
	munmap(at, 3 * PAGE);
	munmap(copy, 3 * PAGE);
}

static void check_moves(int fd)
{
	char *at = map(fd, 1, PROT_READ | PROT_WRITE, MAP_SHARED);
	char *second, *text, c = 0;

	CHECK(!ftruncate(fd, 4 * PAGE));
	at = mremap(at, PAGE, 4 * PAGE, MREMAP_MAYMOVE);
	CHECK(at != MAP_FAILED);
	at[3 * PAGE] = 'm';
	CHECK(pread(fd, &c, 1, 3 * PAGE) == 1 && c == 'm');
	second = mmap(at + PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd,
		      3 * PAGE);
	CHECK(second == at + PAGE && *second == 'm');
	at[3 * PAGE] = 'n';
	CHECK(*second == 'n');
	CHECK(!munmap(at + 2 * PAGE, PAGE) && at[3 * PAGE] == 'n' &&
	      *second == 'n');
	munmap(at, 4 * PAGE);
	/* Text is looked at once: what changes in the file later is not in it.
	 */
	CHECK(pwrite(fd, "\xc3\xc3", 2, 0) == 2);
	text = map(fd, 4, PROT_READ, MAP_PRIVATE);
	CHECK(!mprotect(text, PAGE, PROT_READ | PROT_EXEC));
	((void (*)(void))text)();
	CHECK(!mprotect(text, PAGE, PROT_READ) && *text == '\xc3');
	munmap(text, 4 * PAGE);
}

static void check_rights(void)
{
	int reader = open("mapped", O_RDONLY),
	    writer = open("mapped", O_WRONLY);
	char *at;

	CHECK(!map(reader, 1, PROT_READ | PROT_WRITE, MAP_SHARED) &&
	      errno == EACCES);
	CHECK(!map(writer, 1, PROT_READ, MAP_PRIVATE) && errno == EACCES);
	at = map(reader, 1, PROT_READ, MAP_SHARED);
	CHECK(at && FAILS(mprotect(at, PAGE, PROT_READ | PROT_WRITE), EACCES));
	CHECK(pwrite(writer, "late", 4, 50) == 4 && !close(reader));
	CHECK(!memcmp(at + 50, "late", 4));
	munmap(at, PAGE);
	close(writer);
}

int main(void)
{
	int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct sigaction sa = {.sa_sigaction = on_fault,
			       .sa_flags = SA_SIGINFO};

	sigaction(SIGBUS, &sa, NULL);
	CHECK(fd >= 0 && !ftruncate(fd, 2 * PAGE));
	check_coherent(fd);
	check_end(fd);
	check_moves(fd);
	check_rights();
	close(fd);
	unlink("mapped");
	return say_done();
}
