/* SPDX-License-Identifier: MIT */
/* Shared mappings of files are the file: read, write, others, its end. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
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

static void check_coherent(int fd)
{
	char *one = map_file(fd, 2, PROT_READ | PROT_WRITE, MAP_SHARED);
	char *two = map_file(fd, 2, PROT_READ, MAP_SHARED);
	char buf[8] = "";

	CHECK(one && two);
	CHECK(pwrite(fd, "written", 7, 100) == 7);
	CHECK(!memcmp(one + 100, "written", 7) &&
	      !memcmp(two + 100, "written", 7));
	memcpy(one + 200, "stored", 6);
	CHECK(!memcmp(two + 200, "stored", 6));
	CHECK(pread(fd, buf, 6, 200) == 6 && !memcmp(buf, "stored", 6));
	CHECK(pwrite(fd, "file", 4, PAGE) == 4 && one[PAGE] == 'f');
	CHECK(!madvise(one, 2 * PAGE, MADV_DONTNEED) && one[200] == 's');
	CHECK(!msync(one, 2 * PAGE, MS_SYNC) && !msync(two, PAGE, MS_ASYNC));
	CHECK(!mprotect(one, PAGE, PROT_READ) && one[100] == 'w');
	CHECK(!munmap(one, 2 * PAGE) && two[200] == 's');
	munmap(two, 2 * PAGE);
}

static void check_end(int fd)
{
	char *at = map_file(fd, 3, PROT_READ | PROT_WRITE, MAP_SHARED);
	struct stat st;

	CHECK(at && !ftruncate(fd, 3 * PAGE) && !touch_byte(at + 2 * PAGE));
	CHECK(!ftruncate(fd, 10) && !touch_byte(at + 100) && at[100] == 0);
	CHECK(touch_byte(at + PAGE) == BUS_ADRERR && fault_at == at + PAGE);
	CHECK(FAILS(write(fd, at + 2 * PAGE, 1), EFAULT));
	CHECK(FAILS(stat((char *)at + PAGE, &st), EFAULT));
	CHECK(!ftruncate(fd, 2 * PAGE) && !touch_byte(at + PAGE));
	munmap(at, 3 * PAGE);
}

/* A file that was empty when it was mapped, far into its mapping. */
static void check_growth(int fd)
{
	char *at = map_file(fd, 200, PROT_READ | PROT_WRITE, MAP_SHARED);
	char buf[8] = "", end[] = "end";

	CHECK(!ftruncate(fd, 0) && touch_byte(at) == BUS_ADRERR);
	CHECK(pwrite(fd, end, 3, 40 * PAGE) == 3);
	/* The kernel meets the new pages first, then the program. */
	CHECK(pwrite(fd, at + 40 * PAGE, 3, 10) == 3);
	CHECK(!memcmp(at + 10, end, 3) && at[39 * PAGE] == 0);
	CHECK(touch_byte(at + 41 * PAGE) == BUS_ADRERR);
	CHECK(!mprotect(at + PAGE, PAGE, PROT_READ));
	CHECK(!ftruncate(fd, 200 * PAGE) && !touch_byte(at + 199 * PAGE));
	at[199 * PAGE] = 'g';
	CHECK(pread(fd, buf, 1, 199 * PAGE) == 1 && buf[0] == 'g');
	CHECK(FAILS(pread(fd, at + PAGE, 1, 0), EFAULT));
	CHECK(pread(fd, at + 2 * PAGE, 3, 10) == 3 &&
	      !memcmp(at + 2 * PAGE, end, 3));
	munmap(at, 200 * PAGE);
}

/* Stores go on while the end of the mapping comes into being. */
static volatile int growing;
static unsigned stored;

static void *store_numbers(void *arg)
{
	volatile unsigned *at = arg;

	while (growing)
		*at = ++stored;
	return NULL;
}

/* And so do calls that read and write there. */
static unsigned refused;

static void *use_mapped_buffers(void *arg)
{
	char *at = arg;
	int fd = open("mapped", O_RDWR);

	while (growing) {
		refused += fstat(fd, (struct stat *)(at + 512)) != 0;
		refused += pread(fd, at + 1024, 8, 512) != 8;
		refused += pwrite(fd, at + 1024, 8, 2048) != 8;
	}
	close(fd);
	return NULL;
}

