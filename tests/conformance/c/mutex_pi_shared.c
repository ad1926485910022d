/* SPDX-License-Identifier: MIT */
/*
 * Mutexes that inherit priority, and the futexes below them, between processes:
 * one owner at a time, limits, and the end of an owner.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "say.h"

#define FUTEX_LOCK_PI 6
#define FUTEX_UNLOCK_PI 7
#define FUTEX_TRYLOCK_PI 8
#define FUTEX_LOCK_PI2 13
#define WAITERS 0x80000000u
#define OWNER_DIED 0x40000000u
#define TID_MASK 0x3fffffffu

#define CHILDREN 3
#define TURNS 500

struct common {
	pthread_mutex_t mutex, robust[2];
	sem_t held, end;
	long count;
	int handled;
	uint32_t word[4];
};

static struct common *s;

static void common_init(int fd)
{
	pthread_mutexattr_t a;
	int i;

	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
		 fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
	pthread_mutexattr_init(&a);
	pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
	CHECK(!pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT));
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ERRORCHECK);
	CHECK(!pthread_mutex_init(&s->mutex, &a));
	pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	for (i = 0; i < 2; i++)
		CHECK(!pthread_mutex_init(&s->robust[i], &a));
	sem_init(&s->held, 1, 0);
	sem_init(&s->end, 1, 0);
}

static pid_t fork_or_end(void)
{
	pid_t pid = fork();

	if (pid < 0 && !CHECK(pid >= 0))
		exit(say_done());
	return pid;
}

static int exit_code(pid_t pid)
{
	int status = -1;

	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status)
				 : 1000 + WTERMSIG(status);
}

static void await_sem(sem_t *sem)
{
	while (sem_wait(sem))
		;
}

static uint32_t self_tid(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static void await_waiter(uint32_t *word)
{
	while (!(__atomic_load_n(word, __ATOMIC_SEQ_CST) & WAITERS))
		usleep(1000);
}

/* glibc and musl place the word differently. */
static uint32_t *word_of(pthread_mutex_t *m)
{
	uint32_t *word = (uint32_t *)m;

	return (word[0] & TID_MASK) == self_tid() ? &word[0] : &word[1];
}

/* Mutexes ------------------------------------------------------------------ */

static void check_exclusion(void)
{
	pid_t pid[CHILDREN];
	int i, j, codes = 0;

	for (i = 0; i < CHILDREN; i++) {
		pid[i] = fork_or_end();
		for (j = 0; !pid[i] && j < TURNS; j++) {
			codes += pthread_mutex_lock(&s->mutex);
			s->count++;
			if (j % 50 == 0)
				sched_yield();
			codes += pthread_mutex_unlock(&s->mutex);
		}
		if (!pid[i])
			_exit(codes != 0);
	}
	for (i = 0; i < CHILDREN; i++)
		codes += exit_code(pid[i]);
	CHECK(codes == 0 && s->count == CHILDREN * TURNS);
}

static void check_limits(void)
{
	pid_t pid = fork_or_end();
	struct timespec soon;

	if (!pid) {
		pthread_mutex_lock(&s->mutex);
		sem_post(&s->held);
		await_sem(&s->end);
		await_waiter(word_of(&s->mutex));
		_exit(pthread_mutex_unlock(&s->mutex));
	}
	await_sem(&s->held);
	CHECK(pthread_mutex_trylock(&s->mutex) == EBUSY);
	CHECK(pthread_mutex_unlock(&s->mutex) == EPERM);
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 20000000;
	soon.tv_sec += soon.tv_nsec / 1000000000;
	soon.tv_nsec %= 1000000000;
	CHECK(pthread_mutex_timedlock(&s->mutex, &soon) == ETIMEDOUT);
	sem_post(&s->end);
	CHECK(pthread_mutex_lock(&s->mutex) == 0);
	CHECK(pthread_mutex_lock(&s->mutex) == EDEADLK);
	CHECK(pthread_mutex_unlock(&s->mutex) == 0);
	CHECK(exit_code(pid) == 0);
}

enum how { KILLED, EXITED, EXITED_OTHER, THREAD_ENDED };

static void *hold_both(void *arg)
{
	enum how how = (enum how)(intptr_t)arg;
	uint32_t *word;

	pthread_mutex_lock(&s->robust[0]);
	pthread_mutex_lock(&s->robust[1]);
	word = word_of(&s->robust[1]);
	sem_post(&s->held);
	await_waiter(word);
	if (how == THREAD_ENDED)
		return NULL;
	if (how == KILLED)
		kill(getpid(), SIGKILL);
	if (how == EXITED)
		_exit(0);
	sem_post(&s->end);
	for (;;)
		pause();
}

