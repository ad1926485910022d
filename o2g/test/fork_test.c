// SPDX-License-Identifier: MIT
/* fork() and exec with open endpoints, and fork() amid of a call. */
#define _GNU_SOURCE /* gettid */
#include "amid.h"
#include "bed.h"

#include <tests/tap.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

/* What a program sees that we start, as a number. */
static int count_inherited(void)
{
	FILE *list = popen("ls /proc/self/fd | wc -l", "r");
	int n = -1;

	if (!list || fscanf(list, "%d", &n) != 1)
		bed_die("ls");
	pclose(list);
	return n;
}

/* Until the engines' threads have begun; the openers' have when there is a
 * connection. A thread that begins holds a lock of gcc's AddressSanitizer. If
 * it is locked during fork(), the child's first pthread_create() waits for it
 * without end. */
static int await_threads(int expected)
{
	int left = BED_WAIT;

	while (__atomic_load_n(&threads_slept, __ATOMIC_RELAXED) < expected &&
	       left-- > 0)
		usleep(1000);
	return left > 0;
}

static void test_forks(void)
{
	int plain = count_inherited(), threads = threads_slept;
	struct o2g *a = bed_open(), *b = bed_open();
	int before, status = 1;
	pid_t pid;

	before = bed_count_descriptors();
	TAP(bed_transfer(a, b));
	if (strcmp(o2g_engine_name(a), "user") == 0)
		TAP(await_threads(threads + 2));
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		struct o2g_event event;
		struct o2g *mine;
		int bad, spare;

		bad = bed_count_descriptors() > before - 6;
		bad |= (o2g_poll(a, &event, 1) != -EBADF) << 1;
		bad |= (o2g_wait(a, &event, 1, 0) != -EBADF) << 2;
		bad |= (o2g_close(a, 0) != -EBADF) << 3;
		bad |= !strstr(o2g_error(), "fork") << 4;
		mine = bed_open();
		bad |= !bed_transfer(mine, mine) << 5;
		bad |= !!o2g_close(mine, 100) << 6;
		spare = dup(0);
		bad |= (o2g_register_socket(a, spare, 0, 1) != -EBADF ||
			fcntl(spare, F_GETFD) >= 0)
		       << 7;
		_exit(bad);
	}
	waitpid(pid, &status, 0);
	tap_ok(status == 0,
	       "after fork() inherited endpoints fail, the child's own work "
	       "(%#x)",
	       status);
	TAP(bed_transfer(a, b));
	tap_ok(count_inherited() == plain, "a program started by exec inherits "
					   "nothing");
	TAP(bed_transfer(b, a));
	TAP(o2g_close(a, 1000) == 0);
	TAP(o2g_close(b, 1000) == 0);
}

/* A fork() by another thread, amid of this one's call. */
static int fork_amid, fork_child;

static void *run_fork(void *arg)
{
	pid_t pid = fork();
	int n = 0, status = -1;

	if (pid == 0) { /* no malloc(): another thread may be in it */
		for (int fd = 0; fd < 256; fd++)
			n += fcntl(fd, F_GETFD) >= 0;
		_exit(n);
	}
	waitpid(pid, &status, 0);
	__atomic_store_n(&fork_child, status, __ATOMIC_RELEASE);
	return arg;
}

static pthread_t forker;

/* Waits for the child, but not for long: the fork may have to wait for us. */
static void fork_now(void)
{
	if (!__atomic_exchange_n(&fork_amid, 0, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&fork_child, -1, __ATOMIC_RELAXED);
	pthread_create(&forker, 0, run_fork, 0);
	for (int i = 0; i < 200; i++) {
		if (__atomic_load_n(&fork_child, __ATOMIC_ACQUIRE) != -1)
			break;
		usleep(1000);
	}
}

/* Called while an endpoint opens, */
int listen(int fd, int backlog)
{
	fork_now();
	return (int)syscall(SYS_listen, fd, backlog);
}

/* and while it closes. */
int unlinkat(int folder, const char *path, int flags)
{
	fork_now();
	return (int)syscall(SYS_unlinkat, folder, path, flags);
}

static void test_forks_amid(void)
{
	int plain = bed_count_descriptors() - 3; /* ".", ".." and the list */
	struct o2g *a;

	fork_amid = 1;
	a = bed_open();
	pthread_join(forker, 0);
	tap_ok(fork_amid == 0 && WEXITSTATUS(fork_child) == plain,
	       "a child that is forked while an endpoint opens inherits "
	       "nothing (%d, %d)",
	       WEXITSTATUS(fork_child), plain);
	fork_amid = 1;
	TAP(o2g_close(a, 1000) == 0);
	pthread_join(forker, 0);
	tap_ok(fork_amid == 0 && WEXITSTATUS(fork_child) == plain,
	       "nor one that is forked while it closes (%d, %d)",
	       WEXITSTATUS(fork_child), plain);
}

int main(void)
{
	setenv("SKEP_O2G_LOG", "0", 1);
	test_forks();
	test_forks_amid();
	return tap_done();
}
