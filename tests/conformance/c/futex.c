/* SPDX-License-Identifier: MIT */
/* The futex call itself: wait, wake counts, bitsets, requeue, time limits. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "say.h"

/* Of linux/futex.h, which musl-gcc has not. */
#define FUTEX_WAIT 0
#define FUTEX_PRIVATE 128
#define FUTEX_CLOCK_REALTIME 256
#define FUTEX_WAIT_PRIVATE (0 | FUTEX_PRIVATE)
#define FUTEX_WAKE_PRIVATE (1 | FUTEX_PRIVATE)
#define FUTEX_CMP_REQUEUE_PRIVATE (4 | FUTEX_PRIVATE)
#define FUTEX_WAKE_OP_PRIVATE (5 | FUTEX_PRIVATE)
#define FUTEX_WAIT_BITSET_PRIVATE (9 | FUTEX_PRIVATE)
#define FUTEX_WAKE_BITSET_PRIVATE (10 | FUTEX_PRIVATE)
/* *other += 3, then wake there too when it was 5. */
#define ADD_3_IF_5 (1 << 28 | 0 << 24 | 3 << 12 | 5)

static uint32_t word, other;
static int waiting, woken;

static long futex_call(uint32_t *at, int op, uint32_t value, void *time,
		       uint32_t *second, uint32_t third)
{
	return syscall(SYS_futex, at, op, value, time, second, third);
}

struct waiter {
	pthread_t thread;
	uint32_t mask;
	long result;
};

static void *wait_bitset(void *arg)
{
	struct waiter *w = arg;

	__atomic_add_fetch(&waiting, 1, __ATOMIC_SEQ_CST);
	w->result = futex_call(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL,
			       w->mask);
	__atomic_add_fetch(&woken, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void start_waiters(struct waiter *w, int count, uint32_t mask)
{
	int i;

	waiting = woken = 0;
	for (i = 0; i < count; i++) {
		w[i].mask = mask ? mask : 1u << i;
		pthread_create(&w[i].thread, NULL, wait_bitset, &w[i]);
	}
	while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) < count)
		usleep(1000);
	usleep(30000);
}

static int woken_is(int count)
{
	int i;

	for (i = 0; i < 2000; i++) {
		if (__atomic_load_n(&woken, __ATOMIC_SEQ_CST) == count)
			return 1;
		usleep(1000);
	}
	return 0;
}

static int join_waiters(struct waiter *w, int count)
{
	int i, good = 1;

	for (i = 0; i < count; i++) {
		pthread_join(w[i].thread, NULL);
		good &= w[i].result == 0;
	}
	return good;
}

static void check_times(void)
{
	struct timespec ts = {0, 30000000};
	long long begin = say_now_ns();

	CHECK(FAILS(futex_call(&word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0),
		    EAGAIN));
	CHECK(FAILS(futex_call(&word, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0),
		    ETIMEDOUT));
	CHECK(say_now_ns() - begin >= 30000000);
	CHECK(FAILS(futex_call(&word, FUTEX_WAIT, 0, &ts, NULL, 0), ETIMEDOUT));
	clock_gettime(CLOCK_MONOTONIC, &ts);
	CHECK(FAILS(
		futex_call(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, &ts, NULL, ~0u),
		ETIMEDOUT));
	clock_gettime(CLOCK_REALTIME, &ts);
	CHECK(FAILS(futex_call(&word,
			       FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME,
			       0, &ts, NULL, ~0u),
		    ETIMEDOUT));
	CHECK(FAILS(
		futex_call(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, 0),
		EINVAL));
	ts.tv_nsec = -1;
	CHECK(FAILS(futex_call(&word, FUTEX_WAIT_PRIVATE, 0, &ts, NULL, 0),
		    EINVAL));
	CHECK(FAILS(futex_call((uint32_t *)((char *)&word + 1),
			       FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0),
		    EINVAL));
	CHECK(FAILS(futex_call((uint32_t *)16, FUTEX_WAIT_PRIVATE, 0, NULL,
			       NULL, 0),
		    EFAULT));
	CHECK(FAILS(futex_call(&word, 99, 0, NULL, NULL, 0), ENOSYS));
}

static void check_wake(void)
{
	struct waiter w[8] = {0};

	CHECK(futex_call(&word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0);
	start_waiters(w, 8, ~0u);
	CHECK(futex_call(&word, FUTEX_WAKE_PRIVATE, 3, NULL, NULL, 0) == 3);
	CHECK(woken_is(3));
	CHECK(futex_call(&word, FUTEX_WAKE_PRIVATE, 100, NULL, NULL, 0) == 5);
	CHECK(join_waiters(w, 8));
	start_waiters(w, 4, 0);
	CHECK(futex_call(&word, FUTEX_WAKE_BITSET_PRIVATE, 100, NULL, NULL,
			 0x10) == 0);
	CHECK(futex_call(&word, FUTEX_WAKE_BITSET_PRIVATE, 100, NULL, NULL,
			 5) == 2);
	CHECK(woken_is(2));
	CHECK(futex_call(&word, FUTEX_WAKE_PRIVATE, 100, NULL, NULL, 0) == 2);
	CHECK(join_waiters(w, 4));
}

static void check_requeue(void)
{
	struct waiter w[5] = {0};

	start_waiters(w, 5, ~0u);
	CHECK(FAILS(futex_call(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)3,
			       &other, 7),
		    EAGAIN));
	CHECK(futex_call(&word, FUTEX_CMP_REQUEUE_PRIVATE, 1, (void *)3, &other,
			 0) == 4);
	CHECK(woken_is(1));
	CHECK(futex_call(&word, FUTEX_WAKE_PRIVATE, 100, NULL, NULL, 0) == 1);
	CHECK(woken_is(2));
	CHECK(futex_call(&other, FUTEX_WAKE_PRIVATE, 100, NULL, NULL, 0) == 3);
	CHECK(join_waiters(w, 5));
}

static void check_wake_op(void)
{
	struct waiter w[2] = {0};

	start_waiters(w, 2, ~0u);
	other = 5;
	CHECK(futex_call(&word, FUTEX_WAKE_OP_PRIVATE, 1, (void *)1, &other,
			 ADD_3_IF_5) == 1);
	CHECK(other == 8 && woken_is(1));
	CHECK(futex_call(&word, FUTEX_WAKE_PRIVATE, 9, NULL, NULL, 0) == 1);
	CHECK(join_waiters(w, 2));
}

int main(void)
{
	check_times();
	check_wake();
	check_requeue();
	check_wake_op();
	return say_done();
}
