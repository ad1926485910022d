/* SPDX-License-Identifier: MIT */
/*
 * Futexes in memory that processes share: mutexes, conditions, semaphores and
 * barriers of PTHREAD_PROCESS_SHARED, and each operation of futex(2).
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

/* musl has no header for futex(2). */
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_CMP_REQUEUE 4
#define FUTEX_WAKE_OP 5
#define FUTEX_WAIT_BITSET 9
#define FUTEX_WAKE_BITSET 10
#define FUTEX_CLOCK_REALTIME 256
#define ADD_3_IF_0 (1u << 28 | 3 << 12) /* and wake there when it was 0 */

#define CHILDREN 4
#define ROUNDS 2000
/* Processes, and threads of each, beside its first one. */
#define FORKS 3
#define THREADS 4
#define NUMBERS ((1 + FORKS) * (1 + THREADS))

struct common {
	pthread_mutex_t mutex, robust;
	pthread_cond_t cond;
	pthread_barrier_t barrier;
	sem_t sem;
	long count, turn;
	uint32_t word[4], ready;
	uint32_t number[NUMBERS], numbers;
};

static struct common *s;

static long futex_call(uint32_t *word, int op, uint32_t value, void *time,
		       uint32_t *second, uint32_t value3)
{
	return syscall(SYS_futex, word, op, value, time, second, value3);
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

static void common_init(void)
{
	pthread_mutexattr_t m;
	pthread_condattr_t c;
	pthread_barrierattr_t b;

	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_init(&m);
	pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&s->mutex, &m);
	pthread_mutexattr_setrobust(&m, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&s->robust, &m);
	pthread_condattr_init(&c);
	pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&s->cond, &c);
	pthread_barrierattr_init(&b);
	pthread_barrierattr_setpshared(&b, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&s->barrier, &b, CHILDREN);
	sem_init(&s->sem, 1, 0);
}

/* Each child in turn: mutex, condition, semaphore, barrier. */
static int child_main(long self)
{
	long i;

	for (i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&s->mutex);
		s->count++;
		pthread_mutex_unlock(&s->mutex);
	}
	for (i = 0; i < 50; i++) {
		pthread_mutex_lock(&s->mutex);
		while (s->turn % CHILDREN != self)
			pthread_cond_wait(&s->cond, &s->mutex);
		s->turn++;
		pthread_cond_broadcast(&s->cond);
		pthread_mutex_unlock(&s->mutex);
	}
	for (i = 0; i < 20; i++)
		pthread_barrier_wait(&s->barrier);
	sem_post(&s->sem);
	return 0;
}

static void check_pthreads(void)
{
	pid_t pid[CHILDREN];
	int i, codes = 0;

	for (i = 0; i < CHILDREN; i++) {
		pid[i] = fork_or_end();
		if (!pid[i])
			_exit(child_main(i));
	}
	for (i = 0; i < CHILDREN; i++)
		sem_wait(&s->sem);
	for (i = 0; i < CHILDREN; i++)
		codes += exit_code(pid[i]);
	CHECK(codes == 0);
	CHECK(s->count == CHILDREN * ROUNDS);
	CHECK(s->turn == CHILDREN * 50L);
}

static void check_robust(void)
{
	pid_t pid = fork_or_end();

	if (!pid) {
		pthread_mutex_lock(&s->robust);
		_exit(7);
	}
	CHECK(exit_code(pid) == 7);
	CHECK(pthread_mutex_lock(&s->robust) == EOWNERDEAD);
	CHECK(pthread_mutex_consistent(&s->robust) == 0);
	CHECK(pthread_mutex_unlock(&s->robust) == 0);
	pid = fork_or_end();
	if (!pid) {
		pthread_mutex_lock(&s->robust);
		abort();
	}
	CHECK(exit_code(pid) == 1000 + SIGABRT);
	CHECK(pthread_mutex_lock(&s->robust) == EOWNERDEAD);
	CHECK(pthread_mutex_consistent(&s->robust) == 0);
	CHECK(pthread_mutex_unlock(&s->robust) == 0);
}