static void check_race(int fd)
{
	char *at = map_file(fd, 200, PROT_READ | PROT_WRITE, MAP_SHARED);
	unsigned last = 0;
	pthread_t id, caller;
	int page, good = 1;

	CHECK(!ftruncate(fd, PAGE));
	growing = 1;
	CHECK(!pthread_create(&id, NULL, store_numbers, at));
	CHECK(!pthread_create(&caller, NULL, use_mapped_buffers, at));
	for (page = 1; page < 200; page++)
		good &= !ftruncate(fd, (page + 1) * PAGE) &&
			!touch_byte(at + page * PAGE) &&
			pread(fd, at + page * PAGE, 8, 0) == 8;
	growing = 0;
	pthread_join(id, NULL);
	pthread_join(caller, NULL);
	CHECK(good && !refused);
	CHECK(pread(fd, &last, sizeof(last), 0) == sizeof(last) &&
	      last == stored);
	munmap(at, 200 * PAGE);
}

/* Pages go one by one, and places are used again. */
static void check_parts(int fd)
{
	char *at = map_file(fd, 40, PROT_READ | PROT_WRITE, MAP_SHARED), *near;
	int i, good = 1;

	near = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    5 * PAGE);
	at[5 * PAGE] = 'n';
	CHECK(near[0] == 'n');
	CHECK(!munmap(at, 5 * PAGE) && !munmap(at + 6 * PAGE, 10 * PAGE));
	CHECK(at[5 * PAGE] == 'n' && !touch_byte(at + 16 * PAGE));
	CHECK(FAILS(pwrite(fd, at + 6 * PAGE, 1, 0), EFAULT));
	CHECK(!munmap(at + 5 * PAGE, PAGE) &&
	      !munmap(at + 16 * PAGE, 24 * PAGE));
	CHECK(near[0] == 'n' && !munmap(near, 2 * PAGE));
	for (i = 0; i < 6000; i++) {
		at = map_file(fd, 1 + i % 20, PROT_READ, MAP_SHARED);
		good &= at && !munmap(at, (size_t)(1 + i % 20) * PAGE);
	}
	CHECK(good);
}

static void check_moves(int fd)
{
	char *at = map_file(fd, 1, PROT_READ | PROT_WRITE, MAP_SHARED);
	char *text, c = 0;

	CHECK(!ftruncate(fd, 4 * PAGE));
	at = mremap(at, PAGE, 4 * PAGE, MREMAP_MAYMOVE);
	CHECK(at != MAP_FAILED);
	at[3 * PAGE] = 'm';
	CHECK(pread(fd, &c, 1, 3 * PAGE) == 1 && c == 'm');
	at = mremap(at, 4 * PAGE, 100 * PAGE, MREMAP_MAYMOVE);
	CHECK(at != MAP_FAILED && at[3 * PAGE] == 'm');
	CHECK(touch_byte(at + 4 * PAGE) == BUS_ADRERR);
	CHECK(mremap(at, 100 * PAGE, 2 * PAGE, 0) == at &&
	      !touch_byte(at + PAGE));
	munmap(at, 2 * PAGE);
	/* Text is looked at once: what changes in the file later is not in it.
	 */
	CHECK(pwrite(fd, "\xc3\xc3", 2, 0) == 2);
	text = map_file(fd, 4, PROT_READ, MAP_PRIVATE);
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

	CHECK(!map_file(reader, 1, PROT_READ | PROT_WRITE, MAP_SHARED) &&
	      errno == EACCES);
	CHECK(!map_file(writer, 1, PROT_READ, MAP_PRIVATE) && errno == EACCES);
	at = map_file(reader, 1, PROT_READ, MAP_SHARED);
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
	check_growth(fd);
	check_race(fd);
	check_parts(fd);
	CHECK(!ftruncate(fd, 0) && !ftruncate(fd, 2 * PAGE));
	check_moves(fd);
	check_rights();
	close(fd);
	unlink("mapped");
	return say_done();
}
