/* SPDX-License-Identifier: MIT */
/*
 * A program that is moved while it runs.
 * usage: work count N MS | copy | socket | fill MB PARTS
 *
 * count: prints 0 to N - 1, each after MS ms, and also appends them to files in
 * its three folders; when its input has ended, it reads these, and exits with 7
 * if they are whole, and if it can start itself by the name that its file had
 * at the beginning. socket: has one until its input ends.
 *
 * fill: writes to MB MiB of memory, all of it and then 1 % every 40 ms, in turn
 * the first PARTS of 100, until its input ends; it exits with 7 if each word
 * has what was written last.
 */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *const names[] = {"log", "/tmp/log", "/dev/shm/log"};
static volatile int turns;

static void pause_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&t, NULL);
}

static void *count_turns(void *unused)
{
	for (;;) {
		turns++;
		pause_ms(10);
	}
	return unused;
}

/* 1: the file has 0 to n - 1 */
static int is_whole(const char *name, int n)
{
	FILE *f = fopen(name, "r");
	int i, got;

	for (i = 0; f && i < n; i++)
		if (fscanf(f, "%d", &got) != 1 || got != i)
			return 0;
	return f && fscanf(f, "%d", &got) == EOF;
}

static void await_end(void)
{
	char byte;

	while (read(0, &byte, 1) > 0)
		;
}

/* The exit code of `program self`. */
static int start_itself(char *program)
{
	char *argv[] = {program, "self", NULL}, *envp[] = {NULL};
	int status;
	pid_t pid;

	if (posix_spawn(&pid, program, NULL, NULL, argv, envp) ||
	    waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static int run_count(int n, long ms)
{
	char program[4096] = "";
	pthread_t other;
	FILE *f[3];
	int i, k;

	if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0 ||
	    pthread_create(&other, NULL, count_turns, NULL))
		return 1;
	for (k = 0; k < 3; k++)
		f[k] = fopen(names[k], "w");
	for (i = 0; i < n; i++) {
		printf("%d\n", i);
		fflush(stdout);
		for (k = 0; k < 3; k++) {
			fprintf(f[k], "%d\n", i);
			fflush(f[k]);
		}
		pause_ms(ms);
	}
	await_end();
	for (k = 0; k < 3; k++)
		if (!is_whole(names[k], n))
			return 2;
	if (start_itself(program) != 8)
		return 4;
	return turns ? 7 : 3;
}

static int run_copy(void)
{
	char line[256];
	int n = 0;

	while (fgets(line, sizeof(line), stdin)) {
		fputs(line, stdout);
		fflush(stdout);
		if (++n % 16 == 0)
			pause_ms(5);
	}
	fprintf(stderr, "%d lines\n", n);
	return 0;
}

static unsigned long *memory, words;
static unsigned writes[100]; /* of each part of 100 */

static unsigned long expected_word(unsigned long i)
{
	return (i + 1) * 0x9e3779b97f4a7c15 ^ writes[i / (words / 100)];
}

static void write_part(unsigned long part)
{
	unsigned long i;

	writes[part]++;
	for (i = part * (words / 100); i < (part + 1) * (words / 100); i++)
		memory[i] = expected_word(i);
}

static int over;

static void *read_input(void *unused)
{
	await_end();
	__atomic_store_n(&over, 1, __ATOMIC_SEQ_CST);
	return unused;
}

static int run_fill(unsigned long mb, unsigned long parts)
{
	pthread_t reader;
	unsigned long i, n;

	words = mb * ((1 << 20) / sizeof(*memory) / 100 * 100);
	memory = malloc(words * sizeof(*memory));
	if (!memory || pthread_create(&reader, NULL, read_input, NULL))
		return 1;
	for (n = 0; n < 100; n++)
		write_part(n);
	puts("ready");
	fflush(stdout);
	while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
		write_part(n++ % parts);
		pause_ms(40);
	}
	for (i = 0; i < words; i++)
		if (memory[i] != expected_word(i))
			return 2;
	return 7;
}

int main(int argc, char **argv)
{
	if (argc > 3 && !strcmp(argv[1], "count"))
		return run_count(atoi(argv[2]), atol(argv[3]));
	if (argc > 3 && !strcmp(argv[1], "fill"))
		return run_fill(strtoul(argv[2], NULL, 10),
				strtoul(argv[3], NULL, 10));
	if (argc > 1 && !strcmp(argv[1], "self"))
		return 8;
	if (argc > 1 && !strcmp(argv[1], "copy"))
		return run_copy();
	if (argc > 1 && !strcmp(argv[1], "socket")) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		puts("ready");
		fflush(stdout);
		await_end();
		return close(fd);
	}
	return 1;
}