/* The end of an owner wakes a process that sleeps until it unlocks. */
static void check_robust_wakes(void)
{
	pid_t owner = fork_or_end(), waiter;

	if (!owner) {
		pthread_mutex_lock(&s->robust);
		sem_post(&s->sem);
		while (__atomic_load_n(&s->ready, __ATOMIC_SEQ_CST) != 3)
			usleep(1000);
		usleep(50000);
		_exit(0);
	}
	sem_wait(&s->sem);
	waiter = fork_or_end();
	if (!waiter) {
		s->ready = 3;
		_exit(pthread_mutex_lock(&s->robust) != EOWNERDEAD ||
		      pthread_mutex_consistent(&s->robust) ||
		      pthread_mutex_unlock(&s->robust));
	}
	CHECK(exit_code(owner) == 0);
	CHECK(exit_code(waiter) == 0);
}

/* Waits until `count` other processes sleep at word `at`: they move back. */
static void await_sleepers(int at, int count)
{
	while (futex_call(&s->word[at], FUTEX_CMP_REQUEUE, 0, (void *)1000,
			  &s->word[at], s->word[at]) != count)
		usleep(1000);
}

static pid_t start_sleeper(int op, uint32_t bitset)
{
	pid_t pid = fork_or_end();

	if (!pid)
		_exit(futex_call(&s->word[0], op, 0, NULL, NULL, bitset) ? 1
									 : 0);
	return pid;
}

static void check_operations(void)
{
	pid_t a = start_sleeper(FUTEX_WAIT, 0),
	      b = start_sleeper(FUTEX_WAIT_BITSET, 2);
	struct timespec soon = {0, 10000000}, past = {0, 1};
	pid_t c;

	await_sleepers(0, 2);
	CHECK(futex_call(&s->word[0], FUTEX_WAKE_BITSET, 9, NULL, NULL, 4) ==
	      1);
	CHECK(exit_code(a) == 0);
	CHECK(futex_call(&s->word[0], FUTEX_WAKE, 9, NULL, NULL, 0) == 1);
	CHECK(exit_code(b) == 0);

	a = start_sleeper(FUTEX_WAIT, 0);
	b = start_sleeper(FUTEX_WAIT, 0);
	c = start_sleeper(FUTEX_WAIT, 0);
	await_sleepers(0, 3);
	CHECK(FAILS(futex_call(&s->word[0], FUTEX_CMP_REQUEUE, 1, (void *)9,
			       &s->word[1], 5),
		    EAGAIN));
	CHECK(futex_call(&s->word[0], FUTEX_CMP_REQUEUE, 1, (void *)9,
			 &s->word[1], 0) == 3);
	CHECK(futex_call(&s->word[0], FUTEX_WAKE, 9, NULL, NULL, 0) == 0);
	CHECK(futex_call(&s->word[2], FUTEX_WAKE_OP, 1, (void *)1, &s->word[1],
			 ADD_3_IF_0) == 1);
	CHECK(s->word[1] == 3);
	CHECK(futex_call(&s->word[1], FUTEX_WAKE, 9, NULL, NULL, 0) == 1);
	CHECK(exit_code(a) + exit_code(b) + exit_code(c) == 0);

	CHECK(FAILS(futex_call(&s->word[0], FUTEX_WAIT, 1, NULL, NULL, 0),
		    EAGAIN));
	CHECK(FAILS(futex_call(&s->word[0], FUTEX_WAIT, 0, &soon, NULL, 0),
		    ETIMEDOUT));
	CHECK(FAILS(
		futex_call(&s->word[0], FUTEX_WAIT_BITSET, 0, &past, NULL, 1),
		ETIMEDOUT));
	CHECK(FAILS(futex_call(&s->word[0],
			       FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0,
			       &past, NULL, 1),
		    ETIMEDOUT));
	CHECK(FAILS(
		futex_call(&s->word[0], FUTEX_WAIT_BITSET, 0, NULL, NULL, 0),
		EINVAL));
	CHECK(FAILS(futex_call((uint32_t *)((char *)s->word + 1), FUTEX_WAIT, 0,
			       NULL, NULL, 0),
		    EINVAL));
}