static int owner_main(enum how how)
{
	void *arg = (void *)(intptr_t)how;
	pthread_t id;

	if (how == EXITED)
		hold_both(arg);
	pthread_create(&id, NULL, hold_both, arg);
	if (how == THREAD_ENDED)
		pthread_join(id, NULL);
	await_sem(&s->end);
	return 0;
}

static pid_t start_waiter(void)
{
	pid_t pid = fork_or_end();

	if (pid)
		return pid;
	if (pthread_mutex_lock(&s->robust[1]) != EOWNERDEAD)
		_exit(1);
	if (pthread_mutex_consistent(&s->robust[1]))
		_exit(2);
	_exit(pthread_mutex_unlock(&s->robust[1]) ? 3 : 0);
}

/* One mutex that a process waits for, and one that is locked later. */
static void check_owner(enum how how)
{
	pid_t owner = fork_or_end(), waiter;
	int status = 0;

	if (!owner)
		_exit(owner_main(how));
	await_sem(&s->held);
	CHECK(pthread_mutex_trylock(&s->robust[0]) == EBUSY);
	waiter = start_waiter();
	if (how != THREAD_ENDED)
		status = exit_code(owner);
	CHECK(exit_code(waiter) == 0);
	CHECK(pthread_mutex_trylock(&s->robust[0]) == EOWNERDEAD);
	CHECK(pthread_mutex_consistent(&s->robust[0]) == 0);
	CHECK(pthread_mutex_unlock(&s->robust[0]) == 0);
	CHECK(pthread_mutex_lock(&s->robust[1]) == 0);
	CHECK(pthread_mutex_unlock(&s->robust[1]) == 0);
	if (how == THREAD_ENDED) {
		sem_post(&s->end);
		status = exit_code(owner);
	}
	CHECK(status == (how == KILLED ? 1000 + SIGKILL : 0));
}

/* The calls themselves ----------------------------------------------------- */

static long futex_call(uint32_t *at, int op, const struct timespec *until)
{
	return syscall(SYS_futex, at, op, 0, until, NULL, 0);
}

static void on_signal(int sig)
{
	s->handled += sig == SIGUSR1;
}

/* Waits for word 0, and passes it on. */
static pid_t start_locker(int expect)
{
	struct sigaction sa = {.sa_handler = on_signal};
	pid_t pid = fork_or_end();
	int ok;

	if (pid)
		return pid;
	sigaction(SIGUSR1, &sa, NULL);
	ok = futex_call(&s->word[0], FUTEX_LOCK_PI, NULL) == 0 &&
	     (s->word[0] & ~WAITERS) == (self_tid() | (uint32_t)expect);
	_exit(!ok || futex_call(&s->word[0], FUTEX_UNLOCK_PI, NULL));
}

static void check_calls(void)
{
	struct timespec past = {1, 0}, soon;
	pid_t pid;

	CHECK(futex_call(&s->word[0], FUTEX_LOCK_PI, NULL) == 0);
	CHECK(s->word[0] == self_tid());
	CHECK(FAILS(futex_call(&s->word[0], FUTEX_LOCK_PI, NULL), EDEADLK));
	pid = start_locker(0);
	await_waiter(&s->word[0]);
	while (!__atomic_load_n(&s->handled, __ATOMIC_SEQ_CST)) {
		kill(pid, SIGUSR1); /* a handler does not end the wait */
		usleep(1000);
	}
	CHECK(futex_call(&s->word[0], FUTEX_UNLOCK_PI, NULL) == 0);
	CHECK(exit_code(pid) == 0 && s->word[0] == 0);

	pid = fork_or_end();
	if (!pid) {
		futex_call(&s->word[0], FUTEX_LOCK_PI, NULL);
		sem_post(&s->held);
		for (;;)
			pause();
	}
	await_sem(&s->held);
	CHECK(FAILS(futex_call(&s->word[0], FUTEX_TRYLOCK_PI, NULL), EAGAIN));
	CHECK(FAILS(futex_call(&s->word[0], FUTEX_UNLOCK_PI, NULL), EPERM));
	CHECK(FAILS(futex_call(&s->word[0], FUTEX_LOCK_PI, &past), ETIMEDOUT));
	clock_gettime(CLOCK_MONOTONIC, &soon);
	soon.tv_nsec += 20000000;
	soon.tv_sec += soon.tv_nsec / 1000000000;
	soon.tv_nsec %= 1000000000;
	CHECK(FAILS(futex_call(&s->word[0], FUTEX_LOCK_PI2, &soon), ETIMEDOUT));
	clock_gettime(CLOCK_MONOTONIC, &past);
	CHECK(past.tv_sec > soon.tv_sec ||
	      (past.tv_sec == soon.tv_sec && past.tv_nsec >= soon.tv_nsec));
	s->word[1] = (uint32_t)pid;
	kill(pid, SIGKILL);
	CHECK(exit_code(pid) == 1000 + SIGKILL);
	s->word[0] = 0;
	CHECK(FAILS(futex_call(&s->word[1], FUTEX_LOCK_PI, NULL), ESRCH));
	CHECK(FAILS(futex_call(&s->word[1], FUTEX_TRYLOCK_PI, NULL), ESRCH));
	s->word[1] = OWNER_DIED;
	CHECK(futex_call(&s->word[1], FUTEX_TRYLOCK_PI, NULL) == 0);
	CHECK(s->word[1] == (self_tid() | OWNER_DIED));
	CHECK(futex_call(&s->word[1], FUTEX_UNLOCK_PI, NULL) == 0);
	CHECK(s->word[1] == 0);
	CHECK(FAILS(futex_call((uint32_t *)((char *)s->word + 1), FUTEX_LOCK_PI,
			       NULL),
		    EINVAL));
}

