/* SPDX-License-Identifier: MIT */
/*
 * Robust mutexes in shared memory whose owner cannot unlock them: it is killed,
 * another of its threads ends the process, or it executes a program.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "say.h"

#define FUTEX_CMP_REQUEUE 4
#define OWNER_DIED 0x40000000u
#define TID_MASK 0x3fffffffu
#define LIMIT 2048 /* ROBUST_LIST_LIMIT */
#define NODES (LIMIT + 3)
#define OTHER 77u /* a number that is not the owner's */

struct node {
	struct node *next;
	uint32_t word;
};

struct common {
	pthread_mutex_t mutex[2];
	sem_t held, waited;
	int at; /* the word of mutex[1] that contains the owner */
	struct node node[NODES];
};

struct list_head {
	struct node *next;
	long offset;
	struct node *pending;
};

static struct common *s;
static const char *self;

static void common_init(int fd)
{
	pthread_mutexattr_t a;
	int i;

	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
		 fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	for (i = 0; i < 2; i++)
		pthread_mutex_init(&s->mutex[i], &a);
	sem_init(&s->held, 1, 0);
	sem_init(&s->waited, 1, 0);
}

/* At mutex[1]. */
static long count_sleepers(void)
{
	uint32_t *word = (uint32_t *)&s->mutex[1] + s->at;

	return syscall(SYS_futex, word, FUTEX_CMP_REQUEUE, 0, 1000L, word,
		       __atomic_load_n(word, __ATOMIC_SEQ_CST));
}

enum how { KILLED, KILLED_THREAD, EXITED_OTHER, EXECUTED };

/* glibc and musl place the word differently. */
static void take_both(void)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	pthread_mutex_lock(&s->mutex[0]);
	pthread_mutex_lock(&s->mutex[1]);
	s->at = (*(uint32_t *)&s->mutex[1] & TID_MASK) != tid;
	sem_post(&s->held);
}

static void *hold_both(void *arg)
{
	take_both();
	for (;;)
		pause();
	return arg;
}

/* Until the waiter sleeps. */
static void end_when_waited(enum how how)
{
	while (sem_wait(&s->waited))
		;
	while (count_sleepers() != 1)
		usleep(1000);
	if (how == EXECUTED)
		execl(self, self, "exit", NULL);
	_exit(how == EXECUTED ? 1 : 7);
}

static pid_t start_owner(enum how how)
{
	pid_t pid = fork();
	pthread_t id;

	if (pid)
		return pid;
	if (how == EXECUTED) {
		take_both();
		end_when_waited(how);
	}
	if (how == KILLED)
		hold_both(NULL);
	pthread_create(&id, NULL, hold_both, NULL);
	if (how == EXITED_OTHER)
		end_when_waited(how);
	for (;;)
		pause();
}

/* Gets the lock by the owner's end, as a process that sleeps until then. */
static pid_t start_waiter(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	if (pthread_mutex_lock(&s->mutex[1]) != EOWNERDEAD)
		_exit(1);
	if (pthread_mutex_consistent(&s->mutex[1]))
		_exit(2);
	_exit(pthread_mutex_unlock(&s->mutex[1]) ? 3 : 0);
}

static void check_owner(enum how how)
{
	pid_t owner = start_owner(how), waiter;
	int status = -1;

	while (sem_wait(&s->held))
		;
	CHECK(pthread_mutex_trylock(&s->mutex[0]) == EBUSY);
	waiter = start_waiter();
	if (how > KILLED_THREAD)
		sem_post(&s->waited);
	if (how <= KILLED_THREAD) {
		while (count_sleepers() != 1)
			usleep(1000);
		CHECK(kill(owner, SIGKILL) == 0);
	}
	CHECK(waitpid(owner, &status, 0) == owner);
	CHECK(how <= KILLED_THREAD
		      ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
		      : WIFEXITED(status) && WEXITSTATUS(status) == 7);
	/* what wait(2) tells of has released its locks */
	CHECK(pthread_mutex_trylock(&s->mutex[0]) == EOWNERDEAD);
	CHECK(pthread_mutex_consistent(&s->mutex[0]) == 0);
	CHECK(pthread_mutex_unlock(&s->mutex[0]) == 0);
	CHECK(waitpid(waiter, &status, 0) == waiter && status == 0);
	CHECK(pthread_mutex_lock(&s->mutex[1]) == 0);
	CHECK(pthread_mutex_unlock(&s->mutex[1]) == 0);
}

/* A list of its own: the first word is another's, the third is being locked. */
static void die_with_list(int nodes, int bad)
{
	static struct list_head head;
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	int i;

	for (i = 0; i < nodes; i++) {
		s->node[i].next =
			i + 1 < nodes ? &s->node[i + 1] : (struct node *)&head;
		s->node[i].word = tid;
	}
	s->node[0].word = OTHER;
	if (bad)
		s->node[bad].next = (struct node *)8;
	head.next = s->node;
	head.offset = offsetof(struct node, word);
	head.pending = &s->node[2];
	syscall(SYS_set_robust_list, &head, sizeof(head));
	kill(getpid(), SIGKILL);
	_exit(1);
}

static int count_died(int from, int to)
{
	int i, n = 0;

	for (i = from; i < to; i++)
		n += s->node[i].word == OWNER_DIED;
	return n;
}

static void check_list(int nodes, int bad)
{
	pid_t pid = fork();
	int status = 0;

	if (!pid)
		die_with_list(nodes, bad);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	CHECK(s->node[0].word == OTHER);
	CHECK(s->node[1].word == OWNER_DIED);
	if (bad) { /* what follows, and the pending one, is left */
		CHECK(count_died(3, bad + 1) == bad - 2);
		CHECK(count_died(bad + 1, nodes) == 0);
		CHECK(s->node[2].word != OWNER_DIED);
		return;
	}
	CHECK(s->node[2].word == OWNER_DIED);
	CHECK(count_died(3, LIMIT) == (nodes < LIMIT ? nodes : LIMIT) - 3);
	CHECK(count_died(LIMIT, NODES) == 0);
}

int main(int argc, char **argv)
{
	int fd;

	if (argc > 1 && !strcmp(argv[1], "exit"))
		return 7;
	self = "/proc/self/exe";
	common_init(-1);
	check_owner(KILLED);
	check_owner(KILLED_THREAD);
	check_owner(EXITED_OTHER);
	check_owner(EXECUTED);
	check_list(5, 0);
	check_list(9, 4);
	check_list(NODES, 0);
	fd = open("robust.page", O_RDWR | O_CREAT, 0600);
	if (CHECK(fd >= 0 && ftruncate(fd, sizeof(*s)) == 0)) {
		common_init(fd);
		check_owner(KILLED);
		check_owner(KILLED_THREAD);
	}
	return say_done();
}
