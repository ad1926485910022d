/* SPDX-License-Identifier: MIT */
/* Thread cancellation at a blocking call and at a test, with clean-up. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>
#include "say.h"

static int fds[2], cleaned, ready;

static void add_cleaned(void *arg)
{
	cleaned += *(int *)arg;
}

static void *run_reader(void *arg)
{
	char byte;

	pthread_cleanup_push(add_cleaned, arg);
	__atomic_store_n(&ready, 1, __ATOMIC_SEQ_CST);
	while (read(fds[0], &byte, 1) >= 0)
		;
	pthread_cleanup_pop(0);
	return NULL;
}

static void *run_tester(void *arg)
{
	int old;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	__atomic_store_n(&ready, 1, __ATOMIC_SEQ_CST);
	usleep(20000);
	pthread_cleanup_push(add_cleaned, arg);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
	for (;;)
		pthread_testcancel();
	pthread_cleanup_pop(0);
	return NULL;
}

static void *exit_thread(void *arg)
{
	pthread_cleanup_push(add_cleaned, arg);
	pthread_exit((void *)7);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *run_cancelled(void *(*function)(void *), int weight)
{
	pthread_t thread;
	void *result = NULL;

	ready = 0;
	pthread_create(&thread, NULL, function, &weight);
	while (!__atomic_load_n(&ready, __ATOMIC_SEQ_CST))
		usleep(1000);
	usleep(10000);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	return result;
}

int main(void)
{
	pthread_t thread;
	void *result;
	int weight = 100;

	CHECK(pipe(fds) == 0);
	CHECK(run_cancelled(run_reader, 1) == PTHREAD_CANCELED && cleaned == 1);
	CHECK(run_cancelled(run_tester, 10) == PTHREAD_CANCELED &&
	      cleaned == 11);
	pthread_create(&thread, NULL, exit_thread, &weight);
	pthread_join(thread, &result);
	CHECK(result == (void *)7 && cleaned == 111);
	return say_done();
}
