/* SPDX-License-Identifier: MIT */
/* Every kind of POSIX thread object, by the C library's own code. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include "say.h"

#define THREADS 6
#define ROUNDS 3000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static sem_t semaphore;
static int shared, pair[2], once_count, destroyed, serial, detached_done;

static void run_once(void)
{
	usleep(2000);
	once_count++;
}

static void destroy_value(void *value)
{
	__atomic_add_fetch(&destroyed, (int)(intptr_t)value, __ATOMIC_SEQ_CST);
}

static void *run_worker(void *arg)
{
	intptr_t id = (intptr_t)arg, torn = 0;
	int i;

	pthread_once(&once, run_once);
	pthread_setspecific(key, (void *)(id + 1));
	for (i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&mutex);
		shared++;
		pthread_mutex_unlock(&mutex);
		if (i % 16 == 0) {
			pthread_rwlock_wrlock(&rwlock);
			pair[0]++;
			pair[1]++;
		} else {
			pthread_rwlock_rdlock(&rwlock);
			torn += pair[0] != pair[1];
		}
		pthread_rwlock_unlock(&rwlock);
	}
	for (i = 0; i < 20; i++)
		if (pthread_barrier_wait(&barrier) ==
		    PTHREAD_BARRIER_SERIAL_THREAD)
			__atomic_add_fetch(&serial, 1, __ATOMIC_SEQ_CST);
	torn += pthread_getspecific(key) != (void *)(id + 1);
	return (void *)torn;
}

static void check_workers(void)
{
	pthread_t threads[THREADS];
	intptr_t i, torn = 0;
	void *result;

	pthread_barrier_init(&barrier, NULL, THREADS);
	pthread_key_create(&key, destroy_value);
	for (i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, run_worker, (void *)i);
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		torn += (intptr_t)result;
	}
	CHECK(torn == 0);
	CHECK(shared == THREADS * ROUNDS);
	CHECK(pair[0] == THREADS * ((ROUNDS + 15) / 16));
	CHECK(once_count == 1 && serial == 20);
	CHECK(destroyed == THREADS * (THREADS + 1) / 2);
}

static int turn, turns;

static void *run_player(void *arg)
{
	int me = (intptr_t)arg;

	pthread_mutex_lock(&mutex);
	while (turns < 2000) {
		if (turn != me) {
			pthread_cond_wait(&cond, &mutex);
			continue;
		}
		turn = (me + 1) % 3;
		turns++;
		pthread_cond_broadcast(&cond);
	}
	pthread_mutex_unlock(&mutex);
	return NULL;
}

static void check_cond(void)
{
	pthread_t threads[3];
	struct timespec limit;
	long long start;
	intptr_t i;

	for (i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, run_player, (void *)i);
	for (i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	CHECK(turns == 2000);
	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_nsec += 30000000;
	limit.tv_sec += limit.tv_nsec / 1000000000;
	limit.tv_nsec %= 1000000000;
	start = say_now_ns();
	pthread_mutex_lock(&mutex);
	CHECK(pthread_cond_timedwait(&cond, &mutex, &limit) == ETIMEDOUT);
	CHECK(say_now_ns() - start >= 29000000);
	CHECK(pthread_mutex_timedlock(&mutex, &limit) == ETIMEDOUT);
	CHECK(pthread_mutex_trylock(&mutex) == EBUSY);
	pthread_mutex_unlock(&mutex);
}

static void check_kinds(void)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t m;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	CHECK(pthread_mutex_init(&m, &attr) == 0);
	CHECK(!pthread_mutex_lock(&m) && !pthread_mutex_lock(&m));
	CHECK(!pthread_mutex_unlock(&m) && !pthread_mutex_unlock(&m));
	CHECK(pthread_mutex_unlock(&m) == EPERM);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
	CHECK(pthread_mutex_init(&m, &attr) == 0);
	CHECK(!pthread_mutex_lock(&m) && pthread_mutex_lock(&m) == EDEADLK);
	CHECK(!pthread_mutex_unlock(&m));
}

static void *post_semaphore(void *arg)
{
	int i;

	for (i = 0; i < 100; i++)
		sem_post(&semaphore);
	__atomic_store_n(&detached_done, 1, __ATOMIC_SEQ_CST);
	return arg;
}

static void *use_stack(void *arg)
{
	size_t size = *(size_t *)arg - 64 * 1024, i;
	volatile char *stack = __builtin_alloca(size);
	unsigned sum = 0;

	for (i = 0; i < size; i += 512)
		stack[i] = i >> 9;
	for (i = 0; i < size; i += 512)
		sum += (unsigned char)stack[i];
	return (void *)(uintptr_t)sum;
}

static void check_attributes(void)
{
	size_t size = 3 << 20, got = 0;
	pthread_attr_t attr;
	pthread_t thread;
	void *sum, *base;
	int i;

	sem_init(&semaphore, 0, 0);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	CHECK(pthread_create(&thread, &attr, post_semaphore, NULL) == 0);
	for (i = 0; i < 100; i++)
		sem_wait(&semaphore);
	CHECK(FAILS(sem_trywait(&semaphore), EAGAIN));
	pthread_attr_init(&attr);
	CHECK(pthread_attr_setstacksize(&attr, size) == 0);
	CHECK(pthread_create(&thread, &attr, use_stack, &size) == 0);
	CHECK(pthread_join(thread, &sum) == 0);
	printf("sum %u\n", (unsigned)(uintptr_t)sum);
	CHECK(pthread_getattr_np(pthread_self(), &attr) == 0);
	CHECK(pthread_attr_getstack(&attr, &base, &got) == 0);
	CHECK((char *)&attr > (char *)base &&
	      (char *)&attr < (char *)base + got);
}

int main(void)
{
	check_workers();
	check_cond();
	check_kinds();
	check_attributes();
	return say_done();
}