static volatile int handled;

static void on_signal(int sig)
{
	handled += sig == SIGUSR1;
}

/* A signal ends the wait, or runs the handler and the wait goes on. */
static void check_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};
	pid_t pid = fork_or_end();

	if (!pid) {
		sigaction(SIGUSR1, &sa, NULL);
		s->ready = 1;
		if (!FAILS(futex_call(&s->word[3], FUTEX_WAIT, 0, NULL, NULL,
				      0),
			   EINTR) ||
		    !handled)
			_exit(1);
		sa.sa_flags = SA_RESTART;
		sigaction(SIGUSR1, &sa, NULL);
		handled = 0;
		s->ready = 2;
		_exit(futex_call(&s->word[3], FUTEX_WAIT, 0, NULL, NULL, 0) !=
			      0 ||
		      !handled);
	}
	while (__atomic_load_n(&s->ready, __ATOMIC_SEQ_CST) != 1)
		usleep(1000);
	await_sleepers(3, 1);
	while (__atomic_load_n(&s->ready, __ATOMIC_SEQ_CST) != 2) {
		kill(pid, SIGUSR1);
		usleep(1000);
	}
	await_sleepers(3, 1);
	kill(pid, SIGUSR1);
	usleep(50000);
	await_sleepers(3, 1);
	CHECK(futex_call(&s->word[3], FUTEX_WAKE, 9, NULL, NULL, 0) == 1);
	CHECK(exit_code(pid) == 0);
}

/* One page of a file, mapped twice: one word. */
static void check_file(void)
{
	int fd = open("futex.page", O_RDWR | O_CREAT, 0600);
	uint32_t *one, *two;
	pid_t pid;

	if (!CHECK(fd >= 0 && ftruncate(fd, 4096) == 0))
		return;
	one = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	two = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pid = fork_or_end();
	if (!pid)
		_exit(futex_call(one, FUTEX_WAIT, 0, NULL, NULL, 0) != 0);
	while (futex_call(two, FUTEX_WAKE, 1, NULL, NULL, 0) != 1)
		usleep(1000);
	CHECK(exit_code(pid) == 0);
	close(fd);
}

static void store_number(void)
{
	uint32_t at = __atomic_fetch_add(&s->numbers, 1, __ATOMIC_SEQ_CST);

	s->number[at] = (uint32_t)syscall(SYS_gettid);
}

static void await_numbers(uint32_t count)
{
	while (__atomic_load_n(&s->numbers, __ATOMIC_SEQ_CST) < count)
		usleep(1000);
}

static void *have_number(void *arg)
{
	store_number();
	await_numbers(NUMBERS);
	return arg;
}

static void store_numbers(void)
{
	pthread_t id[THREADS];
	int i;

	store_number();
	for (i = 0; i < THREADS; i++)
		pthread_create(&id[i], NULL, have_number, NULL);
	for (i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
}

/* Locks contain the number of a thread, so no other process has it. */
static void check_numbers(void)
{
	uint32_t i, j, same = 0;
	pid_t pid[FORKS];

	for (i = 0; i < FORKS; i++) {
		pid[i] = fork_or_end();
		if (!pid[i]) {
			store_numbers();
			_exit(0);
		}
		await_numbers((i + 1) * (1 + THREADS));
	}
	store_numbers();
	for (i = 0; i < FORKS; i++)
		CHECK(exit_code(pid[i]) == 0);
	for (i = 0; i < NUMBERS; i++)
		for (j = 0; j < i; j++)
			same += s->number[i] == s->number[j];
	CHECK(same == 0);
}

int main(void)
{
	common_init();
	check_numbers();
	check_pthreads();
	check_robust();
	check_robust_wakes();
	check_operations();
	check_signals();
	check_file();
	return say_done();
}
