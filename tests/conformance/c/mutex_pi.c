/* SPDX-License-Identifier: MIT */
/* Mutexes that inherit priority, and the futexes below them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "say.h"

#define FUTEX_LOCK_PI 6
#define FUTEX_UNLOCK_PI 7
#define FUTEX_TRYLOCK_PI 8
#define FUTEX_LOCK_PI2 13
#define FUTEX_PRIVATE_FLAG 128
#define FUTEX_WAITERS 0x80000000u
#define FUTEX_OWNER_DIED 0x40000000u

#define THREADS 4
#define TURNS 3000

static pthread_mutex_t mutex, other;
static long count;
static uint32_t word[2];
static volatile int step;

static void make_mutex(pthread_mutex_t *m, int type, int robust)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	CHECK(!pthread_mutexattr_setprotocol(&a, PTHREAD_PRIO_INHERIT));
	pthread_mutexattr_settype(&a, type);
	if (robust)
		pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
	CHECK(!pthread_mutex_init(m, &a));
}

static void reach_step(int to)
{
	__atomic_store_n(&step, to, __ATOMIC_SEQ_CST);
}

static void await_step(int to)
{
	while (__atomic_load_n(&step, __ATOMIC_SEQ_CST) < to)
		usleep(1000);
}

static void *take_turns(void *arg)
{
	int i;

	for (i = 0; i < TURNS; i++) {
		pthread_mutex_lock(&mutex);
		count++;
		if (i % 100 == 0)
			sched_yield();
		pthread_mutex_unlock(&mutex);
	}
	return arg;
}

static void check_exclusion(void)
{
	pthread_t id[THREADS];
	int i;

	make_mutex(&mutex, PTHREAD_MUTEX_NORMAL, 0);
	for (i = 0; i < THREADS; i++)
		pthread_create(&id[i], NULL, take_turns, NULL);
	for (i = 0; i < THREADS; i++)
		pthread_join(id[i], NULL);
	CHECK(count == THREADS * TURNS);
}

static void *hold_mutex(void *arg)
{
	pthread_mutex_lock(arg);
	reach_step(1);
	await_step(2);
	pthread_mutex_unlock(arg);
	return NULL;
}

static void check_limits(void)
{
	struct timespec soon;
	pthread_t id;

	make_mutex(&other, PTHREAD_MUTEX_ERRORCHECK, 0);
	reach_step(0);
	pthread_create(&id, NULL, hold_mutex, &other);
	await_step(1);
	CHECK(pthread_mutex_trylock(&other) == EBUSY);
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_nsec += 20000000;
	soon.tv_sec += soon.tv_nsec / 1000000000;
	soon.tv_nsec %= 1000000000;
	CHECK(pthread_mutex_timedlock(&other, &soon) == ETIMEDOUT);
	CHECK(pthread_mutex_unlock(&other) == EPERM);
	reach_step(2);
	CHECK(!pthread_mutex_lock(&other));
	CHECK(pthread_mutex_lock(&other) == EDEADLK);
	CHECK(!pthread_mutex_unlock(&other));
	pthread_join(id, NULL);
}

static void *die_holding(void *arg)
{
	pthread_mutex_lock(arg);
	reach_step(1);
	await_step(2);
	usleep(10000); /* so that the other one most likely waits */
	return NULL;
}

static void check_death(void)
{
	pthread_t id;

	make_mutex(&other, PTHREAD_MUTEX_NORMAL, 1);
	reach_step(0);
	pthread_create(&id, NULL, die_holding, &other);
	await_step(1);
	reach_step(2);
	CHECK(pthread_mutex_lock(&other) == EOWNERDEAD);
	CHECK(!pthread_mutex_consistent(&other));
	CHECK(!pthread_mutex_unlock(&other) && !pthread_mutex_lock(&other));
	CHECK(!pthread_mutex_unlock(&other));
	pthread_join(id, NULL);
	reach_step(0);
	pthread_create(&id, NULL, die_holding, &other);
	await_step(1);
	reach_step(2);
	pthread_join(id, NULL);
	CHECK(pthread_mutex_trylock(&other) == EOWNERDEAD);
}

/* The calls themselves ----------------------------------------------------- */

static long futex_call(uint32_t *at, int op)
{
	return syscall(SYS_futex, at, op | FUTEX_PRIVATE_FLAG, 0, NULL, NULL,
		       0);
}

static volatile int handled;

static void on_signal(int sig)
{
	handled += sig == SIGUSR1;
}

/* Owns word 1, wants word 0; the main thread wants word 1 after that. */
static void *close_ring(void *arg)
{
	word[1] = (uint32_t)syscall(SYS_gettid);
	reach_step(1);
	*(long *)arg = futex_call(&word[0], FUTEX_LOCK_PI);
	futex_call(&word[0], FUTEX_UNLOCK_PI);
	futex_call(&word[1], FUTEX_UNLOCK_PI);
	return NULL;
}

static void check_calls(void)
{
	uint32_t self = (uint32_t)syscall(SYS_gettid);
	struct sigaction sa = {.sa_handler = on_signal};
	long result = -1;
	pthread_t id;

	sigaction(SIGUSR1, &sa, NULL);
	reach_step(0);
	CHECK(futex_call(&word[0], FUTEX_LOCK_PI) == 0 && word[0] == self);
	CHECK(FAILS(futex_call(&word[0], FUTEX_LOCK_PI), EDEADLK));
	CHECK(FAILS(futex_call(&word[0], FUTEX_TRYLOCK_PI), EDEADLK));
	pthread_create(&id, NULL, close_ring, &result);
	await_step(1);
	while (!(__atomic_load_n(&word[0], __ATOMIC_SEQ_CST) & FUTEX_WAITERS))
		usleep(1000);
	CHECK(FAILS(futex_call(&word[1], FUTEX_UNLOCK_PI), EPERM));
	CHECK(FAILS(futex_call(&word[1], FUTEX_LOCK_PI), EDEADLK));
	CHECK(FAILS(futex_call(&word[1], FUTEX_TRYLOCK_PI), EAGAIN));
	while (!handled) { /* a handler does not end the wait */
		pthread_kill(id, SIGUSR1);
		usleep(1000);
	}
	CHECK(futex_call(&word[0], FUTEX_UNLOCK_PI) == 0);
	pthread_join(id, NULL);
	CHECK(result == 0 && word[0] == 0 && word[1] == 0);
	word[0] = 0x3ffffff0;
	CHECK(FAILS(futex_call(&word[0], FUTEX_LOCK_PI), ESRCH));
	word[0] = FUTEX_OWNER_DIED;
	CHECK(futex_call(&word[0], FUTEX_LOCK_PI2) == 0);
	CHECK(word[0] == (self | FUTEX_OWNER_DIED));
	CHECK(FAILS(futex_call((uint32_t *)((char *)word + 1), FUTEX_LOCK_PI),
		    EINVAL));
	CHECK(FAILS(futex_call((uint32_t *)64, FUTEX_LOCK_PI), EFAULT));
}

int main(void)
{
	check_exclusion();
	check_limits();
	check_death();
	check_calls();
	return say_done();
}
