/* SPDX-License-Identifier: MIT */
/*
 * Two programs that map one file and talk through it.
 * usage: mapper one|two ROUNDS, in the same directory
 *
 * Each round goes both ways through both doors: what one stores in its mapping
 * the other reads with pread, and what one writes with pwrite the other loads
 * from its mapping. Then two makes the file longer, and one uses the new part
 * of its old mapping. At the end two makes the file shorter.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 256
#define SHORT 20 /* pages at first; not a multiple of 64 KiB */

static int fd;
static volatile unsigned *map;
static sigjmp_buf back;

static void on_bus(int signo)
{
	siglongjmp(back, signo);
}

/* The word at the start of a page of the file. */
static unsigned word_read(int page)
{
	unsigned value = 0;

	if (pread(fd, &value, sizeof(value), (off_t)page * PAGE) < 0)
		exit(3);
	return value;
}

static void word_write(int page, unsigned value)
{
	if (pwrite(fd, &value, sizeof(value), (off_t)page * PAGE) !=
	    sizeof(value))
		exit(4);
}

static volatile unsigned *word_at(int page)
{
	return map + (size_t)page * (PAGE / sizeof(*map));
}

static void await_file(int page, unsigned value)
{
	while (word_read(page) != value)
		usleep(100);
}

static void await_map(int page, unsigned value)
{
	while (*word_at(page) != value)
		usleep(100);
}

static void await_size(off_t size)
{
	struct stat st;

	while (!fstat(fd, &st) && st.st_size != size)
		usleep(100);
}

/* 0, or the signal that a load there gives. */
static int load_signal(int page)
{
	int signo = sigsetjmp(back, 1);

	if (!signo)
		(void)*word_at(page);
	return signo;
}

static void run_one(unsigned rounds)
{
	unsigned i;

	for (i = 1; i <= rounds; i++) {
		*word_at(0) = i;   /* two: pread */
		await_map(17, i);  /* two: pwrite */
		word_write(2, i);  /* two: load */
		await_file(19, i); /* two: store */
	}
	printf("behind the end: %d\n", load_signal(100) == SIGBUS);
	*word_at(1) = 1;
	await_size(PAGES * PAGE);
	await_map(200, 7);
	*word_at(201) = 8;
	await_file(3, 1);
	printf("cut off: %d\n",
	       load_signal(SHORT) == SIGBUS || word_read(SHORT + 1) == 9);
	*word_at(1) = 2;
}

static void run_two(unsigned rounds)
{
	unsigned i;
	int cut;

	for (i = 1; i <= rounds; i++) {
		await_file(0, i);
		word_write(17, i);
		await_map(2, i);
		*word_at(19) = i;
	}
	await_map(1, 1);
	if (ftruncate(fd, PAGES * PAGE))
		exit(5);
	word_write(200, 7);
	await_map(201, 8);
	word_write(SHORT + 1, 9);
	cut = ftruncate(fd, SHORT * PAGE);
	printf("shorter: %d\n", !cut || errno == ETXTBSY);
	word_write(3, 1);
	await_map(1, 2);
}

int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_bus};

	if (argc != 3)
		return 2;
	sigaction(SIGBUS, &sa, NULL);
	fd = open("mapped", O_RDWR);
	map = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		   0);
	if (map == MAP_FAILED)
		return 3;
	if (!strcmp(argv[1], "one"))
		run_one((unsigned)atoi(argv[2]));
	else
		run_two((unsigned)atoi(argv[2]));
	printf("%s done\n", argv[1]);
	return 0;
}
