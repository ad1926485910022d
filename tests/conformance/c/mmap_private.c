/* SPDX-License-Identifier: MIT */
/* Private mappings follow their file; shared ones are at fixed addresses. */
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

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)context;
	fault_code = info->si_code;
	siglongjmp(back, 1);
}

/* 0: the byte can be read; else the si_code of the SIGBUS. */
static int touch_byte(const volatile char *at)
{
	fault_code = 0;
	if (!sigsetjmp(back, 1))
		(void)*at;
	return fault_code;
}

static char *map_file(int fd, int pages, int prot, int flags)
{
	void *at = mmap(NULL, (size_t)pages * PAGE, prot, flags, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

static void check_private(int fd)
{
	char *private = map_file(fd, 2, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	char *copy = map_file(fd, 2, PROT_READ, MAP_PRIVATE);

	CHECK(private && copy);
	CHECK(pwrite(fd, "written", 7, 100) == 7);
	CHECK(!memcmp(private + 100, "written", 7));
	private[PAGE] = 'p';
	CHECK(pwrite(fd, "file", 4, PAGE) == 4);
	CHECK(private[PAGE] == 'p' && copy[PAGE] == 'f');
	CHECK(!ftruncate(fd, 10) && touch_byte(copy + PAGE) == BUS_ADRERR);
	CHECK(!ftruncate(fd, 2 * PAGE) && !touch_byte(copy + PAGE));
	munmap(private, 2 * PAGE);
	munmap(copy, 2 * PAGE);
}

static void check_fixed(int fd)
{
	char *at = map_file(fd, 4, PROT_READ | PROT_WRITE, MAP_SHARED);
	char *second;

	CHECK(at && !ftruncate(fd, 4 * PAGE));
	at[3 * PAGE] = 'm';
	second = mmap(at + PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd,
		      3 * PAGE);
	if (!CHECK(second == at + PAGE && *second == 'm'))
		return;
	at[3 * PAGE] = 'n';
	CHECK(*second == 'n');
	CHECK(!munmap(at + 2 * PAGE, PAGE) && at[3 * PAGE] == 'n' &&
	      *second == 'n');
	munmap(at, 4 * PAGE);
}

int main(void)
{
	int fd = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
	struct sigaction sa = {.sa_sigaction = on_fault,
			       .sa_flags = SA_SIGINFO};

	sigaction(SIGBUS, &sa, NULL);
	CHECK(fd >= 0 && !ftruncate(fd, 2 * PAGE));
	check_private(fd);
	check_fixed(fd);
	close(fd);
	unlink("mapped");
	return say_done();
}