/* A word that no list names goes to who waits for it. */
static void check_unlisted(void)
{
	pid_t owner = fork_or_end(), waiter;

	if (!owner) {
		futex_call(&s->word[0], FUTEX_LOCK_PI, NULL);
		sem_post(&s->held);
		for (;;)
			pause();
	}
	await_sem(&s->held);
	waiter = start_locker((int)OWNER_DIED);
	await_waiter(&s->word[0]);
	kill(owner, SIGKILL);
	CHECK(exit_code(owner) == 1000 + SIGKILL);
	CHECK(exit_code(waiter) == 0);
}

/* Owns word 3, wants word 2; the main thread wants word 3 after that. */
static void *close_ring(void *arg)
{
	futex_call(&s->word[3], FUTEX_LOCK_PI, NULL);
	sem_post(&s->held);
	*(long *)arg = futex_call(&s->word[2], FUTEX_LOCK_PI, NULL);
	futex_call(&s->word[2], FUTEX_UNLOCK_PI, NULL);
	futex_call(&s->word[3], FUTEX_UNLOCK_PI, NULL);
	/* it waits for nothing any more */
	futex_call(&s->word[3], FUTEX_LOCK_PI, NULL);
	sem_post(&s->held);
	await_waiter(&s->word[3]);
	futex_call(&s->word[3], FUTEX_UNLOCK_PI, NULL);
	return NULL;
}

static void check_ring(void)
{
	long result = -1;
	pthread_t id;

	CHECK(futex_call(&s->word[2], FUTEX_LOCK_PI, NULL) == 0);
	pthread_create(&id, NULL, close_ring, &result);
	await_sem(&s->held);
	await_waiter(&s->word[2]);
	CHECK(FAILS(futex_call(&s->word[3], FUTEX_LOCK_PI, NULL), EDEADLK));
	CHECK(futex_call(&s->word[2], FUTEX_UNLOCK_PI, NULL) == 0);
	await_sem(&s->held);
	CHECK(futex_call(&s->word[2], FUTEX_LOCK_PI, NULL) == 0);
	CHECK(futex_call(&s->word[3], FUTEX_LOCK_PI, NULL) == 0);
	CHECK(futex_call(&s->word[3], FUTEX_UNLOCK_PI, NULL) == 0);
	CHECK(futex_call(&s->word[2], FUTEX_UNLOCK_PI, NULL) == 0);
	pthread_join(id, NULL);
	CHECK(result == 0 && s->word[2] == 0 && s->word[3] == 0);
}

int main(void)
{
	enum how how;
	int fd;

	common_init(-1);
	check_exclusion();
	check_limits();
	for (how = KILLED; how <= THREAD_ENDED; how++)
		check_owner(how);
	check_calls();
	check_unlisted();
	check_ring();
	fd = open("mutex_pi.page", O_RDWR | O_CREAT, 0600);
	if (CHECK(fd >= 0 && ftruncate(fd, sizeof(*s)) == 0)) {
		common_init(fd);
		check_limits();
		check_owner(KILLED);
	}
	return say_done();
}
